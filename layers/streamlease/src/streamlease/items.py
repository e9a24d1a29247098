"""Model ⇄ item. Items are plain mappings here; `dynamodb.attributes` turns them into DynamoDB's typed form and back.

Decoding is strict about what the protocol reasons with: an item written by hand or by a stranger raises `Malformed`
with its id, and is skipped by the caller, never repaired. Unknown attributes are left alone.
"""

import dataclasses
from collections.abc import Mapping
from enum import StrEnum

from streamlease.errors import Malformed
from streamlease.model import (
    Connection,
    DesiredState,
    FleetSummary,
    Member,
    MemberState,
    Position,
    Seek,
    Sequence,
    Shares,
    Status,
    StatusState,
)
from streamlease.write import Item, Value

LATEST_SECONDS = 100_000_000_000
"""A time in milliseconds below this would lie in 1973: somebody wrote seconds."""
LONGEST_NUMBER = 10**38
"""DynamoDB keeps 38 digits of a number, and refuses more."""
MOST_HELD = 10**9
"""No worker holds so many, nor weighs so much. The fleet's shares are sums of such numbers, and have to be storable."""


def connection(item: Item) -> Connection:
    """Decode a connection item. Raises Malformed."""
    where = f"connection {item.get('connection_id')!r}"
    expires_at_ms = _optional_int(item, "lease_expires_at_ms", where)
    if expires_at_ms is not None and 0 < expires_at_ms < LATEST_SECONDS:
        raise Malformed(where, f"lease_expires_at_ms is {expires_at_ms}, which looks like seconds, not milliseconds")
    return Connection(
        connection_id=_text(item, "connection_id", where),
        desired_state=_choice(item, "desired_state", where, DesiredState),
        upstream_url=_text(item, "upstream_url", where),
        spec=_mapping(item, "spec", where),
        spec_version=_int(item, "spec_version", where),
        lease_epoch=_int(item, "lease_epoch", where),
        lease_owner=_optional_id(item, "lease_owner", where),
        lease_expires_at_ms=expires_at_ms,
        lease_nonce=_optional_id(item, "lease_nonce", where),
        position=_position(item, where),
        positions_since_version=_optional_int(item, "positions_since_version", where) or 0,
        seek=_seek(item),
        checkpoint_no=_optional_int(item, "checkpoint_no", where) or 0,
        crashes=_optional_int(item, "crashes", where) or 0,
        not_before_ms=_optional_int(item, "not_before_ms", where),
        status=_status(item, where),
        labels={name: str(value) for name, value in _mapping(item, "labels", where, optional=True).items()},
        created_at_ms=_optional_int(item, "created_at_ms", where) or 0,
        updated_at_ms=_optional_int(item, "updated_at_ms", where) or 0,
        updated_by=_optional_text(item, "updated_by", where) or "",
    )


def member(item: Item) -> Member:
    """Decode a member item. Raises Malformed."""
    where = f"member {item.get('worker_id')!r}"
    return Member(
        worker_id=_text(item, "worker_id", where),
        state=_choice(item, "state", where, MemberState),
        heartbeat=_int(item, "heartbeat", where),
        lease_expires_at_ms=_int(item, "lease_expires_at_ms", where),
        generation=_optional_int(item, "generation", where) or 0,
        capacity=_optional_count(item, "capacity", where),
        owned=_optional_count(item, "owned", where),
        started_at_ms=_optional_int(item, "started_at_ms", where) or 0,
        zone=_optional_text(item, "zone", where) or "",
        load=_load(item, where),
        buried_at_ms=_optional_int(item, "buried_at_ms", where),
        lease_ms=_optional_int(item, "lease_ms", where) or 0,
        drain_requested=_optional_text(item, "drain_requested", where),
    )


def _load(item: Item, where: str) -> Mapping[str, Value]:
    """As it is, for most of it is for people; what shares go by is bounded."""
    load = _mapping(item, "load", where, optional=True)
    extra = load.get("extra")
    if isinstance(extra, int) and extra > MOST_HELD:
        raise Malformed(where, f"load.extra must be {MOST_HELD:,} at most, not {extra}")
    return load


