"""What the supervisor takes on: offers, sweeps, claims, capacity and fair share."""

from dataclasses import replace

import pytest

from streamlease.errors import Denied, Fault, Malformed, Throttled, Unreachable
from streamlease.flows.sweep import Sweep
from streamlease.lease import Claimed, Held, Stopped
from streamlease.membership import Joined
from streamlease.model import FleetSummary, MemberState, Offer
from streamlease.plan import Candidate
from streamlease_worker.intake import Intake
from streamlease_worker.keeper_events import Acquired, MemberAlive
from streamlease_worker.load import Load
from streamlease_worker.rounds import APART_S, dying, ends_in_s
from streamlease_worker.supervisor import PARALLEL_CLAIMS, Supervisor
from streamlease_worker.supervisor_events import (
    Buried,
    Bury,
    Claim,
    ClaimAnswered,
    DeleteOffer,
    FleetRead,
    OffersReceived,
    ReadFleet,
    Receive,
    Received,
    ReleaseUnknown,
    ReturnOffer,
    Start,
    SweepNow,
    Swept,
    Tick,
)
from tests.fakes.clock import SetClock
from tests.worker.supervising import TIMING, WORKER, Bench, member

DYING = [
    (MemberState.LIVE, 2_500, False),
    (MemberState.LIVE, 900, True),  # of 3,000, with a heartbeat of 1,000
    (MemberState.DRAINING, 900, True),
    (MemberState.DEAD, -1_500, True),
    (MemberState.DEAD, -2_900, True),  # a heartbeat, the skew, and time to be seen
    (MemberState.DEAD, -3_100, False),
    (MemberState.GONE, -1_500, False),
]

# --- offers -----------------------------------------------------------------------------------------------------------


def test_an_offer_is_claimed_and_its_message_deleted_only_once_the_claim_has_an_answer() -> None:
    bench = Bench()
    assert bench.offer("a") == [Receive(10), Claim("a", "control")]
    said = bench.claimed("a")
    assert DeleteOffer("receipt of a") in said
    assert any(isinstance(command, Acquired) for command in said)


@pytest.mark.parametrize("outcome", [Held("other", None), Stopped(None), Malformed("connection 'a'", "is odd")])
def test_any_answer_deletes_the_message(outcome: Held | Stopped | Malformed) -> None:
    bench = Bench()
    bench.offer("a")
    assert bench.do(ClaimAnswered("a", outcome)) == [DeleteOffer("receipt of a")]
    assert bench.supervisor.owned == 0


@pytest.mark.parametrize("fault", [Throttled("slow down"), Unreachable("no answer"), Denied("no permission")])
def test_a_claim_without_an_answer_leaves_the_message_to_come_back(fault: Fault) -> None:
    bench = Bench()
    bench.offer("a")
    assert bench.do(ClaimAnswered("a", fault)) == []
    assert bench.supervisor.owned == 0


def test_an_offer_of_what_is_ours_already_is_deleted() -> None:
    bench = Bench()
    bench.run("a")
    assert bench.offer("a") == [DeleteOffer("receipt of a"), Receive(10)]


def test_a_doubled_offer_is_claimed_once() -> None:
    bench = Bench()
    bench.wait(0.25)
    offer = Offer("a", "control", bench.clock.wall_ms)
    said = bench.do(OffersReceived((Received(offer, "first"), Received(offer, "second"))))
    assert said == [DeleteOffer("second"), Receive(10), Claim("a", "control")]


def test_offers_are_asked_for_only_while_there_is_room() -> None:
    bench = Bench(capacity=2)
    bench.wait(0.25)
    assert bench.all(Receive) == [Receive(2)]
    bench.offer("a", "b")
    bench.wait(5)
    assert bench.all(Receive) == [Receive(2)]


