"""From what a socket gave to JSON-ready values: the messages that rules, readiness and records look at.

Total and bounded: a message that cannot be read is one `Undecodable`, never anything else, and what it unfolds to is
bounded before it is made. `spec.unwrap` makes the decoders that take more than JSON.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final, Literal

from streamlease.write import Value

DEEPEST: Final = 200
"""Nesting beyond this is not read: no encoder here or decoder further on should have to go so deep."""
MOST_ENTRIES: Final = 65_536
"""One message gives no more messages or records than this."""

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


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def json_value(data: str | bytes) -> Value:
    """A text or binary message as JSON. Raises Undecodable."""
    try:
        text = data if isinstance(data, str) else data.decode()
        value: Value = _decode(text)
    except (ValueError, RecursionError):
        raise Undecodable("not_json") from None
    if text.count("[") + text.count("{") > DEEPEST and too_deep(value):
        raise Undecodable("not_json")
    return value


def one_json(data: str | bytes) -> Sequence[Value]:
    """The decoder of a feed that says nothing else: each message is one JSON text."""
    return (json_value(data),)


def too_deep(value: Value) -> bool:
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
