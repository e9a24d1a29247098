"""What a transition leaves in the item, and what a refused one is told, to the last attribute."""

from collections.abc import Mapping
from typing import Any

import pytest

from streamlease import items, lease
from streamlease.errors import Malformed
from streamlease.lease import Change, Changed, Checkpoint, Claimed, Done, Held, Outrun, Stopped, Unproven
from streamlease.model import SCHEMA, Connection, DesiredState, LeaseMode, Position, Saved, Status, StatusState
from streamlease.write import Applied, Item
from tests.core.cells import NOW_MS, TIMING, Cell, at, change, claim, fresh, owned

OTHER = Position(70, instance="up.example")


def crashed(crashes: int = 0) -> tuple[Cell, Connection]:
    """A lease that ran out before its owner had written a checkpoint."""
    cell, _ = owned()
    cell.item = {**(cell.item or {}), "crashes": crashes}
    return cell, items.connection(cell.item)


def in_worker_mode(**attributes: Any) -> tuple[Cell, Connection]:
    cell, _ = owned(mode=LeaseMode.WORKER)
    cell.item = {**(cell.item or {}), **attributes}
    return cell, items.connection(cell.item)


def differences(before: Item | None, after: Item | None) -> Mapping[str, Any]:
    """Attributes that a write set, and None for each that it took away."""
    old, new = before or {}, after or {}
    return {name: new.get(name) for name in {*old, *new} if old.get(name) != new.get(name)}


# --- people's writes --------------------------------------------------------------------------------------------------


def test_what_a_new_connection_is_made_of() -> None:
    assert fresh().item == {
        "schema": SCHEMA,
        "connection_id": "c1",
        "desired_state": "STARTED",
        "desired_state_shard": "STARTED#3",
        "upstream_url": "wss://up.example",
        "spec": {"sink": "default"},
        "spec_version": 1,
        "labels": {"team": "a"},
        "lease_epoch": NOW_MS,
        "lease_expires_at_ms": 0,
        "checkpoint_no": 0,
        "crashes": 0,
        "last_event": "CONTROL",
        "created_at_ms": NOW_MS,
        "updated_at_ms": NOW_MS,
        "updated_by": "me",
    }


def test_a_start_names_the_shard_and_who_wanted_it_when() -> None:
    cell = fresh(DesiredState.STOPPED)
    before = cell.item
    wanted, later_ms = Change(desired_state=DesiredState.STARTED), NOW_MS + 5
    seen = items.connection(cell.item or {})
    cell.put(lease.control(seen, wanted, shard="STARTED#9", now_ms=later_ms, updated_by="you"))
    assert differences(before, cell.item) == {
        "desired_state": "STARTED",
        "desired_state_shard": "STARTED#9",
        "spec_version": 2,
        "updated_at_ms": later_ms,
        "updated_by": "you",
    }


def test_a_start_from_nowhere_says_from_which_version_on_positions_count() -> None:
    cell = fresh()
    change(cell, Change(forget_position=True))
    assert items.connection(cell.item or {}).positions_since_version == 2


def test_a_change_returns_the_item_as_it_is_now() -> None:
    cell = fresh()
    request = lease.control(
        items.connection(cell.item or {}), Change(spec={"sink": "b"}), shard="STARTED#3", now_ms=NOW_MS, updated_by="me"
    )
    outcome = lease.controlled(cell.put(request))
    assert outcome == Done(items.connection(cell.item or {}))
    assert isinstance(outcome, Done)
    assert outcome.connection is not None
    assert outcome.connection.spec_version == 2


def test_a_change_whose_store_shows_no_item_is_done_all_the_same() -> None:
    assert lease.controlled(Applied(None)) == Done(None)


def test_a_stopped_connection_that_nobody_owns_is_deleted_whatever_its_expiry_says() -> None:
    cell = fresh(DesiredState.STOPPED)
    cell.item = {**(cell.item or {}), "lease_expires_at_ms": NOW_MS + 10**6}
    assert lease.deleted(cell.put(lease.delete("c1", now_ms=NOW_MS, timing=TIMING))) == Done()


# --- the second claim, and the postponement -------------------------------------------------------------------------


def test_a_claim_after_a_crash_takes_the_lease_and_counts() -> None:
    cell, seen = crashed(crashes=0)
    before, sent = cell.item, at(32_001)
    request = lease.claim_after_crash(
        seen, worker_id="w2", nonce="n2", sent=sent, timing=TIMING, mode=LeaseMode.CONNECTION
    )
    outcome = lease.claimed(cell.put(request), worker_id="w2", nonce="n2", sent=sent, timing=TIMING)
    assert isinstance(outcome, Claimed)
    assert (outcome.lease.worker_id, outcome.lease.epoch) == ("w2", seen.lease_epoch + 1)
    assert differences(before, cell.item) == {
        "lease_owner": "w2",
        "lease_nonce": "n2",
        "lease_epoch": seen.lease_epoch + 1,
        "lease_expires_at_ms": NOW_MS + 62_001,
        "crashes": 1,
    }


