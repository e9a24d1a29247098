"""Puts variables into what is dialled, fetched and sent. Whatever needs one that is not there is left out.

A variable is the upstream's own text: nothing in it may be taken for a reference to a secret or for a computed value
(`secrets`), so its opening braces are written the way that URL, header or JSON write any character.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import replace
from typing import Final
from urllib.parse import quote, unquote_plus, urlsplit

from streamlease.feed.computed import templates_of
from streamlease.feed.events import Dial, Fetch, Send
from streamlease.feed.feed import Feed, Fetching, Step
from streamlease.write import Value

SEQUENCE: Final = "sequence"
SOCKET_ID: Final = "socket_id"
RECEIVED: Final = "received"
BUILT_IN: Final = frozenset({SEQUENCE, SOCKET_ID, RECEIVED})

type Variables = Mapping[str, Value]
"""What is there; texts, numbers and booleans only."""

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACE = re.compile(r"(\{(?:=[A-Za-z_][A-Za-z0-9_]*|(?:env|ssm|secretsmanager):[^{}]*)\})")
_BRACE = "\ufdd0"
"""Stands for a variable's opening brace until JSON is written. No text has this: it is no character."""
_PLAIN_IN_QUERY = "-._~,:@/$!*'()"
_PLAIN_IN_HEADER = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "{")
_PLAIN_IN_URL = "-._~,:@/$!*'()?&=;+%[]"


type Parameters = Many[tuple[str, str]]


class _Absent:
    """What a template becomes whose variable is not there."""


_ABSENT: Final = _Absent()


class Templates:
    """One feed's templates, and which names in braces are variables: `{symbol}` may be a text that means itself."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._names = BUILT_IN | captured(feed)

    def dial(self, variables: Variables, *, socket: int = 0, url: str | None = None, fresh: bool = False) -> Dial:
        """`url`: the upstream's own word where to dial, instead of the feed's."""
        feed = self._feed
        route = feed.route
        if url is None:
            url = feed.url
        else:
            own_hosts = (_host(feed.url), None if feed.fetch is None else _host(feed.fetch.url))
            route = replace(route, announced=_host(url) not in own_hosts)
            url = quote(url, safe=_PLAIN_IN_URL)
            url = with_query(url, feed.query)
        added = dict(feed.parameters)
        if variables.get(SEQUENCE) is not None:
            added.update(feed.resume.query)
        filled = [(name, self._quoted(text, variables)) for name, text in added.items()]
        url = with_query(url, [(name, text) for name, text in filled if text is not None])
        return Dial(
            url,
            self.headers(feed.headers, variables),
            feed.subprotocols,
            feed.open_timeout_s,
            feed.max_message_bytes,
            socket=socket,
            route=route,
            compression=feed.compression,
            computed=feed.computed,
            fresh_secrets=fresh,
        )

    def fetch(self, fetching: Fetching, variables: Variables, *, socket: int, fresh: bool = False) -> Fetch:
        sent = None if fetching.body is None else self.send(fetching.body, variables)
        return Fetch(
            socket,
            fetching.method,
            fetching.url,
            self.headers(fetching.headers, variables),
            body=None if sent is None else str(sent.text),
            json=sent is None or sent.json,
            timeout_s=fetching.within_s,
            route=self._feed.route,
            computed=self._feed.computed,
            fresh_secrets=fresh,
        )

    def headers(self, headers: Mapping[str, str], variables: Variables) -> dict[str, str]:
        filled = {name: self._filled(text, variables, _in_header) for name, text in headers.items()}
        return {name: text for name, text in filled.items() if text is not None}

    def send(
        self, message: Value, variables: Variables, *, socket: int = 0, null_if_absent: bool = False
    ) -> Send | None:
        """None where a variable without which the message cannot be is not there."""
        is_json = True
        if isinstance(message, str) and self._name(message) is None:
            is_json = looks_like_json(message)
            text = self._filled(message, variables, _in_json_text if is_json else _in_text)
            if text is None:
                return None
        else:
            rendered = self.render(message, variables, null_if_absent=null_if_absent)
            if isinstance(rendered, _Absent):
                return None
            text = json.dumps(rendered, separators=(",", ":"), ensure_ascii=False).replace(_BRACE, "\\u007b")
        feed = self._feed
        return Send(text, is_json, socket, most_bytes=feed.max_send_bytes, computed=feed.computed)

    def render(self, template: Value, variables: Variables, *, null_if_absent: bool = False) -> Value | _Absent:
        if isinstance(template, str):
            whole = self._name(template)
            if whole is not None:
                value = variables.get(whole)
                if value is None:
                    return None if null_if_absent else _ABSENT
                if isinstance(value, float) and value.is_integer():
                    return int(value)
                return _without_braces(value)
            text = self._filled(template, variables, _braced)
            return _ABSENT if text is None else text
        if isinstance(template, Mapping):
            fields = {n: self.render(v, variables, null_if_absent=null_if_absent) for n, v in template.items()}
            return {name: value for name, value in fields.items() if not isinstance(value, _Absent)}
        if isinstance(template, bool | int | float | None):
            return template
        entries = [self.render(value, variables, null_if_absent=null_if_absent) for value in template]
        return [value for value in entries if not isinstance(value, _Absent)]

    def means(self, template: Value, variables: Variables) -> Value:
        """What a template comes to, to compare an answer with; None where a variable is not there."""
        rendered = self.render(template, variables)
        if isinstance(rendered, _Absent):
            return None
        return rendered.replace(_BRACE, "{") if isinstance(rendered, str) else rendered

    def _name(self, template: str) -> str | None:
        match = _NAME.fullmatch(template)
        return match[1] if match is not None and match[1] in self._names else None

    def _quoted(self, text: str, variables: Variables) -> str | None:
        """Quoted for a query, but for references and computed values, which are quoted when they are filled in."""
        filled = self._filled(text, variables, _braced)
        if filled is None:
            return None
        parts = _PLACE.split(filled)
        return "".join(
            part if index % 2 else quote(part.replace(_BRACE, "{"), safe=_PLAIN_IN_QUERY)
            for index, part in enumerate(parts)
        )

    def _filled(self, text: str, variables: Variables, write: Callable[[str], str]) -> str | None:
        if "{" not in text:
            return text
        for name in _NAME.findall(text):
            if name in self._names and variables.get(name) is None:
                return None
        return _NAME.sub(
            lambda match: write(text_of(variables[match[1]])) if match[1] in self._names else match[0], text
        )


def _host(url: str) -> str | None:
    return urlsplit(url).hostname


def captured(feed: Feed) -> frozenset[str]:
    """The names that the upstream's words may give a value to."""
    found = {name for rule in feed.rules for name in rule.capture}
    found.update(name for step in feed.open_messages if isinstance(step, Step) for name in step.capture)
    if feed.fetch is not None:
        found.update(feed.fetch.capture)
    if feed.acks is not None:
        found.update(feed.acks.capture)
    if feed.adapter is not None:
        found.update(feed.adapter.keeps)
    return frozenset(found)


