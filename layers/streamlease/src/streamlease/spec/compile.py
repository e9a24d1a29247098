"""From a validated spec, or the map that an item holds, to the `Feed` that a machine runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from streamlease.feed.feed import Extract, Feed, Keepalive, RecordShape, Resume, Retry
from streamlease.spec import model
from streamlease.spec.document import without_unknown
from streamlease.spec.expression import condition, extractor
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.placeholders import normal
from streamlease.spec.problems import BadSpec, Problem, sentences
from streamlease.spec.units import seconds, size
from streamlease.write import Value

_PLAIN_IN_QUERY = "-._~,:@/$!*'()"


@dataclass(frozen=True, slots=True)
class Compiled:
    feed: Feed
    ignored: tuple[str, ...] = ()
    """A sentence for each stored field that only a later release knows. To be logged and counted."""


def compile_item(connection_id: str, upstream_url: str, stored: Mapping[str, Value]) -> Compiled:
    """What a connection's item says. Raises BadSpec where this release cannot follow it.

    Unknown fields are passed over and told, so that a worker of the release before can go on with what a newer command
    wrote; fields that are known and wrong are refused.
    """
    named = {"id": connection_id, "url": upstream_url}
    try:
        return Compiled(compile_spec(ConnectionSpec.model_validate({**stored, **named})))
    except ValidationError:
        known, ignored = without_unknown(stored)
    try:
        spec = ConnectionSpec.model_validate({**known, **named})
    except ValidationError as error:
        where = f'connection "{connection_id}"'
        raise BadSpec([Problem("stored spec", where, sentence) for sentence in sentences(error)]) from None
    return Compiled(compile_spec(spec), tuple(ignored))


def compile_spec(spec: ConnectionSpec) -> Feed:
    name = spec.id
    return Feed(
        connection_id=name,
        url=_url(spec),
        headers={header: normal(value, name) for header, value in spec.headers.items()},
        subprotocols=tuple(spec.subprotocols),
        open_messages=tuple(_template(message, name) for message in spec.open),
        ready=_condition(spec.ready.when if spec.ready else None),
        ready_within_s=seconds(spec.ready.within if spec.ready else model.READY_WITHIN),
        record=_record(spec.record),
        resume=_resume(spec.resume, name),
        retry=_retry(spec.retry),
        keepalive=_keepalive(spec.keepalive),
        open_timeout_s=seconds(spec.open_within),
        close_within_s=seconds(spec.close_within),
        close_code=spec.close_code,
        max_message_bytes=size(str(spec.max_message)),
        sink=spec.sink,
        checkpoint_every_s=seconds(spec.checkpoint.every) if "every" in spec.checkpoint.model_fields_set else None,
    )


def _url(spec: ConnectionSpec) -> str:
    url = normal(spec.url, spec.id)
    parameters = [
        f"{quote(name, safe=_PLAIN_IN_QUERY)}={_quoted(normal(text, spec.id))}"
        for name, given in spec.query.items()
        for text in (given if isinstance(given, list) else [given])
    ]
    if not parameters:
        return url
    separator = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
    return url + separator + "&".join(parameters)


def _quoted(text: str) -> str:
    """Quoted for a query, but for references to secrets, which are quoted when they are filled in."""
    quoted, rest = "", text
    while True:
        plain, opening, rest = rest.partition("{")
        quoted += quote(plain, safe=_PLAIN_IN_QUERY)
        if not opening:
            return quoted
        inside, closing, after = rest.partition("}")
        if closing and ":" in inside:
            quoted, rest = f"{quoted}{{{inside}}}", after
        else:
            quoted += quote("{")


def _template(value: Any, connection_id: str) -> Value:
    if isinstance(value, str):
        return normal(value, connection_id)
    if isinstance(value, dict):
        return {name: _template(entry, connection_id) for name, entry in value.items()}
    if isinstance(value, list):
        return [_template(entry, connection_id) for entry in value]
    scalar: Value = value
    return scalar


def _condition(text: str | None) -> Extract | None:
    return None if text is None else condition(text)


def _extractor(text: str | None) -> Extract | None:
    return None if text is None else extractor(text)


def _record(record: model.Record) -> RecordShape:
    is_iso = record.event_at_unit == "iso"
    return RecordShape(
        when=_condition(record.when),
        payload=_extractor(record.payload),
        sequence=_extractor(record.sequence),
        sequence_type=record.type,
        sequence_unit=record.sequence_unit,
        record_id=_extractor(record.id),
        event_at=_iso(record.event_at) if record.event_at and is_iso else _extractor(record.event_at),
        event_at_unit="ms" if record.event_at_unit == "iso" else record.event_at_unit,
        unique=record.unique,
        contiguous=record.contiguous,
    )


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


def _resume(resume: model.Resume, connection_id: str) -> Resume:
    return Resume(
        query={name: normal(value, connection_id) for name, value in (resume.query or {}).items()},
        rewind=resume.rewind,
        inclusive=resume.inclusive,
        order=resume.order,
        complete=_condition(resume.complete),
        at_most=resume.at_most,
        without_cursor=resume.without_cursor,
    )


def _retry(retry: model.Retry) -> Retry:
    return Retry(
        first_s=seconds(retry.first),
        longest_s=seconds(retry.longest),
        proven_after_s=seconds(retry.proven_after),
        fatal_close_codes=frozenset(retry.fatal_close_codes),
        fatal_http_statuses=frozenset(retry.fatal_http_statuses),
    )


def _keepalive(keepalive: model.Keepalive) -> Keepalive:
    return Keepalive(
        ping_every_s=None if keepalive.ping_every == "off" else seconds(keepalive.ping_every),
        pong_within_s=seconds(keepalive.pong_within),
        stale_after_s=None if keepalive.stale_after is None else seconds(keepalive.stale_after),
    )
