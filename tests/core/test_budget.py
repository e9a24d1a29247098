from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import budget as budgets
from streamlease.budget import (
    Ask,
    Budget,
    Later,
    Ledger,
    Limit,
    Queue,
    Slice,
    Spent,
    Taken,
    credential_budget,
    expected_ms,
    free_within,
    host_budget,
    landed,
    ledger,
    plan,
)
from streamlease.errors import Malformed, Unreachable
from streamlease.flow import run
from streamlease.flows.budget import take
from streamlease.timing import SKEW_MS, Instant
from streamlease.write import Put, Table
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore
from tests.fakes.trouble import Landing, Troubled

NOW_MS = 1_800_000_000_000
LIMIT = Limit(dials=100, per_ms=60_000)
HOST = host_budget("upstream.example", "eu", LIMIT)


def at(ms: int) -> Instant:
    return Instant(1_000 + ms / 1_000, NOW_MS + ms)


def ask(*since_ms: int, by: str = "worker-1", name: str = "s1", spent: tuple[Spent, ...] = ()) -> Ask:
    return Ask(by, name, tuple(NOW_MS + ms for ms in since_ms or (0,)), spent)


def test_a_slice_is_a_tenth_of_the_limit_at_most_and_never_more_than_is_wanted() -> None:
    many = plan(Ledger(), HOST, ask(*range(50)), at(100)).outcome
    few = plan(Ledger(), HOST, ask(1, 2, 3), at(100)).outcome
    assert (isinstance(many, Taken) and many.dials, isinstance(few, Taken) and few.dials) == (10, 3)


def test_a_slice_counts_until_the_whole_window_after_its_end_has_passed_on_every_clock() -> None:
    full = Ledger(1, (Slice("other", 100, NOW_MS),))
    end_ms = LIMIT.per_ms + SKEW_MS
    outcome = plan(full, HOST, ask(), at(0)).outcome
    assert isinstance(outcome, Later)
    assert isinstance(plan(full, HOST, ask(), at(end_ms)).outcome, Later)
    assert isinstance(plan(full, HOST, ask(), at(end_ms + 1)).outcome, Taken)


def test_two_limits_over_the_same_time_see_each_others_dials_each_by_its_own_limit() -> None:
    strict = host_budget("upstream.example", "eu", Limit(dials=5, per_ms=LIMIT.per_ms))
    assert strict.key == HOST.key
    mine = plan(Ledger(), HOST, ask(*range(9)), at(0)).outcome
    assert isinstance(mine, Taken)
    assert isinstance(plan(mine.ledger, strict, ask(), at(10_000)).outcome, Later)
    assert isinstance(plan(mine.ledger, HOST, ask(name="s2"), at(10_000)).outcome, Taken)
    assert host_budget("upstream.example", "eu", Limit(5, 1_000)).key != HOST.key


def test_what_fills_a_budget_goes_out_over_its_window_and_what_needs_little_of_it_much_faster() -> None:
    assert Limit(1_000, 10_000).step_ms(1_000) == 10
    assert Limit(1_000, 10_000).step_ms(5_000) == 10, "never slower than the budget itself"
    assert Limit(1_000, 10_000).step_ms(100) * 100 == pytest.approx(100), "a tenth: in a hundredth of the time"
    assert Limit(1_000, 86_400_000).step_ms(1_000) == 30, "a quota for a day is not held back for a day"
    assert Limit(1, 3_600_000).step_ms(1) == 200, "five a second are no wave"


def test_a_slice_begins_where_the_one_before_ends_by_its_pace() -> None:
    first = plan(Ledger(), HOST, ask(*range(-100, 0)), at(0)).outcome
    assert isinstance(first, Taken)
    assert (first.dials, first.from_s, first.step_s) == (10, at(-100).mono_s, 0.2)
    assert first.ledger.paced_ms == NOW_MS - 100 + 2_000
    second = plan(first.ledger, HOST, ask(*range(-90, 0), name="s2"), at(1_000)).outcome
    assert isinstance(second, Taken), "a moment before it begins"
    assert (second.from_s, second.ledger.paced_ms) == (at(1_900).mono_s, NOW_MS + 3_900)
    assert second.until_s == at(3_900).mono_s + LIMIT.slice_ms / 1_000
    late = plan(second.ledger, HOST, ask(*range(-80, 0), name="s3"), at(9_000)).outcome
    assert isinstance(late, Taken)
    assert late.from_s == at(8_900).mono_s, "a rest is made up for, but not a long one"


