"""What later parts of the protocol leave in the item: seeks, words without a number, releases that put off."""

import pytest

from streamlease import items, lease
from streamlease.lease import WORD, Change, Checkpoint
from streamlease.model import DesiredState, Lease, Position, Seek, Status, StatusState
from streamlease.write import Applied, Item, Refused
from tests.core.cells import NOW_MS, TIMING, Cell, at, change, fresh, owned

WAITING = Status(StatusState.CONNECTING, NOW_MS, "waits for its turn")
SILENT = Status(StatusState.QUARANTINED, NOW_MS, "silent", until_ms=NOW_MS + 60_000)


def contents(cell: Cell) -> Item:
    assert cell.item is not None
    return cell.item


def released(cell: Cell, ours: Lease, status: Status, *, number: int = 1) -> None:
    request = lease.release(ours, checkpoint=Checkpoint(number, status=status), now_ms=NOW_MS + 2_000)
    assert lease.released(cell.put(request)).landed


def stood_at(sequence: int) -> Cell:
    """A connection that an owner has left at this sequence."""
    cell, ours = owned()
    request = lease.release(ours, checkpoint=Checkpoint(1, Position(sequence), None, 1), now_ms=NOW_MS + 2_000)
    assert lease.released(cell.put(request)).landed
    return cell


# --- seek -------------------------------------------------------------------------------------------------------------


def test_a_seek_is_stored_with_where_the_connection_stood() -> None:
    cell = stood_at(70)
    change(cell, Change(seek=Seek("position", 40)))
    assert contents(cell)["seek"] == {"to": "position", "sequence": 40, "from_sequence": 70}
    assert {"position", "last_sequence"}.isdisjoint(contents(cell))
    assert items.connection(contents(cell)).seek == Seek("position", 40, 70)


def test_a_seek_of_a_connection_that_stood_nowhere_says_from_nowhere() -> None:
    cell = fresh()
    change(cell, Change(seek=Seek("live")))
    assert contents(cell)["seek"] == {"to": "live"}


def test_to_forget_the_position_forgets_a_seek_too() -> None:
    cell = fresh()
    change(cell, Change(seek=Seek("live")))
    change(cell, Change(forget_position=True))
    assert "seek" not in contents(cell)


@pytest.mark.parametrize(
    ("wanted", "stays"),
    [
        (Change(spec={"sink": "b"}), {"to": "live"}),
        (Change(seek=Seek("beginning"), forget_position=True), {"to": "beginning"}),
    ],
    ids=["another change", "a seek that forgets as well"],
)
def test_a_seek_stands_until_another_takes_its_place(wanted: Change, stays: Item) -> None:
    cell = fresh()
    change(cell, Change(seek=Seek("live")))
    change(cell, wanted)
    assert contents(cell)["seek"] == stays


# --- a word -----------------------------------------------------------------------------------------------------------


def test_a_word_sets_the_status_and_nothing_else() -> None:
    attributes = lease.checkpoint_attributes(Checkpoint(WORD, Position(7), WAITING))
    assert attributes == {"status": {"state": "CONNECTING", "since_ms": NOW_MS, "reason": "waits for its turn"}}
    assert lease.checkpoint_attributes(Checkpoint(WORD, Position(7))) == {}


def test_a_checkpoint_says_by_which_version_its_position_was_made() -> None:
    attributes = lease.checkpoint_attributes(Checkpoint(3, Position(7), None, 2))
    assert attributes["position"] == {"sequence": 7, "spec_version": 2}


@pytest.mark.parametrize(("stored", "lands"), [(0, True), (1, False)])
def test_a_word_lands_only_where_no_checkpoint_has(stored: int, lands: bool) -> None:
    cell, ours = owned()
    cell.item = {**contents(cell), "checkpoint_no": stored}
    request = lease.renew(ours, sent=at(5_000), timing=TIMING, checkpoint=Checkpoint(WORD, status=WAITING))
    answer = cell.put(request)
    assert isinstance(answer, Applied if lands else Refused)
    assert ("status" in contents(cell)) is lands


# --- put off ----------------------------------------------------------------------------------------------------------


def test_a_release_that_puts_off_is_due_and_listed_at_the_same_moment() -> None:
    cell, ours = owned()
    released(cell, ours, SILENT)
    assert contents(cell)["lease_expires_at_ms"] == SILENT.until_ms
    assert contents(cell)["not_before_ms"] == SILENT.until_ms
    assert "lease_owner" not in contents(cell)


def test_a_release_that_puts_nothing_off_is_listed_at_once() -> None:
    cell, ours = owned()
    released(cell, ours, Status(StatusState.RELEASED, NOW_MS))
    assert contents(cell)["lease_expires_at_ms"] == 0
    assert "not_before_ms" not in contents(cell)


def test_a_change_of_what_was_put_off_makes_it_due_and_listed_at_once() -> None:
    cell, ours = owned()
    released(cell, ours, SILENT)
    seen = items.connection(contents(cell))
    assert lease.hidden(seen)
    change(cell, Change(desired_state=DesiredState.STARTED))
    assert contents(cell)["lease_expires_at_ms"] == 0
    assert "not_before_ms" not in contents(cell)
    assert not lease.hidden(items.connection(contents(cell)))


def test_a_change_of_what_was_put_off_is_refused_once_somebody_owns_it() -> None:
    """Its lease would be set free under its owner."""
    cell, ours = owned()
    released(cell, ours, SILENT)
    seen = items.connection(contents(cell))
    cell.item = {**contents(cell), "lease_owner": "w2"}
    change_seen = lease.control(seen, Change(spec={}), shard="STARTED#3", now_ms=NOW_MS, updated_by="you")
    assert isinstance(cell.put(change_seen), Refused)


@pytest.mark.parametrize("version", [0, 2])
def test_a_change_of_what_was_put_off_is_refused_where_another_came_first(version: int) -> None:
    cell, ours = owned()
    released(cell, ours, SILENT)
    seen = items.connection(contents(cell))
    cell.item = {**contents(cell), "spec_version": version}
    change_seen = lease.control(seen, Change(spec={}), shard="STARTED#3", now_ms=NOW_MS, updated_by="you")
    assert isinstance(cell.put(change_seen), Refused)


def test_a_change_of_what_somebody_owns_leaves_the_expiry_to_the_owner() -> None:
    cell, _ = owned()
    expires_at_ms = contents(cell)["lease_expires_at_ms"]
    change(cell, Change(spec={}))
    assert contents(cell)["lease_expires_at_ms"] == expires_at_ms
    assert not lease.hidden(items.connection(contents(cell)))
