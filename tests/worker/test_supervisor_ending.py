"""How the supervisor ends: drains, hurry, time running out, a lost membership."""

from dataclasses import replace

from streamlease.errors import Throttled
from streamlease.flows.sweep import Sweep
from streamlease.lease import Stopped
from streamlease.model import FleetSummary, Offer
from streamlease_worker.keeper_events import (
    Accepted,
    Acquired,
    DrainBegun,
    Fence,
    MemberAlive,
    MemberLost,
    ReleaseRequested,
)
from streamlease_worker.supervisor_events import (
    Claim,
    ClaimAnswered,
    DrainRequested,
    DrainsItself,
    Exit,
    Leave,
    Left,
    Listed,
    OffersReceived,
    Received,
    Recount,
    ReleaseUnknown,
    ReturnOffer,
    Start,
    Stop,
    SweepNow,
    Swept,
    UnknownSettled,
)
from tests.worker.supervising import EPOCH, WORKER, Bench, member
from tests.worker.test_supervisor_holding import listed

SIGTERM = DrainRequested("SIGTERM")


def test_a_drain_stops_all_side_by_side_releases_leaves_and_exits() -> None:
    bench = Bench()
    starts = [bench.run(name) for name in "abc"]
    said = bench.do(SIGTERM)
    assert said == [
        DrainBegun(),
        *(Stop(start.run, start.connection.connection_id, "SIGTERM", flush=True) for start in starts),
    ]
    for start in starts:
        assert bench.end(start) == [ReleaseRequested(start.connection.connection_id, EPOCH)]
    assert [bench.settle(name) for name in "abc"] == [[], [], []]
    assert bench.wait(1)[-1] == Leave()
    assert bench.do(Left()) == [Exit("drained", "SIGTERM")]
    assert bench.wait(5) == []
    assert bench.do(SIGTERM) == []


def test_a_drain_with_nothing_held_leaves_at_once() -> None:
    bench = Bench()
    assert bench.do(SIGTERM) == [DrainBegun(), Leave()]
    assert bench.do(Left()) == [Exit("drained", "SIGTERM")]


def test_nothing_is_taken_on_while_draining_and_offers_go_to_others() -> None:
    bench = Bench(capacity=17)
    names = [f"c{number:02}" for number in range(17)]
    bench.offer(*names)
    assert len(bench.all(Claim)) == 16
    assert bench.do(SIGTERM) == [DrainBegun(), ReturnOffer("receipt of c16")]
    assert bench.do(OffersReceived((Received(Offer("z", "control", 0), "receipt of z"),))) == [
        ReturnOffer("receipt of z")
    ]
    bench.wait(3)
    assert len(bench.all(Claim)) == 16


def test_a_claim_that_lands_during_a_drain_is_given_up_without_being_started() -> None:
    bench = Bench()
    bench.offer("a")
    bench.do(SIGTERM)
    said = bench.claimed("a")
    assert [type(command) for command in said[1:]] == [Acquired, ReleaseRequested]
    assert bench.do(Accepted("a", EPOCH)) == []
    assert bench.settle("a") == [Leave()]
    assert bench.all(Start) == []


def test_a_drain_waits_for_claims_and_audit_releases_that_are_under_way() -> None:
    bench = Bench()
    bench.offer("a")
    assert ReleaseUnknown("x") in bench.do(Listed((listed("x"),)))
    assert bench.do(SIGTERM) == [DrainBegun()]
    bench.do(ClaimAnswered("a", Stopped(None)))
    assert bench.do(UnknownSettled("x")) == [Leave()]


def test_what_waits_to_be_accepted_or_rests_is_released_at_once() -> None:
    bench = Bench()
    bench.end(bench.run("a"), "fatal", "no")
    bench.offer("b")
    bench.claimed("b")
    assert bench.do(SIGTERM) == [DrainBegun(), ReleaseRequested("a", EPOCH), ReleaseRequested("b", EPOCH)]


def test_a_second_signal_flushes_no_longer() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(SIGTERM)
    assert bench.do(SIGTERM) == [DrainBegun(), Stop(start.run, "a", "SIGTERM", flush=False)]


def test_when_the_reserve_begins_nothing_is_flushed_any_more() -> None:
    bench = Bench(stop_timeout_s=20)
    start = bench.run("a")
    bench.do(SIGTERM)
    hurried = [command for command in bench.wait(14) if isinstance(command, Stop)]
    assert hurried == []
    hurried = [command for command in bench.wait(2) if isinstance(command, Stop)]
    assert hurried == [Stop(start.run, "a", "SIGTERM", flush=False)]


def test_at_the_end_of_its_time_it_exits_and_says_what_is_left() -> None:
    bench = Bench(stop_timeout_s=20)
    bench.run("a")
    bench.do(SIGTERM)
    (exit_,) = [command for command in bench.wait(20) if isinstance(command, Exit)]
    assert exit_.outcome == "unfinished"
    assert "1 connections" in exit_.reason


def test_a_membership_that_cannot_be_ended_in_time_holds_up_nothing() -> None:
    bench = Bench(stop_timeout_s=20)
    bench.do(SIGTERM)
    (exit_,) = [command for command in bench.wait(20) if isinstance(command, Exit)]
    assert exit_.outcome == "drained"