def test_offers_that_come_when_the_room_is_gone_are_given_back() -> None:
    bench = Bench(capacity=1)
    bench.offer("a", "b")
    bench.do(ClaimAnswered("a", Held("other", None)))
    offered = [command for command in bench.said if isinstance(command, ReturnOffer | Claim | DeleteOffer)]
    assert offered == [ReturnOffer("receipt of b"), Claim("a", "control"), DeleteOffer("receipt of a")]


def test_after_a_fault_offers_are_asked_for_again_a_little_later() -> None:
    bench = Bench()
    bench.wait(0.25)
    bench.do(OffersReceived(Unreachable("no answer")))
    assert not any(isinstance(command, Receive) for command in bench.wait(0.5))
    assert any(isinstance(command, Receive) for command in bench.wait(3))


def test_an_empty_answer_is_followed_by_the_next_question_at_the_next_tick() -> None:
    bench = Bench()
    bench.wait(0.25)
    assert bench.do(OffersReceived(())) == []
    assert Receive(10) in bench.wait(0.25)


def test_claims_run_side_by_side_up_to_a_bound() -> None:
    bench = Bench()
    names = [f"c{number:02}" for number in range(PARALLEL_CLAIMS + 4)]
    bench.offer(*names)
    assert len(bench.all(Claim)) == PARALLEL_CLAIMS
    bench.do(ClaimAnswered(bench.all(Claim)[0].connection_id, Stopped(None)))
    assert len(bench.all(Claim)) == PARALLEL_CLAIMS + 1


def test_an_answer_to_a_claim_nobody_made_is_passed_over() -> None:
    bench = Bench()
    assert bench.do(ClaimAnswered("a", Stopped(None))) == []


def test_nothing_is_asked_for_before_the_fleet_has_been_looked_at() -> None:
    """Who joins knows no share, and would take what is for the others."""
    clock = SetClock()
    joined = Joined(clock.mono_s + 1_000)
    fresh = Supervisor(WORKER, capacity=9, generation=0, timing=TIMING, joined=joined, now=clock())
    first = fresh.handle(Tick(), clock())
    assert ReadFleet() in first
    assert not any(isinstance(command, Receive) for command in first)
    assert fresh.handle(FleetRead(Unreachable("no answer")), clock()) == [Receive(9)]


# --- what a claim was told --------------------------------------------------------------------------------------------


def test_a_held_connection_is_not_asked_for_again_before_its_time() -> None:
    bench = Bench()
    bench.sweep(Candidate("a", 0))
    assert bench.all(Claim) == [Claim("a", "released")]
    bench.do(ClaimAnswered("a", Held(None, bench.clock.wall_ms + 20_000)))
    for _ in range(5):
        bench.sweep(Candidate("a", 0))
    assert len(bench.all(Claim)) == 1
    bench.wait(20)
    bench.sweep(Candidate("a", 0))
    assert len(bench.all(Claim)) == 2


def test_news_of_after_the_answer_is_tried_at_once_news_of_before_is_deleted() -> None:
    bench = Bench()
    bench.offer("a")
    bench.do(ClaimAnswered("a", Held("other", bench.clock.wall_ms + 20_000)))
    bench.clock.advance(2_000)
    assert DeleteOffer("receipt of a") in bench.offer("a", age_ms=10_000)
    assert Claim("a", "released") in bench.offer("a", reason="released")


def test_a_malformed_connection_is_left_alone_for_long() -> None:
    bench = Bench()
    bench.sweep(Candidate("a", 0))
    bench.do(ClaimAnswered("a", Malformed("connection 'a'", "is odd")))
    for _ in range(10):
        bench.sweep(Candidate("a", 0))
    assert len(bench.all(Claim)) == 1


def test_a_claim_refused_because_an_earlier_one_of_ours_had_landed_is_settled_at_once() -> None:
    bench = Bench()
    bench.offer("a")
    said = bench.do(ClaimAnswered("a", Held("worker-1", bench.clock.wall_ms + 3_000)))
    assert said == [DeleteOffer("receipt of a"), ReleaseUnknown("a")]


