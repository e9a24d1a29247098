"""Items become values and back; what does not follow the contract is named, never guessed at."""

import contextlib
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import items
from streamlease.errors import Malformed
from streamlease.model import Connection, FleetSummary, Member, Position, Seek, Status
from streamlease.shares import divide
from streamlease.write import Item
from tests.core.strategies import CONNECTIONS, JSON, MEMBERS, NAMES, POSITIONS, STATUSES

NOW_MS = 1_800_000_000_000
PLACES = st.integers(-(10**18), 10**18) | st.text(min_size=1, max_size=9)


def connection_item(connection: Connection) -> dict[str, Any]:
    """The item that a connection was read from: what is absent is absent, the rest as the writes put it."""
    item: dict[str, Any] = {f.name: getattr(connection, f.name) for f in fields(Connection)}
    item["desired_state"] = connection.desired_state.value
    item["position"] = items.position_attributes(connection.position)["position"] if connection.position else None
    item["status"] = items.status_attributes(connection.status)["status"] if connection.status else None
    return {name: value for name, value in item.items() if value is not None}


def member_item(member: Member) -> dict[str, Any]:
    item = {f.name: getattr(member, f.name) for f in fields(Member)}
    item["state"] = member.state.value
    return {name: value for name, value in item.items() if value is not None}


def an_item(**changes: Any) -> dict[str, Any]:
    """A plain connection item; a change to None takes the attribute away."""
    item = {
        "schema": 1,
        "connection_id": "c1",
        "desired_state": "STARTED",
        "upstream_url": "wss://up.example",
        "spec": {},
        "spec_version": 1,
        "lease_epoch": NOW_MS,
        "lease_expires_at_ms": 0,
        "checkpoint_no": 0,
        **changes,
    }
    return {name: value for name, value in item.items() if value is not None}


@given(CONNECTIONS)
def test_a_connection_comes_back_from_its_item_as_it_was(connection: Connection) -> None:
    assert items.connection(connection_item(connection)) == connection


@given(MEMBERS)
def test_a_member_comes_back_from_its_item_as_it_was(member: Member) -> None:
    assert items.member(member_item(member)) == member


@given(CONNECTIONS, st.dictionaries(st.sampled_from(["schema", "sink", "next_release", "pages"]), JSON))
def test_attributes_of_a_later_release_are_left_alone(connection: Connection, more: Item) -> None:
    assert items.connection({**connection_item(connection), **more}) == connection


@given(POSITIONS)
def test_a_position_comes_back_and_its_readable_part_stands_beside_it(position: Position) -> None:
    attributes = items.position_attributes(position)
    assert items.connection(an_item(**attributes)).position == position
    assert attributes.get("last_sequence") == (None if position.sequence is None else str(position.sequence))


@given(STATUSES)
def test_a_status_comes_back(status: Status) -> None:
    assert items.connection(an_item(**items.status_attributes(status))).status == status


def test_texts_that_others_choose_may_be_empty() -> None:
    """A close frame's reason mostly is, and so is a zone outside of AWS."""
    found = items.connection(an_item(status={"state": "BACKOFF", "since_ms": NOW_MS, "reason": ""}, updated_by=""))
    assert found.status is not None
    assert found.status.reason == ""
    member: Item = {"worker_id": "w1", "state": "LIVE", "heartbeat": 0, "lease_expires_at_ms": NOW_MS, "zone": ""}
    assert items.member(member).zone == ""


def test_what_a_first_writer_leaves_out_has_a_value_that_says_nothing() -> None:
    found = items.connection(an_item(checkpoint_no=None, lease_expires_at_ms=None))
    assert (found.checkpoint_no, found.crashes, found.lease_owner, found.position, found.labels) == (
        0,
        0,
        None,
        None,
        {},
    )
    assert items.fleet_summary({"worker_id": "#fleet"}) == FleetSummary(0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"lease_epoch": "7"}, "lease_epoch must be a whole number, not str"),
        ({"lease_epoch": None}, "lease_epoch must be a whole number, not absent"),
        ({"lease_epoch": 7.5}, "lease_epoch must be a whole number, not float"),
        ({"lease_epoch": True}, "lease_epoch must be a whole number, not bool"),
        ({"lease_expires_at_ms": 1_800_000_000}, "is 1800000000, which looks like seconds, not milliseconds"),
        ({"lease_expires_at_ms": "0"}, "lease_expires_at_ms must be a whole number, not str"),
        ({"lease_owner": 7}, "lease_owner must be a non-empty string, not int"),
        ({"lease_owner": ""}, "lease_owner must be a non-empty string, not str"),
        ({"lease_nonce": []}, "lease_nonce must be a non-empty string, not list"),
        ({"desired_state": "started"}, "desired_state is 'started'; it must be one of STARTED, STOPPED"),
        ({"desired_state": None}, "desired_state is None; it must be one of STARTED, STOPPED"),
        ({"upstream_url": None}, "upstream_url must be a non-empty string, not absent"),
        ({"spec": "{}"}, "spec must be a map, not str"),
        ({"spec": None}, "spec must be a map, not absent"),
        ({"spec_version": None}, "spec_version must be a whole number, not absent"),
        ({"checkpoint_no": "1"}, "checkpoint_no must be a whole number, not str"),
        ({"crashes": 0.5}, "crashes must be a whole number, not float"),
        ({"not_before_ms": "soon"}, "not_before_ms must be a whole number, not str"),
        ({"position": "here"}, "position must be a map, not str"),
        ({"position": {"sequence": True}}, "position.sequence must be a number or a string, not bool"),
        ({"position": {"sequence": [1]}}, "position.sequence must be a number or a string, not list"),
        ({"position": {"token": 3}}, "token must be a string, not int"),
        ({"status": "STREAMING"}, "status must be a map, not str"),
        ({"status": {"state": 7}}, "state is 7; it must be one of CONNECTING"),
        ({"status": {"since_ms": 7}}, "state is None; it must be one of CONNECTING"),
        ({"labels": "a=b"}, "labels must be a map, not str"),
    ],
)
def test_an_item_that_does_not_follow_the_contract_is_reported_with_its_id(
    changes: dict[str, Any], problem: str
) -> None:
    item = {**an_item(), **changes}
    item = {name: value for name, value in item.items() if value is not None}
    with pytest.raises(Malformed) as raised:
        items.connection(item)
    assert raised.value.where.startswith("connection 'c1'")
    assert problem in raised.value.problem
    assert not raised.value.retryable


