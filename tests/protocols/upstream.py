"""What the fixture upstreams have in common: a WebSocket server that writes down every rule its client breaks, and an
HTTP endpoint beside it.

`broken` holds a sentence for each broken rule, a fixture's own faults included. Leaving the `async with` fails the test
if there is any.
"""

import asyncio
import contextlib
import json
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import Event
from websockets.typing import Subprotocol

from tests.worker.turning import now

type Json = Any


class Line(ServerConnection):
    """A client's connection. Every frame of the client's is counted in `frames`, control frames too."""

    upstream: "Upstream | None" = None

    def process_event(self, event: Event) -> None:
        if isinstance(event, Frame) and self.upstream is not None:
            self.upstream.sees(self, event)
        super().process_event(event)

    async def say(self, message: Json) -> None:
        """Text and bytes as they are, all else as JSON. Quiet where the client is gone."""
        with contextlib.suppress(ConnectionClosed):
            await self.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def hear(self, within_s: float) -> Json:
        """The next message, as JSON where it is. Raises TimeoutError, ConnectionClosed."""
        async with asyncio.timeout(within_s):
            return read(await self.recv())

    @property
    def target(self) -> str:
        return self.request.path if self.request is not None else ""


def read(data: str | bytes) -> Json:
    try:
        return json.loads(data)
    except ValueError:
        return data


