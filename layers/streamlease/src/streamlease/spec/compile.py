"""From a validated spec, or the map that an item holds, to the `Feed` that a machine runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from streamlease.feed.feed import Extract, Feed, Keepalive, Resume, Retry
from streamlease.spec import compile_record, model
from streamlease.spec.document import without_unknown
from streamlease.spec.expression import condition, extractor
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.placeholders import normal
from streamlease.spec.problems import BadSpec, Problem, sentences
from streamlease.spec.units import seconds, size
from streamlease.spec.unwrap import decoder
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
    most_bytes = size(str(spec.max_message))
    return Feed(
        connection_id=name,
        url=_url(spec),
        headers={header: normal(value, name) for header, value in spec.headers.items()},
        subprotocols=tuple(spec.subprotocols),
        open_messages=tuple(_template(message, name) for message in spec.open),
        ready=_condition(spec.ready.when if spec.ready else None),
        ready_within_s=seconds(spec.ready.within if spec.ready else model.READY_WITHIN),
        decode=decoder(spec.unwrap or (), most_bytes),
        record=compile_record.record_shape(spec.record),
        acks=None if spec.ack is None else compile_record.acks(spec.ack, lambda message: _template(message, name)),
        resume=_resume(spec.resume, name),
        retry=_retry(spec.retry),
        keepalive=_keepalive(spec.keepalive),
        open_timeout_s=seconds(spec.open_within),
        close_within_s=seconds(spec.close_within),
        close_code=spec.close_code,
        max_message_bytes=most_bytes,
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


def _resume(resume: model.Resume, connection_id: str) -> Resume:
    return Resume(
        query={name: normal(value, connection_id) for name, value in (resume.query or {}).items()},
        rewind=resume.rewind,
        inclusive=resume.inclusive,
        instance=resume.instance,
        elsewhere=resume.elsewhere,
        rewind_elsewhere=resume.rewind_elsewhere,
        floor=None if resume.floor is None else extractor(resume.floor),
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