@pytest.mark.parametrize("connection_id", [None, "", 5])
def test_an_item_without_an_id_is_reported(connection_id: Any) -> None:
    with pytest.raises(Malformed, match="connection_id must be a non-empty string"):
        items.connection({**an_item(), "connection_id": connection_id})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"state": "ALIVE"}, "state is 'ALIVE'; it must be one of LIVE, DRAINING, DEAD, GONE"),
        ({"heartbeat": "1"}, "heartbeat must be a whole number, not str"),
        ({"lease_expires_at_ms": None}, "lease_expires_at_ms must be a whole number, not absent"),
        ({"load": 3}, "load must be a map, not int"),
        ({"owned": 10**38 - 1}, "owned must be 0 to 1,000,000,000, not 99999"),
        ({"owned": 10**9 + 1}, "owned must be 0 to 1,000,000,000"),
        ({"owned": -1}, "owned must be 0 to 1,000,000,000, not -1"),
        ({"capacity": 10**38 - 1}, "capacity must be 0 to 1,000,000,000, not 99999"),
        ({"load": {"extra": 10**38 - 1}}, "load.extra must be 1,000,000,000 at most, not 99999"),
    ],
)
def test_a_malformed_member_is_reported_with_its_id(changes: dict[str, Any], problem: str) -> None:
    item = {"worker_id": "w1", "state": "LIVE", "heartbeat": 0, "lease_expires_at_ms": NOW_MS, **changes}
    with pytest.raises(Malformed, match="member 'w1'") as raised:
        items.member(item)
    assert problem in raised.value.problem


@given(st.dictionaries(NAMES | st.sampled_from(sorted(an_item())), JSON, max_size=8), st.data())
def test_anything_at_all_is_a_connection_or_malformed(changes: dict[str, Any], data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.sampled_from(sorted(an_item()))))
    item = {**{name: value for name, value in an_item().items() if name in kept}, **changes}
    for decode in (items.connection, items.member, items.fleet_summary):
        with contextlib.suppress(Malformed):
            decode(item)


@given(st.sampled_from(["live", "beginning", "position"]), PLACES, st.none() | PLACES)
def test_a_seek_comes_back_as_it_was_asked(to: Any, sequence: Any, before: Any) -> None:
    seek = Seek(to, sequence if to == "position" else None, before)
    found = items.connection({**an_item(), "seek": items.seek_attribute(seek)}).seek
    assert found is not None
    assert (found.to, str(found.sequence), str(found.from_sequence)) == (
        to,
        str(seek.sequence),
        str(seek.from_sequence),
    )


@pytest.mark.parametrize(
    "seek", [[], "live", {}, {"to": "elsewhere"}, {"to": "position"}, {"to": "position", "sequence": []}]
)
def test_a_seek_that_this_release_cannot_follow_is_none(seek: Any) -> None:
    assert items.connection(an_item(seek=seek)).seek is None


@pytest.mark.parametrize(
    ("made_by", "since", "counts"), [(1, 2, False), (2, 2, True), (3, 2, True), (None, 2, True), (1, None, True)]
)
def test_a_position_counts_unless_it_is_of_before_somebodys_word_to_forget_it(
    made_by: int | None, since: int | None, counts: bool
) -> None:
    written = items.position_attributes(Position(7), made_by)
    found = items.connection(an_item(**written, positions_since_version=since, spec_version=3))
    assert found.position == (Position(7) if counts else None)


def test_a_status_that_only_a_later_release_knows_is_none() -> None:
    """Two releases work in one fleet: one that could not read such an item would claim it, and run it nowhere."""
    assert items.connection(an_item(status={"state": "FLYING", "since_ms": NOW_MS})).status is None


def test_the_most_that_members_may_say_makes_shares_that_can_be_stored() -> None:
    said: Item = {"owned": items.MOST_HELD, "capacity": items.MOST_HELD, "load": {"extra": items.MOST_HELD, "pace": 1}}
    item: Item = {"worker_id": "w1", "state": "LIVE", "heartbeat": 0, "lease_expires_at_ms": NOW_MS, **said}
    members = [replace(items.member(item), worker_id=f"w{n}") for n in range(1_000)]
    shares = divide(members, unowned=items.MOST_HELD, before=None, before_ms=0, now_ms=NOW_MS)
    assert shares is not None
    assert all(value < items.LONGEST_NUMBER for value in items.shares_attribute(shares).values())  # type: ignore[operator]
