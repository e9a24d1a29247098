"""What the supervisor does with what it holds: runners, changes, stops, losses, crashes, the minute's audit."""

from itertools import pairwise

import pytest

from streamlease.errors import Denied, Fault, Unreachable
from streamlease.lease import Stopped
from streamlease.model import Position, Status, StatusState
from streamlease.plan import Candidate
from streamlease.write import Item
from streamlease_worker.keeper_events import (
    Accepted,
    Changed,
    Fence,
    ReleaseRequested,
    StatusChanged,
    StopWanted,
    VersionSeen,
)
from streamlease_worker.supervisor import AUDIT_AT_ONCE
from streamlease_worker.supervisor_events import (
    Claim,
    ClaimAnswered,
    Command,
    DeleteOffer,
    Listed,
    ListOwned,
    LookAgain,
    LookedAgain,
    ReleaseUnknown,
    Start,
    Stop,
    UnknownSettled,
)
from tests.worker.supervising import EPOCH, Bench, connection


def at(sequence: int) -> Position:
    return Position(sequence=sequence, instance="upstream.example")


# --- losses and stops -------------------------------------------------------------------------------------------------


def test_a_fenced_connection_is_stopped_without_a_flush_and_released_after_its_runner() -> None:
    bench = Bench()
    start = bench.run("a")
    assert bench.do(Fence("a", EPOCH, "throttled")) == [
        Stop(start.run, "a", "its lease is lost (throttled)", flush=False)
    ]
    assert bench.end(start) == [ReleaseRequested("a", EPOCH)]
    bench.settle("a")
    assert bench.supervisor.owned == 0


def test_a_stopped_connection_is_flushed_and_released() -> None:
    bench = Bench()
    start = bench.run("a")
    assert bench.do(StopWanted("a", EPOCH)) == [Stop(start.run, "a", "it was stopped", flush=True)]
    assert bench.do(StopWanted("a", EPOCH)) == []
    assert bench.end(start) == [ReleaseRequested("a", EPOCH)]


def test_a_lease_lost_while_its_runner_flushes_is_flushed_no_longer() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(StopWanted("a", EPOCH))
    assert bench.do(Fence("a", EPOCH, "stolen")) == [Stop(start.run, "a", "its lease is lost (stolen)", flush=False)]


def test_a_claim_that_is_fenced_before_it_was_accepted_is_released_and_never_started() -> None:
    bench = Bench()
    bench.offer("a")
    bench.claimed("a")
    assert bench.do(Fence("a", EPOCH, "expired")) == [ReleaseRequested("a", EPOCH)]
    assert bench.do(Accepted("a", EPOCH)) == []


def test_what_has_been_released_may_be_claimed_again() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(Fence("a", EPOCH, "throttled"))
    bench.end(start)
    assert bench.offer("a")[0] == DeleteOffer("receipt of a")
    bench.settle("a")
    assert Claim("a", "released") in bench.offer("a", reason="released")


def test_a_runner_that_finds_itself_fenced_first_is_released_all_the_same() -> None:
    bench = Bench()
    start = bench.run("a")
    assert bench.end(start, "fenced", "its lease ran out") == [ReleaseRequested("a", EPOCH)]
    assert bench.do(Fence("a", EPOCH, "expired")) == []


def test_news_of_an_epoch_or_connection_that_is_not_held_is_passed_over() -> None:
    bench = Bench()
    start = bench.run("a")
    assert bench.do(Fence("a", EPOCH + 1, "stolen")) == []
    assert bench.do(StopWanted("b", EPOCH)) == []
    assert bench.do(Accepted("a", EPOCH)) == []
    bench.do(StopWanted("a", EPOCH))
    bench.end(start)
    assert bench.end(start) == []


# --- changes ----------------------------------------------------------------------------------------------------------


def test_a_changed_spec_runs_on_in_the_same_epoch_from_the_newest_position() -> None:
    bench = Bench()
    start = bench.run("a", position=at(5))
    changed = connection("a", version=2, url="wss://other.example/", position=at(6))
    assert bench.do(Changed(changed, EPOCH, forget_position=False)) == [
        Stop(start.run, "a", "its spec has changed", flush=True)
    ]
    (again,) = bench.end(start, position=at(9))
    assert isinstance(again, Start)
    assert again.run != start.run
    assert again.epoch == EPOCH
    assert again.reason == "changed"
    assert again.connection.upstream_url == "wss://other.example/"
    assert again.connection.position == at(9)