def fleet_summary(item: Item) -> FleetSummary:
    """Decode the fleet summary item. Raises Malformed."""
    where = "fleet summary"
    return FleetSummary(
        at_ms=_optional_int(item, "at_ms", where) or 0,
        live=_optional_int(item, "live", where) or 0,
        owned=_optional_int(item, "owned", where) or 0,
        unowned=_optional_int(item, "unowned", where) or 0,
        shards=_optional_int(item, "shards", where) or 0,
        shares=_shares(item, where),
    )


def _shares(item: Item, where: str) -> Shares | None:
    if item.get("shares") is None:
        return None
    fields = _mapping(item, "shares", where)
    return Shares(
        generation=_int(fields, "generation", where),
        level=_int(fields, "level", where),
        one_more_below=_int(fields, "one_more_below", where),
        whole=_int(fields, "whole", where),
        total=_int(fields, "total", where),
        total_at_ms=_int(fields, "total_at_ms", where),
        more_since_ms=_int(fields, "more_since_ms", where),
        grew_at_ms=_int(fields, "grew_at_ms", where),
        stubborn=_int(fields, "stubborn", where),
        least_unowned=_int(fields, "least_unowned", where),
        least_since_ms=_int(fields, "least_since_ms", where),
        movable=fields.get("movable") is True,
        all_unwell=fields.get("all_unwell") is True,
        lacking=_int(fields, "lacking", where),
        short=fields.get("short") is True,
        extra=_optional_int(fields, "extra", where) or 0,
        extra_at_ms=_optional_int(fields, "extra_at_ms", where) or 0,
    )


def shares_attribute(shares: Shares) -> Item:
    return {one.name: getattr(shares, one.name) for one in dataclasses.fields(shares)}


def position_attributes(position: Position, spec_version: int | None = None) -> Item:
    """What a checkpoint sets of a position: the map, with the version of the spec that it was made by, and its readable
    part beside it."""
    fields: Mapping[str, Value] = {
        "sequence": position.sequence,
        "instance": position.instance,
        "resume_url": position.resume_url,
        "token": position.token,
        "spec_version": spec_version,
    }
    if position.sequence is not None and not _is_storable(position.sequence):
        fields = {**fields, "sequence": repr(position.sequence), "sequence_is_number": True}
    attributes: dict[str, Value] = {"position": {name: value for name, value in fields.items() if value is not None}}
    if position.sequence is not None:
        attributes["last_sequence"] = str(position.sequence)
    return attributes


def seek_attribute(seek: Seek) -> Item:
    fields: dict[str, Value] = {"to": seek.to}
    for name, sequence in (("sequence", seek.sequence), ("from_sequence", seek.from_sequence)):
        if sequence is not None:
            fields[name] = sequence if isinstance(sequence, str) or _is_storable(sequence) else str(sequence)
    return fields


def _seek(item: Item) -> Seek | None:
    """What a later release asks for is nothing that this one could follow: then the position is gone, and no more."""
    fields = item.get("seek")
    if not isinstance(fields, Mapping):
        return None
    found: dict[str, Sequence | None] = {}
    for name in ("sequence", "from_sequence"):
        value = fields.get(name)
        found[name] = value if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    match fields.get("to"):
        case "live" | "beginning" as to:
            return Seek(to, from_sequence=found["from_sequence"])
        case "position" if found["sequence"] is not None:
            return Seek("position", found["sequence"], found["from_sequence"])
        case _:
            return None


def status_attributes(status: Status) -> Item:
    fields: dict[str, Value] = {"state": status.state.value, "since_ms": status.since_ms}
    if status.reason is not None:
        fields["reason"] = status.reason
    if status.until_ms is not None:
        fields["until_ms"] = status.until_ms
    return {"status": fields}


