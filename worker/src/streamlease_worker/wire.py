"""One dial of one connection: from looking its secrets up to its one `Closed`. Part of the runner.

An idle one is most of what a worker's memory holds, so it has no task, queue or event that only a busy one needs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from streamlease.feed.computed import Moment
from streamlease.feed.events import Close, Closed, Dial, Event, Message, Opened, Ponged, Reading, Send
from streamlease.feed.secrets import NotSent, SecretError, resolved
from streamlease_worker.fence import Fence, Fenced
from streamlease_worker.pending import Pending
from streamlease_worker.secrets import Lookup, made_of_secrets, redact
from streamlease_worker.transport import Socket, SocketEnded, Transport
from streamlease_worker.turns import NextTurn

MESSAGES_A_TURN = 64
"""A flood on one connection gives way to the others after this many messages."""
LONG_S = 0.005
"""So does it after this long: a small message may unfold to a megabyte."""
MOST_UNSENT_BYTES = 16 << 20
"""What may wait to be sent. Answers and acknowledgements are made of what is read: an upstream that asks for them and
reads none would fill the memory."""
MESSAGE_COST = 256
"""What a message that waits takes beside its own bytes, roughly."""
READS_NOTHING = "the socket was dropped: it reads nothing of what is sent to it"


class Wire:
    """`happened` is called with each event, in order and never from within a call of the wire's own methods."""

    __slots__ = (
        "_broken",
        "_closing",
        "_dial",
        "_fence",
        "_happened",
        "_helpers",
        "_made",
        "_moment",
        "_number",
        "_opening",
        "_outgoing",
        "_pending",
        "_resumed",
        "_secrets",
        "_socket",
        "_transport",
        "_turn",
        "_unread",
        "_unsendable",
        "_unsent_bytes",
        "_values",
        "_wall_ms",
        "_writing",
        "counted",
        "opened",
    )

    def __init__(
        self,
        dial: Dial,
        *,
        turn: NextTurn,
        fence: Fence,
        transport: Transport,
        secrets: Lookup,
        moment: Callable[[], Moment],
        happened: Callable[[Event], None],
        pending: Pending,
        wall_ms: Callable[[], int],
    ) -> None:
        self.opened = False
        self.counted: str | None = None
        """What of `endings.COUNTED` its end was, where it is worth counting."""
        self._dial: Dial | None = dial
        self._number = dial.socket
        self._turn: NextTurn | None = turn
        self._fence = fence
        self._transport = transport
        self._secrets = secrets
        self._moment = moment
        self._happened = happened
        self._pending = pending
        self._wall_ms = wall_ms
        self._values: Mapping[str, str] = {}
        self._made: tuple[str, ...] = ()
        """What of the dial's headers was made of secrets."""
        self._socket: Socket | None = None
        self._unsendable: str | None = None
        self._closing = False
        self._resumed: asyncio.Future[None] | None = None
        self._outgoing: list[tuple[int, Callable[[Socket], Awaitable[None]]]] = []
        self._unsent_bytes = 0
        self._unread = False
        """Whether too much waited to be sent."""
        self._writing: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None
        self._opening: asyncio.Task[Socket] | None = None
        self._helpers: tuple[asyncio.Task[None], ...] = ()

    async def run(self) -> Closed:
        """Returns when the socket is gone, or was not to be had. Raises only what is a bug."""
        return replace(await self._run(), socket=self._number)

    async def _run(self) -> Closed:
        if self._closing or self._dial is None or self._turn is None:
            return Closed("the dial was given up")
        self._opening = asyncio.create_task(self._open(self._dial, self._turn))
        await asyncio.wait({self._opening})
        try:
            self._socket = socket = self._opening.result()
            if self._is_closing():  # it was given up in the very turn in which it opened
                socket.abort()
        except SocketEnded as ended:
            self.counted = ended.counted
            return self._redacted(ended.closed)
        except (NotSent, SecretError, Fenced) as undialled:
            return Closed(str(undialled))
        except asyncio.CancelledError:
            return Closed("the dial was given up")
        finally:
            self._opening = self._dial = self._turn = None
        try:
            self.opened = True
            self._happened(Opened(self._number))
            return self._redacted(await self._read(socket))
        finally:
            if self._writing is not None:
                self._writing.cancel()
            await asyncio.gather(*self._helpers, return_exceptions=True)
            if self._broken is not None:
                raise self._broken

    def send(self, command: Send) -> None:
        async def send(socket: Socket) -> None:
            try:
                moment = self._moment() if command.computed else None
                filled = resolved(command, self._values, moment)
            except (NotSent, SecretError) as unsendable:
                self._unsendable = str(unsendable)
                await socket.close(1000, "")
            else:
                text = filled.text
                await socket.send(text.encode() if filled.binary and isinstance(text, str) else text)

        if self._unsent_bytes > MOST_UNSENT_BYTES and self._socket is not None:
            self._unread = True
            self._outgoing.clear()
            self._socket.abort()
        else:
            self._write(send, len(command.text))

    def ping(self) -> None:
        self._write(lambda socket: socket.ping(lambda: self._happened(Ponged(self._number))))

    def close(self, command: Close) -> None:
        """Also gives up a dial under way. What was to be sent before is not waited for."""
        self._closing = True
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)
        if self._socket is None:
            if self._opening is not None:
                self._opening.cancel()
        elif command.abort:
            self._socket.abort()
        else:
            self._helpers += (asyncio.create_task(self._close(self._socket, command)),)

    def _is_closing(self) -> bool:
        return self._closing

    async def _close(self, socket: Socket, command: Close) -> None:
        await socket.close(command.code, command.reason)

    async def _open(self, dial: Dial, next_turn: NextTurn) -> Socket:
        while True:
            turn = await next_turn()
            try:
                self._values = await self._secrets(fresh=dial.fresh_secrets)
                filled = resolved(dial, self._values, self._moment() if dial.computed else None)
                self._made = made_of_secrets(dial.headers, filled.headers)
                if turn.lapsed:
                    continue
                self._fence.check()
                return await self._transport.dial(filled)
            finally:
                turn.over()

    async def _read(self, socket: Socket) -> Closed:
        happened, pending, wall_ms, number = self._happened, self._pending, self._wall_ms, self._number
        room, ready, now_s = pending.room, socket.ready, asyncio.get_running_loop().time
        turn, began_s = 0, now_s()
        while True:
            data = ready()
            if data is None:
                try:
                    data = await socket.recv()
                    began_s = now_s()
                except SocketEnded as ended:
                    self.counted = "unread" if self._unread else ended.counted
                    if self._unread:
                        return Closed(READS_NOTHING, code=1006)
                    return Closed(self._unsendable) if self._unsendable else ended.closed
            happened(Message(data, wall_ms(), number))
            if not room.is_set() and not self._closing:
                happened(Reading(on=False, socket=number))
                await self._room()
                happened(Reading(on=True, socket=number))
            turn += 1
            if turn >= MESSAGES_A_TURN or now_s() - began_s > LONG_S:
                await asyncio.sleep(0)
                turn, began_s = 0, now_s()

    async def _room(self) -> None:
        """Wait until there is room to read on, or reason to read to the end."""
        self._resumed = asyncio.get_running_loop().create_future()
        room = asyncio.create_task(self._pending.room.wait())
        try:
            if not self._closing:
                await asyncio.wait({room, self._resumed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            room.cancel()
            self._resumed = None

    def _write(self, act: Callable[[Socket], Awaitable[None]], size: int = 0) -> None:
        """In order, one after the other; each may wait for an upstream that does not read."""
        if self._unread:
            return
        self._outgoing.append((size + MESSAGE_COST, act))
        self._unsent_bytes += size + MESSAGE_COST
        if self._writing is None and self._socket is not None:
            self._writing = asyncio.create_task(self._write_all(self._socket))

    async def _write_all(self, socket: Socket) -> None:
        try:
            while self._outgoing:
                acts, self._outgoing = self._outgoing, []
                for size, act in acts:
                    if self._unread:
                        break
                    await act(socket)
                    self._unsent_bytes -= size
        except Exception as error:  # noqa: BLE001  # raised by `run`, where a bug ends its own connection alone
            self._broken = error
            socket.abort()
        finally:
            self._writing = None

    def _redacted(self, closed: Closed) -> Closed:
        return replace(closed, error=redact(closed.error, (*self._values.values(), *self._made)))
