"""The keeper: the member lease, and worker mode."""

from streamlease import membership
from streamlease.errors import Throttled, Unreachable
from streamlease.flow import Batch
from streamlease.model import LeaseMode, StatusState
from streamlease.write import Always, Table, Update
from streamlease_worker.keeper_events import (
    Acquired,
    DrainBegun,
    EndProcess,
    Extended,
    Fence,
    Heartbeat,
    LoadReported,
    MemberAlive,
    MemberLost,
    PositionAdvanced,
    Renew,
)
from tests.fakes.trouble import Landing
from tests.worker.keeping import TIMING, WORKER, Bench, at

# --- the member -------------------------------------------------------------------------------------------------------


def test_heartbeats_come_at_their_interval_and_say_what_is_owned() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.report(claimed)
    bench.live(10_000)
    beats = bench.all(Heartbeat)
    assert 10 <= len(beats) <= 14
    assert (beats[-1].owned, beats[-1].streaming) == (1, 1)
    member = bench.memory.item(Table.MEMBERS, WORKER)
    assert member is not None
    assert member["heartbeat"] == len(beats)
    assert member["load"] == {"streaming": 1}
    assert bench.all(MemberAlive)


def test_a_change_of_what_is_owned_is_told_within_a_second() -> None:
    bench = Bench()
    bench.live(1_000)
    beats = len(bench.all(Heartbeat))
    bench.hold()
    bench.live(1_100)
    assert bench.all(Heartbeat)[-1].owned == 1
    assert len(bench.all(Heartbeat)) > beats


def test_heartbeats_say_the_load_that_was_reported_last_beside_what_streams() -> None:
    bench = Bench()
    bench.do(LoadReported({"lag_ms": 7, "extra": 3, "streaming": 99}))
    bench.live(3_000)
    member = bench.memory.item(Table.MEMBERS, WORKER)
    assert member is not None
    assert member["load"] == {"lag_ms": 7, "extra": 3, "streaming": 0}


def test_l29_a_request_to_drain_is_read_in_the_answer_to_the_next_heartbeat() -> None:
    bench = Bench()
    bench.live(1_000)
    bench.memory.perform(membership.request_drain(WORKER, asked_by="arn:somebody"))
    bench.live(1_100)
    assert bench.all(MemberAlive)[0].drain_requested is None
    assert bench.all(MemberAlive)[-1].drain_requested == "arn:somebody"


def test_l29_a_request_to_drain_is_read_in_the_item_of_a_worker_that_was_buried_right_after_it() -> None:
    bench = Bench()
    bench.live(1_000)
    bench.memory.perform(membership.request_drain(WORKER, asked_by="arn:somebody"))
    bench.memory.perform(Update(Table.MEMBERS, {"worker_id": WORKER}, Always(), set={"state": "DEAD"}))
    bench.live(5_000)
    assert bench.all(MemberLost) == [MemberLost("arn:somebody")]


def test_a_drain_is_told_at_once() -> None:
    bench = Bench()
    bench.live(1_000)
    (beat,) = bench.do(DrainBegun())
    assert isinstance(beat, Heartbeat)
    bench.answer(beat)
    member = bench.memory.item(Table.MEMBERS, WORKER)
    assert member is not None
    assert member["state"] == "DRAINING"


def test_the_answer_to_a_heartbeat_that_was_sent_before_the_drain_does_not_say_that_the_fleet_knows() -> None:
    bench = Bench()
    before = bench.wait_for(Heartbeat)
    bench.clock.advance(10)
    assert bench.do(DrainBegun()) == []
    said = bench.answer(before)
    (alive,) = [event for event in said if isinstance(event, MemberAlive)]
    assert not alive.draining
    (beat,) = [command for command in said if isinstance(command, Heartbeat)]
    bench.clock.advance(10)
    (alive,) = [event for event in bench.answer(beat) if isinstance(event, MemberAlive)]
    assert alive.draining


def test_a_heartbeat_known_to_have_landed_by_the_next_counts_from_the_earliest_send() -> None:
    bench = Bench()
    bench.store.trouble(
        Unreachable("no answer"),
        when=lambda r: isinstance(r, Update) and r.table is Table.MEMBERS,
        landing=Landing.BEFORE,
    )
    first = bench.wait_for(Heartbeat)
    earliest = bench.clock()
    assert bench.answer(first) == []
    second = bench.wait_for(Heartbeat)
    assert second.seen == first.seen
    said = bench.answer(second)
    assert said[0] == MemberAlive(TIMING.deadline_s(earliest))
    third = bench.wait_for(Heartbeat)
    assert third.seen == first.seen + 1


def test_a_heartbeat_that_is_throttled_is_tried_again_soon_and_credited_to_its_own_send() -> None:
    bench = Bench()
    bench.store.trouble(Throttled("slow down"), when=lambda r: isinstance(r, Update) and r.table is Table.MEMBERS)
    bench.answer(bench.wait_for(Heartbeat))
    again = bench.wait_for(Heartbeat)
    sent = bench.clock()
    assert bench.answer(again) == [MemberAlive(TIMING.deadline_s(sent))]