def test_a_changed_spec_that_forgets_the_position_runs_from_nowhere() -> None:
    bench = Bench()
    start = bench.run("a", position=at(5))
    bench.do(Changed(connection("a", version=2, url="wss://other.example/"), EPOCH, forget_position=True))
    (again,) = bench.end(start, position=at(9))
    assert isinstance(again, Start)
    assert again.connection.position is None
    (third,) = bench.end(again, "crashed", position=at(1)) and bench.wait(2)[-1:]
    assert isinstance(third, Start)
    assert third.connection.position == at(1)


def test_a_change_of_labels_disturbs_no_runner() -> None:
    bench = Bench()
    bench.run("a")
    assert bench.do(Changed(connection("a", version=2, labels={"team": "x"}), EPOCH, forget_position=False)) == []


def test_the_newest_of_several_changes_is_what_runs() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(Changed(connection("a", version=2, url="wss://second.example/"), EPOCH, forget_position=False))
    assert bench.do(Changed(connection("a", version=3, url="wss://third.example/"), EPOCH, forget_position=False)) == []
    (again,) = bench.end(start)
    assert isinstance(again, Start)
    assert again.connection.upstream_url == "wss://third.example/"


def test_a_stop_that_follows_a_change_wins() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(Changed(connection("a", version=2, url="wss://other.example/"), EPOCH, forget_position=False))
    assert bench.do(StopWanted("a", EPOCH)) == []
    assert bench.end(start) == [ReleaseRequested("a", EPOCH)]


def test_a_change_before_the_runner_starts_is_what_starts() -> None:
    bench = Bench()
    bench.offer("a")
    bench.claimed("a")
    bench.do(Changed(connection("a", version=2, url="wss://other.example/"), EPOCH, forget_position=False))
    (start,) = bench.do(Accepted("a", EPOCH))
    assert isinstance(start, Start)
    assert start.connection.upstream_url == "wss://other.example/"


# --- runners that end by themselves -----------------------------------------------------------------------------------


def test_a_fatal_end_keeps_the_lease_and_says_why_until_the_spec_changes() -> None:
    bench = Bench()
    start = bench.run("a")
    (told,) = bench.end(start, "fatal", "HTTP 403 is final for this feed")
    assert isinstance(told, StatusChanged)
    assert told.status.state is StatusState.FAILED
    assert told.status.reason == "HTTP 403 is final for this feed"
    assert not any(isinstance(command, Start | ReleaseRequested) for command in bench.wait(600))
    (again,) = bench.do(Changed(connection("a", version=2), EPOCH, forget_position=False))
    assert isinstance(again, Start)


@pytest.mark.parametrize("outcome", ["crashed", "stopped"])
def test_an_end_nobody_asked_for_is_started_again_later_and_later(outcome: str) -> None:
    bench = Bench()
    start = bench.run("a")
    waits = []
    for _ in range(9):
        (told,) = bench.end(start, outcome, "a fault")
        assert isinstance(told, StatusChanged)
        assert told.status.state is StatusState.BACKOFF
        began_s = bench.clock.mono_s
        while not (again := [command for command in bench.wait(0.25) if isinstance(command, Start)]):
            assert bench.clock.mono_s - began_s < 100
        waits.append(bench.clock.mono_s - began_s)
        start = again[0]
        assert start.reason == "again"
    assert waits[0] <= 1.5
    assert 25 <= waits[-1] <= 61


def test_a_runner_that_lived_long_starts_over_quickly_when_it_crashes() -> None:
    bench = Bench()
    start = bench.run("a")
    for _ in range(6):
        bench.end(start, "crashed", "a fault")
        (start,) = [command for command in bench.wait(61) if isinstance(command, Start)]
    bench.wait(301)
    bench.end(start, "crashed", "a fault")
    assert any(isinstance(command, Start) for command in bench.wait(1.5))


def test_a_connection_at_rest_is_released_when_it_is_stopped_or_lost() -> None:
    bench = Bench()
    for name, notice in (("a", StopWanted("a", EPOCH)), ("b", Fence("b", EPOCH, "stolen"))):
        bench.end(bench.run(name), "fatal", "no")
        assert bench.do(notice) == [ReleaseRequested(name, EPOCH)]


# --- silence ----------------------------------------------------------------------------------------------------------


def parted(commands: list[Command]) -> Status:
    (released,) = commands
    assert isinstance(released, ReleaseRequested)
    assert released.status is not None
    return released.status