def test_whose_turn_in_the_pace_is_later_looks_again_when_it_may_take_it() -> None:
    first = plan(Ledger(), HOST, ask(*range(-10, 0)), at(0)).outcome.ledger
    busy = replace(first, paced_ms=NOW_MS + 1_900)
    alone = plan(busy, HOST, ask(5, by="worker-2", name="t1"), at(10)).outcome
    assert isinstance(alone, Later)
    assert alone.again_ms == NOW_MS + 900
    assert isinstance(plan(busy, HOST, ask(5, by="worker-2", name="t1"), at(900)).outcome, Taken)
    behind = replace(busy, queues=(Queue("worker-1", NOW_MS, 20, NOW_MS),))
    younger = plan(behind, HOST, ask(5, by="worker-2", name="t1"), at(900)).outcome
    assert isinstance(younger, Later), "who has waited longer may have the turn before"
    assert younger.again_ms == NOW_MS + 1_900
    assert isinstance(plan(behind, HOST, ask(5, by="worker-2", name="t1"), at(1_900)).outcome, Taken)


def test_a_turn_given_out_by_a_clock_far_ahead_holds_nobody_up() -> None:
    ahead = Ledger(1, (), (), NOW_MS + 86_400_000)
    outcome = plan(ahead, HOST, ask(), at(0)).outcome
    assert isinstance(outcome, Taken)
    assert outcome.from_s == at(0).mono_s
    assert outcome.ledger.paced_ms < NOW_MS + 1_000
    assert expected_ms(ahead, LIMIT, 1, NOW_MS) == NOW_MS


def test_a_ledger_that_an_earlier_release_wrote_has_no_pace_yet() -> None:
    item = budgets._put(Ledger(3), Ledger(4), HOST).item
    assert ledger({name: value for name, value in item.items() if name != "paced_ms"}) == Ledger(4)


def test_unspent_tokens_and_an_earlier_end_are_told_with_the_next_write() -> None:
    before = Ledger(1, (Slice("s1", 10, NOW_MS + 6_000),))
    spent = (Spent("s1", 3, NOW_MS + 200),)
    after = plan(before, HOST, ask(name="s2", spent=spent), at(300)).outcome
    assert after.ledger.slices[0] == Slice("s1", 3, NOW_MS + 200)
    nothing = plan(before, HOST, ask(name="s2", spent=(Spent("s1", 0, 0),)), at(300)).outcome
    assert [each.slice_id for each in nothing.ledger.slices] == ["s2"]


def test_a_report_never_makes_more_of_a_slice_or_a_later_end() -> None:
    before = Ledger(1, (Slice("s1", 3, NOW_MS + 200),))
    after = plan(before, HOST, ask(name="s2", spent=(Spent("s1", 9, NOW_MS + 9_000),)), at(300)).outcome
    assert after.ledger.slices[0] == Slice("s1", 3, NOW_MS + 200)


def test_what_is_free_is_left_to_those_who_have_waited_longer_as_long_as_they_say_so() -> None:
    others = Ledger(1, (), (Queue("worker-0", NOW_MS, 95, NOW_MS),))
    younger = plan(others, HOST, ask(*range(10, 30)), at(100)).outcome
    assert isinstance(younger, Taken)
    assert younger.dials == 5
    older = plan(others, HOST, ask(*range(-20, 0)), at(100)).outcome
    assert isinstance(older, Taken)
    assert older.dials == 10
    silent = plan(others, HOST, ask(*range(10, 30)), at(LIMIT.queue_ms + SKEW_MS + 1)).outcome
    assert isinstance(silent, Taken)
    assert silent.dials == 10


def test_a_silent_workers_place_is_kept_for_a_minute_at_most_and_those_that_wait_say_so_within_it() -> None:
    hours = host_budget("upstream.example", "eu", Limit(dials=100, per_ms=3_600_000))
    others = Ledger(1, (), (Queue("worker-0", NOW_MS, 100, NOW_MS),))
    assert isinstance(plan(others, hours, ask(10), at(60_000)).outcome, Later)
    assert isinstance(plan(others, hours, ask(10), at(60_001 + SKEW_MS)).outcome, Taken)
    full = Ledger(1, (Slice("other", 100, NOW_MS),), (Queue("worker-1", NOW_MS, 1, NOW_MS),))
    look = plan(full, hours, ask(0), at(29_000))
    assert look.write is None
    assert look.outcome.again_ms <= NOW_MS + 60_000  # type: ignore[union-attr]
    assert plan(full, hours, ask(0), at(30_000)).write is not None


