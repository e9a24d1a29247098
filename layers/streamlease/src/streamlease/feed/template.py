"""Puts the cursor into what is dialled and sent. Whatever needs a cursor while there is none is left out.

A cursor is the upstream's own text: nothing in it may be taken for a reference to a secret (`secrets`), so its opening
braces are written the way that URL, header or JSON write any character.
"""

import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote_plus

from streamlease.feed.events import Dial, Send
from streamlease.feed.feed import Feed
from streamlease.model import Sequence
from streamlease.write import Value

CURSOR: Final = "{sequence}"

_BRACE = "\x01"
"""Stands for a cursor's opening brace until JSON is written. No cursor holds it: a control character makes none."""
_PLAIN_IN_QUERY = "-._~,:@/$!*'()"
_PLAIN_IN_HEADER = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "{")


class _Absent:
    """What a template becomes whose cursor is not there."""


_ABSENT: Final = _Absent()


def needs_cursor(feed: Feed) -> bool:
    """Whether the feed asks its upstream to go on from somewhere, so that a cursor makes a difference."""
    return (
        any(CURSOR in value for value in feed.resume.query.values())
        or any(CURSOR in value for value in feed.headers.values())
        or any(_holds_cursor(message) for message in feed.open_messages)
    )


def dial(feed: Feed, cursor: Sequence | None) -> Dial:
    headers = feed.headers
    if any(CURSOR in value for value in headers.values()):
        headers = {
            name: value.replace(CURSOR, quote(text_of(cursor), safe=_PLAIN_IN_HEADER)) if cursor is not None else value
            for name, value in headers.items()
            if cursor is not None or CURSOR not in value
        }
    url = feed.url
    if cursor is not None and feed.resume.query:
        text = text_of(cursor)
        url = with_query(
            url,
            {
                name: quote(value.replace(CURSOR, text), safe=_PLAIN_IN_QUERY)
                for name, value in feed.resume.query.items()
            },
        )
    return Dial(url, headers, feed.subprotocols, feed.open_timeout_s, feed.max_message_bytes)


def sends(feed: Feed, cursor: Sequence | None) -> list[Send]:
    """The open messages, in order."""
    return [send for message in feed.open_messages if (send := _send(message, cursor)) is not None]


def with_query(url: str, parameters: Mapping[str, str]) -> str:
    """`url` with these query parameters, whose values are quoted already; one of the same name is replaced."""
    base, _, query = url.partition("?")
    kept = [part for part in query.split("&") if part and unquote_plus(part.partition("=")[0]) not in parameters]
    added = [f"{quote(name, safe=_PLAIN_IN_QUERY)}={value}" for name, value in parameters.items()]
    return f"{base}?{'&'.join(kept + added)}" if kept or added else base


def text_of(cursor: Sequence) -> str:
    """As upstreams write it: a whole number without a point."""
    if isinstance(cursor, float) and cursor.is_integer():
        return str(int(cursor))
    return str(cursor)


def looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _send(message: Value, cursor: Sequence | None) -> Send | None:
    if isinstance(message, str) and message != CURSOR:
        return _raw(message, cursor)
    rendered = _render(message, cursor)
    if isinstance(rendered, _Absent):
        return None
    text = json.dumps(rendered, separators=(",", ":"), ensure_ascii=False)
    if isinstance(cursor, str) and "{" in cursor:
        text = text.replace("\\u0001", "\\u007b")
    return Send(text)


def _raw(message: str, cursor: Sequence | None) -> Send | None:
    """A message that is sent as it is, but for the cursor in it."""
    is_json = looks_like_json(message)
    if CURSOR not in message:
        return Send(message, json=is_json)
    if cursor is None:
        return None
    text = text_of(cursor)
    inside = json.dumps(text)[1:-1].replace("{", "\\u007b") if is_json else text.replace("{", "%7B")
    return Send(message.replace(CURSOR, inside), json=is_json)


def _render(template: Value, cursor: Sequence | None) -> Value | _Absent:
    if isinstance(template, str):
        if CURSOR not in template:
            return template
        if cursor is None:
            return _ABSENT
        if template == CURSOR and not isinstance(cursor, str):
            return int(cursor) if isinstance(cursor, float) and cursor.is_integer() else cursor
        return template.replace(CURSOR, text_of(cursor).replace("{", _BRACE))
    if isinstance(template, Mapping):
        fields = {name: _render(value, cursor) for name, value in template.items()}
        return {name: value for name, value in fields.items() if not isinstance(value, _Absent)}
    if isinstance(template, bool | int | float | None):
        return template
    entries = [_render(value, cursor) for value in template]
    return [value for value in entries if not isinstance(value, _Absent)]


def _holds_cursor(template: Value) -> bool:
    if isinstance(template, str):
        return CURSOR in template
    if isinstance(template, Mapping):
        return any(_holds_cursor(value) for value in template.values())
    if isinstance(template, bool | int | float | None):
        return False
    return any(_holds_cursor(value) for value in template)
