import pytest

from streamlease.budget import (
    LONGEST_LOOK_MS,
    Ask,
    Budget,
    Later,
    Ledger,
    Limit,
    Queue,
    Slice,
    Spent,
    Taken,
    host_budget,
)
from streamlease.errors import Unreachable
from streamlease.timing import SKEW_MS, Instant
from streamlease_worker.dial_gate import (
    FLEET_DIALS_A_SECOND,
    MOST_UNDER_WAY,
    MOST_UNDER_WAY_TO_A_HOST,
    Allow,
    Command,
    DialGate,
    Take,
    Tell,
)
from tests.fakes.clock import SetClock

HOST = host_budget("upstream.example", "eu", Limit(dials=100, per_ms=60_000))
OTHER = host_budget("other.example", "eu", Limit(dials=100, per_ms=60_000))


class Bench:
    """The test plays the table, the sockets and time."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.gate = DialGate("worker-1")
        self.said: list[Command] = []
        self._numbers = 0

    def do(self, commands: list[Command]) -> list[Command]:
        self.said += commands
        return commands

    def want(self, *budgets: Budget, host: str = "upstream.example", since: Instant | None = None) -> int:
        self._numbers += 1
        self.do(self.gate.want(self._numbers, host, budgets, since or self.clock(), self.clock()))
        return self._numbers

    def gone(self, number: int) -> list[Command]:
        return self.do(self.gate.gone(number, self.clock()))

    def wait(self, seconds: float) -> list[Command]:
        self.clock.advance(round(seconds * 1_000))
        return self.do(self.gate.tick(self.clock()))

    def give(
        self,
        dials: int,
        take: Take | None = None,
        *,
        for_s: float = 6.0,
        step_s: float = 0.0,
        ledger: Ledger | None = None,
    ) -> list[Command]:
        take = take or self.takes[-1]
        now = self.clock()
        until_s, until_ms = now.mono_s + for_s, now.wall_ms + round(for_s * 1_000)
        outcome = Taken(dials, now.mono_s, step_s, until_s, until_ms, ledger or Ledger())
        return self.do(self.gate.answered(take.budget, outcome, self.clock()))

    @property
    def takes(self) -> list[Take]:
        return [each for each in self.said if isinstance(each, Take)]

    @property
    def allowed(self) -> list[int]:
        return [each.ticket for each in self.said if isinstance(each, Allow)]

    @property
    def told(self) -> list[str]:
        return [each.reason for each in self.said if isinstance(each, Tell)]


def test_w36_of_1000_dials_so_many_are_under_way_at_a_time_and_a_dead_host_leaves_room_for_others() -> None:
    bench = Bench()
    for _ in range(500):
        bench.want()
    bench.wait(5)
    assert len(bench.allowed) == MOST_UNDER_WAY_TO_A_HOST
    for number in range(500):
        bench.want(host=f"{number}.example")
    assert len(bench.allowed) == MOST_UNDER_WAY
    bench.gone(1)
    assert bench.allowed[-1] == MOST_UNDER_WAY_TO_A_HOST + 1, "the next to the first host, which has waited longest"
    bench.gone(bench.allowed[40])
    assert len(bench.allowed) == MOST_UNDER_WAY + 2


def test_without_a_budget_a_host_is_dialled_at_this_workers_part_of_the_fleets_pace() -> None:
    bench = Bench()
    bench.gate.fleet(10)
    each_s = FLEET_DIALS_A_SECOND // 10
    bench.clock.advance(10_000)
    for _ in range(3 * each_s):
        bench.want()
    for _ in range(30):
        for number in bench.allowed:
            bench.gone(number)
        bench.wait(0.01)
    assert each_s <= len(bench.allowed) <= each_s * 1.4, "a second's worth at once, then by the pace"
    assert bench.gate.due_s is not None
    assert bench.gate.due_s <= bench.clock.mono_s + 0.03


def test_a_dial_waits_for_a_token_and_asks_for_as_many_as_wait() -> None:
    bench = Bench()
    first = bench.want(HOST)
    second, third = bench.want(HOST), bench.want(HOST)
    assert bench.allowed == []
    assert [len(take.ask.waiting_ms) for take in bench.takes] == [1], "one ask at a time"
    bench.give(1)
    assert bench.allowed == [first]
    assert len(bench.takes[-1].ask.waiting_ms) == 2
    bench.give(2)
    assert bench.allowed == [first, second, third]
    assert len(bench.takes) == 2


def test_the_oldest_is_served_first_also_one_that_comes_back() -> None:
    bench = Bench()
    long_ago = bench.clock()
    bench.clock.advance(5_000)
    bench.want(HOST)
    back = bench.want(HOST, since=long_ago)
    bench.give(1)
    assert bench.allowed == [back]


def test_who_waits_for_one_budget_is_not_in_the_way_of_who_has_another() -> None:
    bench = Bench()
    both, one = bench.want(HOST, OTHER), bench.want(OTHER, host="other.example")
    take = next(take for take in bench.takes if take.budget == OTHER)
    bench.give(1, take)
    assert bench.allowed == [one]
    bench.give(1, next(take for take in bench.takes if take.budget == HOST))
    assert both not in bench.allowed
    bench.give(1, [take for take in bench.takes if take.budget == OTHER][-1])
    assert bench.allowed == [one, both]


def test_a_slice_is_spent_one_by_one_at_its_pace() -> None:
    bench = Bench()
    for _ in range(5):
        bench.want(HOST)
    bench.give(1)
    bench.give(4, step_s=0.5)
    assert len(bench.allowed) == 2
    assert bench.gate.due_s == bench.clock.mono_s + 0.5
    bench.wait(0.4)
    assert len(bench.allowed) == 2
    bench.wait(0.1)
    assert len(bench.allowed) == 3
    bench.wait(0.5)
    assert len(bench.allowed) == 4


def test_what_was_missed_of_the_pace_is_made_up_for_a_moment_of_it_and_no_more() -> None:
    bench = Bench()
    for _ in range(101):
        bench.want(HOST)
    bench.give(1)
    bench.give(20, step_s=0.02)
    for number in bench.allowed:
        bench.gone(number)
    assert len(bench.allowed) == 2
    bench.wait(0.3)
    assert len(bench.allowed) == 2 + 6, "a tenth of a second's, and what is due now"


def test_the_next_slice_is_asked_for_a_moment_before_the_last_is_spent() -> None:
    bench = Bench()
    for _ in range(41):
        bench.want(HOST)
    bench.give(1)
    bench.give(8, step_s=0.1)
    asked = len(bench.takes)
    for _ in range(4):
        bench.wait(0.1)
    assert len(bench.takes) == asked
    bench.wait(0.1)
    assert len(bench.takes) == asked + 1, "a quarter is left"
    assert len(bench.takes[-1].ask.waiting_ms) == 40 - 8, "of those that wait, those that have no token"
    bench.give(8, step_s=0.1)
    bench.wait(0.1)
    assert len(bench.takes) == asked + 1


def test_without_a_budget_nothing_is_asked_and_a_small_fleet_is_not_held_up() -> None:
    bench = Bench()
    bench.gate.fleet(2)
    for number in range(8 * MOST_UNDER_WAY_TO_A_HOST):
        bench.want(host=f"{number % 8}.example")
    assert len(bench.allowed) == 8 * MOST_UNDER_WAY_TO_A_HOST
    assert bench.takes == []
    assert bench.gate.due_s is None


def test_of_two_budgets_the_one_that_is_used_up_for_long_is_waited_for_alone() -> None:
    bench = Bench()
    scarce = host_budget("upstream.example", "eu", Limit(dials=1, per_ms=3_600_000))
    for _ in range(3):
        bench.want(HOST, scarce)
    assert {take.budget for take in bench.takes} == {scarce, HOST}, "nothing is known yet"
    used_up = Ledger(1, (Slice("other", 1, bench.clock.wall_ms),))
    for budget, ledger in ((scarce, used_up), (HOST, Ledger())):
        again_ms = bench.clock.wall_ms + 10_000
        bench.do(bench.gate.answered(budget, Later(again_ms, ledger), bench.clock()))
    bench.wait(11)
    assert [take.budget for take in bench.takes[2:]] == [scarce]
    alone = bench.want(HOST)
    assert bench.takes[-1].budget == HOST
    assert len(bench.takes[-1].ask.waiting_ms) == 1, "for the one that waits for nothing else"
    bench.give(1)
    assert bench.allowed == [alone]
    bench.give(1, bench.takes[2], ledger=used_up)
    assert bench.takes[-1].budget == HOST
    assert len(bench.takes[-1].ask.waiting_ms) == 1, "one can dial as soon as it has the other token"


def test_who_waits_for_a_ledger_that_cannot_be_had_keeps_no_token_of_another_budget() -> None:
    bench = Bench()
    scarce = host_budget("upstream.example", "eu", Limit(dials=1, per_ms=3_600_000))
    bench.want(HOST, scarce)
    later = Later(bench.clock.wall_ms + 1_000, Ledger())
    bench.do(bench.gate.answered(scarce, later, bench.clock()))
    bench.give(1, next(take for take in bench.takes if take.budget == HOST), for_s=60)
    alone = bench.want(HOST)
    bench.wait(2)
    assert bench.allowed == [], "the one that is here is kept for the older one"
    for _ in range(3):
        bench.do(bench.gate.answered(scarce, Unreachable("no answer"), bench.clock()))
        bench.wait(6)
    assert bench.allowed == [alone]


def test_a_token_is_not_spent_after_its_slice_has_ended() -> None:
    bench = Bench()
    bench.want(HOST)
    bench.give(5, for_s=6)
    bench.clock.advance(6_000)
    late = bench.want(HOST)
    assert late not in bench.allowed
    assert len(bench.takes) == 2


def test_an_allowed_dial_is_told_until_when_it_may_begin() -> None:
    bench = Bench()
    bench.want(HOST)
    (allow,) = [each for each in bench.give(1, for_s=6) if isinstance(each, Allow)]
    assert allow.until_s == bench.clock.mono_s + 6
    free = bench.want(host="free.example")
    assert [each.until_s for each in bench.said if isinstance(each, Allow) and each.ticket == free] == [float("inf")]


def test_a_slice_is_reported_once_its_last_dial_has_ended_and_says_when() -> None:
    bench = Bench()
    first = bench.want(HOST)
    bench.give(1)
    bench.clock.advance(1_000)
    bench.want(HOST)
    assert not bench.takes[-1].ask.spent, "its dial may not even have begun"
    bench.clock.advance(1_000)
    ended_ms = bench.clock.wall_ms
    bench.gone(first)
    bench.give(1)
    bench.clock.advance(1_000)
    bench.want(HOST)
    spent = (Spent(bench.takes[0].ask.slice_id, 1, ended_ms),)
    assert bench.takes[-1].ask.spent == spent
    later = Later(bench.clock.wall_ms + 500, Ledger())
    bench.do(bench.gate.answered(HOST, later, bench.clock()))
    bench.wait(1.1)
    assert bench.takes[-1].ask.spent == spent, "nobody has said that it was heard"


def test_a_slice_is_reported_to_its_true_end_although_the_wall_clock_was_set_back_meanwhile() -> None:
    bench = Bench()
    first = bench.want(HOST)
    bench.give(1)
    bench.clock.advance(2_000)
    ended_ms = bench.clock.wall_ms
    bench.clock.wall_ms -= 3_600_000
    bench.gone(first)
    bench.clock.advance(1_000)
    bench.clock.wall_ms += 3_600_000
    bench.want(HOST)
    assert bench.takes[-1].ask.spent == (Spent(bench.takes[0].ask.slice_id, 1, ended_ms),)


def test_a_clock_that_is_set_back_just_before_an_answer_lets_nobody_wait_for_so_long() -> None:
    bench = Bench()
    bench.want(HOST)
    later = Later(bench.clock.wall_ms + 500, Ledger())
    bench.clock.wall_ms -= 3_600_000
    bench.do(bench.gate.answered(HOST, later, bench.clock()))
    bench.wait(LONGEST_LOOK_MS / 1_000 + 0.5)
    assert len(bench.takes) == 2


def test_a_slice_is_reported_also_by_who_had_nothing_to_dial_meanwhile() -> None:
    bench = Bench()
    first = bench.want(HOST)
    bench.give(1, for_s=6)
    bench.gone(first)
    bench.clock.advance(5_000)
    bench.want(host="other.example")
    second = bench.want(HOST)
    assert [each.dials for each in bench.takes[-1].ask.spent] == [1]
    bench.give(1, for_s=6)
    bench.gone(second)
    bench.clock.advance(6_001)
    bench.want(host="other.example")
    bench.want(HOST)
    assert bench.takes[-1].ask.spent == (), "it has counted to its end, and is nobody's to tell of any more"


def test_what_is_left_of_a_lapsed_slice_is_reported_as_unspent() -> None:
    bench = Bench()
    number = bench.want(HOST)
    bench.give(5)
    bench.gone(number)
    bench.clock.advance(7_000)
    bench.want(HOST)
    assert [(each.slice_id, each.dials) for each in bench.takes[-1].ask.spent] == [(bench.takes[0].ask.slice_id, 1)]


def test_after_a_fault_the_same_ask_goes_out_again() -> None:
    bench = Bench()
    bench.want(HOST)
    bench.do(bench.gate.answered(HOST, Unreachable("it timed out"), bench.clock()))
    assert len(bench.takes) == 1, "not at once"
    bench.want(HOST)
    bench.wait(1)
    assert bench.takes[-1].ask == bench.takes[0].ask


def _waits(bench: Bench, by: str = "worker-1") -> None:
    """The table's answer: nothing now, and it is known that `by` waits."""
    ledger = Ledger(1, (), (Queue(by, bench.clock.wall_ms, 1, bench.clock.wall_ms),))
    later = Later(bench.clock.wall_ms + 20_000, ledger)
    bench.do(bench.gate.answered(HOST, later, bench.clock()))