def test_who_waits_no_more_gives_up_its_place_by_one_write_and_takes_nothing() -> None:
    queues = (Queue("worker-1", NOW_MS, 95, NOW_MS), Queue("worker-2", NOW_MS, 3, NOW_MS))
    before = Ledger(4, (Slice("s1", 10, NOW_MS + 6_000),), queues)
    goes = replace(ask(spent=(Spent("s1", 3, NOW_MS + 200),)), waiting_ms=())
    left = plan(before, HOST, goes, at(300))
    assert left.outcome.ledger == Ledger(5, (Slice("s1", 3, NOW_MS + 200),), queues[1:])
    assert left.write is not None
    assert plan(left.outcome.ledger, HOST, goes, at(400)).write is None, "there is nothing to give up"


def test_who_gets_nothing_writes_down_once_that_it_waits() -> None:
    full = Ledger(1, (Slice("other", 100, NOW_MS),))
    first = plan(full, HOST, ask(0, 1, 2), at(100))
    assert isinstance(first.write, Put)
    assert first.outcome.ledger.queues == (Queue("worker-1", NOW_MS, 3, NOW_MS + 100),)
    assert plan(first.outcome.ledger, HOST, ask(0, 1, 2, 3), at(1_100)).write is None
    assert plan(first.outcome.ledger, HOST, ask(*range(7)), at(1_100)).write is not None
    assert plan(first.outcome.ledger, HOST, ask(0, 1, 2), at(100 + LIMIT.queue_ms)).write is not None


def test_the_ledger_stays_small_whatever_is_taken() -> None:
    seen, limit = Ledger(), Limit(dials=1_000, per_ms=300_000)
    budget = host_budget("upstream.example", "eu", limit)
    for number in range(2_000):
        outcome = plan(seen, budget, ask(by=f"worker-{number % 50}", name=str(number)), at(number * 400)).outcome
        seen = outcome.ledger
    assert len(seen.slices) < 120
    assert sum(each.dials for each in seen.slices) >= 700, "what is put together counts on"


def test_no_report_of_a_slice_makes_less_of_those_it_was_put_together_with() -> None:
    seen = Ledger(5, (Slice("a", 5, NOW_MS - 9_000), Slice("b", 5, NOW_MS - 8_900)))
    merged = plan(seen, HOST, ask(name="c"), at(0)).outcome.ledger
    assert [each.dials for each in merged.slices] == [10, 1]
    told = plan(merged, HOST, ask(name="d", spent=(Spent("a", 0, 0), Spent("b", 0, 0))), at(10)).outcome.ledger
    assert told.slices[0].dials == 10


def test_what_is_expected_counts_windows() -> None:
    full = Ledger(1, (Slice("a", 60, NOW_MS), Slice("b", 40, NOW_MS + 5_000)))
    first_ms, second_ms = NOW_MS + 61_000, NOW_MS + 66_000
    assert expected_ms(full, LIMIT, 1, NOW_MS) == first_ms
    assert expected_ms(full, LIMIT, 60, NOW_MS) == first_ms
    assert expected_ms(full, LIMIT, 61, NOW_MS) == second_ms
    assert expected_ms(full, LIMIT, 101, NOW_MS) == second_ms + 61_000
    assert expected_ms(full, LIMIT, 300, NOW_MS) == second_ms + 2 * 61_000
    assert expected_ms(Ledger(), LIMIT, 1, NOW_MS) == NOW_MS


def test_what_is_expected_of_what_is_free_goes_by_the_pace() -> None:
    paced = Ledger(1, (), (Queue("worker-0", NOW_MS, 100, NOW_MS),), NOW_MS + 2_000)
    assert expected_ms(paced, LIMIT, 11, NOW_MS) == NOW_MS + 2_000 + 10 * 200
    assert expected_ms(Ledger(), LIMIT, 11, NOW_MS) == NOW_MS + 330, "who waits is all that is wanted"


def test_what_is_free_within_a_while_counts_what_comes_back_until_then() -> None:
    full = Ledger(1, (Slice("a", 60, NOW_MS), Slice("b", 40, NOW_MS + 5_000)))
    assert free_within(Ledger(), LIMIT, 0, NOW_MS) == 100
    assert free_within(full, LIMIT, 60_000, NOW_MS) == 0
    assert free_within(full, LIMIT, 61_001, NOW_MS) == 60 + 100
    assert free_within(full, LIMIT, 130_000, NOW_MS) == 100 + 2 * 100
    lowered = Ledger(1, (Slice("a", 160, NOW_MS),))
    assert free_within(lowered, LIMIT, 0, NOW_MS) == 0