@dataclass(frozen=True, slots=True)
class Call:
    """An HTTP request."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: str


class Upstream:
    """`talk` is one client's conversation; the socket is closed when it returns."""

    subprotocols: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.lines: list[Line] = []
        """Those that are open."""
        self.dialled: list[Request] = []
        self.closed_with: list[int] = []
        """What clients closed with, 1006 for those that said nothing."""
        self.calls: list[Call] = []
        self.refusals: deque[tuple[int, str]] = deque()
        """Each meets one handshake: a status, and the body that comes with it."""
        self._server: Server | None = None
        self._http: asyncio.Server | None = None

    # --- for tests ----------------------------------------------------------------------------------------------------

    @property
    def origin(self) -> str:
        assert self._server is not None
        return f"ws://{_address(next(iter(self._server.sockets)).getsockname())}"

    @property
    def http_origin(self) -> str:
        assert self._http is not None
        return f"http://{_address(self._http.sockets[0].getsockname())}"

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            0,
            process_request=self._judge,
            create_connection=Line,
            select_subprotocol=self._choose,
            ping_interval=None,
            close_timeout=1.0,
        )
        self._http = await asyncio.start_server(self._call, "127.0.0.1", 0)
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        for server in (self._server, self._http):
            assert server is not None
            server.close()
            await server.wait_closed()
        if kind is None:
            assert self.broken == []

    def forgives(self) -> list[str]:
        """What was broken so far, which then does not fail the test."""
        broken, self.broken = self.broken, []
        return broken

    def drop(self) -> None:
        """Lose every connection without a word."""
        for line in list(self.lines):
            line.transport.abort()

    async def hang_up(self, code: int, reason: str = "") -> None:
        for line in list(self.lines):
            await line.close(code, reason)

    async def tell(self, message: Json) -> None:
        """Everybody."""
        for line in list(self.lines):
            await line.say(message)

    # --- for fixtures -------------------------------------------------------------------------------------------------

    def breaks(self, sentence: str) -> None:
        self.broken.append(sentence)

    async def talk(self, line: Line) -> None:
        raise NotImplementedError

    def judge(self, request: Request) -> tuple[int, str] | None:
        """Status and body of a handshake that is refused."""
        return None

    def sees(self, line: Line, frame: Frame) -> None:
        """A frame came from the client."""

    async def answer(self, call: Call) -> tuple[int, Json]:
        """Status and JSON."""
        return 404, {}

    async def converse(
        self,
        line: Line,
        *sending: Coroutine[object, object, None],
        heard: Callable[[Json], Awaitable[None]] | None = None,
    ) -> None:
        """Do all of `sending` while what the client says is given to `heard`; without that, it is to say nothing."""
        tasks = [asyncio.create_task(each) for each in sending]
        try:
            async for data in line:
                if heard is None:
                    self.breaks(f"the client said {data!r:.200}")
                    return
                await heard(read(data))
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, ConnectionClosed):
                    self.breaks(f"the fixture failed: {ended!r}")

    async def pings(self, line: Line, every_s: float, within_s: float) -> None:
        """Protocol pings, each to be answered with its own payload; else the connection is closed."""
        while True:
            await asyncio.sleep(every_s)
            answered = await line.ping(secrets.token_bytes(8))
            try:
                await asyncio.wait_for(answered, within_s)
            except TimeoutError:
                self.breaks(f"a ping was not answered within {within_s:g} s")
                await line.close(1008, "Pong timeout")

    # --- the servers --------------------------------------------------------------------------------------------------

    def _judge(self, _: ServerConnection, request: Request) -> Response | None:
        self.dialled.append(request)
        try:
            refusal = self.refusals.popleft() if self.refusals else self.judge(request)
        except Exception as error:  # noqa: BLE001  # a fixture that fails must fail the test
            self.breaks(f"the fixture failed: {error!r}")
            refusal = 500, ""
        if refusal is None:
            return None
        status, body = refusal
        encoded = body.encode()
        headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(encoded))})
        return Response(status, HTTPStatus(status).phrase, headers, encoded)

    def _choose(self, _: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        return next((name for name in offered if name in self.subprotocols), None)

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, Line)
        connection.upstream = self
        self.lines.append(connection)
        try:
            await self.talk(connection)
        except ConnectionClosed:
            pass
        except Exception as error:  # noqa: BLE001  # as above
            self.breaks(f"the fixture failed: {error!r}")
        finally:
            self.lines.remove(connection)
            await connection.close()
            received = connection.protocol.close_rcvd
            if connection.protocol.close_rcvd_then_sent is not False:
                self.closed_with.append(1006 if received is None else received.code)

    async def _call(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = (await reader.readexactly(int(headers.get("content-length", "0")))).decode()
        call = Call(method, target, headers, body)
        self.calls.append(call)
        try:
            status, answer = await self.answer(call)
        except Exception as error:  # noqa: BLE001  # as above
            self.breaks(f"the fixture failed: {error!r}")
            status, answer = 500, {}
        encoded = json.dumps(answer).encode()
        writer.write(
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(encoded)}\r\nConnection: close\r\n\r\n".encode()
            + encoded
        )
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()


class Log[T]:
    """What an upstream has had to say so far; each client follows it from where it asked to."""

    def __init__(self) -> None:
        self.entries: list[T] = []
        self._grown = asyncio.Event()

    def add(self, *entries: T) -> None:
        self.entries.extend(entries)
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    async def follow(self, at: int) -> AsyncIterator[T]:
        """From this entry on, without end."""
        while True:
            while at < len(self.entries):
                yield self.entries[at]
                at += 1
            await self._grown.wait()


def _address(sockname: tuple[str, int]) -> str:
    return f"{sockname[0]}:{sockname[1]}"


@dataclass(slots=True)
class Window:
    """At most so many of something within any stretch of time."""

    most: int
    per_s: float
    times_s: deque[float] = field(default_factory=deque)

    def takes(self) -> bool:
        """One more. Whether it is within the limit."""
        now_s = asyncio.get_running_loop().time()
        while self.times_s and now_s - self.times_s[0] >= self.per_s:
            self.times_s.popleft()
        self.times_s.append(now_s)
        return len(self.times_s) <= self.most


def is_data(frame: Frame) -> bool:
    return frame.opcode in (Opcode.TEXT, Opcode.BINARY)


def wall_ms() -> int:
    return now().wall_ms