def test_a_place_in_the_queue_is_given_up_at_once_when_nobody_waits_any_more() -> None:
    bench = Bench()
    numbers = [bench.want(HOST), bench.want(HOST)]
    _waits(bench)
    bench.gone(numbers[0])
    assert len(bench.takes) == 1
    bench.gone(numbers[1])
    assert [take.ask.waiting_ms for take in bench.takes[1:]] == [()]
    bench.do(bench.gate.answered(HOST, Unreachable("it timed out"), bench.clock()))
    bench.wait(1)
    assert [take.ask.waiting_ms for take in bench.takes[2:]] == [()], "again, until it is known to have landed"
    bench.do(bench.gate.answered(HOST, Later(bench.clock.wall_ms, Ledger()), bench.clock()))
    bench.wait(60)
    assert len(bench.takes) == 3
    assert bench.gate.due_s is None


def test_no_place_is_given_up_that_nobody_had_or_that_lapses_by_itself() -> None:
    bench = Bench()
    number = bench.want(HOST)
    _waits(bench, "somebody else")
    bench.gone(number)
    assert len(bench.takes) == 1
    number = bench.want(HOST)
    bench.wait(21)
    bench.do(bench.gate.answered(HOST, Unreachable("it timed out"), bench.clock()))
    bench.clock.advance(HOST.limit.queue_ms + SKEW_MS)
    bench.gone(number)
    assert len(bench.takes) == 2


