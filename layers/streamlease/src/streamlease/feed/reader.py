"""Reads a record's parts out of a message. Total: whatever an upstream sends, there is an answer, in bounded time."""

import json
import math
import re
from typing import Final, Literal

from streamlease.feed.feed import RecordShape
from streamlease.model import Sequence
from streamlease.write import Value

DEEPEST = 200
"""Nesting beyond this is not read as JSON: no encoder here or decoder further on should have to go so deep."""
LONGEST_SEQUENCE = 1_024
FUTURE_MS = 60_000

_LARGEST = 10**38
"""DynamoDB keeps 38 digits."""
_SMALLEST = 1e-100
_NUMBER = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")
_LATEST_MS = 10**15
_PER_MS = {"us": 1_000, "ns": 1_000_000}


class NotJson:
    """What a message decodes to that is none."""


NOT_JSON: Final = NotJson()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def decode(data: str | bytes) -> Value | NotJson:
    """A text or binary message as JSON."""
    try:
        text = data if isinstance(data, str) else data.decode()
        value: Value = _decode(text)
    except (ValueError, RecursionError):
        return NOT_JSON
    if text.count("[") + text.count("{") > DEEPEST and _too_deep(value):
        return NOT_JSON
    return value


def _too_deep(value: Value) -> bool:
    level: list[Value] = [value]
    for _ in range(DEEPEST):
        below: list[Value] = []
        for entry in level:
            if isinstance(entry, dict):
                below.extend(entry.values())
            elif isinstance(entry, list):
                below.extend(entry)
        if not below:
            return False
        level = below
    return True


class Reader:
    """The parts of one feed's records."""

    __slots__ = ("_number", "_shape")

    def __init__(self, shape: RecordShape) -> None:
        self._shape = shape
        self._number = shape.sequence_type == "number"

    def sequence(self, value: Value) -> Sequence | None:
        """None where there is none, or none to resume from."""
        if self._shape.sequence is None:
            return None
        found = self._shape.sequence(value)
        return number(found) if self._number else text(found)

    def record_id(self, value: Value, sequence: Sequence | None) -> str | None:
        if self._shape.record_id is not None:
            found = self._shape.record_id(value)
            if isinstance(found, str):
                return found or None
            return str(found) if isinstance(found, int) and not isinstance(found, bool) else None
        return str(sequence) if self._shape.unique and sequence is not None else None

    def event_at_ms(self, value: Value) -> int | None:
        if self._shape.event_at is None:
            return None
        return _milliseconds(number(self._shape.event_at(value)), self._shape.event_at_unit)

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
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _milliseconds(value: float | None, unit: Literal["s", "ms", "us", "ns"]) -> int | None:
    if value is None or not 0 <= value < _LARGEST:
        return None
    milliseconds = value * 1_000 if unit == "s" else value // _PER_MS.get(unit, 1)
    return int(milliseconds) if milliseconds < _LATEST_MS else None