def test_the_key_of_a_credential_holds_no_reference_and_no_egress() -> None:
    one = credential_budget(["env:B", "env:A"], LIMIT)
    assert one == credential_budget(["env:A", "env:B"], LIMIT)
    assert "env" not in one.key
    assert one.name == "env:A, env:B"
    assert host_budget("a", "x", LIMIT).key != host_budget("a", "y", LIMIT).key


@given(
    st.lists(st.tuples(st.text(min_size=1), st.integers(0, 9), st.integers(0, 2**53)), max_size=5),
    st.lists(st.tuples(st.text(min_size=1), st.integers(0, 2**53), st.integers(0, 9)), max_size=5),
)
def test_a_ledger_reads_back_as_it_was_written(
    slices: list[tuple[str, int, int]], queues: list[tuple[str, int, int]]
) -> None:
    kept = Ledger(
        7,
        tuple(Slice(*each) for each in slices),
        tuple(Queue(*each, said_ms=NOW_MS) for each in queues),
        NOW_MS + 1,
    )
    write = budgets._put(kept, kept, HOST)
    assert ledger(write.item) == kept


@pytest.mark.parametrize(
    "item",
    [
        {"revision": "1", "slices": [], "queues": []},
        {"revision": 1, "slices": {}, "queues": []},
        {"revision": 1, "slices": [{"id": 1, "dials": 1, "until_ms": 1}], "queues": []},
        {"revision": 1, "slices": ["a"], "queues": []},
        {"revision": 1, "slices": [], "queues": [], "paced_ms": "soon"},
    ],
)
def test_a_ledger_that_cannot_be_read_is_told(item: dict[str, object]) -> None:
    with pytest.raises(Malformed, match="dial budget"):
        ledger(item)  # type: ignore[arg-type]


# --- the procedure ----------------------------------------------------------------------------------------------------


class Bench:
    def __init__(self) -> None:
        self.clock = SetClock()
        self.memory = MemoryStore(self.clock)
        self.store = Troubled(self.memory.perform)

    def take(self, wish: Ask, seen: Ledger | None = None, budget: Budget = HOST) -> Taken | Later:
        return run(take(budget, wish, seen), self.store.perform)

    def stored(self) -> Ledger:
        return ledger(self.memory.item(Table.WORKER_ITEMS, budgets.PARTITION, HOST.key))


def test_a_slice_is_one_conditional_write_of_the_ledger() -> None:
    bench = Bench()
    first = bench.take(ask(name="s1"))
    second = bench.take(ask(name="s2"), first.ledger)
    assert isinstance(second, Taken)
    assert bench.stored() == second.ledger
    assert len([each for each in bench.store.performed if isinstance(each, Put)]) == 2


def test_who_saw_an_old_ledger_is_shown_the_new_one_and_takes_of_that() -> None:
    bench = Bench()
    for number in range(9):
        bench.take(ask(*range(10), by="worker-0", name=f"o{number}"))
        bench.clock.advance(2_000)
    outcome = bench.take(ask(*range(20), name="mine"), Ledger())
    assert isinstance(outcome, Taken)
    assert sum(each.dials for each in bench.stored().slices) == 100


def test_a_slice_whose_answer_was_lost_is_found_again_and_taken_only_once() -> None:
    bench = Bench()
    bench.store.trouble(Unreachable("it timed out"), landing=Landing.BEFORE)
    with pytest.raises(Unreachable):
        bench.take(ask(*range(4)))
    bench.clock.advance(2_000)
    again = bench.take(ask(*range(4)))
    assert isinstance(again, Taken)
    assert again.dials == 4
    assert again.until_s == pytest.approx(bench.clock.mono_s - 2 + LIMIT.slice_ms / 1_000), "from the first send on"
    assert again.from_s == bench.clock.mono_s, "its place in the pace has passed"
    assert again.step_s == pytest.approx(0.012)
    assert sum(each.dials for each in bench.stored().slices) == 4


def test_a_write_that_lands_late_takes_nothing_away_from_what_came_meanwhile() -> None:
    bench = Bench()
    bench.take(ask(by="worker-0", name="o1"))
    bench.store.trouble(Unreachable("it timed out"), landing=Landing.LATER)
    with pytest.raises(Unreachable):
        bench.take(ask(*range(4)))
    bench.take(ask(by="worker-0", name="o2"))
    before = bench.stored()
    bench.store.land()
    assert bench.stored() == before


def test_a_slice_found_by_an_ask_of_another_name_is_not_its_own() -> None:
    assert landed(Ledger(1, (Slice("s1", 5, NOW_MS),)), LIMIT, ask(name="s2"), at(0)) is None