def test_what_is_yielded_is_released_with_its_reason_and_left_to_others() -> None:
    bench = Bench()
    status = parted(bench.end(bench.run("a"), "yielded", "no message for 60 s"))
    assert status == Status(StatusState.YIELDED, bench.clock.wall_ms, "no message for 60 s")
    bench.settle("a")
    claims = len(bench.all(Claim))
    bench.offer("a", reason="released")
    assert bench.all(DeleteOffer)[-1].receipt == "receipt of a"
    bench.sweep(Candidate("a", 0))
    bench.wait(10)
    bench.sweep(Candidate("a", 0))
    assert len(bench.all(Claim)) == claims


def test_a_worker_that_is_alone_takes_what_it_yielded_again_after_a_while() -> None:
    bench = Bench()
    bench.end(bench.run("a"), "yielded", "no message for 60 s")
    bench.settle("a")
    bench.wait(61)
    bench.sweep(Candidate("a", 0))
    assert bench.all(Claim)[-1].connection_id == "a"


def test_a_quarantine_lasts_longer_each_time_up_to_an_hour_and_begins_anew_after_a_time_of_use() -> None:
    bench = Bench()
    lasted_s = []
    status: Status | None = None
    for number in range(7):
        name = f"a{number}"
        bench.offer(name)
        bench.claimed(name, status=status)
        (start,) = bench.do(Accepted(name, EPOCH))
        assert isinstance(start, Start)
        bench.wait(70)
        status = parted(bench.end(start, "quarantined", "no message for 60 s"))
        assert status.state is StatusState.QUARANTINED
        assert status.reason == "no message for 60 s"
        assert status.until_ms is not None
        lasted_s.append((status.until_ms - status.since_ms) / 1_000)
    assert 270 <= lasted_s[0] <= 300
    assert all(1.7 * before <= after for before, after in pairwise(lasted_s[:4]))
    assert 3_240 <= lasted_s[-1] <= 3_600
    bench.offer("b")
    bench.claimed("b", status=status)
    (start,) = bench.do(Accepted("b", EPOCH))
    assert isinstance(start, Start)
    bench.wait(3_700)
    status = parted(bench.end(start, "quarantined", "a bomb"))
    assert status.until_ms is not None
    assert status.until_ms - status.since_ms <= 300_000


@pytest.mark.parametrize(("lived_s", "remembers"), [(10, True), (400, False)])
def test_what_another_worker_gave_it_up_for_is_forgotten_once_it_has_run_for_long(
    lived_s: float, remembers: bool
) -> None:
    bench = Bench()
    bench.offer("a")
    bench.claimed("a", status=Status(StatusState.YIELDED, bench.clock.wall_ms, "no message for 60 s"))
    (start,) = bench.do(Accepted("a", EPOCH))
    assert isinstance(start, Start)
    bench.wait(lived_s)
    bench.end(start, "crashed", "a fault")
    (again,) = [command for command in bench.wait(5) if isinstance(command, Start)]
    assert (again.connection.status is not None) is remembers


def test_a_drain_that_meets_a_quarantine_only_releases() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(StopWanted("a", EPOCH))
    assert bench.end(start, "quarantined", "no message for 60 s") == [ReleaseRequested("a", EPOCH)]


# --- the minute's audit ----------------------------------------------------------------------------------------------


def listed(name: str, version: int = 1, state: str = "STARTED") -> Item:
    return {"connection_id": name, "lease_owner": "worker-1", "spec_version": version, "desired_state": state}


def test_every_minute_the_owner_index_is_compared_with_what_runs() -> None:
    bench = Bench()
    bench.run("a")
    asked = 0
    for _ in range(1_200):
        for command in bench.wait(0.25):
            if isinstance(command, ListOwned):
                asked += 1
                assert bench.do(Listed((listed("a"),))) == []
    assert 3 <= asked <= 9


def test_what_the_index_shows_and_nothing_runs_is_released_and_not_claimed_meanwhile() -> None:
    bench = Bench()
    assert bench.do(Listed((listed("x"), listed("x")))) == [ReleaseUnknown("x")]
    assert bench.do(Listed((listed("x"),))) == []
    assert DeleteOffer("receipt of x") in bench.offer("x")
    bench.do(UnknownSettled("x"))
    assert Claim("x", "control") in bench.offer("x")