def test_a_postponement_frees_the_connection_for_later_and_says_since_when() -> None:
    cell, seen = crashed(crashes=1)
    before, now_ms = cell.item, NOW_MS + 32_001
    assert isinstance(cell.put(lease.postpone(seen, now_ms=now_ms, timing=TIMING)), Applied)
    assert differences(before, cell.item) == {
        "lease_owner": None,
        "lease_nonce": None,
        "lease_expires_at_ms": 0,
        "crashes": 2,
        "last_event": "ORPHANED",
        "not_before_ms": now_ms + 5_000,
        "status": {
            "state": "RELEASED",
            "since_ms": now_ms,
            "reason": "its worker died without a checkpoint, 2 in a row",
        },
    }
    assert claim(cell, "w3", 37_001) == Held(None, now_ms + 5_000)
    assert isinstance(claim(cell, "w3", 37_002), Claimed)


@pytest.mark.parametrize(
    ("crashes", "after_ms"),
    [(0, 5_000), (2, 5_000), (3, 10_000), (4, 20_000), (9, 640_000), (10, 900_000), (99, 900_000)],
)
def test_how_long_a_connection_that_kills_its_owners_waits(crashes: int, after_ms: int) -> None:
    assert lease.postponed_until_ms(crashes, NOW_MS) == NOW_MS + after_ms


def test_a_claim_and_a_checkpoint_are_told_apart_in_the_stream() -> None:
    cell, held = owned()
    assert (cell.item or {})["last_event"] == "CLAIMED"
    cell.put(lease.checkpoint(held, Checkpoint(1)))
    assert (cell.item or {})["last_event"] == "CHECKPOINT"


def test_a_claim_of_a_stopped_connection_is_shown_it() -> None:
    cell = fresh(DesiredState.STOPPED)
    assert claim(cell, "w1", 0) == Stopped(items.connection(cell.item or {}))


def test_a_lease_that_runs_out_at_this_very_millisecond_is_held_though_its_owner_wrote_nothing() -> None:
    cell, seen = crashed()
    assert claim(cell, "w2", 32_000) == Held("w1", NOW_MS + 32_000)
    assert claim(cell, "w2", 32_001) == Unproven(seen)


def test_a_claim_that_a_store_answers_without_an_item_is_no_claim() -> None:
    with pytest.raises(Malformed, match=r"^claim: the store returned no item$"):
        lease.claimed(Applied(None), worker_id="w1", nonce="n", sent=at(0), timing=TIMING)


# --- what an owner is told --------------------------------------------------------------------------------------------


def test_a_refused_renewal_shows_the_item_that_refused_it() -> None:
    cell, held = owned()
    refused = lease.renewed(
        cell.put(lease.renew(held, sent=at(500), timing=TIMING)), lease=held, expires_at_ms=NOW_MS + 30_500
    )
    assert refused == Outrun(items.connection(cell.item or {}))
    change(cell, Change(spec={"sink": "b"}))
    renewal = lease.renew(held, sent=at(5_000), timing=TIMING)
    assert lease.renewed(cell.put(renewal), lease=held, expires_at_ms=0) == Changed(items.connection(cell.item or {}))
    change(cell, Change(desired_state=DesiredState.STOPPED))
    renewal = lease.renew(held, sent=at(6_000), timing=TIMING)
    assert lease.renewed(cell.put(renewal), lease=held, expires_at_ms=0) == Stopped(items.connection(cell.item or {}))


def test_a_refused_checkpoint_shows_the_item_that_refused_it() -> None:
    cell, held = owned()
    cell.put(lease.checkpoint(held, Checkpoint(4)))
    late = Checkpoint(3)
    outcome = lease.checkpointed(cell.put(lease.checkpoint(held, late)), lease=held, checkpoint=late)
    assert outcome == Outrun(items.connection(cell.item or {}))


def test_a_release_leaves_the_number_the_position_and_the_status_it_was_given() -> None:
    cell, held = owned()
    before = cell.item
    status = Status(StatusState.FAILED, NOW_MS + 7, "no such channel")
    cell.put(lease.release(held, checkpoint=Checkpoint(6, OTHER, status), now_ms=NOW_MS + 9))
    assert differences(before, cell.item) == {
        "lease_owner": None,
        "lease_nonce": None,
        "lease_expires_at_ms": 0,
        "last_event": "RELEASED",
        "checkpoint_no": 6,
        "position": {"sequence": 70, "instance": "up.example"},
        "last_sequence": "70",
        "status": {"state": "FAILED", "since_ms": NOW_MS + 7, "reason": "no such channel"},
    }