def test_the_fleet_summary_is_written_once_the_drain_has_been_told() -> None:
    bench = Bench()
    bench.run("a")
    bench.sweep()
    bench.do(MemberAlive(bench.clock.mono_s + 100, draining=True))
    bench.do(SIGTERM)
    said = bench.do(MemberAlive(bench.clock.mono_s + 100, draining=True))
    assert said == [Recount()]
    assert bench.do(MemberAlive(bench.clock.mono_s + 100, draining=True)) == []
    dead = member("dead", left_ms=-9_000)
    assert bench.do(Swept(Sweep((), FleetSummary(0, 1, 0, 0, 1), (dead,), ()))) == []


def test_a_drainer_that_had_something_ends_when_the_summary_counts_it_no_longer() -> None:
    bench = Bench()
    start = bench.run("a")
    while not bench.all(SweepNow):
        bench.wait(0.25)
    bench.do(SIGTERM)
    bench.end(start)
    assert bench.settle("a") == []
    assert bench.do(MemberAlive(bench.clock.mono_s + 100, draining=True)) == []
    fleet = FleetSummary(0, 1, 0, 0, 1)
    assert bench.do(Swept(Sweep((), fleet, (), ()))) == [Recount()], "that one began before"
    assert bench.do(Swept(Sweep((), fleet, (), ()))) == []
    assert bench.do(OffersReceived(())) == [Leave()], "it may have been its own offers, to be given back"


def test_a_sweep_under_way_is_followed_by_one_that_knows_of_the_drain() -> None:
    bench = Bench()
    bench.run("a")
    while len(bench.all(SweepNow)) == 0:
        bench.wait(0.25)
    bench.do(SIGTERM)
    assert bench.do(MemberAlive(bench.clock.mono_s + 100, draining=True)) == []
    assert bench.do(Swept(Throttled("slow down"))) == [Recount()]


def test_a_lost_membership_gives_up_what_is_held_and_asks_for_a_new_life() -> None:
    bench = Bench()
    start = bench.run("a")
    said = bench.do(MemberLost())
    assert said == [DrainBegun(), Stop(start.run, "a", "the fleet took this worker for dead", flush=True)]
    bench.end(start)
    assert bench.settle("a") == [Exit("lost", "the fleet took this worker for dead")]


def test_a_lost_membership_in_worker_mode_finds_everything_fenced() -> None:
    bench = Bench()
    start = bench.run("a")
    assert bench.do(Fence("a", EPOCH, "buried"))[0] == Stop(start.run, "a", "its lease is lost (buried)", flush=False)
    assert bench.do(MemberLost()) == [DrainBegun()]
    bench.end(start)
    assert isinstance(bench.settle("a")[0], Exit)


def test_a_signal_during_a_lost_membership_ends_the_process_for_good() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(MemberLost())
    bench.do(SIGTERM)
    bench.end(start)
    assert bench.settle("a") == [Exit("drained", "SIGTERM")]


def test_l29_a_drain_that_somebody_asked_for_before_the_membership_was_lost_ends_the_process_for_good() -> None:
    bench = Bench(stop_timeout_s=20)
    start = bench.run("a")
    bench.survey(member(WORKER, owned=1), member("worker-2"))
    said = bench.do(MemberLost("arn:somebody"))
    reason = "arn:somebody asked for it"
    assert DrainsItself(reason, 19.0) in said
    assert Stop(start.run, "a", reason, flush=True) in said, "at once: nobody goes by what a buried member tells"
    bench.end(start)
    assert bench.settle("a") == [Exit("drained", reason)]


def test_a_membership_lost_during_a_drain_is_not_ended_again() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(SIGTERM)
    assert bench.do(MemberLost()) == [DrainBegun()]
    bench.end(start)
    assert bench.settle("a") == [Exit("drained", "SIGTERM")]


# --- without a signal -------------------------------------------------------------------------------------------------


def test_l29_a_worker_drains_when_its_heartbeat_reads_that_somebody_asked_for_it() -> None:
    bench = Bench(stop_timeout_s=20)
    start = bench.run("a")
    said = bench.do(MemberAlive(bench.clock.mono_s + 100, "arn:somebody"))
    reason = "arn:somebody asked for it"
    assert said == [DrainBegun(), DrainsItself(reason, 19.0), Stop(start.run, "a", reason, flush=True)]
    assert not any(isinstance(command, Claim) for command in bench.offer("b"))
    assert not any(isinstance(c, Stop) for c in bench.do(MemberAlive(bench.clock.mono_s + 100, "arn:somebody")))
    bench.end(start)
    bench.settle("a")
    assert Leave() in bench.wait(2)
    assert bench.do(Left()) == [Exit("drained", reason)]


def test_the_first_signal_during_such_a_drain_hurries_nobody_and_the_second_does() -> None:
    bench = Bench()
    start = bench.run("a")
    bench.do(MemberAlive(bench.clock.mono_s + 100, "arn:somebody"))
    assert not any(isinstance(command, Stop) for command in bench.do(SIGTERM))
    assert Stop(start.run, "a", "arn:somebody asked for it", flush=False) in bench.do(SIGTERM)


def test_a_worker_that_gets_nowhere_while_its_peers_do_drains_itself() -> None:
    bench = Bench()
    bench.run("a")
    dark = replace(member(WORKER, owned=1), load={"streaming": 0})
    peer = replace(member("peer", owned=1), load={"streaming": 1})
    bench.survey(dark, peer)
    bench.wait(90)
    said = bench.survey(dark, peer)
    assert any(isinstance(command, DrainsItself) for command in said)
    said = bench.wait(2)
    assert any(isinstance(command, Stop) and command.flush for command in said)
