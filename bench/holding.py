"""Runners of a worker without the worker: for benches that hold sockets and have no leases."""

import asyncio
import contextlib
import gc
import json
import random
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from streamlease.dynamodb import clock
from streamlease.errors import Denied
from streamlease.feed.feed import Feed
from streamlease.flow import Request
from streamlease.model import StatusState
from streamlease.spec import ConnectionSpec, compile_spec
from streamlease_worker.addresses import allowed
from streamlease_worker.fence import Fence
from streamlease_worker.log import Log, Problems
from streamlease_worker.routes import Routes
from streamlease_worker.runner import Ended, Runner, Surroundings
from streamlease_worker.sinks.base import Sink
from streamlease_worker.sinks.null import NullSink
from streamlease_worker.transport import WebSockets
from streamlease_worker.turns import Turns

EPOCH = 1_800_000_000_000


def _nothing(request: Request) -> object:
    raise Denied(f"no budget is kept here, and so no {type(request).__name__}")


class Held:
    """Connections that are run here, each with its state."""

    def __init__(
        self,
        *,
        certificate: Path | None = None,
        sink: Sink | None = None,
        perform: Callable[[Request], object] = _nothing,
    ) -> None:
        """`perform` keeps the ledgers of dial budgets, where feeds have any."""

        def context() -> ssl.SSLContext:
            return ssl.create_default_context(cafile=None if certificate is None else str(certificate))

        self.counts: Counter[str] = Counter()
        self.states: dict[str, StatusState] = {}
        self.changes: list[tuple[float, str, StatusState, str | None]] = []
        """Every change of state: monotonic seconds, connection, state, reason."""
        self.streaming = 0
        self._wanted, self._reached = 0, asyncio.Event()
        self._runners: dict[str, tuple[Runner, asyncio.Task[Ended]]] = {}
        self._feeds: dict[str, Feed] = {}
        self._around = Surroundings(
            transport=WebSockets(Routes(allowed("loopback"), context=context)),
            sink=sink or NullSink(),
            turns=Turns(
                "bench",
                egress_group="default",
                perform=perform,
                threads=ThreadPoolExecutor(1),
                now=clock.now,
                log=Log(),
                problems=Problems(Log()),
            ),
            secrets=self._no_secrets,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            draw=random.random,
            counts=self.counts,
        )

    def start(self, connection_id: str, feed: Feed) -> None:
        fence = Fence(connection_id, EPOCH)
        fence.extend(time.monotonic() + 86_400)

        def advanced(_: object) -> None:
            return None

        def reported(state: StatusState, reason: str | None) -> None:
            before, self.states[connection_id] = self.states.get(connection_id), state
            self.streaming += (state is StatusState.STREAMING) - (before is StatusState.STREAMING)
            if self.streaming >= self._wanted:
                self._reached.set()
            self.changes.append((time.monotonic(), connection_id, state, reason))

        runner = Runner(
            feed,
            None,
            fence=fence,
            around=self._around,
            advanced=advanced,
            reported=reported,
            log=Log(),
        )
        self._feeds[connection_id] = feed
        self._runners[connection_id] = (runner, asyncio.create_task(runner.run()))

    def take_over(self) -> int:
        """Start anew what was given up for its silence, as another worker would: how many."""
        ended = [connection_id for connection_id, (_, task) in self._runners.items() if task.done()]
        for connection_id in ended:
            self.start(connection_id, self._feeds[connection_id])
        return len(ended)

    async def until_streaming(self, number: int, within_s: float) -> bool:
        self._wanted, self._reached = number, asyncio.Event()
        if self.streaming < number:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reached.wait(), within_s)
        return self.streaming >= number

    async def stop(self) -> None:
        for runner, _ in self._runners.values():
            runner.stop("the bench is over", flush=True)
        if self._runners:
            await asyncio.wait([task for _, task in self._runners.values()])

    async def _no_secrets(
        self,
        references: Iterable[str],  # noqa: ARG002 - the port's signature
        *,
        fresh: bool = False,  # noqa: ARG002 - as above
    ) -> Mapping[str, str]:
        return {}


def feed_of(connection_id: str, url: str, **fields: object) -> Feed:
    """As compiled from the YAML of a spec."""
    return compile_spec(ConnectionSpec.model_validate({"id": connection_id, "url": url, **fields}))


def resident_kib() -> int:
    """Of this process, after what is garbage was collected."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("this system has no /proc/self/status")


def say(**figures: object) -> None:
    """The last line of a bench that was asked for JSON."""
    print(json.dumps(figures), flush=True)
