"""What an owner takes its connection for."""

from dataclasses import replace

import pytest

from streamlease.lease import Claimed, lease_of
from streamlease.model import Position, Seek
from streamlease_worker import ownership
from tests.worker.supervising import EPOCH, WORKER, connection

CREATED_MS = EPOCH


def position_taken(epoch: int, position: Position | None = None, created_at_ms: int = CREATED_MS) -> Position | None:
    found = replace(
        connection("a"), lease_epoch=epoch, position=position, created_at_ms=created_at_ms, lease_owner=WORKER
    )
    ours, _ = ownership.take(Claimed(found, lease_of(found, WORKER), deadline_s=1.0), "expired")
    return ours.connection.position


def test_the_first_owner_begins_the_stream() -> None:
    assert position_taken(CREATED_MS + 1) is None


@pytest.mark.parametrize("epoch", [CREATED_MS + 2, CREATED_MS + 40])
def test_an_owner_after_one_that_left_no_position_takes_the_stream_for_begun(epoch: int) -> None:
    assert position_taken(epoch) == Position()


def test_an_owner_goes_on_from_the_position_that_it_finds() -> None:
    left = Position(7, "upstream.example")
    assert position_taken(CREATED_MS + 2, left) == left


def test_an_item_that_does_not_say_when_it_was_made_is_taken_as_it_is() -> None:
    assert position_taken(CREATED_MS + 2, created_at_ms=0) is None


@pytest.mark.parametrize("seek", [Seek("position", 3, 5), Seek("live"), Seek("beginning")])
def test_whoever_claims_what_somebody_has_sought_meanwhile_goes_on_where_they_asked(seek: Seek) -> None:
    """It was stopped, put off or on its way to another worker: nobody ran it who could have been told."""
    epoch = CREATED_MS + 2
    found = replace(connection("a"), lease_epoch=epoch, seek=seek, created_at_ms=CREATED_MS, lease_owner=WORKER)
    ours, _ = ownership.take(Claimed(found, lease_of(found, WORKER), deadline_s=1.0), "control")
    assert (ours.connection.position, ours.connection.seek) == (None, seek)
