"""Envelopes out of what they travel in: Kinesis records, SQS bodies, Lambda events of either, JSON-lines files.

What cannot be read is told beside what can, with its place and never its content: one bad line hides no other.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streamlease.envelope import Envelope, decode
from streamlease.errors import Malformed
from streamlease.write import Value


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The envelopes of one thing that is delivered, acknowledged and delivered again as a whole, in their order."""

    item_id: str
    """What a partial batch response calls it: the Kinesis sequence number, the SQS message id."""
    envelopes: tuple[Envelope, ...] = ()
    malformed: tuple[Malformed, ...] = ()


def lines(data: bytes | str, item_id: str = "data", where: str | None = None) -> Unpacked:
    """Newline-delimited envelopes. Empty lines are passed over. `where` is what problems call it (None: the id)."""
    envelopes: list[Envelope] = []
    malformed: list[Malformed] = []
    split: Sequence[bytes | str] = data.split(b"\n") if isinstance(data, bytes) else data.split("\n")
    for number, line in enumerate(split, 1):
        if line.strip():
            try:
                envelopes.append(decode(line))
            except Malformed as problem:
                malformed.append(Malformed(f"{where or item_id}, line {number}", problem.problem))
    return Unpacked(item_id, tuple(envelopes), tuple(malformed))


def kinesis(data: bytes | str, item_id: str = "data") -> Unpacked:
    """The data of one Kinesis record: bytes as from GetRecords, or base64 text as in a Lambda event."""
    where = f"Kinesis record {item_id}"
    if isinstance(data, bytes):
        return lines(data, item_id, where)
    try:
        return lines(base64.b64decode(data, validate=True), item_id, where)
    except (binascii.Error, ValueError):
        return Unpacked(item_id, malformed=(Malformed(where, "its data is not base64"),))


def lambda_event(event: Mapping[str, Value]) -> tuple[Unpacked, ...]:
    """Each record of the event that a Kinesis or SQS event source hands to a Lambda function, in order.

    Raises Malformed for an event that is not of these: its records have no ids to be reported by.
    """
    records = event.get("Records")
    if not isinstance(records, Sequence) or isinstance(records, str):
        raise Malformed("event", "it has no Records: is the function invoked by a Kinesis or SQS event source?")
    return tuple(_lambda_record(record, number) for number, record in enumerate(records))


def connection_ids(units: Iterable[Unpacked]) -> frozenset[str]:
    """Of which connections there is something in these."""
    return frozenset(envelope.connection_id for unit in units for envelope in unit.envelopes)


def whole_lines(data: bytes, item_id: str = "data") -> tuple[Unpacked, int]:
    """A file that is still being written to, read from a line's beginning on: its whole lines, and how many bytes they
    are. The next reading begins after these."""
    length = data.rfind(b"\n") + 1
    return lines(data[:length], item_id), length


def _lambda_record(record: Value, number: int) -> Unpacked:
    where = f"event record {number}"
    if not isinstance(record, Mapping):
        raise Malformed(where, "it is not a map")
    match record.get("eventSource"):
        case "aws:kinesis":
            part = record.get("kinesis")
            if not isinstance(part, Mapping):
                raise Malformed(where, "it has no kinesis part")
            return kinesis(_text(part, "data", where), _text(part, "sequenceNumber", where))
        case "aws:sqs":
            message_id = _text(record, "messageId", where)
            return lines(_text(record, "body", where), message_id, f"SQS message {message_id}")
        case source:
            raise Malformed(where, f"its eventSource is {source!r}; it must be aws:kinesis or aws:sqs")


def _text(fields: Mapping[str, Value], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise Malformed(where, f"{name} must be text")
    return value
