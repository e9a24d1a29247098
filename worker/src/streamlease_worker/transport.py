"""WebSockets over asyncio, one per dial: the library does the frames, the feed's machine all else.

No keepalive or reconnection of the library's own; redirects are not followed, for they would carry headers to a host
that nobody named, or to one address after the other for ever. What goes wrong comes out as a `Closed` with a sentence
(`endings`), never as the library's exception.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.frames import Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol

from streamlease.errors import StreamleaseError
from streamlease.feed.events import Closed, Dial, Fetch, Fetched
from streamlease_worker import endings
from streamlease_worker.endings import Unread
from streamlease_worker.fetch import fetch
from streamlease_worker.routes import Progress, Routes

MOST_QUEUED_FRAMES = 8
"""Few, so that not reading reaches the upstream's TCP window soon."""
CLOSE_TIMEOUT_S = 2.0
"""How long an upstream may keep its side open once a close frame went either way. Where the machine closes, it gives up
sooner; this ends what broke the protocol, or said goodbye, and stays."""
MOST_UNREAD_BYTES = 256 << 10
"""What may wait to be written. Pongs are written without being asked for: an upstream that pings and reads none of the
answers would fill the memory."""
USER_AGENT = "streamlease"
_UNHEARD = logging.Logger("websockets", logging.CRITICAL)  # noqa: LOG001 - nobody is to find it by its name
"""The library's: it would log handshakes and messages, with the secrets in them, wherever debugging is on."""


class SocketEnded(Exception):
    """The socket is gone, or was never opened. `counted` is a key of `endings.COUNTED`, where it is worth one."""

    def __init__(self, closed: Closed, counted: str | None = None) -> None:
        super().__init__(closed.error)
        self.closed = closed
        self.counted = counted


class Socket(Protocol):
    """One open WebSocket. Calls other than `recv` never raise for a socket that is gone: `recv` tells."""

    async def recv(self) -> str | bytes:
        """The next message. Raises SocketEnded. Cancelling it loses nothing."""

    def ready(self) -> str | bytes | None:
        """The next message, if it is there: what `recv` would give, for less. Not while `recv` is waited for. None says
        only that `recv` has to be asked."""

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

    async def fetch(self, call: Fetch) -> Fetched:
        """Make an HTTP call, in `timeout_s`. Secrets are filled in already. Raises Unfetched."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an upstream answered to a handshake. Headers may hold what it was told, and session cookies."""

    status: int
    headers: tuple[tuple[str, str], ...]
    peer: str | None
    """The address that was dialled; None where it is not known."""


class WebSockets:
    """For one event loop. `answered` is told of each answer to a handshake, also of those that refuse it."""

    def __init__(self, routes: Routes, answered: Callable[[Answer], None] | None = None) -> None:
        self._routes = routes
        self._answered = answered

    async def dial(self, dial: Dial) -> Socket:
        progress = Progress()
        try:
            async with asyncio.timeout(dial.open_timeout_s):
                connection = await self._open(dial, progress)
        except (OSError, TimeoutError, WebSocketException, ValueError, StreamleaseError) as error:
            if isinstance(error, InvalidStatus):
                self._tell(error.response, None)
            raise SocketEnded(endings.failed(error, dial, progress.late), endings.counted(error)) from None
        if connection.response is not None:
            self._tell(connection.response, connection.remote_address)
            connection.response.headers.clear()
        connection.request = None
        connection.response = _NOTHING  # not None, which would mean that the handshake is still to come
        return _Socket(connection, dial.max_message_bytes)

    async def fetch(self, call: Fetch) -> Fetched:
        return await fetch(call, self._routes)

    def _tell(self, response: Response, peer: object) -> None:
        if self._answered is not None:
            address = str(peer[0]) if isinstance(peer, tuple) else None
            self._answered(Answer(response.status_code, tuple(response.headers.raw_items()), address))

    async def _open(self, dial: Dial, progress: Progress) -> ClientConnection:
        async with self._routes.to(dial.url, dial.route, progress) as way:
            return await _Connect(
                dial.url,
                sock=way.sock,
                ssl=way.context,
                server_hostname=way.server_name,
                create_connection=_Connection,
                additional_headers=dict(dial.headers),
                subprotocols=[Subprotocol(name) for name in dial.subprotocols] or None,
                compression="deflate" if dial.compression else None,
                user_agent_header=USER_AGENT,
                proxy=None,
                open_timeout=None,
                ping_interval=None,
                close_timeout=CLOSE_TIMEOUT_S,
                max_size=dial.max_message_bytes,
                max_queue=MOST_QUEUED_FRAMES,
                logger=_UNHEARD,
            )


_NOTHING = Response(101, "", Headers())
"""Stands for what was answered to the handshake: its headers are most of what an idle connection would keep."""


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class _Connection(ClientConnection):
    _cut_off: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # A list does what the library asks of it, and weighs next to nothing while nobody waits to write.
        self.drain_waiters = cast("deque[asyncio.Future[None]]", [])

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.close_deadline is not None and self._cut_off is None:
            # The library waits for the upstream to close the connection, however long that takes.
            self._cut_off = self.loop.call_at(self.close_deadline, self.transport.abort)
        if self.paused and self.transport.get_write_buffer_size() > MOST_UNREAD_BYTES:
            self.set_connection_exc(Unread("it reads nothing of what is sent to it"))
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._cut_off is not None:
            self._cut_off.cancel()


class _Socket:
    def __init__(self, connection: ClientConnection, most_bytes: int) -> None:
        self._connection = connection
        self._most_bytes = most_bytes

    async def recv(self) -> str | bytes:
        try:
            return await self._connection.recv()
        except ConnectionClosed as closed:
            raise SocketEnded(endings.ended(closed, self._most_bytes), endings.counted(closed)) from None

    def ready(self) -> str | bytes | None:
        # Past the library's coroutines, which cost as much as its parser. A message of several frames, and text that is
        # not UTF-8, are left to them.
        messages = self._connection.recv_messages
        frames = messages.frames.queue
        if not frames or not frames[0].fin:
            return None
        frame = frames[0]
        try:
            data = str(frame.data, "utf-8") if frame.opcode is Opcode.TEXT else bytes(frame.data)
        except UnicodeDecodeError:
            return None
        frames.popleft()
        if messages.paused:
            messages.maybe_resume()
        return data

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
