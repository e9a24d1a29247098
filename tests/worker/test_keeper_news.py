"""The keeper: checkpoints, and what an item of ours turns out to say."""

import pytest

from streamlease.lease import WORD, Checkpoint, checkpoint
from streamlease.model import DesiredState, LeaseMode, Seek, Status, StatusState
from streamlease.write import Always, Delete, Refused, Table, Update
from streamlease_worker.keeper_events import (
    Changed,
    Fence,
    PositionAdvanced,
    ReleaseRequested,
    Renew,
    Settled,
    StatusChanged,
    StopWanted,
    VersionSeen,
)
from tests.worker.keeping import WORKER, Bench, at

# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_no_checkpoint_rides_before_the_feed_has_lived_through_a_whole_renewal() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(5)))
    bench.live(3_000)
    assert all(attempt.checkpoint is None for renew in bench.all(Renew) for attempt in renew.attempts)
    bench.report(claimed)
    before = len(bench.all(Renew))
    bench.live(3_000)
    after = bench.all(Renew)[before:]
    assert after[0].attempts[0].checkpoint is None
    assert after[1].attempts[0].checkpoint is not None
    assert bench.item()["last_sequence"] == "5"
    assert bench.item()["crashes"] == 0


def test_a_connecting_feed_has_proven_nothing_a_failing_one_has() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.report(claimed, StatusState.CONNECTING)
    bench.live(3_000)
    assert bench.item()["checkpoint_no"] == 0
    bench.report(claimed, StatusState.BACKOFF)
    bench.live(3_000)
    assert bench.item()["checkpoint_no"] == 1


@pytest.mark.parametrize("mode", LeaseMode)
def test_what_a_dial_waits_for_is_in_the_item_though_its_feed_has_proven_nothing(mode: LeaseMode) -> None:
    bench = Bench(mode)
    claimed = bench.hold()
    reason = "waiting for the dial budget of upstream.example (300 in 5 min), about 12 min"
    bench.do(StatusChanged("a", claimed.lease.epoch, Status(StatusState.CONNECTING, bench.clock.wall_ms)))
    bench.live(3_000)
    assert "status" not in bench.item()
    waiting = Status(StatusState.CONNECTING, bench.clock.wall_ms, reason)
    bench.do(StatusChanged("a", claimed.lease.epoch, waiting))
    bench.live(3_000)
    assert bench.item()["status"] == {"state": "CONNECTING", "since_ms": waiting.since_ms, "reason": reason}
    assert bench.item()["checkpoint_no"] == 0, "a death of its owner still counts as its doing"
    stored = bench.item()
    bench.live(5_000)
    assert bench.item()["status"] == stored["status"]
    bench.do(StatusChanged("a", claimed.lease.epoch, Status(StatusState.STREAMING, bench.clock.wall_ms)))
    bench.live(5_000)
    assert bench.item()["status"]["state"] == "STREAMING"  # type: ignore[index,call-overload]
    assert bench.item()["checkpoint_no"] == 1


@pytest.mark.parametrize("mode", LeaseMode)
def test_a_word_that_lands_after_a_checkpoint_changes_nothing(mode: LeaseMode) -> None:
    bench = Bench(mode)
    claimed = bench.hold()
    word = Checkpoint(WORD, None, Status(StatusState.CONNECTING, 1, "waiting"))
    late = checkpoint(claimed.lease, word)
    bench.report(claimed)
    bench.live(5_000)
    before = bench.item()
    assert before["checkpoint_no"] != 0
    assert isinstance(bench.memory.perform(late), Refused)
    assert bench.item() == before


def test_a_checkpoint_rides_only_when_there_is_news() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.report(claimed)
    bench.live(5_000)
    assert bench.item()["checkpoint_no"] == 1
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(5)))
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(5)))
    bench.live(5_000)
    assert bench.item()["checkpoint_no"] == 2


def test_news_that_comes_while_a_checkpoint_is_in_flight_rides_on_the_next() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.report(claimed)
    bench.live(3_000)
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(5)))
    renew = bench.wait_for(Renew)
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(6)))
    bench.answer(renew)
    assert bench.item()["last_sequence"] == "5"
    bench.live(2_000)
    assert bench.item()["last_sequence"] == "6"


# --- what the item says -----------------------------------------------------------------------------------------------


def test_a_changed_spec_is_told_once_and_renewed_with_the_new_version_at_once() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.live(1_000)
    bench.change(spec={"record": {"type": "number"}})
    renew = bench.wait_for(Renew)
    (changed,) = [command for command in bench.answer(renew) if isinstance(command, Changed)]
    assert changed.connection.spec_version == 2
    assert changed.epoch == claimed.lease.epoch
    assert not changed.forget_position
    again = [command for command in bench.tick() if isinstance(command, Renew)]
    assert again[0].attempts[0].lease.spec_version == 2
    bench.answer(again[0])
    bench.live(5_000)
    assert len(bench.all(Changed)) == 1
    assert bench.all(Fence) == []


def test_a_stopped_connection_is_told_once_and_kept_until_its_release() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.change(desired_state=DesiredState.STOPPED)
    bench.live(6_000)
    assert bench.all(StopWanted) == [StopWanted("a", claimed.lease.epoch)]
    assert bench.all(Fence) == []
    assert bench.item()["lease_owner"] == WORKER
    bench.do(ReleaseRequested("a", claimed.lease.epoch))
    bench.live(500)
    assert "lease_owner" not in bench.item()


