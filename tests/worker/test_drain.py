"""How a drainer hands over what streams: told first, at a pace, and each streams until its turn."""

from bisect import bisect

import pytest

from streamlease.flows.sweep import Sweep
from streamlease.model import FleetSummary
from streamlease.timing import Instant
from streamlease_worker.drain import A_SECOND, AT_ONCE, TOGETHER, Drain
from streamlease_worker.keeper_events import MemberAlive, MemberLost, ReleaseRequested
from streamlease_worker.ownership import Ownership, Phase
from streamlease_worker.supervisor_events import Command, DrainRequested, Recount, Start, Stop, Swept
from tests.worker.supervising import EPOCH, Bench, connection, member

SIGTERM = DrainRequested("SIGTERM")


def among_others(**more: float) -> Bench:
    """One that knows of another worker."""
    bench = Bench(**more)  # type: ignore[arg-type]
    bench.sweep(live=2)
    return bench


def alive(bench: Bench, *, draining: bool) -> list[Command]:
    return bench.do(MemberAlive(bench.clock.mono_s + 100, draining=draining))


def swept(bench: Bench, *, live: int = 1) -> list[Command]:
    fleet = FleetSummary(bench.clock.wall_ms, live, 0, 0, 1)
    return bench.do(Swept(Sweep((), fleet, (member("other"),), ())))


def stops(commands: list[Command]) -> list[Stop]:
    return [command for command in commands if isinstance(command, Stop)]


def running(count: int) -> list[Ownership]:
    return [Ownership(connection(f"c{number:04}"), EPOCH, "control", Phase.RUNNING, number) for number in range(count)]


def turns(count: int, *, stop_timeout_s: float = 120.0, each_takes_s: float) -> list[float]:
    """When each of so many is stopped, in seconds after the drain began, and each is gone so much later."""
    drain, owned = Drain(stop_timeout_s), running(count)
    found: list[float] = []
    for number in range(int(stop_timeout_s * 100)):
        now = Instant(wall_ms=10 * number, mono_s=number / 100)
        said = drain.begin("SIGTERM", owned, living=3, now=now) if number == 0 else []
        said += drain.step(owned[bisect(found, now.mono_s - each_takes_s) :], unsettled=0, receiving=False, now=now)
        found += [now.mono_s] * len([stop for stop in stops(said) if stop.flush])
    return found


def test_what_streams_goes_on_until_the_fleet_knows_of_the_drain_and_has_read_it() -> None:
    bench = among_others()
    start = bench.run("a")
    assert stops(bench.do(SIGTERM)) == []
    assert alive(bench, draining=False) == [], "that heartbeat was sent before"
    assert alive(bench, draining=True) == [Recount()]
    assert stops(swept(bench)) == []
    assert stops(bench.wait(0.25)) == [], "others have not read it yet"
    assert stops(bench.wait(0.25)) == [Stop(start.run, "a", "SIGTERM", flush=True)]


def test_where_the_fleet_cannot_be_told_a_drain_begins_a_little_later_all_the_same() -> None:
    bench = among_others()
    bench.run("a")
    bench.do(SIGTERM)
    assert stops(bench.wait(1)) == []
    assert len(stops(bench.wait(0.5))) == 1


def test_a_drain_waits_for_nobody_where_there_is_nobody_else() -> None:
    bench = Bench()
    bench.sweep(live=1)
    bench.run("a")
    assert len(stops(bench.do(SIGTERM))) == 1


def test_a_drain_in_which_all_the_others_end_as_well_hands_over_to_nobody_and_does_not_wait() -> None:
    bench = among_others()
    bench.run("a")
    bench.do(SIGTERM)
    alive(bench, draining=True)
    assert len(stops(swept(bench, live=0))) == 1


def test_what_does_not_stream_is_released_at_once_whoever_has_been_told() -> None:
    bench = among_others()
    bench.end(bench.run("a"), "fatal", "no")
    bench.run("b")
    assert ReleaseRequested("a", EPOCH) in bench.do(SIGTERM)
    assert stops(bench.said) == []


def test_of_many_each_streams_until_its_turn_and_so_many_have_theirs_in_a_second() -> None:
    found = turns(TOGETHER + 3 * A_SECOND, each_takes_s=0.1)
    began_s = found[0]
    assert found[TOGETHER - 1] == began_s
    assert found[TOGETHER] > began_s
    within_a_second = [at_s for at_s in found if at_s <= began_s + 1.01]
    assert len(within_a_second) == TOGETHER + A_SECOND
    assert found[-1] == pytest.approx(began_s + 3, abs=0.05)


def test_those_whose_turn_has_come_fill_a_call() -> None:
    found = turns(5 * TOGETHER + 3, each_takes_s=0.1)
    assert [found.count(at_s) for at_s in sorted(set(found))] == [TOGETHER] * 5 + [3]


def test_where_releases_are_answered_slowly_the_next_wait_for_them() -> None:
    found = turns(3 * AT_ONCE, each_takes_s=5.0)
    assert [round(at_s - found[0]) for at_s in found[:: AT_ONCE // 2]] == [0, 0, 5, 5, 10, 10]


@pytest.mark.parametrize("each_takes_s", [0.1, 1_000.0], ids=["well", "with sinks that do not flush"])
@pytest.mark.parametrize("stop_timeout_s", [10.0, 30.0, 120.0])
def test_l31_however_many_there_are_the_last_has_its_turn_well_within_the_time(
    stop_timeout_s: float, each_takes_s: float
) -> None:
    found = turns(2_000, stop_timeout_s=stop_timeout_s, each_takes_s=each_takes_s)
    assert len(found) == 2_000
    assert found[-1] <= 0.7 * stop_timeout_s


def test_what_ends_by_itself_before_its_turn_is_given_up_at_once() -> None:
    bench = among_others()
    start = bench.run("a")
    bench.do(SIGTERM)
    assert bench.end(start, "crashed", "oh")[-1] == ReleaseRequested("a", EPOCH)
    said = bench.wait(2)
    assert stops(said) == []
    assert not any(isinstance(command, Start) for command in said)


def test_a_second_signal_waits_for_no_turns() -> None:
    bench = among_others()
    start = bench.run("a")
    bench.do(SIGTERM)
    assert stops(bench.do(SIGTERM)) == [Stop(start.run, "a", "SIGTERM", flush=False)]
    assert stops(bench.wait(2)) == []


def test_a_membership_that_is_lost_waits_for_no_turns() -> None:
    bench = among_others()
    start = bench.run("a")
    bench.do(SIGTERM)
    assert stops(bench.do(MemberLost())) == [Stop(start.run, "a", "SIGTERM", flush=True)]
    other = among_others()
    other.run("a")
    assert len(stops(other.do(MemberLost()))) == 1