def test_many_unknown_ones_are_settled_some_at_a_time_and_the_next_audit_is_soon() -> None:
    bench = Bench()
    while not bench.all(ListOwned):
        bench.wait(1)
    said = bench.do(Listed(tuple(listed(f"x{number}") for number in range(AUDIT_AT_ONCE + 1))))
    assert len(said) == AUDIT_AT_ONCE
    assert any(isinstance(command, ListOwned) for command in bench.wait(4))
    assert bench.do(Listed(())) == []
    assert not any(isinstance(command, ListOwned) for command in bench.wait(20))


def test_many_that_nobody_can_read_do_not_stand_before_the_one_that_an_audit_would_settle() -> None:
    bench = Bench()
    found = tuple(listed(f"unreadable-{number}") for number in range(2 * AUDIT_AT_ONCE))
    for _ in range(30):
        for command in bench.do(Listed((*found, listed("a claim that landed late")))):
            assert isinstance(command, ReleaseUnknown)
            if command.connection_id == "a claim that landed late":
                return
            bench.do(UnknownSettled(command.connection_id))
        bench.wait(1)
    raise AssertionError("no audit in thirty came to it")


def test_a_thousand_stopped_without_a_word_are_all_looked_at_within_a_minute() -> None:
    """In worker mode, where nothing but the inbox and the audit would tell."""
    bench = Bench(capacity=2_000)
    names = [f"c{number}" for number in range(1_000)]
    for name in names:
        bench.run(name)
    told: set[str] = set()
    waited_s = 0
    while len(told) < len(names):
        if any(isinstance(command, ListOwned) for command in bench.wait(1)):
            waited_s += 1 if told else 0
            shown = tuple(listed(name, 2, state="STOPPED") for name in names)
            looks = [c for c in bench.do(Listed(shown)) if isinstance(c, LookAgain)]
            for look in looks:
                bench.do(StopWanted(look.connection_id, EPOCH))
            told |= {look.connection_id for look in looks}
        elif told:
            waited_s += 1
        assert waited_s < 60


def test_a_claim_in_flight_is_neither_unknown_nor_outdated() -> None:
    bench = Bench()
    bench.offer("a")
    assert bench.do(Listed((listed("a", 7),))) == []
    bench.do(ClaimAnswered("a", Stopped(None)))


def test_a_version_or_a_stop_it_was_never_told_of_is_looked_at_again() -> None:
    bench = Bench()
    bench.run("a")
    bench.run("b")
    assert bench.do(Listed((listed("a", 2), listed("b", state="STOPPED")))) == [LookAgain("a", 1), LookAgain("b", 1)]
    seen = connection("a", version=2)
    assert bench.do(LookedAgain(seen)) == [VersionSeen(seen)]
    assert bench.do(LookedAgain(None)) == []


def test_what_is_being_given_up_is_not_looked_at_again() -> None:
    bench = Bench()
    bench.run("a")
    bench.do(StopWanted("a", EPOCH))
    assert bench.do(Listed((listed("a", 2),))) == []


def test_an_audit_that_failed_is_made_again_soon() -> None:
    bench = Bench()
    while not bench.all(ListOwned):
        bench.wait(1)
    bench.do(Listed(Unreachable("no answer")))
    assert any(isinstance(command, ListOwned) for command in bench.wait(4))


@pytest.mark.parametrize(("fault", "soon"), [(Unreachable("no answer"), True), (Denied("malformed"), False)])
def test_what_the_audit_could_not_look_at_is_looked_at_soon_and_not_a_minute_later(fault: Fault, soon: bool) -> None:
    bench = Bench()
    bench.run("a")
    while not bench.all(ListOwned):
        bench.wait(1)
    assert bench.do(Listed((listed("a", state="STOPPED"),))) == [LookAgain("a", 1)]
    assert bench.do(LookedAgain(fault)) == []
    assert any(isinstance(command, ListOwned) for command in bench.wait(4)) is soon


@pytest.mark.parametrize(("fault", "soon"), [(Unreachable("no answer"), True), (Denied("malformed"), False)])
def test_what_could_not_be_released_is_tried_again_soon_and_not_a_minute_later(fault: Fault, soon: bool) -> None:
    bench = Bench()
    while not bench.all(ListOwned):
        bench.wait(1)
    assert bench.do(Listed((listed("x"),))) == [ReleaseUnknown("x")]
    assert bench.do(UnknownSettled("x", fault)) == []
    assert any(isinstance(command, ListOwned) for command in bench.wait(4)) is soon
