"""WebSockets over asyncio, one per dial: the library does the frames, the feed's machine all else.

No keepalive, reconnection or compression of the library's own; redirects are not followed, for they would carry headers
to a host that nobody named. What goes wrong comes out as a `Closed` with a sentence, never as the library's exception.
"""

import asyncio
import email.utils
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.datastructures import Headers
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
    NegotiationError,
    WebSocketException,
)
from websockets.typing import Subprotocol

from streamlease.feed.events import Closed, Dial

MOST_QUEUED_FRAMES = 8
"""Few, so that not reading reaches the upstream's TCP window soon."""
CLOSE_TIMEOUT_S = 5.0
"""The machine gives up sooner; this ends what it no longer looks at."""
LONGEST_TEXT = 200
USER_AGENT = "streamlease"


class SocketEnded(Exception):
    """The socket is gone, or was never opened."""

    def __init__(self, closed: Closed) -> None:
        super().__init__(closed.error)
        self.closed = closed


class Socket(Protocol):
    """One open WebSocket. Calls other than `recv` never raise for a socket that is gone: `recv` tells."""

    async def recv(self) -> str | bytes:
        """The next message. Raises SocketEnded. Cancelling it loses nothing."""

    async def send(self, text: str | bytes) -> None: ...

    async def ping(self, ponged: Callable[[], None]) -> None:
        """Send a protocol ping; `ponged` is called when its answer comes, if ever."""

    async def close(self, code: int, reason: str) -> None:
        """The closing handshake; returns when the socket is gone."""

    def abort(self) -> None:
        """Drop it at once."""


class Transport(Protocol):
    async def dial(self, dial: Dial) -> Socket:
        """Open a socket, in `open_timeout_s`. Secrets are filled in already. Raises SocketEnded."""


class WebSockets:
    """The one TLS context of the process is made here: one for each connection would cost most of a megabyte each."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self._context = context or ssl.create_default_context()

    async def dial(self, dial: Dial) -> Socket:
        url = urlsplit(dial.url)
        try:
            connection = await _Connect(
                dial.url,
                additional_headers=dict(dial.headers),
                subprotocols=[Subprotocol(name) for name in dial.subprotocols] or None,
                compression=None,
                user_agent_header=USER_AGENT,
                proxy=None,
                open_timeout=dial.open_timeout_s,
                ping_interval=None,
                close_timeout=CLOSE_TIMEOUT_S,
                max_size=dial.max_message_bytes,
                max_queue=MOST_QUEUED_FRAMES,
                ssl=self._context if url.scheme == "wss" else None,
            )
        except (OSError, TimeoutError, WebSocketException, ValueError) as error:
            raise SocketEnded(_failed(error, dial)) from None
        return _Socket(connection, dial.max_message_bytes)


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _Socket:
    def __init__(self, connection: ClientConnection, most_bytes: int) -> None:
        self._connection = connection
        self._most_bytes = most_bytes

    async def recv(self) -> str | bytes:
        try:
            return await self._connection.recv()
        except ConnectionClosed as closed:
            raise SocketEnded(_ended(closed, self._most_bytes)) from None

    async def send(self, text: str | bytes) -> None:
        await _quietly(self._connection.send(text))

    async def ping(self, ponged: Callable[[], None]) -> None:
        try:
            answered = await self._connection.ping()
        except ConnectionClosed:
            return
        future = asyncio.ensure_future(answered)
        future.add_done_callback(lambda each: None if each.cancelled() or each.exception() else ponged())

    async def close(self, code: int, reason: str) -> None:
        await _quietly(self._connection.close(code, reason[:100]))

    def abort(self) -> None:
        self._connection.transport.abort()


async def _quietly(awaitable: Awaitable[None]) -> None:
    try:
        await awaitable
    except ConnectionClosed:
        return


def _ended(closed: ConnectionClosed, most_bytes: int) -> Closed:
    """What the end of an open socket was."""
    sent, received = closed.sent, closed.rcvd
    if sent is not None and not closed.rcvd_then_sent:
        match sent.code:
            case 1009:
                return Closed(f"the upstream sent a message of more than {most_bytes:,} bytes", code=1009)
            case 1007:
                return Closed("the upstream sent text that is not UTF-8", code=1007)
            case 1002:
                return Closed(f"the upstream broke the WebSocket protocol: {_plain(sent.reason)}", code=1002)
            case _:
                pass
    if received is not None:
        said = f": {_plain(received.reason)}" if received.reason else ""
        return Closed(f"the upstream closed with {received.code}{said}", code=received.code)
    cause = closed.__cause__
    why = f" ({_plain(str(cause))})" if isinstance(cause, OSError) and str(cause) else ""
    return Closed(f"the socket was lost without a close frame{why}", code=1006)


def _failed(error: Exception, dial: Dial) -> Closed:
    """What a dial failed for. Names the host only: the rest of a URL may hold a secret."""
    url = urlsplit(dial.url)
    host = url.hostname or "its host"
    match error:
        case InvalidStatus():
            return _refused(error)
        case TimeoutError():
            return Closed(f"{host} did not complete the handshake within {dial.open_timeout_s:g} s")
        case ssl.SSLCertVerificationError():
            return Closed(f"{host} showed a TLS certificate that cannot be trusted: {_plain(error.verify_message)}")
        case ssl.SSLError():
            return Closed(f"{host} could not agree on TLS ({_plain(error.reason or 'no reason given')})")
        case ConnectionRefusedError():
            return Closed(f"nothing accepts connections at {host}{f':{url.port}' if url.port else ''}")
        case ConnectionResetError() | BrokenPipeError():
            plain = ": does it speak ws:// rather than wss://?" if url.scheme == "wss" else ""
            return Closed(f"{host} ended the connection during the handshake{plain}")
        case OSError():
            return Closed(f"{host} could not be reached ({_plain(error.strerror or type(error).__name__)})")
        case InvalidMessage():
            return Closed(f"{host} did not answer in HTTP")
        case NegotiationError():
            return Closed(f"{host} chose an extension or subprotocol that was not offered")
        case InvalidHandshake():
            return Closed(f"{host} answered, but not as a WebSocket server at that URL does")
        case InvalidURI() | ValueError():
            return Closed("its URL or a header of it cannot be used once its secrets are filled in")
        case _:
            return Closed(f"{host} could not be dialled ({type(error).__name__})")


def _refused(error: InvalidStatus) -> Closed:
    response = error.response
    said = f"the upstream refused the handshake with HTTP {response.status_code} {_plain(response.reason_phrase)}"
    location = response.headers.get("Location")
    if location is not None and 300 <= response.status_code < 400:
        try:
            target = urlsplit(location).hostname
        except ValueError:  # such as "ws://[::1/"
            target = None
        said += (
            f", towards {_plain(target)}: write that URL into the spec" if target else ": redirects are not followed"
        )
    return Closed(said, http_status=response.status_code, retry_after_s=_retry_after_s(response.headers))


def _retry_after_s(headers: Headers) -> float | None:
    """The wait that a Retry-After asks for; a date counts from the answer's own."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        until = email.utils.parsedate_to_datetime(value)
        since = email.utils.parsedate_to_datetime(headers.get("Date", ""))
        return max(0.0, (until - since).total_seconds())
    except (ValueError, TypeError):
        return None


def _plain(text: str) -> str:
    """Upstream's words, in one printable line of bounded length."""
    return "".join(char if char.isprintable() else " " for char in text[:LONGEST_TEXT])
