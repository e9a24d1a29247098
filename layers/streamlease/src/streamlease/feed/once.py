"""Parts that are read from the message for each of its records: read once, for there may be thousands."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from streamlease.feed import reader
from streamlease.feed.shape import Extract, Part, RecordShape
from streamlease.write import Value

_NONE: Final = object()
_MADE: Final[Mapping[Part, Callable[[Value], Value]]] = {
    "record_id": reader.id_text,
    "dedupe": reader.dedupe_text,
    "key": reader.key_text,
}
"""What is made of a part, where that looks at all of it; made of the result once more, it stays the same."""


class Once:
    """An extract that remembers what it read of the last message."""

    __slots__ = ("_found", "_made", "_of", "_read")

    def __init__(self, read: Extract, made: Callable[[Value], Value] | None) -> None:
        self._read = read
        self._made = made
        self._of: object = _NONE
        self._found: Value = None

    def __call__(self, message: Value) -> Value:
        if message is not self._of:
            found = self._read(message)
            self._found = found if self._made is None else self._made(found)
            self._of = message
        return self._found

    def forget(self) -> None:
        self._of, self._found = _NONE, None


def once(shape: RecordShape) -> tuple[RecordShape, tuple[Once, ...]]:
    """The shape with what is read of the message read once, and what is then to be forgotten after each message."""
    if not shape.of_message:
        return shape, ()
    made: dict[str, Once] = {}

    def of(part: Part, read: Extract | None) -> Extract | None:
        if read is None or part not in shape.of_message:
            return read
        made[part] = Once(read, _MADE.get(part))
        return made[part]

    series, dedupe = shape.series, shape.dedupe
    if series is not None:
        series = replace(
            series,
            number=of("number", series.number) or series.number,
            first=of("first", series.first),
            previous=of("previous", series.previous),
            key=of("key", series.key),
        )
    if dedupe is not None:
        dedupe = replace(dedupe, key=of("dedupe", dedupe.key))
    shape = replace(
        shape,
        payload=of("payload", shape.payload),
        sequence=of("sequence", shape.sequence),
        record_id=of("record_id", shape.record_id),
        event_at=of("event_at", shape.event_at),
        series=series,
        dedupe=dedupe,
    )
    return shape, tuple(made.values())
