"""The envelope in which a record or gap leaves this system: one JSON object, one line (design §9).

docs/envelope.schema.json describes it. Within a `v` fields are only added: readers pass over what they do not know.
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from streamlease.errors import Malformed
from streamlease.feed.events import Gap, Record
from streamlease.model import Sequence
from streamlease.write import Value

VERSION: Final = 1

_encode = msgspec.json.Encoder().encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), check_circular=False, allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Envelope:
    """A record or gap as a reader gets it. Its `number` is 0: numbers are an owner's own and do not travel."""

    connection_id: str
    epoch: int
    delivery: Record | Gap


def encode(connection_id: str, epoch: int, delivery: Record | Gap) -> bytes:
    """One JSON object in UTF-8, without a newline in or after it."""
    fields: dict[str, object]
    if isinstance(delivery, Record):
        fields = {"v": VERSION, "connection_id": connection_id, "epoch": epoch}
        if delivery.sequence is not None:
            fields["sequence"] = delivery.sequence
        if delivery.record_id is not None:
            fields["record_id"] = delivery.record_id
        if delivery.event_at_ms is not None:
            fields["event_at_ms"] = delivery.event_at_ms
        fields["received_at_ms"] = delivery.received_at_ms
        if isinstance(delivery.payload, bytes):
            fields["encoding"] = "base64"
            fields["payload"] = base64.b64encode(delivery.payload).decode()
        else:
            fields["payload"] = delivery.payload
    else:
        fields = {"v": VERSION, "type": "gap", "connection_id": connection_id, "epoch": epoch}
        if delivery.from_sequence is not None:
            fields["from"] = delivery.from_sequence
        if delivery.to_sequence is not None:
            fields["to"] = delivery.to_sequence
        fields["reason"] = delivery.reason
    try:
        return _encode(fields)  # a number that JSON does not have becomes null
    except UnicodeEncodeError:  # a lone surrogate, which JSON can say and UTF-8 cannot
        return _encode_ascii(_finite(fields)).encode()


def decode(line: bytes | str) -> Envelope:
    """Raises Malformed for what is no envelope, or one of a later `v`."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed("envelope", f"not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("v") != VERSION:
        raise Malformed("envelope", f"expected an object with v {VERSION}; a reader of a later version may be needed")
    connection_id, epoch = _text(fields, "connection_id"), _whole(fields, "epoch")
    if fields.get("type") == "gap":
        reason = _text(fields, "reason")
        gap = Gap(0, _sequence(fields, "from"), _sequence(fields, "to"), reason)
        return Envelope(connection_id, epoch, gap)
    if "type" in fields:
        raise Malformed("envelope", f"type {fields['type']!r} is not known")
    if "payload" not in fields:
        raise Malformed("envelope", "payload is missing")
    return Envelope(
        connection_id,
        epoch,
        Record(
            number=0,
            sequence=_sequence(fields, "sequence"),
            record_id=_text(fields, "record_id") if "record_id" in fields else None,
            event_at_ms=_whole(fields, "event_at_ms") if "event_at_ms" in fields else None,
            received_at_ms=_whole(fields, "received_at_ms"),
            payload=_payload(fields),
        ),
    )


def _payload(fields: Mapping[str, Value]) -> Value | bytes:
    encoding = fields.get("encoding")
    if encoding is None:
        return fields["payload"]
    if encoding != "base64":
        raise Malformed("envelope", f"encoding {encoding!r} is not known")
    try:
        return base64.b64decode(_text(fields, "payload"), validate=True)
    except binascii.Error as error:
        raise Malformed("envelope", f"payload is not base64: {error}") from None


def _text(fields: Mapping[str, Value], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise Malformed("envelope", f"{name} must be text")
    return value


def _whole(fields: Mapping[str, Value], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Malformed("envelope", f"{name} must be a whole number")
    return value


def _sequence(fields: Mapping[str, Value], name: str) -> Sequence | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str | None):
        raise Malformed("envelope", f"{name} must be a number or text")
    return value


def _finite(value: object) -> object:
    """`value` with null for the numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