def test_a_buried_worker_is_told_once_and_beats_no_more() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.memory.perform(Update(Table.MEMBERS, {"worker_id": WORKER}, Always(), set={"state": "DEAD"}))
    bench.live(5_000)
    assert bench.all(MemberLost) == [MemberLost()]
    beats = len(bench.all(Heartbeat))
    bench.live(3_000)
    assert len(bench.all(Heartbeat)) == beats
    assert bench.all(Fence) == []  # in connection mode its leases stand on their own
    other = bench.claim("b")
    assert bench.do(Acquired(other)) == [Fence("b", other.lease.epoch, "buried")]
    assert claimed.lease.epoch


def test_a_member_lease_that_ran_out_fences_nothing_in_connection_mode() -> None:
    bench = Bench()
    bench.hold()
    bench.store.trouble(
        Throttled("slow down"), when=lambda r: isinstance(r, Update) and r.table is Table.MEMBERS, times=1_000
    )
    bench.live(6_000)
    assert bench.all(Fence) == []


# --- worker mode ------------------------------------------------------------------------------------------------------


def test_in_worker_mode_a_lease_lasts_as_long_as_the_member() -> None:
    bench = Bench(LeaseMode.WORKER)
    claimed = bench.hold()
    assert "lease_expires_at_ms" not in bench.item()
    bench.live(10_000)
    assert bench.all(Renew) == []
    assert bench.all(Fence) == []
    assert bench.all(Extended)[-1] == Extended("a", claimed.lease.epoch, bench.all(MemberAlive)[-1].deadline_s)


def test_in_worker_mode_the_members_deadline_fences_every_lease() -> None:
    bench = Bench(LeaseMode.WORKER)
    names = {name: bench.hold(name).lease.epoch for name in "abc"}
    bench.store.trouble(
        Throttled("slow down"), when=lambda r: isinstance(r, Update) and r.table is Table.MEMBERS, times=1_000
    )
    bench.live(6_000)
    assert sorted(bench.all(Fence), key=lambda fence: fence.connection_id) == [
        Fence(name, epoch, "throttled") for name, epoch in names.items()
    ]


def test_in_worker_mode_a_burial_fences_every_lease_before_the_member_is_lost() -> None:
    bench = Bench(LeaseMode.WORKER)
    claimed = bench.hold()
    bench.memory.perform(Update(Table.MEMBERS, {"worker_id": WORKER}, Always(), set={"state": "DEAD"}))
    said = bench.live(2_000)
    ending = [command for command in said if isinstance(command, Fence | MemberLost)]
    assert ending == [Fence("a", claimed.lease.epoch, "buried"), MemberLost()]


def test_in_worker_mode_a_claim_that_comes_after_the_members_deadline_is_fenced() -> None:
    bench = Bench(LeaseMode.WORKER)
    bench.clock.advance(2_600)
    claimed = bench.claim()
    assert bench.do(Acquired(claimed)) == [Fence("a", claimed.lease.epoch, "expired")]


def test_in_worker_mode_a_blocked_loop_lets_the_membership_run_out() -> None:
    bench = Bench(LeaseMode.WORKER)
    bench.hold()
    bench.live(1_000)
    said = bench.live(6_000, loop=False)
    assert [fence.reason for fence in bench.all(Fence)] == ["loop_blocked"]
    assert any(isinstance(command, EndProcess) for command in said)


def test_in_worker_mode_positions_are_saved_by_themselves_once_the_feed_has_lived_through_a_heartbeat() -> None:
    bench = Bench(LeaseMode.WORKER)
    claimed = bench.hold()
    bench.report(claimed)
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(5)))
    bench.live(4_000)
    assert bench.item()["last_sequence"] == "5"
    assert "lease_expires_at_ms" not in bench.item()
    number = bench.item()["checkpoint_no"]
    bench.live(4_000)
    assert bench.item()["checkpoint_no"] == number


def test_in_worker_mode_a_checkpoint_finds_out_about_a_change_or_a_loss() -> None:
    bench = Bench(LeaseMode.WORKER)
    claimed = bench.hold()
    bench.report(claimed)
    bench.live(3_000)
    bench.memory.perform(Update(Table.CONNECTIONS, {"connection_id": "a"}, Always(), set={"checkpoint_no": 40}))
    bench.report(claimed, StatusState.BACKOFF)
    bench.live(3_000)
    assert bench.item()["checkpoint_no"] == 41
    bench.memory.perform(Update(Table.CONNECTIONS, {"connection_id": "a"}, Always(), remove=("lease_owner",)))
    bench.report(claimed)
    bench.store.trouble(Unreachable("no answer"), when=lambda r: isinstance(r, Batch))
    bench.live(3_000)
    assert bench.all(Fence) == [Fence("a", claimed.lease.epoch, "released")]


def test_a_member_item_ahead_of_its_clock_is_given_up_once_its_lease_has_run_out() -> None:
    bench = Bench(LeaseMode.WORKER)
    bench.hold()
    bench.clock.wall_ms += 3_600_000
    bench.live(1_500)
    bench.clock.wall_ms -= 3_600_000
    bench.live(1_000)
    assert not bench.all(MemberLost)
    bench.live(3_000)
    assert [fence.reason for fence in bench.all(Fence)] == ["clock"]
    assert bench.all(MemberLost)
