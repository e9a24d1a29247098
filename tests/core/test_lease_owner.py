"""What an owner writes of its lease: renewals, checkpoints, the release; and nothing once its epoch is over."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import items, lease
from streamlease.lease import (
    Change,
    Changed,
    Checkpoint,
    Checkpointed,
    Claimed,
    Lost,
    Outrun,
    Released,
    Renewed,
    Stopped,
)
from streamlease.model import DesiredState, Lease, LeaseMode, Position, Status, StatusState
from streamlease.timing import Instant, Timing
from streamlease.write import INDEX_ATTRIBUTES, Applied, Refused, Update
from tests.core.cells import NOW_MS, TIMING, Cell, at, change, claim, fresh, owned
from tests.core.strategies import POSITIONS, TIMINGS

# --- renew, checkpoint, release ---------------------------------------------------------------------------------------


def renew(cell: Cell, held: Lease, ms: int, checkpoint: Checkpoint | None = None) -> object:
    answer = cell.put(lease.renew(held, sent=at(ms), timing=TIMING, checkpoint=checkpoint))
    return lease.renewed(answer, lease=held, expires_at_ms=TIMING.expires_at_ms(at(ms)))


@given(POSITIONS, st.integers(1, 9))
def test_a_checkpoint_rides_on_the_renewal(position: Position, number: int) -> None:
    cell, held = owned()
    status = Status(StatusState.STREAMING, NOW_MS)
    assert renew(cell, held, 11_000, Checkpoint(number, position, status)) == Renewed(NOW_MS + 41_000)
    found = items.connection(cell.item or {})
    assert (found.position, found.status, found.checkpoint_no) == (position, status, number)
    assert (cell.item or {})["last_event"] == "RENEWED"


@given(st.lists(st.tuples(st.integers(1_001, 60_000), st.integers(1, 9)), max_size=6), st.randoms())
def test_late_renewals_never_lower_the_expiry_nor_bring_an_older_position_back(
    sends: list[tuple[int, int]], random: Any
) -> None:
    """M1, M8: whatever the order they land in. A position's number orders it, so that it may be opaque."""
    cell, held = owned()
    random.shuffle(sends)
    for ms, number in sends:
        before = items.connection(cell.item or {})
        outcome = renew(cell, held, ms, Checkpoint(number, Position(f"opaque {number}")))
        after = items.connection(cell.item or {})
        assert (after.lease_expires_at_ms or 0) >= (before.lease_expires_at_ms or 0)
        assert after.checkpoint_no >= before.checkpoint_no
        assert after.position == Position(f"opaque {after.checkpoint_no}") or after.checkpoint_no == 0
        assert isinstance(outcome, Renewed | Outrun)
        assert isinstance(outcome, Renewed) is (after != before)


def test_what_a_refused_renewal_is_told() -> None:
    cell, held = owned()
    assert renew(Cell(), held, 5_000) == Lost("deleted")
    assert renew(cell, replace(held, worker_id="w9"), 5_000) == Lost("stolen", "w1")
    assert renew(cell, replace(held, epoch=held.epoch - 1), 5_000) == Lost("stolen", "w1")
    assert isinstance(renew(cell, held, 500), Outrun)
    change(cell, Change(spec={"new": True}))
    changed = renew(cell, held, 5_000)
    assert isinstance(changed, Changed)
    assert isinstance(renew(cell, lease.lease_of(changed.connection, "w1"), 5_000), Renewed)
    change(cell, Change(DesiredState.STOPPED))
    assert isinstance(renew(cell, held, 6_000), Stopped)
    cell.put(lease.release(held, checkpoint=Checkpoint(1), now_ms=NOW_MS))
    assert renew(cell, held, 7_000) == Lost("released")
    cell.item = {**(cell.item or {}), "spec": "broken"}
    assert renew(cell, held, 8_000) == Lost("malformed")


def test_l10_a_checkpoint_and_a_renewal_side_by_side_both_land() -> None:
    for checkpoint_first in (True, False):
        cell, held = owned()
        writes = [lease.checkpoint(held, Checkpoint(1, Position(5))), lease.renew(held, sent=at(9_000), timing=TIMING)]
        for write in writes if checkpoint_first else reversed(writes):
            assert isinstance(cell.put(write), Applied)
        found = items.connection(cell.item or {})
        assert (found.position, found.lease_expires_at_ms) == (Position(5), NOW_MS + 39_000)


