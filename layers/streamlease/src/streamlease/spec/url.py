"""What an upstream's URL may look like. Messages never show its query, which may hold a secret by mistake."""

from typing import Final
from urllib.parse import urlsplit

from streamlease.spec import literals, placeholders
from streamlease.spec.unfit import Unfit

LONGEST: Final = 4_096
PROXIES: Final = ("http", "https", "socks5", "socks5h")
_INSTEAD: Final = {"http": "ws", "https": "wss"}


def check(url: str, schemes: tuple[str, str] = ("wss", "ws")) -> str:
    """The URL itself. Raises Unfit."""
    wanted = f"{schemes[1]}:// or {schemes[0]}://"
    if len(url) > LONGEST:
        raise Unfit(f"is {len(url)} characters long; {LONGEST} are the most")
    if not url.isascii() or any(character <= " " or character == "\x7f" for character in url):
        raise Unfit("has a space, a line break or a character that is not ASCII; write it as %20 or the like")
    placeholders.check(url, cursor=False, show=False)
    filled_in = [name for name in placeholders.NAME.findall(url) if name != placeholders.CONNECTION_ID]
    if filled_in:
        raise Unfit(f"has {{{filled_in[0]}}}, which a URL cannot carry: write it as a parameter under query")
    plain = placeholders.without_references(url)
    scheme, there, rest = plain.partition("://")
    shown = shortened(url)
    if not there:
        raise Unfit(f"is {shown!r}; it must begin with {wanted}")
    if scheme.lower() in _INSTEAD and "ws" in schemes:
        suggestion = f"{_INSTEAD[scheme.lower()]}://{shown.partition('://')[2]}"
        raise Unfit(f"is {shown!r}; it must begin with ws:// or wss://; did you mean {suggestion}?")
    if scheme not in schemes:
        raise Unfit(f"is {shown!r}; it must begin with {wanted}, not {scheme}://")
    if "#" in plain:
        raise Unfit(f"is {shown!r}; a {'WebSocket' if 'ws' in schemes else 'called'} URL has no #fragment")
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


def check_proxy(url: str) -> str:
    """The URL of a proxy, which alone may have a user and a password before its host, as references. Raises Unfit."""
    scheme, there, rest = url.partition("://")
    if not there or scheme not in PROXIES:
        known = ", ".join(f"{name}://" for name in PROXIES)
        raise Unfit(f"is no proxy's URL; it must be env, none, or begin with one of {known}")
    placeholders.check(rest, cursor=False, show=False)
    user, _, host = rest.rpartition("@")
    if user and not placeholders.holds_reference(user):
        raise Unfit(f"has a user name or password in the clear; {placeholders.USE_A_REFERENCE}, in braces")
    check(f"ws://{host}")
    return url


def shortened(url: str) -> str:
    """For people: without query and user, of a bounded length."""
    base, query, _ = url.partition("?")
    scheme, there, rest = base.partition("://")
    authority, slash, path = rest.partition("/")
    shown = f"{scheme}{there}{authority.rpartition('@')[2]}{slash}{path}"
    return (shown if len(shown) <= 100 else f"{shown[:100]}…") + ("?…" if query else "")
