"""References to secrets: found, and filled in by whoever dials. Values pass through here and are kept nowhere.

A reference is `env:NAME`, `ssm:/path` or `secretsmanager:NAME`, the latter with `#key` for one field of a JSON secret.
In a `Feed` it stands in braces. Only a feed's own references are ever filled in: `values` holds no others.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from streamlease.errors import StreamleaseError
from streamlease.feed.events import Dial, Send
from streamlease.feed.feed import Feed
from streamlease.write import Value

REFERENCE: Final = (
    r"env:[A-Za-z_][A-Za-z0-9_]*"
    r"|ssm:[A-Za-z0-9_./:-]+"
    r"|secretsmanager:[A-Za-z0-9_./:+=@!-]+(?:#[A-Za-z0-9_.-]+)?"
)
_IN_BRACES = re.compile(r"\{(" + REFERENCE + r")\}")
_WHERE_TO_PUT = {
    "env": "set this environment variable for the worker",
    "ssm": "put this parameter into SSM Parameter Store and let the worker's role read it",
    "secretsmanager": "put this secret into Secrets Manager and let the worker's role read it",
}


class SecretError(StreamleaseError):
    """A secret that cannot be used. Names its reference, never its value. Tried again: somebody may put it there."""

    retryable = True

    def __init__(self, reference: str, problem: str) -> None:
        super().__init__(f"secret {reference} {problem}")
        self.reference = reference


def missing(reference: str) -> SecretError:
    """For whoever looks secrets up, and finds none."""
    return SecretError(reference, f"is not there; {_WHERE_TO_PUT[reference.partition(':')[0]]}")


def references(feed: Feed) -> frozenset[str]:
    """All that must be looked up before a dial of this feed, without braces."""
    found: set[str] = set()
    for text in _texts((feed.url, *feed.headers.values(), *feed.resume.query.values(), *feed.open_messages)):
        found.update(_IN_BRACES.findall(text))
    return frozenset(found)


def substitute(text: str, values: Mapping[str, str]) -> str:
    """`text` with each reference replaced by its value as it is. Raises SecretError."""
    return _IN_BRACES.sub(lambda match: _value(match[1], values), text)


def resolved[C: (Dial, Send)](command: C, values: Mapping[str, str]) -> C:
    """The command with its secrets in it, each written as its place asks for: quoted in a URL, escaped in JSON, as it
    is in a header or plain text. Raises SecretError. The result is for the socket only: it must not be logged."""
    if isinstance(command, Send):
        if not command.json:
            return replace(command, text=substitute(command.text, values))
        return replace(
            command, text=_IN_BRACES.sub(lambda match: json.dumps(_value(match[1], values))[1:-1], command.text)
        )
    return replace(
        command,
        url=_IN_BRACES.sub(lambda match: quote(_value(match[1], values), safe=""), command.url),
        headers={
            name: _IN_BRACES.sub(lambda match: _header(match[1], values), text)
            for name, text in command.headers.items()
        },
    )


def _value(reference: str, values: Mapping[str, str]) -> str:
    if reference not in values:
        raise missing(reference)
    return values[reference]


def _header(reference: str, values: Mapping[str, str]) -> str:
    value = _value(reference, values)
    if not value.isascii() or not value.isprintable():
        raise SecretError(reference, "holds a line break or another character that no header can carry")
    return value


def _texts(templates: tuple[Value, ...]) -> Iterator[str]:
    for template in templates:
        if isinstance(template, str):
            yield template
        elif isinstance(template, Mapping):
            yield from _texts(tuple(template.values()))
        elif not isinstance(template, bool | int | float | None):
            yield from _texts(tuple(template))
