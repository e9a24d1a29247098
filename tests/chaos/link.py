"""The ways from a worker to its services: a proxy on loopback, one port for each worker and service, that can be told
to misbehave. It knows as much of HTTP as boto3 and the emulator speak: requests and answers with a Content-Length.

One connection of a worker is one connection to the emulator. Requests go on whether or not their sender waits for the
answer, so a write can land after its sender has given it up.
"""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from streamlease.dynamodb import clock
from streamlease.timing import Instant

HOST = "127.0.0.1"
_HEAD_BYTES = 64 << 10
_REFUSED = {
    "DynamoDB": ("com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", 400),
    "AmazonSQS": ("com.amazonaws.sqs#ThrottlingException", 400),
}


class Way(StrEnum):
    """How a link misbehaves."""

    CUT = "cut"
    """Connections are reset, those with a request in flight too, and none is accepted."""
    SILENT = "silent"
    """Requests are taken, not passed on, and never answered."""
    SLOW = "slow"
    """Answers come late."""
    LATE = "late"
    """Requests are passed on late, so that what was given up may still land."""
    THROTTLED = "throttled"
    """The service says that it is asked too much."""
    UNANSWERED = "unanswered"
    """What a write answers after it has been carried out is dropped, and the connection reset."""


@dataclass(slots=True)
class Spell:
    """A time of misbehaviour, and how many requests it hit."""

    way: Way
    delay_s: float = 0.0
    operations: frozenset[str] | None = None
    """Only these; None: all."""
    hits: int = 0
    met: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the first hit."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def hit(self) -> None:
        self.hits += 1
        self.met.set()

    def concerns(self, operation: str) -> bool:
        return self.operations is None or operation in self.operations


@dataclass(frozen=True, slots=True)
class Carried:
    """A batch of writes that was carried out, whether or not its sender was told: passed on at `at`."""

    at: Instant
    request: bytes
    answer: bytes


@dataclass(slots=True, eq=False)
class _Pair:
    """A worker's connection and its other half."""

    inwards: asyncio.StreamWriter
    onwards: asyncio.StreamWriter
    busy: bool = False

    def abort(self) -> None:
        self.inwards.transport.abort()
        self.onwards.transport.abort()


@dataclass(frozen=True, slots=True)
class _Message:
    head: bytes
    body: bytes

    @property
    def target(self) -> str:
        return _header(self.head, b"x-amz-target")

    @property
    def operation(self) -> str:
        return self.target.rpartition(".")[2]

    @property
    def succeeded(self) -> bool:
        return self.head.split(b" ", 2)[1] == b"200"


class Link:
    """One worker's way to one service. Its methods are for the event loop that opened it."""

    def __init__(self, port_beyond: int) -> None:
        self.batches: list[Carried] = []
        """Batches of writes, of which the emulator's streams say nothing."""
        self._port_beyond = port_beyond
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._spell: Spell | None = None
        self._server: asyncio.Server | None = None

    async def open(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0, limit=_HEAD_BYTES)
        return self

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def begin(self, way: Way, delay_s: float = 0.0, operations: frozenset[str] | None = None) -> Spell:
        """From now on, until `end`. Another spell that goes on is ended."""
        await self.end()
        self._spell = spell = Spell(way, delay_s, operations)
        if way is Way.CUT:
            for pair in tuple(self._pairs):
                spell.hits += pair.busy
                pair.abort()
        return spell

    async def end(self) -> None:
        if self._spell is not None:
            self._spell.over.set()
            self._spell = None

    async def close(self) -> None:
        await self.end()
        assert self._server is not None
        self._server.close()
        for pair in tuple(self._pairs):
            pair.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        spell = self._spell
        if spell is not None and spell.way is Way.CUT:
            spell.hit()
            writer.transport.abort()
            return
        try:
            beyond, onwards = await asyncio.open_connection(HOST, self._port_beyond, limit=_HEAD_BYTES)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, onwards)
        self._pairs.add(pair)
        try:
            with contextlib.suppress(OSError, EOFError):  # either side has gone
                while await self._exchange(pair, reader, beyond):
                    pass
        finally:
            self._pairs.discard(pair)
            pair.abort()

    async def _exchange(self, pair: _Pair, reader: asyncio.StreamReader, beyond: asyncio.StreamReader) -> bool:
        """One request and its answer. False: the connection is over. Raises OSError, EOFError."""
        request = await _message(reader)
        pair.busy = True
        spell = self._spell
        if spell is not None and not spell.concerns(request.operation):
            spell = None
        answer = await self._carried_out(request, pair, beyond, spell)
        if answer is None:
            return False
        pair.inwards.write(answer.head + answer.body)
        await pair.inwards.drain()
        pair.busy = False
        return True

    async def _carried_out(
        self, request: _Message, pair: _Pair, beyond: asyncio.StreamReader, spell: Spell | None
    ) -> _Message | None:
        """The answer that the worker is to have; None: a reset in its place."""
        match spell.way if spell is not None else None:
            case Way.SILENT:
                assert spell is not None
                spell.hit()
                await spell.over.wait()
                return None
            case Way.THROTTLED:
                assert spell is not None
                spell.hit()
                return _refusal(request)
            case Way.LATE:
                assert spell is not None
                spell.hit()
                await asyncio.sleep(spell.delay_s)
            case _:
                pass
        at = clock.now()
        pair.onwards.write(request.head + request.body)
        answer = await _message(beyond)
        if answer.succeeded and request.operation == "BatchExecuteStatement":
            self.batches.append(Carried(at, request.body, answer.body))
        if spell is not None and spell.way is Way.SLOW:
            spell.hit()
            await asyncio.sleep(spell.delay_s)
        if spell is not None and spell.way is Way.UNANSWERED and answer.succeeded and is_write(request.operation):
            spell.hit()
            return None
        return answer


def is_write(operation: str) -> bool:
    """Whether it leaves something behind. Receiving does: what was received is hidden for a while."""
    return not operation.startswith(("Get", "BatchGet", "Query", "Scan", "Describe", "List"))


def _refusal(request: _Message) -> _Message:
    service = request.target.partition(".")[0].partition("_")[0]
    code, status = _REFUSED[service]
    body = json.dumps({"__type": code, "message": "asked too much, says the fault proxy"}).encode()
    head = f"HTTP/1.1 {status} Bad Request\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {len(body)}"
    return _Message(head.encode() + b"\r\n\r\n", body)


async def _message(reader: asyncio.StreamReader) -> _Message:
    """Raises EOFError, also in the middle of one."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = _header(head, b"content-length")
    if not length and _header(head, b"transfer-encoding"):
        raise EOFError("chunks, which nobody here speaks")
    return _Message(head, await reader.readexactly(int(length or 0)))


def _header(head: bytes, name: bytes) -> str:
    for line in head.split(b"\r\n")[1:]:
        found, _, value = line.partition(b":")
        if found.strip().lower() == name:
            return value.strip().decode("latin-1")
    return ""
