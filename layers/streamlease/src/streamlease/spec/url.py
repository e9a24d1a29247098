"""What an upstream's URL may look like. Messages never show its query, which may hold a secret by mistake."""

from typing import Final
from urllib.parse import urlsplit

from streamlease.spec import literals, placeholders
from streamlease.spec.unfit import Unfit

LONGEST: Final = 4_096
_INSTEAD: Final = {"http": "ws", "https": "wss"}


def check(url: str) -> str:
    """The URL itself. Raises Unfit."""
    if len(url) > LONGEST:
        raise Unfit(f"is {len(url)} characters long; {LONGEST} are the most")
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise Unfit("has a space, a line break or a character that is not ASCII; write it as %20 or the like")
    placeholders.check(url, cursor=False, show=False)
    plain = placeholders.without_references(url)
    scheme, there, rest = plain.partition("://")
    shown = shortened(url)
    if not there:
        raise Unfit(f"is {shown!r}; it must begin with ws:// or wss://")
    if scheme.lower() in _INSTEAD:
        suggestion = f"{_INSTEAD[scheme.lower()]}://{shown.partition('://')[2]}"
        raise Unfit(f"is {shown!r}; it must begin with ws:// or wss://; did you mean {suggestion}?")
    if scheme not in ("ws", "wss"):
        raise Unfit(f"is {shown!r}; it must begin with ws:// or wss://, not {scheme}://")
    if "#" in plain:
        raise Unfit(f"is {shown!r}; a WebSocket URL has no #fragment")
    authority = rest.partition("/")[0].partition("?")[0]
    if "@" in authority:
        raise Unfit(
            f"has a user name or password before its host; put an Authorization header under headers"
            f" and {placeholders.USE_A_REFERENCE}"
        )
    if "{" in authority or "{" in url.partition("://")[2].partition("/")[0].partition("?")[0]:
        raise Unfit(f"is {shown!r}; the host cannot be filled in")
    try:
        parts = urlsplit(plain)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Unfit(f"is {shown!r}; its host or port cannot be read: {error}") from None
    if not host or (port is not None and port == 0):
        raise Unfit(f"is {shown!r}; {'it has no host' if not host else 'port 0 cannot be dialled'}")
    for name, value in literals.url_parameters(url):
        try:
            literals.parameter(name, value)
        except Unfit as error:
            raise Unfit(f"parameter {name} {error}") from None
    return url


def shortened(url: str) -> str:
    """For people: without query and user, of a bounded length."""
    base, query, _ = url.partition("?")
    scheme, there, rest = base.partition("://")
    authority, slash, path = rest.partition("/")
    shown = f"{scheme}{there}{authority.rpartition('@')[2]}{slash}{path}"
    return (shown if len(shown) <= 100 else f"{shown[:100]}…") + ("?…" if query else "")