# --- orphaning ------------------------------------------------------------------------------------------------------


def saved(epoch: int, *, number: int, version: int = 1) -> Saved:
    return Saved("c1", epoch, number, version, OTHER)


def test_an_orphaning_carries_the_pages_position_where_it_is_newer() -> None:
    cell, seen = in_worker_mode(checkpoint_no=4, crashes=1)
    before = cell.item
    request = lease.orphan(seen, dead_worker_id="w1", now_ms=NOW_MS, saved=saved(seen.lease_epoch, number=5))
    assert isinstance(cell.put(request), Applied)
    assert differences(before, cell.item) == {
        "lease_owner": None,
        "lease_nonce": None,
        "lease_expires_at_ms": 0,
        "crashes": 0,
        "checkpoint_no": 5,
        "position": {"sequence": 70, "instance": "up.example", "spec_version": 1},
        "last_sequence": "70",
        "last_event": "ORPHANED",
        "status": {"state": "RELEASED", "since_ms": NOW_MS, "reason": "its worker died"},
    }


@pytest.mark.parametrize(("epoch", "number"), [(-1, 9), (1, 9), (0, 4), (0, 3)])
def test_a_pages_position_of_another_epoch_or_of_no_higher_number_stays_behind(epoch: int, number: int) -> None:
    cell, seen = in_worker_mode(checkpoint_no=4)
    cell.put(
        lease.orphan(seen, dead_worker_id="w1", now_ms=NOW_MS, saved=saved(seen.lease_epoch + epoch, number=number))
    )
    found = items.connection(cell.item or {})
    assert (found.position, found.checkpoint_no, found.crashes) == (None, 4, 0)


def test_a_page_of_the_epoch_shows_that_its_owner_lived() -> None:
    cell, seen = in_worker_mode(checkpoint_no=0)
    cell.put(lease.orphan(seen, dead_worker_id="w1", now_ms=NOW_MS, saved=saved(seen.lease_epoch, number=1)))
    assert items.connection(cell.item or {}).crashes == 0


def test_a_page_of_an_older_epoch_shows_nothing() -> None:
    cell, seen = in_worker_mode(checkpoint_no=0)
    cell.put(lease.orphan(seen, dead_worker_id="w1", now_ms=NOW_MS, saved=saved(seen.lease_epoch - 1, number=8)))
    assert items.connection(cell.item or {}).crashes == 1


@pytest.mark.parametrize(("version", "carried"), [(1, False), (2, True), (3, True)])
def test_a_position_made_before_somebody_asked_for_a_start_from_nowhere_stays_behind(
    version: int, carried: bool
) -> None:
    cell, seen = in_worker_mode(checkpoint_no=0, spec_version=3, positions_since_version=2)
    page = saved(seen.lease_epoch, number=5, version=version)
    assert isinstance(cell.put(lease.orphan(seen, dead_worker_id="w1", now_ms=NOW_MS, saved=page)), Applied)
    found = items.connection(cell.item or {})
    assert (found.position is not None, found.checkpoint_no) == (carried, 5)


def test_an_orphaning_without_a_read_carries_the_pages_position() -> None:
    cell, seen = in_worker_mode(checkpoint_no=4, crashes=1)
    before = cell.item
    page = saved(seen.lease_epoch, number=5)
    assert isinstance(cell.put(lease.orphan_unread("c1", dead_worker_id="w1", now_ms=NOW_MS, saved=page)), Applied)
    assert differences(before, cell.item) == {
        "lease_owner": None,
        "lease_nonce": None,
        "lease_expires_at_ms": 0,
        "crashes": 0,
        "checkpoint_no": 5,
        "position": {"sequence": 70, "instance": "up.example", "spec_version": 1},
        "last_sequence": "70",
        "last_event": "ORPHANED",
        "status": {"state": "RELEASED", "since_ms": NOW_MS, "reason": "its worker died"},
    }


def test_an_orphaning_without_a_read_or_a_page_leaves_the_position_as_it_is() -> None:
    cell, _ = in_worker_mode(checkpoint_no=4, crashes=0)
    before = cell.item
    assert isinstance(cell.put(lease.orphan_unread("c1", dead_worker_id="w1", now_ms=NOW_MS, saved=None)), Applied)
    assert differences(before, cell.item) == {
        "lease_owner": None,
        "lease_nonce": None,
        "lease_expires_at_ms": 0,
        "last_event": "ORPHANED",
        "status": {"state": "RELEASED", "since_ms": NOW_MS, "reason": "its worker died"},
    }
