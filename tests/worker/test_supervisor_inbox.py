"""In worker mode a change is heard of through the inbox: looked at, acted on, and only then deleted."""

from dataclasses import replace

import pytest

from streamlease.errors import Unreachable
from streamlease.inbox import Entry
from streamlease.lease import Held
from streamlease.model import DesiredState, LeaseMode, Member, MemberState
from streamlease_worker.keeper_events import Accepted, Changed, MemberAlive, ReleaseRequested, StopWanted, VersionSeen
from streamlease_worker.supervisor_events import (
    Buried,
    Bury,
    Claim,
    ClaimAnswered,
    Command,
    DrainRequested,
    ForgetNotice,
    InboxRead,
    LookAgain,
    LookedAgain,
    ReadInbox,
    SettleNotice,
    Start,
    Stop,
    UnknownSettled,
)
from tests.worker.supervising import EPOCH, Bench, connection, member


def bench(**more: int) -> Bench:
    return Bench(mode=LeaseMode.WORKER, **more)


def beat(worker: Bench) -> list[Command]:
    return worker.do(MemberAlive(worker.clock.mono_s + 1_000))


def inbox(worker: Bench, *entries: tuple[str, int]) -> list[Command]:
    """A heartbeat is answered, and the inbox holds these."""
    assert beat(worker) == [ReadInbox()]
    return worker.do(InboxRead(tuple(Entry(name, version) for name, version in entries)))


# --- reading ---------------------------------------------------------------------------------------------------------


def test_the_inbox_is_read_at_each_heartbeat_and_never_twice_at_once() -> None:
    worker = bench()
    assert beat(worker) == [ReadInbox()]
    assert beat(worker) == []
    assert worker.do(InboxRead(())) == []
    assert beat(worker) == [ReadInbox()]
    worker.do(InboxRead(Unreachable("no answer")))
    assert beat(worker) == [ReadInbox()]


def test_in_connection_mode_there_is_no_inbox() -> None:
    assert beat(Bench()) == []


def test_a_worker_that_drains_reads_no_more() -> None:
    worker = bench()
    worker.run("a")
    worker.do(DrainRequested("SIGTERM"))
    assert ReadInbox() not in beat(worker)


# --- acting ----------------------------------------------------------------------------------------------------------


def test_a_change_is_looked_at_acted_on_and_then_forgotten() -> None:
    worker = bench()
    worker.run("a")
    assert inbox(worker, ("a", 2)) == [LookAgain("a", 1)]
    assert beat(worker) == [], "not while somebody is looking"
    seen = connection("a", version=2, url="wss://other.example/")
    assert worker.do(LookedAgain(seen)) == [VersionSeen(seen)]
    assert [type(c) for c in worker.do(Changed(seen, EPOCH, forget_position=False))] == [Stop]
    assert inbox(worker, ("a", 2)) == [ForgetNotice("a", 2)]


def test_m13_a_newer_entry_is_looked_at_again_and_never_forgotten_for_an_older_look() -> None:
    worker = bench()
    worker.run("a")
    inbox(worker, ("a", 2))
    seen = connection("a", version=2)
    worker.do(LookedAgain(seen))
    worker.do(Changed(seen, EPOCH, forget_position=False))
    assert inbox(worker, ("a", 3)) == [LookAgain("a", 2)]


def test_a_stop_is_forgotten_only_when_the_connection_is_given_up() -> None:
    worker = bench()
    start = worker.run("a")
    assert inbox(worker, ("a", 2)) == [LookAgain("a", 1)]
    stopped = replace(connection("a", version=2), desired_state=DesiredState.STOPPED)
    worker.do(LookedAgain(stopped))
    assert worker.do(StopWanted("a", EPOCH)) == [Stop(start.run, "a", "it was stopped", flush=True)]
    assert inbox(worker, ("a", 2)) == []
    assert worker.end(start) == [ReleaseRequested("a", EPOCH)]
    assert inbox(worker, ("a", 2)) == []
    worker.settle("a")
    assert inbox(worker, ("a", 2)) == [SettleNotice("a", 2)]
    assert inbox(worker, ("a", 2)) == [], "it is being settled"
    worker.do(UnknownSettled("a"))
    assert inbox(worker) == []


