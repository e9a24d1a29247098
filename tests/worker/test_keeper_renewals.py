"""The keeper in connection mode: claims, renewals, fences."""

from itertools import pairwise

import pytest

from streamlease.errors import Conflict, Denied, Throttled, Unreachable
from streamlease.flow import Batch
from streamlease.write import Applied, Refused, Update
from streamlease_worker.keeper_events import (
    Accepted,
    Acquired,
    Answered,
    Extended,
    Fence,
    Heartbeat,
    PositionAdvanced,
    Renew,
)
from tests.fakes.trouble import Landing
from tests.worker.keeping import TIMING, Bench, at

# --- claims -----------------------------------------------------------------------------------------------------------


def test_a_claim_is_accepted_with_the_deadline_of_its_own_send() -> None:
    bench = Bench()
    sent = bench.clock()
    claimed = bench.claim()
    bench.clock.advance(200)
    commands = bench.do(Acquired(claimed))
    assert commands == [
        Extended("a", claimed.lease.epoch, TIMING.deadline_s(sent)),
        Accepted("a", claimed.lease.epoch),
    ]


def test_a_claim_whose_deadline_has_passed_is_fenced_and_never_accepted() -> None:
    bench = Bench()
    claimed = bench.claim()
    bench.clock.advance(2_500)
    assert bench.do(Acquired(claimed)) == [Fence("a", claimed.lease.epoch, "expired")]


# --- renewals ---------------------------------------------------------------------------------------------------------


def test_every_renewal_begins_within_a_heartbeat_of_the_last_ones_send() -> None:
    bench = Bench()
    bench.hold()
    sent_s = [bench.clock.mono_s]
    for _ in range(100):
        for command in bench.tick():
            if isinstance(command, Renew):
                sent_s.append(bench.clock.mono_s)
            bench.answer(command)
    intervals = [after - before for before, after in pairwise(sent_s)]
    assert len(intervals) >= 10
    assert max(intervals) <= 1.0 + 1e-9
    assert bench.all(Fence) == []


def test_a_renewal_extends_by_the_instant_of_its_send_not_of_its_answer() -> None:
    bench = Bench()
    claimed = bench.hold()
    renew = bench.wait_for(Renew)
    sent = bench.clock()
    bench.clock.advance(700)
    said = bench.do(Answered(renew.batch, sent, (Applied(),)))
    assert Extended("a", claimed.lease.epoch, TIMING.deadline_s(sent)) in said


def test_nothing_more_is_sent_for_a_lease_while_its_renewal_is_in_flight() -> None:
    bench = Bench()
    bench.hold()
    bench.wait_for(Renew)
    for _ in range(15):
        assert not any(isinstance(command, Renew) for command in bench.tick())


def test_a_lease_is_fenced_exactly_once_at_its_deadline() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.store.trouble(Unreachable("no answer"), times=1_000)
    bench.live(6_000)
    assert bench.all(Fence) == [Fence("a", claimed.lease.epoch, "unreachable")]
    deadline_s = bench.all(Extended)[-1].deadline_s
    assert deadline_s == claimed.deadline_s


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Throttled("slow down"), "throttled"),
        (Unreachable("no answer"), "unreachable"),
        (Conflict("met another"), "conflict"),
        (Denied("no permission"), "denied"),
    ],
)
def test_the_fence_says_what_the_last_renewal_met(fault: Throttled, reason: str) -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.store.trouble(fault, when=lambda request: isinstance(request, Batch), times=1_000)
    bench.live(4_000)
    assert [fence.reason for fence in bench.all(Fence)] == [reason]
    assert claimed.lease.epoch == bench.all(Fence)[0].epoch


def test_a_lease_whose_renewal_was_never_answered_is_fenced_as_expired() -> None:
    bench = Bench()
    bench.hold()
    bench.wait_for(Renew)
    for _ in range(30):
        for command in bench.tick():
            if isinstance(command, Heartbeat):
                bench.answer(command)
    assert [fence.reason for fence in bench.all(Fence)] == ["expired"]


def test_an_answer_that_comes_after_the_deadline_extends_nothing() -> None:
    bench = Bench()
    claimed = bench.hold()
    renew = bench.wait_for(Renew)
    sent = bench.clock()
    bench.clock.advance(2_500)
    said = bench.do(Answered(renew.batch, sent, (Applied(),)))
    assert Fence("a", claimed.lease.epoch, "expired") in said
    assert not any(isinstance(command, Extended) for command in said)
    bench.live(3_000)
    assert len(bench.all(Fence)) == 1
    assert bench.all(Renew)[-1].batch == renew.batch


def test_after_a_throttle_the_renewal_is_tried_again_well_before_the_deadline() -> None:
    bench = Bench()
    bench.hold()
    bench.store.trouble(Throttled("slow down"), when=lambda request: isinstance(request, Update), times=4)
    bench.live(5_000)
    assert bench.all(Fence) == []
    assert bench.item()["lease_expires_at_ms"] > bench.clock.wall_ms  # type: ignore[operator]


def test_retries_of_leases_that_failed_together_are_spread() -> None:
    bench = Bench(parallel=10)
    for name in "abcdefgh":
        bench.hold(name)
    bench.store.trouble(Unreachable("no answer"), when=lambda request: isinstance(request, Batch), times=1_000)
    bench.live(1_200)
    dues = {held.due_s for held in bench.keeper._held.values()}
    assert len(dues) == 8
    assert all(due <= bench.clock.mono_s + 0.5 for due in dues)


def test_a_renewal_whose_answer_was_lost_is_followed_by_one_with_a_new_expiry_and_number() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.report(claimed)
    bench.live(2_500)
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(7)))
    bench.store.trouble(
        Unreachable("no answer"), when=lambda request: isinstance(request, Update), landing=Landing.LATER
    )
    lost = bench.wait_for(Renew)
    bench.answer(lost)
    again = bench.wait_for(Renew)
    bench.answer(again)
    first, second = lost.attempts[0].checkpoint, again.attempts[0].checkpoint
    assert first is not None
    assert second is not None
    assert second.number == first.number + 1
    expires_at_ms = bench.item()["lease_expires_at_ms"]
    (late,) = bench.store.land()
    assert isinstance(late, tuple)
    assert isinstance(late[0], Refused)
    assert bench.item()["lease_expires_at_ms"] == expires_at_ms
    assert bench.item()["checkpoint_no"] == second.number


def test_many_leases_are_renewed_in_batches_of_25() -> None:
    bench = Bench(parallel=10)
    for number in range(60):
        bench.hold(f"c{number:02}")
    bench.live(6_000)
    sizes = [len(renew.attempts) for renew in bench.all(Renew)]
    assert max(sizes) <= 25
    assert sum(sizes) / len(sizes) > 10
    assert bench.all(Fence) == []


def test_those_that_run_out_soonest_are_renewed_first_when_few_may_be_in_flight() -> None:
    bench = Bench(parallel=1)
    for number in range(40):
        bench.hold(f"c{number:02}")
        bench.clock.advance(1)
    bench.clock.advance(1_500)
    (renew, *rest) = [command for command in bench.tick() if isinstance(command, Renew)]
    assert rest == []
    assert {attempt.lease.connection_id for attempt in renew.attempts} == {f"c{number:02}" for number in range(25)}