def test_a_claim_that_lost_its_answer_is_tried_again_after_a_moment() -> None:
    bench = Bench()
    bench.sweep(Candidate("a", 0))
    bench.do(ClaimAnswered("a", Unreachable("no answer")))
    bench.wait(1)
    bench.sweep(Candidate("a", 0))
    assert len(bench.all(Claim)) == 2


# --- shares -----------------------------------------------------------------------------------------------------------


def test_candidates_are_taken_up_to_the_fair_share() -> None:
    bench = Bench()
    bench.sweep(*(Candidate(f"c{number}", 0) for number in range(9)), live=3)
    assert len(bench.all(Claim)) == 3


def test_what_has_waited_long_is_anybodys_with_capacity() -> None:
    bench = Bench(capacity=5)
    long_ago = bench.clock.wall_ms - 10_000
    bench.sweep(*(Candidate(f"c{number}", long_ago) for number in range(9)), live=3)
    assert len(bench.all(Claim)) == 5
    assert bench.all(Claim)[0].reason == "expired"


def test_what_was_seen_free_in_sweep_after_sweep_has_waited_long() -> None:
    bench = Bench(capacity=20)
    names = [Candidate(f"c{number}", 0) for number in range(9)]
    bench.sweep(*names, live=9)
    taken = {bench.all(Claim)[0].connection_id}
    assert len(bench.all(Claim)) == 1
    bench.wait(5)
    bench.sweep(*(each for each in names if each.connection_id not in taken), live=9)
    bench.sweep(*(each for each in names if each.connection_id not in taken), live=9)
    assert len(bench.all(Claim)) == 9


def test_two_workers_do_not_reach_for_the_same_candidates_in_the_same_order() -> None:
    clock = SetClock()
    orders = []
    for worker in ("one", "two"):
        intake = Intake(
            worker, generation=0, capacity=100, timing=TIMING, joined_ms=0, load=Load(), was_given=lambda *_: False
        )
        fleet = FleetSummary(clock.wall_ms, 1, 0, 20, 1)
        intake.looked()
        intake.swept(Sweep(tuple(Candidate(f"c{n}", 0) for n in range(20)), fleet, (), ()), clock())
        claims, _, _ = intake.choose(0, 20, lambda _: False, clock())
        orders.append([claim.connection_id for claim in claims])
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def test_an_old_summary_counts_for_nothing_and_capacity_decides() -> None:
    bench = Bench(capacity=50)
    bench.sweep(live=50, owned=50)
    bench.do(OffersReceived(()))
    bench.wait(20)
    bench.offer("a", "b", "c")
    assert len(bench.all(Claim)) == 3


def test_while_a_newer_deployment_has_room_only_what_waited_long_is_taken() -> None:
    bench = Bench(generation=1)
    me = member(WORKER, generation=1)
    bench.survey(me, member("newer", generation=2, owned=5), candidates=(Candidate("a", 0),))
    assert bench.all(Claim) == []
    bench.offer("b", age_ms=6_000)
    assert bench.all(Claim) == [Claim("b", "control")]
    full = member("newer", generation=2, owned=100)
    bench.survey(me, full, candidates=(Candidate("a", 0),))
    assert bench.all(Claim)[-1] == Claim("a", "released")


def test_a_newer_deployment_that_has_crashed_is_waited_for_by_nobody() -> None:
    bench = Bench(generation=1)
    crashed = member("newer", generation=2, left_ms=900)
    bench.survey(member(WORKER, generation=1), crashed, candidates=(Candidate("a", 0),))
    assert bench.all(Claim) == [Claim("a", "released")]


def test_nothing_is_taken_once_the_member_lease_has_run_out_until_it_lives_again() -> None:
    bench = Bench()
    bench.wait(0.25)
    bench.do(MemberAlive(bench.clock.mono_s))
    assert bench.do(OffersReceived((Received(Offer("a", "control", 0), "receipt"),))) == [ReturnOffer("receipt")]
    assert bench.wait(30) == []
    bench.do(MemberAlive(bench.clock.mono_s + 100))
    assert any(isinstance(command, Receive) for command in bench.wait(1))


