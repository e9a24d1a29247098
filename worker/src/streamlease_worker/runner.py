"""Runs one connection: drives its machine, its socket (`wire`) and its way to the sink (`pump`), in one event loop.

All decisions are the machine's. Everything that goes wrong in here, bugs included, ends this runner alone. At most one
batch is at the sink at a time, so order holds; what is read and not durable is bounded, and when it is full, reading
stops while the keepalive goes on.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from streamlease import envelope
from streamlease.feed.events import (
    Acknowledged,
    Advance,
    Close,
    Command,
    Count,
    Deliver,
    Dial,
    Event,
    Finished,
    Ping,
    Report,
    Send,
    StopRequested,
    WakeAt,
    Woke,
)
from streamlease.feed.feed import Feed
from streamlease.feed.machine import Machine
from streamlease.feed.secrets import references
from streamlease.model import Position, StatusState
from streamlease_worker.fence import Fence, Fenced
from streamlease_worker.log import Log
from streamlease_worker.pending import Budget, Pending
from streamlease_worker.pump import Pump
from streamlease_worker.sinks.base import Sink, SinkFault
from streamlease_worker.transport import Transport
from streamlease_worker.wire import Wire

type Outcome = Literal["stopped", "fatal", "yielded", "quarantined", "crashed", "fenced"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all runners of a worker share."""

    transport: Transport
    sink: Sink
    secrets: Callable[[Iterable[str]], Awaitable[Mapping[str, str]]]
    wall_ms: Callable[[], int]
    draw: Callable[[], float]
    """Uniform in [0, 1)."""
    budget: Budget = field(default_factory=Budget)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Ended:
    outcome: Outcome
    reason: str
    position: Position | None
    """The newest that is safe, whether or not this runner moved it."""


class Runner:
    """`advanced` and `reported` are called as the position moves and the state changes."""

    def __init__(
        self,
        feed: Feed,
        position: Position | None,
        *,
        fence: Fence,
        around: Surroundings,
        advanced: Callable[[Position], None],
        reported: Callable[[StatusState, str | None], None],
        log: Log,
    ) -> None:
        self._feed = feed
        self._around = around
        self._advanced = advanced
        self._reported = reported
        self._log = log
        self._fence = fence
        self._machine = Machine(feed, position)
        self._told = position
        self._references = references(feed)
        self._pending = Pending(around.budget)
        self._pump = Pump(self._pending, around.sink, fence, acknowledged=self._acknowledged, log=log)
        self._wire: Wire | None = None
        self._wires: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._finished: asyncio.Future[tuple[Outcome, str]] = self._loop.create_future()

    async def run(self) -> Ended:
        """Returns when the socket is closed and every sink attempt has ended. Raises nothing but cancellation."""
        pumping = asyncio.create_task(self._pump.run())
        self._do(lambda: self._machine.start(self._loop.time()))
        either: set[asyncio.Future[Any]] = {self._finished, pumping}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        refusal = _result(pumping) if pumping.done() else None
        if not self._finished.done():
            self._happened(StopRequested(str(refusal)))
        outcome, reason = await self._finished
        if outcome == "crashed":
            self._pump.abandon()
        self._pump.close()
        await asyncio.wait({pumping})
        refusal = refusal or _result(pumping)
        await self._hang_up()
        position = self._machine.position if outcome != "crashed" else self._told
        if position is not None and position != self._told:
            self._advanced(position)
        match refusal:
            case Fenced():
                return Ended("fenced", str(refusal), position)
            case SinkFault():
                return Ended("fatal", str(refusal), position)
            case Exception():
                self._log.crashed("sink_crashed", refusal)
                return Ended("crashed", f"a fault in the sink ({type(refusal).__name__})", position)
            case None:
                return Ended(outcome, reason, position)

    def stop(self, reason: str, *, flush: bool) -> None:
        """Read no more and close. Without `flush`, begin no further sink attempt either; may be said later, too."""
        if not flush:
            self._pump.abandon()
        self._happened(StopRequested(reason))

    # --- events and commands ----------------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        self._do(lambda: self._machine.handle(event, self._loop.time(), self._around.draw()))

    def _do(self, step: Callable[[], list[Command]]) -> None:
        if self._finished.done() and self._finished.result()[0] == "crashed":
            return
        try:
            for command in step():
                self._carry_out(command)
        except Exception as error:  # noqa: BLE001  # a bug in a machine or an adapter ends its own connection alone
            self._log.crashed("runner_crashed", error)
            self._finish("crashed", f"a fault in this connection's code ({type(error).__name__})")

    def _carry_out(self, command: Command) -> None:
        match command:
            case Deliver(deliveries):
                fence = self._fence
                for each in deliveries:
                    self._pending.put(each.number, envelope.encode(fence.connection_id, fence.epoch, each))
            case Advance(position):
                self._told = position
                self._advanced(position)
            case Count(what, amount):
                self._around.counts[what] += amount
            case WakeAt(at_s):
                self._sleep_no_more()
                self._timer = self._loop.call_at(at_s, self._happened, Woke())
            case Send() if self._wire is not None:
                self._wire.send(command)
            case Ping() if self._wire is not None:
                self._wire.ping()
            case Dial():
                self._dial(command)
            case Close() if self._wire is not None:
                self._wire.close(command)
            case Report(state, reason):
                self._reported(state, reason)
            case Finished(outcome, reason):
                self._finish(outcome, reason)
            case Send() | Ping() | Close():
                pass

    def _acknowledged(self, number: int) -> None:
        self._happened(Acknowledged(number))

    def _finish(self, outcome: Outcome, reason: str) -> None:
        self._sleep_no_more()
        if not self._finished.done():
            self._finished.set_result((outcome, reason))

    def _sleep_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- the socket ---------------------------------------------------------------------------------------------------

    def _dial(self, dial: Dial) -> None:
        self._wire = Wire(
            dial,
            transport=self._around.transport,
            secrets=lambda: self._around.secrets(self._references),
            happened=self._happened,
            pending=self._pending,
            wall_ms=self._around.wall_ms,
        )
        task = asyncio.create_task(self._follow(self._wire))
        self._wires.add(task)
        task.add_done_callback(self._wires.discard)

    async def _follow(self, wire: Wire) -> None:
        try:
            closed = await wire.run()
        except Exception as error:  # noqa: BLE001  # as in `_do`
            self._log.crashed("runner_crashed", error)
            self._finish("crashed", f"a fault in this connection's socket ({type(error).__name__})")
            return
        if wire.opened:
            self._log.info("socket_closed", reason=closed.error, code=closed.code)
        self._happened(closed)

    async def _hang_up(self) -> None:
        """Nothing of a socket is left after this."""
        self._sleep_no_more()
        if self._wires and self._wire is not None:
            self._wire.close(Close(abort=True))
            await asyncio.wait(self._wires)


def _result(task: "asyncio.Task[Fenced | SinkFault | None]") -> Exception | None:
    error = task.exception()
    return error if isinstance(error, Exception) else task.result()