def _position(item: Item, where: str) -> Position | None:
    if item.get("position") is None:
        return None
    fields = _mapping(item, "position", where)
    if _is_forgotten(fields, item):
        return None
    sequence = fields.get("sequence")
    if isinstance(sequence, bool) or not isinstance(sequence, int | float | str | None):
        raise Malformed(where, f"position.sequence must be a number or a string, not {_kind(sequence)}")
    if isinstance(sequence, str) and fields.get("sequence_is_number") is True:
        sequence = _long_number(sequence, where)
    return Position(
        sequence=sequence,
        instance=_optional_text(fields, "instance", f"{where} position"),
        resume_url=_optional_text(fields, "resume_url", f"{where} position"),
        token=_optional_text(fields, "token", f"{where} position"),
    )


def _is_forgotten(position: Mapping[str, Value], item: Item) -> bool:
    """Whether a checkpoint or release of an owner who had not heard of it crossed somebody's word to forget positions,
    or to go on elsewhere. (Positions of an earlier release do not say what they were made by.)"""
    made_by, since = position.get("spec_version"), item.get("positions_since_version")
    return isinstance(made_by, int) and isinstance(since, int) and made_by < since


def _status(item: Item, where: str) -> Status | None:
    if item.get("status") is None:
        return None
    fields = _mapping(item, "status", where)
    state = fields.get("state")
    if isinstance(state, str) and state not in StatusState:
        return None  # a later release's word, for people: no reason to leave its connection alone
    return Status(
        state=_choice(fields, "state", f"{where} status", StatusState),
        since_ms=_optional_int(fields, "since_ms", f"{where} status") or 0,
        reason=_optional_text(fields, "reason", f"{where} status"),
        until_ms=_optional_int(fields, "until_ms", f"{where} status"),
    )


def _is_storable(sequence: Sequence) -> bool:
    """Whether the store keeps it as it is. Upstreams count as they like: a longer number is kept as its text."""
    if isinstance(sequence, str):
        return True
    if isinstance(sequence, int):
        return abs(sequence) < LONGEST_NUMBER
    return not sequence or 1e-130 <= abs(sequence) < 1e126


def _long_number(text: str, where: str) -> int | float:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    raise Malformed(where, f"position.sequence is {text!r}, which is no number")


def _kind(value: object) -> str:
    return "absent" if value is None else type(value).__name__


def _text(item: Item, name: str, where: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise Malformed(where, f"{name} must be a non-empty string, not {_kind(value)}")
    return value


def _optional_id(item: Item, name: str, where: str) -> str | None:
    return None if item.get(name) is None else _text(item, name, where)


def _optional_text(item: Item, name: str, where: str) -> str | None:
    """May be empty, as an upstream's reason for closing often is."""
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise Malformed(where, f"{name} must be a string, not {_kind(value)}")
    return value


def _int(item: Item, name: str, where: str) -> int:
    value = item.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Malformed(where, f"{name} must be a whole number, not {_kind(value)}")
    return value


def _optional_int(item: Item, name: str, where: str) -> int | None:
    return None if item.get(name) is None else _int(item, name, where)


def _optional_count(item: Item, name: str, where: str) -> int:
    """A number of things that somebody holds; 0 where nothing is said."""
    value = _optional_int(item, name, where) or 0
    if not 0 <= value <= MOST_HELD:
        raise Malformed(where, f"{name} must be 0 to {MOST_HELD:,}, not {value}")
    return value


def _mapping(item: Item, name: str, where: str, *, optional: bool = False) -> Mapping[str, Value]:
    value = item.get(name)
    if value is None and optional:
        return {}
    if not isinstance(value, Mapping):
        raise Malformed(where, f"{name} must be a map, not {_kind(value)}")
    return value


def _choice[E: StrEnum](item: Item, name: str, where: str, choices: type[E]) -> E:
    value = item.get(name)
    try:
        return choices(str(value))
    except ValueError:
        known = ", ".join(choices)
        raise Malformed(where, f"{name} is {value!r}; it must be one of {known}") from None