def test_nothing_is_taken_or_looked_for_while_a_heartbeat_is_late() -> None:
    bench = Bench()
    sent = bench.clock()
    bench.do(MemberAlive(TIMING.deadline_s(sent)))
    bench.wait(1.25)
    assert bench.all(Receive)
    bench.clock.advance(300)
    assert bench.clock.mono_s < TIMING.deadline_s(sent)
    assert bench.do(OffersReceived((Received(Offer("a", "control", 0), "receipt"),))) == [ReturnOffer("receipt")]
    assert bench.wait(30) == []
    bench.do(MemberAlive(TIMING.deadline_s(bench.clock())))
    assert any(isinstance(command, Receive) for command in bench.wait(1))


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_sweeps_come_in_turns_that_grow_with_the_fleet() -> None:
    def sweeps_in(seconds: int, live: int) -> int:
        bench = Bench()
        for _ in range(seconds * 4):
            for command in bench.wait(0.25):
                if isinstance(command, SweepNow):
                    bench.do(Swept(Sweep((), FleetSummary(bench.clock.wall_ms, live, 0, 0, 1), (), ())))
        return len(bench.all(SweepNow))

    assert 60 <= sweeps_in(100, 1) <= 130
    assert 6 <= sweeps_in(100, 10) <= 18


def test_while_leases_run_out_sweeps_come_sooner() -> None:
    bench = Bench()
    before = len(bench.all(SweepNow))
    for _ in range(40):
        for command in bench.wait(0.25):
            match command:
                case SweepNow():
                    bench.swept += 1
                    fleet = FleetSummary(bench.clock.wall_ms, 10, 0, 1, 1)
                    expired = Candidate("a", bench.clock.wall_ms - 2_000)
                    bench.do(Swept(Sweep((expired,), fleet, (), ())))
                case Claim(name):
                    bench.do(ClaimAnswered(name, Held("other", None)))
    assert len(bench.all(SweepNow)) - before >= 3


@pytest.mark.parametrize(("state", "left_ms", "expected"), DYING)
def test_more_leases_are_expected_to_run_out_while_a_member_s_connections_may_stand(
    state: MemberState, left_ms: int, *, expected: bool
) -> None:
    clock = SetClock()
    one = replace(member("other", left_ms=left_ms), state=state)
    sweep = Sweep((), FleetSummary(clock.wall_ms, 1, 0, 0, 1), (one,), ())
    assert dying(sweep, clock(), TIMING) is expected


@pytest.mark.parametrize(
    ("state", "left_ms", "expected_s"),
    [
        (MemberState.LIVE, 999, 2.0),
        (MemberState.DRAINING, 999, 2.0),
        (MemberState.LIVE, -999, 0.002),
        (MemberState.LIVE, 1_000, None),
        (MemberState.LIVE, -1_001, None),
        (MemberState.DEAD, 999, None),
    ],
    ids=["silent", "silent in its drain", "as good as over", "alive", "over", "buried"],
)
def test_the_moment_in_which_somebody_may_be_buried_is_known_beforehand(
    state: MemberState, left_ms: int, expected_s: float | None
) -> None:
    clock = SetClock()
    later = replace(member("later", left_ms=999), state=state)
    one = replace(member("other", left_ms=left_ms), state=state)
    sweep = Sweep((), FleetSummary(clock.wall_ms, 2, 0, 0, 1), (later, one), ())
    first = ends_in_s(replace(sweep, members=(one,)), clock(), TIMING)
    assert first == (pytest.approx(expected_s) if expected_s is not None else None)
    if expected_s is not None:
        assert ends_in_s(sweep, clock(), TIMING) == pytest.approx(min(expected_s, 2.0))


