"""What the supervisor gives up for others: drained like any release, so many at a time, and not taken back."""

from dataclasses import replace

from streamlease.errors import Unreachable
from streamlease.model import Member, MemberState
from streamlease.plan import Candidate
from streamlease_worker.balance import FRESH_MS, GIVE_WITHIN_S, LEAST_PER_ROUND, NOT_BACK_S
from streamlease_worker.intake import LEFT_BY_OTHERS_S
from streamlease_worker.keeper_events import Accepted, LoadReported, ReleaseRequested
from streamlease_worker.supervisor_events import (
    Claim,
    Command,
    DrainRequested,
    FleetRead,
    Measured,
    ReturnOffer,
    Start,
    Stop,
)
from tests.worker.supervising import EPOCH, WORKER, Bench, member

OTHER = "worker-2"


def holding(count: int, *, generation: int = 0) -> tuple[Bench, dict[str, Start]]:
    bench = Bench(generation=generation)
    return bench, {name: bench.run(name) for name in (f"c{n:02}" for n in range(count))}


def stops(said: list[Command]) -> list[str]:
    return [command.connection_id for command in said if isinstance(command, Stop)]


def me(bench: Bench, *, generation: int = 0) -> Member:
    return member(WORKER, owned=bench.supervisor.owned, generation=generation)


def seen(bench: Bench, *others: Member, generation: int = 0) -> list[Command]:
    """A sweep that shows this worker as it is, and these."""
    return bench.survey(me(bench, generation=generation), *others)


def test_a_newcomer_is_given_its_share_by_flushing_and_releasing_what_was_here_for_longest() -> None:
    bench, starts = holding(6)
    said = seen(bench, member(OTHER))
    assert stops(said) == ["c00", "c01", "c02"]
    assert all(command.flush for command in said if isinstance(command, Stop))
    assert bench.end(starts["c00"]) == [ReleaseRequested("c00", EPOCH)]


def test_l33_at_rest_nothing_is_given_up_whatever_is_swept_or_read() -> None:
    bench, _ = holding(6)
    for others in (5, 6, 7):
        assert stops(seen(bench, member(OTHER, owned=others))) == []


def test_a_round_is_bounded_and_the_next_waits_until_all_of_it_has_settled() -> None:
    bench, starts = holding(2 * LEAST_PER_ROUND + 8)
    first = stops(seen(bench, member(OTHER)))
    assert len(first) == LEAST_PER_ROUND
    assert stops(seen(bench, member(OTHER, owned=3))) == []
    for name in first:
        bench.end(starts[name])
        bench.settle(name)
    later = stops(seen(bench, member(OTHER, owned=LEAST_PER_ROUND)))
    assert len(later) == 4
    assert not set(later) & set(first)


def test_the_same_summary_moves_nothing_twice() -> None:
    bench, starts = holding(6)
    for name in stops(seen(bench, member(OTHER))):
        bench.end(starts[name])
        bench.settle(name)
    assert bench.fleet is not None
    assert stops(bench.do(FleetRead(bench.fleet))) == []


def test_a_summary_that_counts_nobody_s_taking_yet_moves_nothing_more() -> None:
    """It goes by what is held here and now, not by a difference."""
    bench, starts = holding(6)
    for name in stops(seen(bench, member(OTHER))):
        bench.end(starts[name])
        bench.settle(name)
    assert stops(seen(bench, member(OTHER))) == []


def test_an_old_summary_moves_nothing() -> None:
    bench, _ = holding(6)
    bench.wait(FRESH_MS / 1000 + 1)
    old = bench.clock.wall_ms - FRESH_MS - 1
    seen(bench, member(OTHER, owned=6))
    assert bench.fleet is not None
    fresh = Bench()
    assert stops(fresh.do(FleetRead(replace(bench.fleet, at_ms=old)))) == []


