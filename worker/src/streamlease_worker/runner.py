"""Runs one connection: drives its machine, its socket (`wire`) and its way to the sink (`pump`), in one event loop.

All decisions are the machine's. Everything that goes wrong in here, bugs included, ends this runner alone. At most one
batch is at the sink at a time, so order holds; what is read and not durable is bounded, and when it is full, reading
stops while the keepalive goes on.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from streamlease import envelope
from streamlease.feed.computed import Moment
from streamlease.feed.events import (
    Acknowledged,
    Advance,
    Close,
    Command,
    Count,
    Deliver,
    Dial,
    DialBegun,
    DialHeld,
    Event,
    Fetch,
    Finished,
    Ping,
    Record,
    Report,
    Send,
    StopRequested,
    WakeAt,
    Woke,
)
from streamlease.feed.feed import Feed
from streamlease.feed.machine import Machine
from streamlease.feed.secrets import references
from streamlease.model import Position, Seek, StatusState
from streamlease_worker.call import Call
from streamlease_worker.fence import Fence, Fenced
from streamlease_worker.log import Log
from streamlease_worker.pending import Budget, Pending
from streamlease_worker.pump import Pump
from streamlease_worker.sinks.base import Sink, SinkFault
from streamlease_worker.tokens import sign_token
from streamlease_worker.transport import Transport
from streamlease_worker.turns import Turn, Turns
from streamlease_worker.wire import Wire

type Outcome = Literal["stopped", "fatal", "yielded", "quarantined", "crashed", "fenced"]


class AnySecrets(Protocol):
    """Looks any secrets up. Raises SecretError."""

    async def __call__(self, references: Iterable[str], *, fresh: bool = False) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all runners of a worker share."""

    transport: Transport
    sink: Sink
    turns: Turns
    secrets: AnySecrets
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
        suspect: bool = False,
        seek: Seek | None = None,
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
        self._machine = Machine(feed, position, clock=asyncio.get_running_loop().time, suspect=suspect, seek=seek)
        self._handle, self._draw = self._machine.handle, around.draw
        self._crashed = False
        self._told = position
        self._state: StatusState | None = None
        self._refusal: str | None = None
        """Why the sink has taken nothing for a while."""
        self._references = references(feed)
        self._pending = Pending(around.budget)
        self._pump = Pump(
            self._pending, around.sink, fence, acknowledged=self._acknowledged, refused=self._refused, log=log
        )
        self._dials: dict[int, Wire | Call] = {}
        """What is under way or open, by the number of its dial."""
        self._turns: dict[int, Turn] = {}
        """Of calls that have ended, for the dials that follow them."""
        self._newest = 0
        self._following: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._now_s = self._loop.time
        self._finished: asyncio.Future[tuple[Outcome, str]] = self._loop.create_future()

    @property
    def connected(self) -> bool:
        return self._state is StatusState.STREAMING

    async def run(self) -> Ended:
        """Returns when the socket is closed and every sink attempt has ended. Raises nothing but cancellation."""
        pumping = asyncio.create_task(self._pump.run())
        pumping.add_done_callback(self._pump_ended)
        self._start()
        outcome, reason = await self._finished
        if outcome == "crashed":
            self._pump.abandon()
        self._pump.close()
        await asyncio.wait({pumping})
        refusal = _result(pumping)
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

    def _pump_ended(self, pumping: "asyncio.Task[Fenced | SinkFault | None]") -> None:
        if not self._finished.done() and not pumping.cancelled():
            self._happened(StopRequested(str(_result(pumping))))

    def stop(self, reason: str, *, flush: bool) -> None:
        """Read no more and close. Without `flush`, begin no further sink attempt either; may be said later, too."""
        if not flush:
            self._pump.abandon()
        self._happened(StopRequested(reason))

    # --- events and commands ----------------------------------------------------------------------------------------

    def _happened(self, event: Event) -> None:
        if self._crashed:
            return
        try:
            for command in self._handle(event, self._now_s(), self._draw()):
                if type(command) is Deliver:  # most of them
                    self._deliver(command)
                else:
                    self._carry_out(command)
        except Exception as error:  # noqa: BLE001  # a bug in a machine or an adapter ends its own connection alone
            self._crash("code", error)

    def _start(self) -> None:
        try:
            for command in self._machine.start(self._loop.time()):
                self._carry_out(command)
        except Exception as error:  # noqa: BLE001  # as above
            self._crash("code", error)

    def _deliver(self, command: Deliver) -> None:
        fence, pending = self._fence, self._pending
        for each in command.deliveries:
            at_ms = each.received_at_ms if type(each) is Record else self._around.wall_ms()
            pending.put(each.number, envelope.encode(fence.connection_id, fence.epoch, each), at_ms)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Deliver():
                self._deliver(command)
            case Advance(position):
                self._told = position
                self._advanced(position)
            case Count(what, amount):
                self._around.counts[what] += amount
            case WakeAt(at_s):
                self._sleep_no_more()
                self._timer = self._loop.call_at(at_s, self._happened, Woke())
            case Send():
                if isinstance(wire := self._dialled(command.socket), Wire):
                    wire.send(command)
            case Ping():
                if isinstance(wire := self._dialled(command.socket), Wire):
                    wire.ping()
            case Close():
                match self._dialled(command.socket):
                    case Wire() as wire:
                        wire.close(command)
                    case Call() as call:
                        call.close()
                    case None:
                        pass
            case Dial():
                self._dial(command)
            case Fetch():
                self._call(command)
            case Report(state, reason):
                self._state = state
                if self._refusal is None or not self.connected:
                    self._reported(state, reason)
                else:
                    self._reported(StatusState.BLOCKED, self._refusal)
            case Finished(outcome, reason):
                self._finish(outcome, reason)

    def _refused(self, reason: str | None) -> None:
        """The sink takes nothing, or something again: who looks at the connection is to see that, too."""
        self._refusal = None if reason is None else f"the sink takes nothing: {reason}"
        if self.connected:
            state = StatusState.STREAMING if reason is None else StatusState.BLOCKED
            self._reported(state, self._refusal)

    def _acknowledged(self, number: int) -> None:
        self._happened(Acknowledged(number))

    def _finish(self, outcome: Outcome, reason: str) -> None:
        self._sleep_no_more()
        if not self._finished.done():
            self._finished.set_result((outcome, reason))

    def _crash(self, where: str, error: Exception) -> None:
        self._crashed = True
        self._log.crashed("runner_crashed", error)
        self._finish("crashed", f"a fault in this connection's {where} ({type(error).__name__})")

    def _sleep_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- sockets, and calls before them -------------------------------------------------------------------------------

    def _dialled(self, number: int) -> Wire | Call | None:
        return self._dials.get(number or self._newest)

    def _dial(self, dial: Dial) -> None:
        wire = Wire(
            dial,
            turn=lambda: self._turn(dial.socket, dial.url),
            fence=self._fence,
            transport=self._around.transport,
            secrets=self._secrets,
            moment=self._moment,
            happened=self._happened,
            pending=self._pending,
            wall_ms=self._around.wall_ms,
        )
        self._under(dial.socket, wire)
        self._follow(self._follow_wire(dial.socket, wire))

    def _call(self, fetch: Fetch) -> None:
        call = Call(
            fetch,
            turn=lambda: self._turn(fetch.socket, self._feed.url),
            keep=lambda turn: self._keep(fetch.socket, turn),
            fence=self._fence,
            fetch=self._around.transport.fetch,
            secrets=self._secrets,
            moment=self._moment,
        )
        self._under(fetch.socket, call)
        self._follow(self._follow_call(fetch.socket, call))

    def _under(self, number: int, dial: Wire | Call) -> None:
        self._dials[number] = dial
        self._newest = number

    def _over(self, number: int, dial: Wire | Call) -> None:
        if self._dials.get(number) is dial:
            del self._dials[number]
        if dial.counted is not None:
            self._around.counts[dial.counted] += 1

    def _follow(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _follow_wire(self, number: int, wire: Wire) -> None:
        try:
            closed = await wire.run()
        except Exception as error:  # noqa: BLE001  # as in `_happened`
            self._crash("socket", error)
            return
        finally:
            self._over(number, wire)
            self._done_with_turn(number)
        if wire.opened:
            self._log.info("socket_closed", reason=closed.error, code=closed.code)
        self._happened(closed)

    async def _follow_call(self, number: int, call: Call) -> None:
        try:
            fetched = await call.run()
        except Exception as error:  # noqa: BLE001  # as in `_happened`
            self._crash("HTTP call", error)
            return
        finally:
            self._over(number, call)
        self._happened(fetched)
        if number not in self._dials:  # no dial follows
            self._done_with_turn(number)

    async def _turn(self, number: int, url: str) -> Turn:
        """Wait for it. The HTTP call's, where there was one that still stands."""
        kept = self._turns.pop(number, None)
        if kept is not None:
            if not kept.lapsed:
                return kept
            kept.over()

        def hear(reason: str) -> None:
            self._loop.call_soon(tell, reason)

        def tell(reason: str) -> None:
            if not turn.allowed.done():
                self._happened(DialHeld(number, reason))

        turn = self._around.turns.want(urlsplit(url).hostname or "", self._feed.dials, self._references, hear)
        if not turn.allowed.done():
            self._happened(DialHeld(number))
            try:
                await turn.allowed
            except asyncio.CancelledError:
                turn.over()
                raise
            self._happened(DialBegun(number))
        return turn

    def _keep(self, number: int, turn: Turn) -> None:
        self._turns[number] = turn

    def _done_with_turn(self, number: int) -> None:
        turn = self._turns.pop(number, None)
        if turn is not None:
            turn.over()

    async def _secrets(self, *, fresh: bool) -> Mapping[str, str]:
        return await self._around.secrets(self._references, fresh=fresh)

    def _moment(self) -> Moment:
        return Moment(self._around.wall_ms() * 1_000_000, secrets.token_hex(32), sign_token)

    async def _hang_up(self) -> None:
        """Nothing of a socket is left after this."""
        self._sleep_no_more()
        for dial in list(self._dials.values()):
            if isinstance(dial, Wire):
                dial.close(Close(abort=True))
            else:
                dial.close()
        if self._following:
            await asyncio.wait(self._following)
        for number in list(self._turns):
            self._done_with_turn(number)


def _result(task: "asyncio.Task[Fenced | SinkFault | None]") -> Exception | None:
    error = task.exception()
    return error if isinstance(error, Exception) else task.result()
