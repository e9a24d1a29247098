"""From a validated spec, or the map that an item holds, to the `Feed` that a machine runs."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

from pydantic import ValidationError

from streamlease.feed.feed import Extract, Feed, Keepalive, Resume, Retry
from streamlease.spec import adapters, compile_record, compile_session, dial, stream
from streamlease.spec.bounds import bounds
from streamlease.spec.document import without_unknown
from streamlease.spec.expression import condition, extractor
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.placeholders import NAME, normal
from streamlease.spec.problems import BadSpec, Problem, sentences
from streamlease.spec.together import captured
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

    def template(value: Value) -> Value:
        return _template(value, name, spec.values.keys())

    query, parameters = _query(spec, template)
    return Feed(
        connection_id=name,
        url=_url(normal(spec.url, name), query),
        headers={header: str(template(value)) for header, value in spec.headers.items()},
        query=query,
        parameters=parameters,
        subprotocols=tuple(spec.subprotocols),
        fetch=None if spec.fetch is None else compile_session.fetching(spec.fetch, template),
        computed=compile_session.values(spec.values, template),
        open_messages=tuple(compile_session.step(entry, template) for entry in spec.open),
        ready=_condition(spec.ready.when if spec.ready else None),
        ready_within_s=seconds(spec.ready.within if spec.ready else stream.READY_WITHIN),
        decode=decoder(spec.unwrap or (), most_bytes, spec.max_values),
        adapter=None if spec.adapter is None else adapters.adapting(spec.adapter, template),
        record=compile_record.record_shape(spec.record),
        acks=None if spec.ack is None else compile_record.acks(spec.ack, template),
        resume=_resume(spec.resume, template),
        retry=_retry(spec.retry),
        rules=tuple(compile_session.rule(index, rule, template) for index, rule in enumerate(spec.rules)),
        rotation=compile_session.rotation(spec.rotate),
        dials=dial.limits(spec.dial),
        pace=None if spec.pace is None else compile_session.pace(spec.pace),
        max_send_bytes=None if spec.max_send in (None, "never") else size(str(spec.max_send)),
        route=compile_session.route(spec.tls, spec.proxy, spec.private_addresses, template),
        compression=spec.compression,
        keepalive=_keepalive(spec.keepalive, template),
        open_timeout_s=seconds(spec.open_within),
        close_within_s=seconds(spec.close_within),
        close_code=spec.close_code,
        max_message_bytes=most_bytes,
        bounds=bounds(spec),
        sink=spec.sink,
        checkpoint_every_s=seconds(spec.checkpoint.every) if "every" in spec.checkpoint.model_fields_set else None,
    )


def _query(
    spec: ConnectionSpec, template: Callable[[Value], Value]
) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """The parameters that are always there, quoted; and those that the upstream's words are put into."""
    names = captured(spec)
    always: list[tuple[str, str]] = []
    filled: dict[str, str] = {}
    for name, given in spec.query.items():
        for text in given if isinstance(given, list) else [given]:
            if names.intersection(NAME.findall(text)):
                filled[name] = str(template(text))
            else:
                always.append((name, _quoted(str(template(text)))))
    return tuple(always), filled


def _url(url: str, query: tuple[tuple[str, str], ...]) -> str:
    if not query:
        return url
    separator = "" if url.endswith(("?", "&")) else "&" if "?" in url else "?"
    return url + separator + "&".join(f"{quote(name, safe=_PLAIN_IN_QUERY)}={value}" for name, value in query)


def _quoted(text: str) -> str:
    """Quoted for a query, but for references to secrets, which are quoted when they are filled in."""
    quoted, rest = "", text
    while True:
        plain, opening, rest = rest.partition("{")
        quoted += quote(plain, safe=_PLAIN_IN_QUERY)
        if not opening:
            return quoted
        inside, closing, after = rest.partition("}")
        if closing and (":" in inside or inside.startswith("=")):
            quoted, rest = f"{quoted}{{{inside}}}", after
        else:
            quoted += quote("{")


def _template(value: Value, connection_id: str, computed: AbstractSet[str]) -> Value:
    if isinstance(value, str):
        return normal(value, connection_id, computed)
    if isinstance(value, Mapping):
        return {name: _template(entry, connection_id, computed) for name, entry in value.items()}
    if isinstance(value, list):
        return [_template(entry, connection_id, computed) for entry in value]
    return value


def _condition(text: str | None) -> Extract | None:
    return None if text is None else condition(text)


def _resume(resume: stream.Resume, template: Callable[[Value], Value]) -> Resume:
    return Resume(
        query={name: str(template(value)) for name, value in (resume.query or {}).items()},
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
        token=resume.token,
        url=resume.url,
        reaches_back_s=None if resume.reaches_back is None else seconds(resume.reaches_back),
        too_old=resume.too_old,
        beginning=resume.beginning,
    )


@lru_cache(256)
def _one_of(retry: Retry) -> Retry:
    """The same object for all that are alike: a worker holds thousands of feeds, and most say nothing about this."""
    return retry


def _retry(retry: stream.Retry) -> Retry:
    made = Retry(
        first_s=seconds(retry.first),
        longest_s=seconds(retry.longest),
        proven_after_s=seconds(retry.proven_after),
        fatal_close_codes=frozenset(retry.fatal_close_codes),
        fatal_http_statuses=frozenset(retry.fatal_http_statuses),
    )
    return _one_of(made)


def _keepalive(keepalive: stream.Keepalive, template: Callable[[Value], Value]) -> Keepalive:
    return Keepalive(
        ping_every_s=None if keepalive.ping_every == "off" else seconds(keepalive.ping_every),
        pong_within_s=seconds(keepalive.pong_within),
        stale_after_s=None if keepalive.stale_after is None else seconds(keepalive.stale_after),
        beat=None if keepalive.message is None else compile_session.beat(keepalive.message, template),
        heartbeat=_condition(keepalive.heartbeat),
    )