def test_what_was_given_up_is_not_taken_back_at_once_but_is_where_nobody_else_takes_it() -> None:
    bench, starts = holding(6)
    for name in stops(seen(bench, member(OTHER))):
        bench.end(starts[name])
        bench.settle(name)
    gone = replace(member(OTHER), state=MemberState.DEAD)
    seen(bench, gone)
    assert ReturnOffer("receipt of c00") in bench.offer("c00", reason="released")
    assert Claim("c01", "released") in bench.offer("c01", reason="released", age_ms=6_000)
    bench.wait(NOT_BACK_S)
    claims = bench.survey(me(bench), gone, candidates=(Candidate("c02", 0),))
    assert Claim("c02", "released") in claims


def test_a_sink_that_takes_nothing_keeps_no_connection_from_moving() -> None:
    bench, _ = holding(2)
    assert stops(seen(bench, member(OTHER))) == ["c00"]
    assert [c for c in bench.wait(GIVE_WITHIN_S - 1) if isinstance(c, Stop)] == []
    (hurried,) = [command for command in bench.wait(3) if isinstance(command, Stop)]
    assert (hurried.connection_id, hurried.flush) == ("c00", False)


def test_what_rests_here_is_not_moved() -> None:
    """Given up until its spec changes, or waiting to be started again: elsewhere it would only fail anew."""
    bench, starts = holding(2)
    bench.end(starts["c00"], "fatal", "no such stream")
    assert stops(seen(bench, member(OTHER))) == ["c01"]


def test_an_older_worker_gives_nothing_up_in_a_deployment() -> None:
    bench, _ = holding(6, generation=1)
    assert stops(seen(bench, member(OTHER, generation=2), generation=1)) == []


def test_a_drainer_gives_nothing_up_beside_its_drain() -> None:
    bench, _ = holding(4)
    bench.do(DrainRequested("SIGTERM"))
    assert stops(bench.do(FleetRead(bench.fleet))) == []


def test_a_busy_worker_gives_up_the_heaviest_that_fit() -> None:
    bench, _ = holding(4)
    said = bench.do(Measured({"c02": 200.0, "c03": 60.0}, loop_lag_ms=3))
    assert said == [LoadReported({"records_per_s": 260, "lag_ms": 3, "extra": 5})]
    shown = replace(member(WORKER, owned=4), load={"extra": 5})
    assert stops(bench.survey(shown, member(OTHER, owned=3))) == ["c03", "c00"], "9 against 3: 3 too many"


def test_an_unfit_worker_gives_everything_up_and_takes_nothing() -> None:
    bench, starts = holding(3)
    for _ in range(4):
        bench.clock.advance(5_000)
        bench.do(Measured({}, loop_lag_ms=3, unfit="its clock is off"))
    shown = replace(member(WORKER, owned=3), load={"pace": 0})
    given = stops(bench.survey(shown, member(OTHER, owned=3)))
    assert sorted(given) == ["c00", "c01", "c02"]
    for name in given:
        bench.end(starts[name])
        bench.settle(name)
    assert not any(isinstance(command, Claim) for command in bench.offer("new"))


def test_l33_who_took_what_others_had_left_waiting_gives_nothing_up_to_them() -> None:
    """A worker that lives and takes nothing would else keep a connection going round for ever."""
    bench, _ = holding(4)
    seen(bench, member(OTHER, owned=4))
    for times in (1, 2):
        assert Claim(f"left {times}", "control") in bench.offer(f"left {times}", age_ms=6_000)
        bench.claimed(f"left {times}")
        bench.do(Accepted(f"left {times}", EPOCH))
        bench.wait(times * LEFT_BY_OTHERS_S - 2)
        assert stops(seen(bench, member(OTHER))) == []
        bench.wait(3)
    assert stops(seen(bench, member(OTHER)))


def test_a_store_without_answers_moves_nothing() -> None:
    bench, _ = holding(6)
    assert stops(bench.do(FleetRead(Unreachable("no answer")))) == []
