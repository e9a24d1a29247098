"""One dial of one connection: from looking its secrets up to its one `Closed`. Part of the runner."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from streamlease.feed.events import Close, Closed, Dial, Event, Message, Opened, Ponged, Reading, Send
from streamlease.feed.secrets import NotSent, SecretError, resolved
from streamlease_worker.pending import Pending
from streamlease_worker.secrets import redact
from streamlease_worker.transport import Socket, SocketEnded, Transport

MESSAGES_A_TURN = 64
"""A flood on one connection gives way to the others after this many messages."""


class Wire:
    """`happened` is called with each event, in order and never from within a call of the wire's own methods."""

    def __init__(
        self,
        dial: Dial,
        *,
        transport: Transport,
        secrets: Callable[[], Awaitable[Mapping[str, str]]],
        happened: Callable[[Event], None],
        pending: Pending,
        wall_ms: Callable[[], int],
    ) -> None:
        self.opened = False
        self._dial = dial
        self._transport = transport
        self._secrets = secrets
        self._happened = happened
        self._pending = pending
        self._wall_ms = wall_ms
        self._values: Mapping[str, str] = {}
        self._socket: Socket | None = None
        self._unsendable: str | None = None
        self._closing = asyncio.Event()
        self._outgoing: asyncio.Queue[Callable[[Socket], Awaitable[None]]] = asyncio.Queue()
        self._opening: asyncio.Task[Socket] | None = None
        self._helpers: set[asyncio.Task[None]] = set()

    async def run(self) -> Closed:
        """Returns when the socket is gone, or was not to be had. Raises only what is a bug."""
        if self._closing.is_set():
            return Closed("the dial was given up")
        self._opening = asyncio.create_task(self._open())
        await asyncio.wait({self._opening})
        try:
            self._socket = socket = self._opening.result()
            if self._closing.is_set():  # it was given up in the very turn in which it opened
                socket.abort()
        except SocketEnded as ended:
            return self._redacted(ended.closed)
        except (NotSent, SecretError) as undialled:
            return Closed(str(undialled))
        except asyncio.CancelledError:
            return Closed("the dial was given up")
        writing = asyncio.create_task(self._write(socket))
        try:
            self.opened = True
            self._happened(Opened())
            return self._redacted(await self._read(socket))
        finally:
            writing.cancel()
            await asyncio.gather(writing, *self._helpers, return_exceptions=True)

    def send(self, command: Send) -> None:
        async def send(socket: Socket) -> None:
            try:
                text = resolved(command, self._values).text
            except (NotSent, SecretError) as unsendable:
                self._unsendable = str(unsendable)
                await socket.close(1000, "")
            else:
                await socket.send(text)

        self._outgoing.put_nowait(send)

    def ping(self) -> None:
        self._outgoing.put_nowait(lambda socket: socket.ping(lambda: self._happened(Ponged())))

    def close(self, command: Close) -> None:
        """Also gives up a dial under way. What was to be sent before is not waited for."""
        self._closing.set()
        if self._socket is None:
            if self._opening is not None:
                self._opening.cancel()
        elif command.abort:
            self._socket.abort()
        else:
            self._help(self._socket.close(command.code, command.reason))

    def _help(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._helpers.add(task)
        task.add_done_callback(self._helpers.discard)

    async def _open(self) -> Socket:
        self._values = await self._secrets()
        return await self._transport.dial(resolved(self._dial, self._values))

    async def _read(self, socket: Socket) -> Closed:
        turn = 0
        while True:
            try:
                data = await socket.recv()
            except SocketEnded as ended:
                return Closed(self._unsendable) if self._unsendable else ended.closed
            self._happened(Message(data, self._wall_ms()))
            if self._pending.full and not self._closing.is_set():
                self._happened(Reading(on=False))
                await self._room()
                self._happened(Reading(on=True))
            turn += 1
            if turn % MESSAGES_A_TURN == 0:
                await asyncio.sleep(0)

    async def _room(self) -> None:
        """Wait until there is room to read on, or reason to read to the end."""
        waits = {asyncio.create_task(self._pending.room.wait()), asyncio.create_task(self._closing.wait())}
        _, rest = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in rest:
            wait.cancel()

    async def _write(self, socket: Socket) -> None:
        while True:
            await (await self._outgoing.get())(socket)

    def _redacted(self, closed: Closed) -> Closed:
        said = redact(closed.error, self._values.values())
        return Closed(said, closed.code, closed.http_status, closed.retry_after_s)