def test_stopped_and_started_again_before_the_release_is_a_change() -> None:
    bench = Bench()
    bench.hold()
    bench.change(desired_state=DesiredState.STOPPED)
    bench.live(1_500)
    bench.change(desired_state=DesiredState.STARTED)
    bench.live(1_500)
    assert [type(command) for command in bench.said if isinstance(command, StopWanted | Changed)] == [
        StopWanted,
        Changed,
    ]


def test_a_position_taken_away_by_an_operator_is_not_written_back() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.report(claimed)
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(5)))
    bench.live(3_000)
    assert bench.item()["last_sequence"] == "5"
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(6)))
    bench.change(spec={"record": {"type": "number"}}, forget_position=True)
    bench.live(2_000)
    assert [changed.forget_position for changed in bench.all(Changed)] == [True]
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(7)))
    bench.live(2_000)
    assert "position" not in bench.item()
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 2, at(1)))
    bench.live(2_000)
    assert bench.item()["last_sequence"] == "1"


@pytest.mark.parametrize("mode", LeaseMode)
def test_a_release_by_an_owner_who_has_not_heard_of_a_seek_does_not_undo_it(mode: LeaseMode) -> None:
    bench = Bench(mode)
    claimed = bench.hold()
    bench.report(claimed)
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(5)))
    bench.live(3_000)
    bench.change(seek=Seek("position", 2))
    for command in bench.do(ReleaseRequested("a", claimed.lease.epoch)):
        bench.answer(command)
    assert "lease_owner" not in bench.item()
    assert bench.item()["last_sequence"] == "5", "what it had is written, and said of which version it is"
    found = bench.seen()
    assert found.position is None
    assert found.seek is not None
    assert (found.seek.to, found.seek.sequence) == ("position", 2)


def test_a_version_that_the_audit_saw_is_acted_upon_like_a_renewals() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.change(spec={"record": {"type": "number"}})
    seen = bench.seen()
    assert bench.do(VersionSeen(seen)) == [Changed(seen, claimed.lease.epoch, forget_position=False)]
    assert bench.do(VersionSeen(seen)) == []
    bench.live(3_000)
    assert len(bench.all(Changed)) == 1


def test_a_version_of_another_owner_or_epoch_is_nobodys_news() -> None:
    bench = Bench()
    bench.hold()
    bench.change(desired_state=DesiredState.STOPPED)
    seen = bench.seen()
    bench.memory.perform(Update(Table.CONNECTIONS, {"connection_id": "a"}, Always(), add={"lease_epoch": 1}))
    assert bench.do(VersionSeen(bench.seen())) == []
    bench.memory.perform(
        Update(
            Table.CONNECTIONS, {"connection_id": "a"}, Always(), set={"lease_owner": "other"}, add={"lease_epoch": -1}
        )
    )
    assert bench.do(VersionSeen(bench.seen())) == []
    assert bench.do(VersionSeen(seen)) == [StopWanted("a", seen.lease_epoch)]


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        ({"set": {"lease_owner": "other"}, "add": {"lease_epoch": 1}}, "stolen"),
        ({"remove": ("lease_owner",)}, "released"),
        ({"set": {"desired_state": "MAYBE"}, "add": {"lease_epoch": 1}}, "malformed"),
    ],
)
def test_a_lease_found_lost_is_fenced_with_its_reason_and_forgotten(write: dict[str, object], reason: str) -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.memory.perform(Update(Table.CONNECTIONS, {"connection_id": "a"}, Always(), **write))  # type: ignore[arg-type]
    bench.live(5_000)
    assert bench.all(Fence) == [Fence("a", claimed.lease.epoch, reason)]  # type: ignore[arg-type]
    assert bench.keeper.owned == 0
    assert bench.do(ReleaseRequested("a", claimed.lease.epoch)) == [Settled("a", claimed.lease.epoch, landed=False)]


def test_a_deleted_connection_is_lost() -> None:
    bench = Bench()
    bench.hold()
    bench.memory.perform(Delete(Table.CONNECTIONS, {"connection_id": "a"}, Always()))
    bench.live(2_000)
    assert [fence.reason for fence in bench.all(Fence)] == ["deleted"]


def test_a_clock_set_back_behind_the_stored_expiry_ends_in_a_fence_and_a_release() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.live(1_000)
    bench.clock.wall_ms -= 3_600_000
    bench.live(4_000)
    assert bench.all(Fence) == [Fence("a", claimed.lease.epoch, "clock")]
    bench.do(ReleaseRequested("a", claimed.lease.epoch))
    bench.live(500)
    assert "lease_owner" not in bench.item()


def test_a_renewal_outrun_by_a_higher_number_is_sent_again_at_once_above_it() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.report(claimed)
    bench.live(2_000)
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(5)))
    bench.memory.perform(Update(Table.CONNECTIONS, {"connection_id": "a"}, Always(), set={"checkpoint_no": 40}))
    bench.answer(bench.wait_for(Renew))
    again = [command for command in bench.tick() if isinstance(command, Renew)]
    assert again[0].attempts[0].checkpoint is not None
    assert again[0].attempts[0].checkpoint.number == 41
