"""References to secrets: found, and filled in by whoever dials. Values pass through here and are kept nowhere.

A reference is `env:NAME`, `ssm:/path` or `secretsmanager:NAME`, the latter with `#key` for one field of a JSON secret.
In a `Feed` it stands in braces. Only a feed's own references are ever filled in: `values` holds no others. Computed
values (`{=name}`) are made here too, for they may be signed with secrets.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from streamlease.errors import StreamleaseError
from streamlease.feed.computed import Computed, Moment, evaluate
from streamlease.feed.events import Dial, Fetch, Route, Send
from streamlease.feed.feed import Feed
from streamlease.feed.template import templates, texts
from streamlease.write import Value

REFERENCE: Final = (
    r"env:[A-Za-z_][A-Za-z0-9_]*"
    r"|ssm:[A-Za-z0-9_./:-]+"
    r"|secretsmanager:[A-Za-z0-9_./:+=@!-]+(?:#[A-Za-z0-9_.-]+)?"
)
_IN_BRACES = re.compile(r"\{(" + REFERENCE + r")\}")
_PLACES = re.compile(r"\{(=[A-Za-z_][A-Za-z0-9_]*|" + REFERENCE + r")\}")
_WHOLE_JSON = re.compile(r'"\{(=[A-Za-z_][A-Za-z0-9_]*)\}"')
_DEEPEST = 4
"""Computed values that are made of others."""
_WHERE_TO_PUT = {
    "env": "set this environment variable for the worker",
    "ssm": "put this parameter into SSM Parameter Store and let the worker's role read it",
    "secretsmanager": "put this secret into Secrets Manager and let the worker's role read it",
}


_NONE: Final[frozenset[str]] = frozenset()
"""One for all feeds without secrets."""


class SecretError(StreamleaseError):
    """A secret that cannot be used. Names its reference, never its value. Tried again: somebody may put it there."""

    retryable = True

    def __init__(self, reference: str, problem: str) -> None:
        super().__init__(f"secret {reference} {problem}")
        self.reference = reference


def missing(reference: str) -> SecretError:
    """For whoever looks secrets up, and finds none."""
    return SecretError(reference, f"is not there; {_WHERE_TO_PUT[reference.partition(':')[0]]}")


class NotSent(StreamleaseError):
    """A message or a dial that cannot be made as the spec says. Shows nothing of what it holds."""

    retryable = True


def references(feed: Feed) -> frozenset[str]:
    """All that must be looked up before a dial of this feed, without braces."""
    found: set[str] = set()
    for template in templates(feed):
        for text in texts(template):
            found.update(_IN_BRACES.findall(text))
    return frozenset(found) if found else _NONE


def substitute(text: str, values: Mapping[str, str]) -> str:
    """`text` with each reference replaced by its value as it is. Raises SecretError."""
    return _IN_BRACES.sub(lambda match: _value(match[1], values), text)


def resolved[C: (Dial, Fetch, Send)](command: C, values: Mapping[str, str], moment: Moment | None = None) -> C:
    """The command with its secrets and computed values in it, each written as its place asks for: quoted in a URL,
    escaped in JSON, as it is in a header or plain text. A computed value is made once for a command, however often it
    stands there. `moment` is needed where there are any. Raises SecretError and NotSent. The result is for the socket
    only: it must not be logged."""
    fill = _Filler(values, command.computed, moment)
    if isinstance(command, Send):
        if isinstance(command.text, bytes):
            return _fitting(command, command.text)
        text = fill.json(command.text) if command.json else fill.plain(command.text)
        return replace(_fitting(command, _utf8(text)), text=text)
    route = fill.route(command.route)
    headers = {name: fill.header(text) for name, text in command.headers.items()}
    url = fill.quoted(command.url)
    if isinstance(command, Fetch):
        body = command.body
        if body is not None:
            body = fill.json(body) if command.json else fill.plain(body)
        return replace(command, url=url, headers=headers, body=body, route=route)
    return replace(command, url=url, headers=headers, route=route)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotSent("a message holds half of a surrogate pair, which no socket can carry") from None


def _fitting(send: Send, data: bytes) -> Send:
    if send.most_bytes is not None and len(data) > send.most_bytes:
        raise NotSent(f"a message of {len(data)} bytes is above the {send.most_bytes} that max_send allows")
    return send


class _Filler:
    """Writes values into texts, as the places ask for."""

    def __init__(self, values: Mapping[str, str], computed: Mapping[str, Computed], moment: Moment | None) -> None:
        self._values = values
        self._computed = computed
        self._moment = moment
        self._made: dict[str, str | int] = {}
        self._depth = 0

    def plain(self, text: str) -> str:
        return _PLACES.sub(lambda match: str(self._found(match[1])), text)

    def quoted(self, text: str) -> str:
        return _PLACES.sub(lambda match: quote(str(self._found(match[1])), safe=""), text)

    def header(self, text: str) -> str:
        def written(match: re.Match[str]) -> str:
            value = str(self._found(match[1]))
            if not value.isascii() or not value.isprintable():
                raise SecretError(match[1], "holds a line break or another character that no header can carry")
            return value

        return _PLACES.sub(written, text)

    def route(self, route: Route) -> Route:
        tls, proxy = route.tls, route.proxy
        if proxy is not None:
            proxy = self.plain(proxy) if _PLACES.fullmatch(proxy) else self.quoted(proxy)
        pem = {
            name: None if text is None else self.plain(text)
            for name, text in (("ca", tls.ca), ("certificate", tls.certificate), ("key", tls.key))
        }
        return replace(route, proxy=proxy, tls=replace(tls, **pem))

    def json(self, text: str) -> str:
        """A computed number that is a whole text becomes a number."""
        if self._computed:
            text = _WHOLE_JSON.sub(lambda match: json.dumps(self._found(match[1])), text)
        return _PLACES.sub(lambda match: json.dumps(str(self._found(match[1])))[1:-1], text)

    def _all(self, template: Value) -> Value:
        if isinstance(template, str):
            whole = _PLACES.fullmatch(template)
            return self._found(whole[1]) if whole is not None else self.plain(template)
        if isinstance(template, Mapping):
            return {name: self._all(value) for name, value in template.items()}
        if isinstance(template, bool | int | float | None):
            return template
        return [self._all(value) for value in template]

    def _found(self, place: str) -> str | int:
        if not place.startswith("="):
            return _value(place, self._values)
        name = place[1:]
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> str | int:
        if name not in self._computed or self._moment is None:
            raise NotSent(f"{name} is not among the spec's values")
        if self._depth == _DEEPEST:
            raise NotSent(f"the value {name} is made of others more than {_DEEPEST} deep, or of itself")
        self._depth += 1
        try:
            return evaluate(self._computed[name], self._moment, self.plain, self._all)
        except ValueError as error:
            raise NotSent(f"the value {name} cannot be made: {error}") from None
        finally:
            self._depth -= 1


def _value(reference: str, values: Mapping[str, str]) -> str:
    if reference not in values:
        raise missing(reference)
    return values[reference]
