"""From what a spec says of records and acknowledgements to what a machine goes by."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from streamlease.feed.shape import Acks, Dedupe, Extract, Part, RecordShape, Series
from streamlease.spec import record as model
from streamlease.spec.expression import condition, extractor
from streamlease.spec.record import is_of_message, within
from streamlease.spec.units import seconds
from streamlease.write import Value


def record_shape(record: model.Record) -> RecordShape:
    series, dedupe = record.series, record.dedupe
    paths: dict[Part, str | None] = {
        "payload": record.payload,
        "sequence": record.sequence,
        "record_id": record.id,
        "event_at": record.event_at,
        "dedupe": dedupe.key if dedupe else None,
        "number": (series.number or record.sequence) if series else None,
        "first": series.first if series else None,
        "previous": series.previous if series else None,
        "key": series.key if series else None,
    }
    is_iso = record.event_at_unit == "iso"
    return RecordShape(
        when=_condition(record.when),
        each=None if record.each is None else extractor(record.each),
        payload=_part(record.payload),
        sequence=_part(record.sequence),
        sequence_type=record.type,
        sequence_unit=record.sequence_unit,
        record_id=_part(record.id),
        event_at=_iso(within(record.event_at)) if record.event_at and is_iso else _part(record.event_at),
        event_at_unit="ms" if record.event_at_unit == "iso" else record.event_at_unit,
        unique=record.unique,
        contiguous=record.contiguous,
        series=None if series is None else _series(series, paths["number"]),
        dedupe=None if dedupe is None else _dedupe(dedupe),
        # Without a list in it, a message is its own entry.
        of_message=frozenset(part for part, path in paths.items() if path and is_of_message(path) and record.each),
    )


def acks(ack: model.Ack, normal: Callable[[Value], Value]) -> Acks:
    """`normal` puts what stands in braces in a template into a feed's form."""
    return Acks(
        message=normal(ack.send),
        capture={name: extractor(path) for name, path in ack.capture.items()},
        when=_condition(ack.when),
        on=ack.at,
        gather=ack.gather,
    )


def _series(series: model.Series, number: str | None) -> Series:
    return Series(
        number=extractor(within(number or "@")),
        first=_part(series.first),
        previous=_part(series.previous),
        key=_part(series.key),
        restart=_condition(series.restart),
        of_messages=series.of == "messages",
        per_socket=series.per_socket,
        most_keys=series.keys,
    )


def _dedupe(dedupe: model.Dedupe) -> Dedupe:
    within_s = None if dedupe.within is None else seconds(dedupe.within)
    return Dedupe(key=_part(dedupe.key), within_s=within_s, most=dedupe.most)


def _part(path: str | None) -> Extract | None:
    return None if path is None else extractor(within(path))


def _condition(text: str | None) -> Extract | None:
    return None if text is None else condition(text)


@lru_cache(256)
def _iso(text: str) -> Extract:
    """An ISO 8601 time as Unix milliseconds; one without an offset is taken for UTC."""
    read = extractor(text)

    def milliseconds(value: Value) -> Value:
        found = read(value)
        if not isinstance(found, str):
            return None
        try:
            time = datetime.fromisoformat(found)
            return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000)
        except (ValueError, OverflowError):
            return None

    return milliseconds
