"""One dial of one feed, for a person who wants to see whether it works: no lease, no table, no record kept.

The runner, machine and transport are a worker's own, so what works here works there, but for where it is dialled from.
"""

import asyncio
import ipaddress
import random
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from streamlease.dynamodb import clock
from streamlease.errors import Denied
from streamlease.feed.events import Dial, Fetch, Fetched
from streamlease.feed.feed import Feed
from streamlease.flow import Request
from streamlease.model import StatusState
from streamlease_worker.addresses import Allowed
from streamlease_worker.endings import plain
from streamlease_worker.fence import Fence
from streamlease_worker.log import Log, Problems
from streamlease_worker.routes import Routes
from streamlease_worker.runner import AnySecrets, Runner, Surroundings
from streamlease_worker.secrets import redact
from streamlease_worker.sinks.base import Batch
from streamlease_worker.sinks.null import NullSink
from streamlease_worker.transport import Answer, Socket, Transport, WebSockets
from streamlease_worker.turns import Turns

LEASE_S = 3_600.0
MOST_LINES = 10
_TOLD_TO_US_ALONE = frozenset({"set-cookie", "authorization", "www-authenticate", "proxy-authenticate"})


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened, `at_ms` after the dial began."""

    at_ms: int
    what: str


@dataclass(slots=True)
class Trial:
    """What became of it. Nothing in it shows a secret that the spec refers to."""

    streaming: bool = False
    reason: str | None = None
    """Why not, or why no longer."""
    status: int | None = None
    """HTTP's, of the handshake."""
    headers: tuple[tuple[str, str], ...] = ()
    peer: str | None = None
    private: bool = False
    """Whether that is an address which workers dial only where they are allowed to."""
    opened_ms: int | None = None
    """Until the handshake was answered."""
    ready_ms: int | None = None
    first_message: str | None = None
    first_message_ms: int | None = None
    messages: int = 0
    records: int = 0
    lines: list[Line] = field(default_factory=list)


async def tried(
    feed: Feed, *, permitted: Allowed, secrets: AnySecrets, environment: Mapping[str, str], wait_s: float
) -> Trial:
    """Dial once; go once it is ready and a message was read, `wait_s` after it was ready, or at the first failure."""
    found, known = Trial(), dict[str, str]()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    changed = asyncio.Event()

    def ms() -> int:
        return round((loop.time() - began_s) * 1000)

    def say(what: str) -> None:
        if len(found.lines) < MOST_LINES:
            found.lines.append(Line(ms(), plain(redact(what, known.values()))))

    def answered(answer: Answer) -> None:
        found.status, found.peer, found.opened_ms = answer.status, answer.peer, ms()
        found.headers = tuple(
            (plain(name), "***" if name.lower() in _TOLD_TO_US_ALONE else plain(redact(value, known.values())))
            for name, value in answer.headers
        )
        found.private = answer.peer is not None and not Allowed().permits(ipaddress.ip_address(answer.peer))
        say(f"HTTP {answer.status}")

    def heard(data: str | bytes) -> None:
        found.messages += 1
        text = data if isinstance(data, str) else f"{len(data)} bytes: {data[:60]!r}"
        if found.first_message is None:
            found.first_message, found.first_message_ms = plain(redact(text, known.values())), ms()
        say(f"received {text}")
        changed.set()

    async def looked_up(references: Iterable[str], *, fresh: bool = False) -> Mapping[str, str]:
        known.update(await secrets(references, fresh=fresh))
        return known

    def reported(state: StatusState, reason: str | None) -> None:
        if state is StatusState.STREAMING and found.ready_ms is None:
            found.streaming, found.ready_ms = True, ms()
        elif state in (StatusState.BACKOFF, StatusState.FAILED):
            found.streaming, found.reason = False, found.reason or reason
        changed.set()

    fence = Fence(feed.connection_id, 1)
    fence.extend(clock.monotonic_s() + LEASE_S)
    log = Log()
    threads = ThreadPoolExecutor(1)
    watched = _Watched(WebSockets(Routes(permitted, environment=environment), answered), say, heard)
    turns = Turns(
        "trial", egress_group="", perform=_nothing, threads=threads, now=clock.now, log=log, problems=Problems(log)
    )
    runner = Runner(
        replace(feed, dials=()),
        None,
        fence=fence,
        around=Surroundings(
            transport=watched,
            sink=_Counting(found),
            turns=turns,
            secrets=looked_up,
            wall_ms=lambda: clock.now().wall_ms,
            draw=random.random,
        ),
        advanced=_ignore,
        reported=reported,
        log=log,
    )
    running = asyncio.create_task(runner.run())
    while found.reason is None and not running.done():
        changed.clear()
        left_s = None if found.ready_ms is None else found.ready_ms / 1000 + wait_s - ms() / 1000
        if left_s is not None and (left_s <= 0 or found.messages):
            break
        waits = {asyncio.ensure_future(changed.wait()), running}
        await asyncio.wait(waits, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
    streamed = found.streaming
    runner.stop("the trial is over", flush=False)
    ended = await running
    threads.shutdown(wait=False)
    found.streaming = streamed
    if not streamed and found.reason is None:
        found.reason = ended.reason
    return found


class _Counting(NullSink):
    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self._trial = trial

    async def deliver(self, batch: Batch) -> None:
        await super().deliver(batch)
        self._trial.records += len(batch.lines)


class _Watched:
    """A transport that tells what goes over it. What is sent is told by its size: it may hold what was signed."""

    def __init__(self, inner: Transport, say: Callable[[str], None], heard: Callable[[str | bytes], None]) -> None:
        self._inner = inner
        self._say = say
        self._heard = heard

    async def dial(self, dial: Dial) -> Socket:
        socket = await self._inner.dial(dial)
        return _WatchedSocket(socket, self._say, self._heard)

    async def fetch(self, call: Fetch) -> Fetched:
        fetched = await self._inner.fetch(call)
        self._say(f"the HTTP call before the dial was answered with {fetched.status}")
        return fetched


class _WatchedSocket:
    def __init__(self, inner: Socket, say: Callable[[str], None], heard: Callable[[str | bytes], None]) -> None:
        self._inner = inner
        self._say = say
        self._heard = heard

    async def recv(self) -> str | bytes:
        data = await self._inner.recv()
        self._heard(data)
        return data

    def ready(self) -> str | bytes | None:
        data = self._inner.ready()
        if data is not None:
            self._heard(data)
        return data

    async def send(self, text: str | bytes) -> None:
        await self._inner.send(text)
        self._say(f"sent {len(text)} {'characters' if isinstance(text, str) else 'bytes'}")

    async def ping(self, ponged: Callable[[], None]) -> None:
        await self._inner.ping(ponged)

    async def close(self, code: int, reason: str) -> None:
        await self._inner.close(code, reason)

    def abort(self) -> None:
        self._inner.abort()


def _ignore(_: object) -> None:
    return None


def _nothing(request: Request) -> object:
    raise Denied(f"a trial keeps to no budget, and so sends no {type(request).__name__}")