def test_a_stop_that_comes_while_it_restarts_for_a_change_is_looked_at_at_once() -> None:
    worker = bench()
    start = worker.run("a")
    worker.do(Changed(connection("a", version=2, url="wss://other.example/"), EPOCH, forget_position=False))
    assert inbox(worker, ("a", 3)) == [LookAgain("a", 2)]
    worker.do(LookedAgain(connection("a", version=3, desired_state=DesiredState.STOPPED)))
    assert worker.do(StopWanted("a", EPOCH)) == []
    assert worker.end(start) == [ReleaseRequested("a", EPOCH)]


def test_m13_an_entry_waits_for_a_claim_in_flight() -> None:
    worker = bench()
    worker.offer("a")
    assert inbox(worker, ("a", 2)) == []
    worker.claimed("a", version=1)
    assert inbox(worker, ("a", 2)) == [], "not yet accepted"
    assert [type(c) for c in worker.do(Accepted("a", EPOCH))] == [Start]
    assert inbox(worker, ("a", 2)) == [LookAgain("a", 1)]


def test_a_claim_that_was_made_after_the_change_has_acted_on_it() -> None:
    worker = bench()
    worker.run("a", version=2)
    assert inbox(worker, ("a", 2)) == [ForgetNotice("a", 2)]


def test_an_entry_of_what_does_not_run_here_is_settled_by_the_table_and_nothing_claims_it_meanwhile() -> None:
    worker = bench()
    worker.offer("a")
    worker.do(ClaimAnswered("a", Held("other", None)))
    assert inbox(worker, ("a", 2)) == [SettleNotice("a", 2)]
    worker.wait(2)
    worker.offer("a")
    assert len(worker.all(Claim)) == 1
    worker.do(UnknownSettled("a"))


def test_a_look_that_finds_nothing_new_is_done_again_by_the_next_heartbeat() -> None:
    worker = bench()
    worker.run("a")
    inbox(worker, ("a", 2))
    worker.do(LookedAgain(None))
    assert inbox(worker, ("a", 2)) == [LookAgain("a", 1)]


def test_three_thousand_stopped_at_once_are_all_looked_at_in_one_go() -> None:
    worker = bench(capacity=4_000)
    names = [f"c{number}" for number in range(3_000)]
    for name in names:
        worker.do(ClaimAnswered(name, Held(None, None)))
        worker.run(name)
    assert inbox(worker, *((name, 2) for name in names)) == [LookAgain(name, 1) for name in names]
    for name in names:
        worker.do(LookedAgain(connection(name, version=2, desired_state=DesiredState.STOPPED)))
        assert len(worker.do(StopWanted(name, EPOCH))) == 1
    assert len(worker.all(Stop)) == 3_000


# --- the buried ------------------------------------------------------------------------------------------------------


def dead(name: str, *, buried_ago_ms: int) -> Member:
    now_ms = Bench().clock.wall_ms
    return replace(member(name, left_ms=-9_000), state=MemberState.DEAD, buried_at_ms=now_ms - buried_ago_ms)


@pytest.mark.parametrize(("ago_ms", "swept"), [(0, True), (25_000, True), (31_000, False)])
def test_who_was_buried_lately_is_swept_again_by_workers(ago_ms: int, swept: bool) -> None:
    """A reaper may have died halfway, and the index may have shown too little."""
    worker = bench()
    buried = dead("other", buried_ago_ms=ago_ms)
    assert (Bury((buried,)) in worker.sweep(members=(buried,))) is swept


def test_the_expired_come_first_and_one_burial_at_a_time() -> None:
    worker = bench()
    old, expired = dead("old", buried_ago_ms=1_000), member("expired", left_ms=-5_000)
    assert Bury((expired,)) in worker.sweep(members=(old, expired))
    assert not any(isinstance(each, Bury) for each in worker.sweep(members=(old,)))
    worker.do(Buried())
    assert Bury((old,)) in worker.sweep(members=(old,))