def test_who_waits_again_asks_for_a_slice_and_not_for_its_place_to_be_given_up() -> None:
    bench = Bench()
    number = bench.want(HOST)
    _waits(bench)
    bench.gone(number)
    bench.do(bench.gate.answered(HOST, Unreachable("it timed out"), bench.clock()))
    bench.want(HOST)
    bench.wait(1)
    assert len(bench.takes[-1].ask.waiting_ms) == 1


def test_a_ledger_seen_a_while_ago_is_read_again() -> None:
    bench = Bench()
    bench.want(HOST)
    bench.give(1)
    bench.want(HOST)
    assert bench.takes[-1].seen is not None
    bench.give(1)
    bench.clock.advance(2_000)
    bench.want(HOST)
    assert bench.takes[-1].seen is None


def test_who_gives_up_waiting_leaves_its_token_to_the_next() -> None:
    bench = Bench()
    gives_up, next_ = bench.want(HOST), bench.want(HOST)
    bench.gone(gives_up)
    bench.give(1)
    assert bench.allowed == [next_]
    bench.gone(next_)
    assert bench.gate.waiting == 0
    assert bench.gone(next_) == []


@pytest.mark.parametrize(
    ("full_ms", "says"), [(30_000, "about 90 s"), (600_000, "about 11 min"), (9_000_000, "about 3 h")]
)
def test_a_wait_is_told_after_a_second_with_the_budget_and_how_long_it_will_take(full_ms: int, says: str) -> None:
    bench = Bench()
    bench.want(HOST)
    full = Ledger(1, (Slice("other", 100, bench.clock.wall_ms + full_ms),))
    bench.do(bench.gate.answered(HOST, Later(bench.clock.wall_ms + 30_000, full), bench.clock()))
    assert bench.told == []
    assert bench.gate.due_s == bench.clock.mono_s + 1
    bench.wait(1)
    assert bench.told == [f"waiting for the dial budget of upstream.example (100 in 60 s), {says}"]
    for _ in range(20):
        bench.wait(1)
    assert len(bench.told) == 1


def test_while_the_ledger_is_unknown_the_wait_is_told_without_a_time() -> None:
    bench = Bench()
    bench.want(HOST)
    bench.wait(1)
    assert bench.told == ["waiting for the dial budget of upstream.example"]
    for _ in range(60):
        bench.want()
    bench.wait(1)
    assert bench.told[-1] == "waiting for its turn to dial"


def test_an_answer_that_nobody_waits_for_any_more_is_kept_for_the_next() -> None:
    bench = Bench()
    number = bench.want(HOST)
    take = bench.takes[-1]
    bench.gone(number)
    bench.give(1, take)
    assert bench.allowed == []
    assert bench.want(HOST) in bench.allowed
    assert isinstance(take.ask, Ask)