def test_a_checkpoint_touches_no_index() -> None:
    write = lease.checkpoint(
        Lease("c1", "w1", 1, 1, None), Checkpoint(1, Position(2), Status(StatusState.STREAMING, 3))
    )
    keys = {name for names in INDEX_ATTRIBUTES.values() for name in names} | {"spec_version", "desired_state"}
    assert keys.isdisjoint({*write.set, *write.remove, *write.add})


def test_what_a_checkpoint_is_told() -> None:
    cell, held = owned()

    def outcome(number: int) -> object:
        write = Checkpoint(number)
        return lease.checkpointed(cell.put(lease.checkpoint(held, write)), lease=held, checkpoint=write)

    assert outcome(2) == Checkpointed(2)
    assert isinstance(outcome(1), Outrun)
    cell.put(lease.release(held, checkpoint=Checkpoint(3), now_ms=NOW_MS))
    assert outcome(4) == Lost("released")


def test_l31_the_last_position_goes_with_the_release() -> None:
    cell, held = owned()
    write = lease.release(held, checkpoint=Checkpoint(7, Position(99)), now_ms=NOW_MS + 5)
    assert lease.released(cell.put(write)) == Released(landed=True)
    item = cell.item or {}
    found = items.connection(item)
    assert (found.position, found.lease_owner, found.lease_expires_at_ms) == (Position(99), None, 0)
    assert found.status == Status(StatusState.RELEASED, NOW_MS + 5)
    assert item["last_event"] == "RELEASED"
    assert "lease_nonce" not in item
    assert lease.released(cell.put(write)) == Released(landed=False), "and is only ever sent again"


@pytest.mark.parametrize("mode", LeaseMode)
def test_l24_l25_nothing_of_an_epoch_that_is_over_changes_anything(mode: LeaseMode) -> None:
    """A late write of the old owner: renewal, checkpoint, release, of the same worker id even."""
    cell, old = owned("w1")
    cell.put(lease.release(old, checkpoint=Checkpoint(1, Position(1)), now_ms=NOW_MS))
    for owner in (None, "w2", "w1"):
        if owner is not None:
            assert isinstance(claim(cell, owner, 50_000, mode), Claimed)
        before = cell.item
        stale: list[Update] = [
            lease.renew(old, sent=at(60_000), timing=TIMING),
            lease.renew(old, sent=at(60_000), timing=TIMING, checkpoint=Checkpoint(9, Position(9))),
            lease.checkpoint(old, Checkpoint(9, Position(9))),
            lease.release(old, checkpoint=Checkpoint(9, Position(9)), now_ms=NOW_MS),
        ]
        for write in stale:
            assert isinstance(cell.put(write), Refused)
        assert cell.item == before
        if owner == "w2":
            cell.put(
                lease.release(
                    lease.lease_of(items.connection(cell.item or {}), "w2"), checkpoint=Checkpoint(2), now_ms=NOW_MS
                )
            )


@given(TIMINGS, st.integers(0, 10**6))
def test_an_owner_stops_before_anybody_may_take(timing: Timing, ms: int) -> None:
    cell = fresh()
    sent = Instant(50.0, NOW_MS + ms)
    mode = LeaseMode.CONNECTION
    write = lease.claim("c1", worker_id="w1", nonce="n", sent=sent, timing=timing, mode=mode)
    outcome = lease.claimed(cell.put(write), worker_id="w1", nonce="n", sent=sent, timing=timing)
    assert isinstance(outcome, Claimed)
    cell.put(lease.checkpoint(outcome.lease, Checkpoint(1)))
    until_ms = round((outcome.deadline_s - 50.0) * 1000) + NOW_MS + ms
    early = Instant(0.0, until_ms + timing.skew_ms)
    take = lease.claim("c1", worker_id="w2", nonce="m", sent=early, timing=timing, mode=mode)
    assert isinstance(cell.put(take), Refused)
