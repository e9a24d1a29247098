"""From what a socket gave to JSON-ready values: the messages that rules, readiness and records look at.

Total and bounded: a message that cannot be read is one `Undecodable`, never anything else, and what it unfolds to is
bounded before it is made. `spec.unwrap` makes the decoders that take more than JSON.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from streamlease.write import Value

DEEPEST: Final = 200
"""Nesting beyond this is not read: no encoder here or decoder further on should have to go so deep."""
MOST_ENTRIES: Final = 16_384
"""One frame gives no more messages or records than this; fewer where the spec looks long at each (`feed.bounds`)."""
MOST_VALUES: Final = 131_072
"""Values and names in one frame, unless its spec says otherwise: all are made in one go, and meanwhile no other
connection of the worker is looked at."""

type Trouble = Literal["not_json", "undecodable", "too_large", "too_many"]
type Decode = Callable[[str | bytes], Sequence[Value]]
"""The messages in what came in one frame, most often one. Raises Undecodable, and nothing else."""


class Undecodable(Exception):
    """A message that cannot be read. `trouble` is what to count it as; it is delivered as it came."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble)
        self.trouble: Trouble = trouble


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    """A number beyond a double becomes the largest there is, so that whatever was read can be written again."""
    value = float(text)
    return value if math.isfinite(value) else math.copysign(_LARGEST, value)


_LARGEST = 1.7976931348623157e308
_SHORTEST_TOO_DEEP = 2 * DEEPEST
_decode = msgspec.json.Decoder().decode
_decode_odd = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode
"""Takes what the other does not and JSON can say: half of a surrogate pair, and numbers beyond a double."""


def json_value(data: str | bytes, most_values: int = MOST_VALUES) -> Value:
    """A text or binary message as JSON. Raises Undecodable."""
    value: Value
    try:
        value = _decode(data)
    except (ValueError, RecursionError):
        try:
            value = _decode_odd(data if isinstance(data, str) else data.decode())
        except (ValueError, RecursionError):
            raise Undecodable("not_json") from None
    length = len(data)
    if length > _SHORTEST_TOO_DEEP:
        opened = data.count("[") + data.count("{") if isinstance(data, str) else data.count(b"[") + data.count(b"{")
        # Each value or name takes two characters, as in [0,0].
        if opened > DEEPEST or length > 2 * most_values:
            trouble = beyond(value, most_values)
            if trouble is not None:
                raise Undecodable(trouble)
    return value


def one_json(data: str | bytes) -> Sequence[Value]:
    """The decoder of a feed that says nothing else: each message is one JSON text."""
    return (json_value(data),)


def beyond(value: Value, most_values: int) -> Literal["not_json", "too_many"] | None:
    """Whether it is nested too deep, or holds more values and names. Looks at no more than `most_values`."""
    level: list[Value] = [value]
    left = most_values - 1
    for _ in range(DEEPEST):
        below: list[Value] = []
        for entry in level:
            if type(entry) is list:
                left -= len(entry)
                if left >= 0:
                    below += entry
            elif type(entry) is dict:
                left -= 2 * len(entry)
                if left >= 0:
                    below += entry.values()
        if left < 0:
            return "too_many"
        if not below:
            return None
        level = below
    return "not_json"
