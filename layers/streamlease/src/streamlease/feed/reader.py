"""Reads a record's parts out of a message. Total: whatever an upstream sends, there is an answer, in bounded time."""

import hashlib
import json
import math
import re
from collections.abc import Callable
from typing import Final, Literal

from streamlease.feed.decoding import Undecodable, json_value
from streamlease.feed.shape import RecordShape
from streamlease.model import Sequence
from streamlease.write import Value

LONGEST_SEQUENCE = 1_024
LONGEST_KEY = 256
"""A key longer than this is remembered by its hash."""
FUTURE_MS = 60_000

_LONGEST_BITS = 3_400
"""Of a number that is written out: as many digits as a sequence may have characters."""
_LARGEST = 10**38
"""DynamoDB keeps 38 digits."""
_SMALLEST = 1e-100
_NUMBER = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")
_LATEST_MS = 10**15
_PER_MS = {"us": 1_000, "ns": 1_000_000}


class NotJson:
    """What a text decodes to that is none."""


NOT_JSON: Final = NotJson()


def decode(data: str | bytes) -> Value | NotJson:
    """A text as JSON."""
    try:
        return json_value(data)
    except Undecodable:
        return NOT_JSON


type _Sequence = Callable[[Value, Value], Sequence | None]


class Reader:
    """The parts of one feed's records. An entry may be the message itself."""

    __slots__ = ("_by_entry", "_number", "_of_message", "_session", "_shape", "sequence")

    def __init__(self, shape: RecordShape) -> None:
        self._shape = shape
        self._number = shape.sequence_type == "number"
        self._of_message = shape.of_message
        self._by_entry = shape.each is not None and "sequence" in shape.of_message
        self._session = ""
        self.sequence: _Sequence = self._reading_sequence()
        """Of a message and its entry: None where there is none, or none to resume from."""

    def _reading_sequence(self) -> _Sequence:
        extract, read = self._shape.sequence, number if self._number else text
        if extract is None:
            return lambda _message, _entry: None
        if "sequence" in self._of_message:
            return lambda message, _entry: read(extract(message))
        return lambda _message, entry: read(extract(entry))

    def enter(self, token: str | None) -> None:
        """Sequences are of this session of the upstream's from here on: one of another session names another record."""
        self._session = ""
        if token is not None:
            self._session = hashlib.blake2b(token.encode(errors="surrogatepass"), digest_size=6).hexdigest() + "/"

    def cursor(self, found: Value) -> Sequence | None:
        """What was found where a sequence stands, as one to resume from."""
        return number(found) if self._number else text(found)

    def record_id(self, message: Value, entry: Value, sequence: Sequence | None, index: int) -> str | None:
        """`index` counts the entries of a message from 0."""
        if self._shape.record_id is not None:
            return id_text(self._shape.record_id(message if "record_id" in self._of_message else entry))
        if not self._shape.unique or sequence is None:
            return None
        return f"{self._session}{sequence}/{index}" if self._by_entry else f"{self._session}{sequence}"

    def dedupe_key(self, message: Value, entry: Value, record_id: str | None) -> str | None:
        dedupe = self._shape.dedupe
        if dedupe is None or dedupe.key is None:
            return key_text(record_id)
        return dedupe_text(dedupe.key(message if "dedupe" in self._of_message else entry))

    def payload(self, message: Value, entry: Value) -> Value:
        """None where its path leads nowhere."""
        if self._shape.payload is None:
            return entry
        return self._shape.payload(message if "payload" in self._of_message else entry)

    def event_at_ms(self, message: Value, entry: Value) -> int | None:
        if self._shape.event_at is None:
            return None
        found = self._shape.event_at(message if "event_at" in self._of_message else entry)
        return _milliseconds(number(found), self._shape.event_at_unit)

    def dated_ms(self, sequence: Sequence) -> int | None:
        """When a record of this sequence is from, where sequences are times."""
        unit = self._shape.sequence_unit
        return None if unit is None or isinstance(sequence, str) else _milliseconds(sequence, unit)

    def present(self, sequence: Sequence, received_at_ms: int) -> tuple[Sequence, bool]:
        """The sequence as far as a position may follow it, and whether the record claims to come from the future: one
        author's wrong clock must not make a resume skip what others write meanwhile."""
        unit = self._shape.sequence_unit
        if unit is None or isinstance(sequence, str):
            return sequence, False
        now = received_at_ms // 1_000 if unit == "s" else received_at_ms * _PER_MS.get(unit, 1)
        if sequence <= now:
            return sequence, False
        dated_ms = _milliseconds(sequence, unit)
        return now, dated_ms is None or dated_ms > received_at_ms + FUTURE_MS


def number(value: Value) -> int | float | None:
    """A number, or the text of one, if DynamoDB can hold it."""
    if type(value) is int:
        return value if -_LARGEST < value < _LARGEST else None
    if type(value) is float:
        return value if math.isfinite(value) and (value == 0 or _SMALLEST < abs(value) < _LARGEST) else None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value) if "." in value else int(value)
    return None


def text(value: Value) -> str | None:
    """An opaque cursor: printable, of a bounded length; a number is written out."""
    if isinstance(value, str):
        return value if 0 < len(value) <= LONGEST_SEQUENCE and value.isprintable() else None
    return _written(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _written(value: float) -> str | None:
    """To write out a number of thousands of digits takes long: it is neither a cursor nor an id."""
    return None if isinstance(value, int) and value.bit_length() > _LONGEST_BITS else str(value)


def id_text(value: Value) -> str | None:
    """A record id: a text, a whole number, or several of them together."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int) and not isinstance(value, bool):
        return _written(value)
    if isinstance(value, list) and value:
        parts = [id_text(part) for part in value]
        return None if None in parts else "/".join(part for part in parts if part is not None)
    return None


def key_text(value: Value) -> str | None:
    """What tells two values apart, of a bounded length; None for none."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))
    if len(text) <= LONGEST_KEY:
        return text
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=20).hexdigest()


def dedupe_text(value: Value) -> str | None:
    """As `key_text`; of several parts none may be missing, or records that have none of them were all the same."""
    return None if isinstance(value, list) and None in value else key_text(value)


def _milliseconds(value: float | None, unit: Literal["s", "ms", "us", "ns"]) -> int | None:
    if value is None or not 0 <= value < _LARGEST:
        return None
    milliseconds = value * 1_000 if unit == "s" else value // _PER_MS.get(unit, 1)
    return int(milliseconds) if milliseconds < _LATEST_MS else None
