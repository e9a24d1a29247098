"""One connection in one worker: the real feed machine, with a simulated socket and sink around it.

The shell that carries out the machine's commands is this file's own; it keeps to the rules of design §4: one sink
attempt at a time and in order, none after the deadline, checked in the last line before it begins.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from urllib.parse import parse_qs, urlsplit

from streamlease.feed.events import (
    Acknowledged,
    Advance,
    Close,
    Closed,
    Command,
    Deliver,
    Dial,
    DialBegun,
    DialHeld,
    Finished,
    Gap,
    Message,
    Opened,
    Ping,
    Ponged,
    Record,
    Report,
    Send,
    StopRequested,
    WakeAt,
    Woke,
)
from streamlease.feed.events import Event as FeedEvent
from streamlease.feed.feed import Feed, Keepalive, RecordShape, Resume, Retry
from streamlease.feed.machine import Machine
from streamlease.model import Position, Seek, StatusState
from streamlease.write import Item, Value
from streamlease_worker.fence import Fence, Fenced
from tests.simulation.dialling import Dialling
from tests.simulation.kernel import MS, Kernel, S
from tests.simulation.process import Thread
from tests.simulation.sink import Attempt, Sink
from tests.simulation.upstream import Nature, Socket, Upstream

ATTEMPT_TIMEOUT_S = 2.0
RETRY_US = 300 * MS
WIRE_US = 3 * MS
"""One way between a worker and an upstream; constant, so that frames keep their order."""
MOST_WAITING = 500
"""Deliveries without an acknowledgement; beyond that, reading would have to stop."""


def feed_of(connection_id: str, url: str, nature: Nature) -> Feed:
    query = {"cursor": "{sequence}"} if nature.resumes else {}
    return Feed(
        connection_id=connection_id,
        url=url,
        resume=Resume(
            query=query,
            inclusive=nature.inclusive,
            order=nature.order if nature.resumes else "oldest_first",
            complete=_complete if nature.resumes and nature.order == "newest_first" else None,
        ),
        retry=Retry(first_s=0.5, longest_s=5.0),
        keepalive=Keepalive(ping_every_s=5.0, pong_within_s=5.0, stale_after_s=nature.stale_after_s),
        record=RecordShape(when=_is_record, sequence=_sequence, record_id=_record_id, unique=not nature.shared),
    )


def _is_record(message: Value) -> Value:
    return isinstance(message, dict) and "seq" in message


def _sequence(message: Value) -> Value:
    return message.get("seq") if isinstance(message, dict) else None


def _record_id(message: Value) -> Value:
    return message.get("id") if isinstance(message, dict) else None


def _complete(message: Value) -> Value:
    return isinstance(message, dict) and "eose" in message


@dataclass(slots=True)
class Told:
    """What a runner tells its worker."""

    advanced: Callable[[Position], None]
    reported: Callable[[Report], None]
    finished: Callable[[Finished], None]
    """Once, when the machine has finished and no sink attempt is under way."""
    poisoned: Callable[[], None]


@dataclass(slots=True)
class Runner:
    connection_id: str
    epoch: int
    kernel: Kernel
    thread: Thread
    sink: Sink
    upstream: Upstream
    url: str
    spec: Item
    position: Position | None
    fence: Fence
    told: Told
    draws: Random
    cut_until: Callable[[], int]
    """Until when its worker has no way to any upstream."""
    dialling: Dialling
    suspect: bool = False
    """Whether another worker gave the connection up for its silence."""
    seek: Seek | None = None
    """Where somebody asked it to go on."""
    over: bool = False
    stopping: bool = False
    fenced: bool = False
    """Found its deadline passed before the keeper said so."""
    state: StatusState | None = None
    _machine: Machine = field(init=False)
    _socket: Socket | None = None
    _dialling: int = 0
    _wish: int = 0
    """The number under which the worker's gate knows the present dial; 0: there is none."""
    _waiting: deque[Record | Gap] = field(default_factory=deque)
    _attempt: Attempt | None = None
    _attempts: int = 0
    _retry_at_us: int = 0
    _finished: Finished | None = None
    _wake_at_s: float | None = None

    def __post_init__(self) -> None:
        self._machine = Machine(
            feed_of(self.connection_id, self.url, self.upstream.nature),
            self.position,
            suspect=self.suspect,
            seek=self.seek,
        )

    # --- what the worker does with it ---

    def start(self) -> None:
        self._carry_out(self._machine.start(self._mono_s()))

    def stop(self, reason: str, *, flush: bool) -> None:
        """Close the socket; `flush`: what waits is still delivered, as far as the lease allows."""
        if not flush:
            self._waiting.clear()
        if not self.stopping:
            self.stopping = True
            self._feed(StopRequested(reason))
        self._end()

    @property
    def newest_position(self) -> Position | None:
        return self._machine.position

    @property
    def attempting(self) -> bool:
        return self._attempt is not None

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def vanish(self) -> None:
        """The process, or its membership, is gone: so is its socket."""
        self.over = True
        if self._socket is not None:
            self.upstream.hang_up(self._socket)
            self._socket = None

    # --- the machine's commands ---

    def _mono_s(self) -> float:
        return self.thread.process.clock.mono_s(self.thread.now_us)

    def _feed(self, event: FeedEvent) -> None:
        if not self.over:
            self._carry_out(self._machine.handle(event, self._mono_s(), self.draws.random()))

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Dial(url=url):
                    self._dial(url)
                case Deliver(deliveries=deliveries):
                    self._waiting.extend(deliveries)
                    self._pump()
                case WakeAt(at_s=at_s):
                    self._wake(at_s)
                case Advance(position=position):
                    self.told.advanced(position)
                case Report():
                    self.state = command.state
                    self.told.reported(command)
                case Close():
                    self._close()
                case Finished():
                    self._finished = command
                    self._end()
                case Ping():
                    self._ping()
                case Send():
                    pass
                case _:
                    pass

    def _wake(self, at_s: float) -> None:
        self._wake_at_s = at_s
        self.thread.at(self.thread.process.clock.true_us(at_s), lambda: self._woke(at_s))

    def _woke(self, at_s: float) -> None:
        if self._wake_at_s == at_s:
            self._wake_at_s = None
            self._feed(Woke())

    # --- the socket ---

    def _dial(self, url: str) -> None:
        self._dialling += 1
        number = self._dialling
        parts = urlsplit(url)
        cursor = parse_qs(parts.query).get("cursor")
        host = parts.netloc
        at = int(float(cursor[0])) if cursor else None
        self._dialled()
        begun = False

        def begin() -> None:
            nonlocal begun
            begun = True
            try:
                self.fence.check()
            except Fenced as fenced:
                reason = str(fenced)
                self.kernel.after(0, lambda: self.thread.event(lambda: self._dial_failed(number, reason)))
                return
            self._tell(number, DialBegun())
            self.kernel.after(2 * WIRE_US, lambda: self._arrive(number, host, at))

        self._wish = self.dialling.want(host, begin, lambda reason: self._tell(number, DialHeld(reason=reason)))
        if not begun:
            self._tell(number, DialHeld())

    def _tell(self, number: int, event: DialHeld | DialBegun) -> None:
        """The machine hears of its dial after what it is handling now."""
        self.kernel.after(0, lambda: self.thread.event(lambda: self._feed(event) if number == self._dialling else None))

    def _dialled(self) -> None:
        """The present dial has opened or failed, or is wanted no more."""
        wish, self._wish = self._wish, 0
        if wish:
            self.dialling.gone(wish)

    def _arrive(self, number: int, host: str, cursor: int | None) -> None:
        """The handshake has reached the upstream."""
        if self.over or number != self._dialling or not self.thread.process.alive:
            return
        if self.cut_until() > self.kernel.now_us:
            self.kernel.after(5 * S, lambda: self.thread.event(lambda: self._dial_failed(number, "timed out")))
            return
        socket = self.upstream.dial(self.thread.process.name, host, cursor, self._on_message, self._on_closed)
        if socket is None:
            self.thread.event(lambda: self._dial_failed(number, "connection refused"))
            return
        self._socket = socket
        self.kernel.after(WIRE_US, lambda: self.thread.event(lambda: self._opened(socket)))
        self.upstream.greet(socket, cursor)

    def _dial_failed(self, number: int, error: str) -> None:
        if number == self._dialling:
            self._dialled()
            self._feed(Closed(error))

    def _opened(self, socket: Socket) -> None:
        if self._socket is socket:
            self._dialled()
        if self._socket is socket and self.upstream.poisonous:
            self.told.poisoned()
        elif self._socket is socket:
            self._feed(Opened())

    def _on_message(self, socket: Socket, text: str) -> None:
        """A frame leaves the upstream."""
        if not socket.open:
            return
        self.kernel.after(WIRE_US, lambda: self.thread.event(lambda: self._message(socket, text)))

    def _message(self, socket: Socket, text: str) -> None:
        if self._socket is not socket or self.over:
            return
        wall_ms = self.thread.process.clock.wall_ms(self.thread.now_us)
        self._feed(Message(text, wall_ms))

    def _on_closed(self, socket: Socket, why: str) -> None:
        self.thread.event(lambda: self._closed(socket, why))

    def _closed(self, socket: Socket, why: str) -> None:
        if self._socket is socket:
            self._socket = None
            self._dialled()
            self._feed(Closed(why, code=1006))

    def _ping(self) -> None:
        socket = self._socket
        if socket is not None and socket.open:
            self.kernel.after(2 * WIRE_US, lambda: self.thread.event(lambda: self._feed(Ponged())))

    def cut(self) -> None:
        """The way to the upstream is gone: what is open now will never say another word."""
        if self._socket is not None:
            self.upstream.hang_up(self._socket)

    def _close(self) -> None:
        socket, self._socket = self._socket, None
        self._dialling += 1
        self._dialled()
        if socket is not None:
            self.thread.effect(lambda: self.upstream.hang_up(socket))
        self.kernel.after(2 * WIRE_US, lambda: self.thread.event(lambda: self._feed(Closed("closed", code=1000))))

    # --- the sink ---

    def _pump(self) -> None:
        """Begin the next attempt, if one may begin."""
        if self._attempt is not None or self.over or not self._waiting:
            return
        if self._retry_at_us > self.thread.now_us:
            return
        attempt = Attempt(
            self.connection_id, self.thread.process.name, self.epoch, tuple(self._waiting), self.thread.now_us
        )
        self._attempt = attempt
        self._attempts += 1
        number = self._attempts
        self.thread.effect(lambda: self._begin(attempt, number))

    def _begin(self, attempt: Attempt, number: int) -> None:
        """The last lines before a sink call: nothing lies between the check and the beginning of the attempt."""
        if self.over or not self._waiting:
            self._attempt = None
            self._end()
            return
        left_s = self.fence.left_s()
        try:
            self.fence.check()
        except Fenced as fenced:
            self._attempt = None
            self.fenced = True
            self.stop(str(fenced), flush=False)
            return
        self.sink.begin(attempt)
        self.thread.process.reach("check")
        self.thread.effect(lambda: self.sink.put(attempt, lambda ok: self._hear(number, ok)))
        timeout_us = int(min(ATTEMPT_TIMEOUT_S, left_s) * S)
        self.thread.at(self.thread.now_us + timeout_us, lambda: self._answered(number, ok=False))

    def _hear(self, number: int, ok: bool) -> None:
        self.thread.event(lambda: self._answered(number, ok=ok))

    def _answered(self, number: int, *, ok: bool) -> None:
        attempt = self._attempt
        if attempt is None or number != self._attempts or self.over:
            return
        self._attempt = None
        if ok:
            for _ in range(min(len(attempt.deliveries), len(self._waiting))):
                self._waiting.popleft()
            self._feed(Acknowledged(attempt.deliveries[-1].number))
            self._pump()
        else:
            self._retry_at_us = self.thread.now_us + RETRY_US
            self.thread.at(self._retry_at_us, self._pump)
        self._end()

    def _end(self) -> None:
        """Over once the machine has finished, nothing waits that may yet be delivered, and no attempt is under way."""
        if self._finished is None or self.over or self._attempt is not None:
            return
        if self._waiting:
            self._pump()
            return
        self.over = True
        self.told.finished(self._finished)