def test_a_sweep_comes_when_a_silent_member_may_be_buried_and_not_before_long() -> None:
    bench = Bench()
    while not bench.all(SweepNow):
        bench.wait(0.25)
    silent = member("silent", left_ms=0)
    in_a_large_fleet = FleetSummary(bench.clock.wall_ms, 40, 0, 0, 1)
    ends_s = (silent.lease_expires_at_ms + TIMING.skew_ms - bench.clock.wall_ms) / 1000
    assert ends_s > 0
    bench.do(Swept(Sweep((), in_a_large_fleet, (silent,), ())))
    said = bench.wait(ends_s + APART_S * 40 + 0.5)
    assert any(isinstance(command, SweepNow) for command in said)


def test_what_lies_there_expired_for_long_is_no_reason_to_hurry() -> None:
    bench = Bench()
    forgotten = Candidate("a", bench.clock.wall_ms - 60_000)
    sweeps = 0
    for _ in range(40):
        for command in bench.wait(0.25):
            match command:
                case SweepNow():
                    sweeps += 1
                    fleet = FleetSummary(bench.clock.wall_ms, 10, 0, 1, 1)
                    bench.do(Swept(Sweep((forgotten,), fleet, (member("odd", left_ms=-60_000),), ())))
                case Claim(name):
                    bench.do(ClaimAnswered(name, Held("other", None)))
    assert sweeps <= 3


def test_a_sweep_that_failed_is_tried_again_later() -> None:
    bench = Bench()
    while not bench.all(SweepNow):
        bench.wait(0.25)
    bench.do(Swept(Throttled("slow down")))
    assert not any(isinstance(command, SweepNow) for command in bench.wait(1.5))
    assert any(isinstance(command, SweepNow) for command in bench.wait(5))


def test_expired_members_are_buried_by_one_at_a_time() -> None:
    bench = Bench()
    dead = member("dead", left_ms=-5_000)
    said = bench.sweep(members=(dead, member("well")))
    assert Bury((dead,)) in said
    assert bench.sweep(members=(dead,)) == []
    bench.do(Buried())
    assert Bury((dead,)) in bench.sweep(members=(dead,))


def test_the_summary_is_read_between_sweeps_and_the_newest_counts() -> None:
    bench = Bench()
    bench.wait(0.25)
    bench.do(FleetRead(None))
    bench.sweep(live=4, owned=8)
    assert any(isinstance(command, ReadFleet) for command in bench.wait(1))
    bench.do(FleetRead(FleetSummary(bench.clock.wall_ms, 1, 8, 0, 1)))
    bench.do(FleetRead(None))
    bench.do(FleetRead(Unreachable("no answer")))
    bench.do(FleetRead(FleetSummary(0, 8, 8, 0, 1)))
    bench.do(OffersReceived(()))
    bench.wait(0.25)
    assert bench.all(Receive)[-1] == Receive(8)


def test_offers_are_asked_for_at_once_when_somebodys_going_makes_room() -> None:
    bench = Bench()
    bench.run("a")
    bench.do(OffersReceived(()))
    bench.sweep(live=2, owned=2)
    bench.do(OffersReceived(()))
    assert not any(isinstance(command, Receive) for command in bench.wait(1))
    assert bench.do(FleetRead(FleetSummary(bench.clock.wall_ms, 1, 2, 0, 1))) == [Receive(1)]


def test_an_accepted_claim_starts_a_runner_from_the_items_own_position() -> None:
    bench = Bench()
    start = bench.run("a")
    assert start.reason == "control"
    assert start.connection.connection_id == "a"
    assert isinstance(bench.said[-1], Start)


def test_a_claim_that_lands_gives_the_keeper_the_lease_first() -> None:
    bench = Bench()
    bench.offer("a")
    said = bench.claimed("a")
    (acquired,) = [command for command in said if isinstance(command, Acquired)]
    assert isinstance(acquired.claimed, Claimed)
    assert not any(isinstance(command, Start) for command in said)