def templates(feed: Feed) -> Iterator[Value]:
    """All that may hold variables, references to secrets or computed values."""
    yield feed.url
    yield from (value for _, value in feed.query)
    yield from (feed.headers, feed.parameters, feed.resume.query)
    for message in feed.open_messages:
        if isinstance(message, Step):
            yield from message.sends
            yield from (value for _, value in message.answers)
        else:
            yield message
    for rule in feed.rules:
        yield from rule.sends
    if feed.acks is not None:
        yield feed.acks.message
    if feed.adapter is not None:
        yield feed.adapter.options
    if feed.keepalive.beat is not None:
        yield feed.keepalive.beat.message
    if feed.fetch is not None:
        yield from (feed.fetch.url, feed.fetch.headers, feed.fetch.body)
    for computed in feed.computed.values():
        yield from templates_of(computed)
    tls = feed.route.tls
    yield from (feed.route.proxy, tls.ca, tls.certificate, tls.key)


def texts(template: Value) -> Iterator[str]:
    """Every text in a template."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from texts(value)
    elif not isinstance(template, bool | int | float | None):
        for value in template:
            yield from texts(value)


def needs_cursor(feed: Feed) -> bool:
    """Whether the feed asks its upstream to go on from somewhere, so that a cursor makes a difference."""
    return any("{sequence}" in text for template in templates(feed) for text in texts(template))


def with_query(url: str, parameters: Parameters) -> str:
    """`url` with these query parameters, whose values are quoted already; those of the same names are replaced."""
    if not parameters:
        return url
    names = {name for name, _ in parameters}
    base, _, query = url.partition("?")
    kept = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) not in names]
    added = [f"{quote(name, safe=_PLAIN_IN_QUERY)}={value}" for name, value in parameters]
    return f"{base}?{'&'.join(kept + added)}"


def text_of(value: Value) -> str:
    """As upstreams write it: a whole number without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _without_braces(value: Value) -> Value:
    if isinstance(value, str):
        return _braced(value)
    if isinstance(value, Mapping):
        return {name: _without_braces(entry) for name, entry in value.items()}
    return value if isinstance(value, bool | int | float | None) else [_without_braces(entry) for entry in value]


def _in_header(text: str) -> str:
    return quote(text, safe=_PLAIN_IN_HEADER)


def _in_text(text: str) -> str:
    return text.replace("{", "%7B")


def _in_json_text(text: str) -> str:
    return json.dumps(text)[1:-1].replace("{", "\\u007b")


def _braced(text: str) -> str:
    return text.replace("{", _BRACE)
