"""From what a spec says of a socket's life to what a machine goes by."""

from collections.abc import Callable, Mapping
from typing import Literal

from streamlease.feed import computed
from streamlease.feed.computed import Computed, Encoded, Hmac, Jwt, Now, Random
from streamlease.feed.events import Route, Tls
from streamlease.feed.feed import Beat, Captures, Extract, Fetching, Pace, Rotation, Rule, Step
from streamlease.spec import session
from streamlease.spec.expression import condition, extractor
from streamlease.spec.units import seconds
from streamlease.write import Value

type Normal = Callable[[Value], Value]
"""Puts what stands in braces in a template into a feed's form."""

_UNIT_S = {"ms": 0.001, "s": 1.0}


def fetching(fetch: session.Fetch, normal: Normal) -> Fetching:
    return Fetching(
        url=_text(normal, fetch.url),
        method=fetch.method,
        headers={name: _text(normal, value) for name, value in fetch.headers.items()},
        body=normal(fetch.body),
        good=_condition(fetch.ok),
        next_url=_path(fetch.next_url),
        capture=_captures(fetch.capture),
        within_s=seconds(fetch.within),
    )


def step(entry: object, normal: Normal) -> Value | Step:
    """A message stays one: most scripts are nothing else."""
    if not isinstance(entry, session.Step):
        message: Value = normal(entry)  # type: ignore[arg-type]  # validated as JSON
        return message
    return Step(
        sends=(normal(entry.send),) if "send" in entry.model_fields_set else (),
        expect=_condition(entry.expect),
        answers=tuple((extractor(path), normal(template)) for path, template in entry.answers.items()),
        within_s=seconds(entry.within),
        capture=_captures(entry.capture),
        present=entry.present,
        absent=entry.absent,
    )


def rule(index: int, said: session.Rule, normal: Normal) -> Rule:
    after = said.after
    timed = after is not None and session.is_duration(after)
    return Rule(
        name=f"rules[{index}]",
        message=_condition(said.message),
        close_codes=frozenset(said.close),
        http_statuses=frozenset(said.http),
        reason=said.reason,
        body=_condition(said.body),
        action=said.then,
        after_s=seconds(after) if after is not None and timed else None,
        after=None if timed else _path(after),
        url=_path(said.url),
        capture=_captures(said.capture),
        sends=(normal(said.send),) if "send" in said.model_fields_set else (),
        times=said.times,
        otherwise=said.otherwise,
    )


def beat(message: session.Beat, normal: Normal) -> Beat:
    named = not session.is_duration(message.every)
    return Beat(
        message=normal(message.send),
        every_s=None if named else seconds(message.every),
        every_from=message.every if named else None,
        every_unit_s=_UNIT_S[message.unit],
        if_silent=message.if_silent,
        first_at_random=message.first == "random",
        answer=_condition(message.answer),
        answer_within_s=None if message.answer_within is None else seconds(message.answer_within),
        close_code=message.close_code,
    )


def rotation(rotate: session.Rotate) -> Rotation:
    return Rotation(
        after_s=None if rotate.after is None else seconds(rotate.after),
        jitter_s=0.0 if rotate.jitter is None else seconds(rotate.jitter),
        overlap=rotate.order == "make_before_break",
        overlap_s=seconds(rotate.overlap),
    )


def pace(given: session.Pace) -> Pace:
    return Pace(given.messages, seconds(given.per), given.count_pings)


def route(tls: session.Tls, proxy: str, private_addresses: bool, normal: Normal) -> Route:
    def reference(text: str | None) -> str | None:
        return None if text is None else _text(normal, text)

    return Route(
        Tls(reference(tls.ca), reference(tls.certificate), reference(tls.key), tls.server_name),
        None if proxy == "none" else proxy if proxy == "env" else _text(normal, proxy),
        private_addresses,
    )


def values(given: Mapping[str, session.Computed], normal: Normal) -> dict[str, Computed]:
    return {name: _value(value, normal) for name, value in given.items()}


def _value(given: session.Computed, normal: Normal) -> Computed:
    if given.now is not None:
        return Now(given.now, 0.0 if given.plus is None else seconds(given.plus), given.text)
    if given.random is not None:
        return Random(given.random)
    if given.base64 is not None:
        return Encoded(_text(normal, given.base64))
    key = "" if given.key is None else _text(normal, given.key)
    if given.jwt is not None:
        headers = {name: normal(value) for name, value in given.headers.items()}
        return Jwt(key, given.jwt, headers, {name: normal(value) for name, value in given.claims.items()})
    algorithms: tuple[tuple[computed.Hash, str | None], ...] = (
        ("sha256", given.hmac_sha256),
        ("sha384", given.hmac_sha384),
        ("sha512", given.hmac_sha512),
    )
    algorithm, text = next((name, text) for name, text in algorithms if text is not None)
    encoding: Literal["text", "hex", "base64"] = given.key_encoding
    digested = None if given.and_sha256 is None else _text(normal, given.and_sha256)
    return Hmac(key, _text(normal, text), algorithm, given.encoding, encoding, digested)


def _text(normal: Normal, text: str) -> str:
    return str(normal(text))


def _condition(text: str | None) -> Extract | None:
    return None if text is None else condition(text)


def _path(text: str | None) -> Extract | None:
    return None if text is None else extractor(text)


def _captures(captures: Mapping[str, str]) -> Captures:
    return {name: extractor(path) for name, path in captures.items()}
