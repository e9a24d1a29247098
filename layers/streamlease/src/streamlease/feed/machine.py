"""One connection's life as a state machine: events in, commands out. No await, clock, randomness or I/O.

    NEW → DIALLING → OPENING → STREAMING → CLOSING → BACKOFF → DIALLING … → FINISHED

What is read goes through `intake`. The position moves by acknowledgements only (`ledger`), and what cannot be proven
gapless is said in a gap record (`continuity`). Known limits: URL providers, handshake scripts, unwrapping, message
rules and rotation are not here yet.
"""

from enum import Enum

from streamlease.feed import template
from streamlease.feed.backoff import Backoff
from streamlease.feed.events import (
    Acknowledged,
    Advance,
    Close,
    Closed,
    Command,
    Count,
    Ending,
    Event,
    Finished,
    Message,
    Opened,
    Ping,
    Ponged,
    Reading,
    Report,
    StopRequested,
    WakeAt,
    Woke,
)
from streamlease.feed.feed import Feed
from streamlease.feed.intake import LONGEST_REASON, Intake
from streamlease.feed.liveness import LATE_S, Liveness, Verdict
from streamlease.feed.reader import NotJson, decode
from streamlease.model import Position, Sequence, StatusState

SHORTEST_PROOF_S = 1.0
"""A connection that ends sooner has not proven itself by acknowledged records, so that no upstream is dialled more than
about once a second."""
_GAVE_UP = 1011
"""The close code of a client whose upstream shows no life."""
_COUNTED_CODES = {1009: "oversized", 1007: "invalid_utf8"}


class Phase(Enum):
    NEW = "new"
    DIALLING = "dialling"
    OPENING = "opening"
    STREAMING = "streaming"
    CLOSING = "closing"
    BACKOFF = "backoff"
    FINISHED = "finished"


class Machine:
    """`start` once, then `handle` each event as it comes. Commands are to be carried out in order.

    Bounded: it holds one tuple for each delivery without an acknowledgement, and up to `recent.MOST` record ids.
    """

    def __init__(self, feed: Feed, position: Position | None) -> None:
        self._feed = feed
        self._phase = Phase.NEW
        self._intake = Intake(feed, position)
        self._liveness = Liveness(feed.keepalive)
        self._backoff = Backoff(feed.retry)
        self._cursor: Sequence | None = None
        self._deadline_s = 0.0
        self._wake_at_s: float | None = None
        self._streaming_since_s: float | None = None
        self._session_from = 0
        self._progressed = False
        self._why: str | None = None
        self._stopping: str | None = None

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def position(self) -> Position | None:
        """What is safe to store. Moves with acknowledgements, also with those that come after `Finished`."""
        return self._intake.position

    @property
    def delivered(self) -> int:
        """The number of the last delivery."""
        return self._intake.delivered

    def start(self, now_s: float) -> list[Command]:
        commands: list[Command] = []
        if self._phase is Phase.NEW:
            self._dial(now_s, commands)
            self._ask_to_wake(commands)
        return commands

    def handle(self, event: Event, now_s: float, draw: float) -> list[Command]:
        """What to do about `event`. `now_s` is monotonic, `draw` uniform in [0, 1). An event that comes too late for
        the state it meets (a message after `Close`, say) is passed over."""
        commands: list[Command] = []
        if isinstance(event, Message):
            if self._phase is Phase.STREAMING or self._phase is Phase.OPENING:
                phase = self._phase
                self._message(event, now_s, commands)
                if self._phase is not phase:
                    self._ask_to_wake(commands)
            return commands
        if isinstance(event, Acknowledged):
            self._advanced(self._intake.acknowledge(event.number), commands)
            return commands
        if self._phase is Phase.FINISHED:
            return commands
        match event:
            case Opened():
                self._opened(now_s, commands)
            case Ponged():
                self._liveness.ponged()
            case Reading(on):
                self._liveness.reading(on, now_s)
            case Woke():
                self._woke(now_s, commands)
            case Closed():
                self._closed(event, now_s, draw, commands)
            case StopRequested(reason):
                self._stop(reason, now_s, commands)
        self._ask_to_wake(commands)
        return commands

    # --- the life ----------------------------------------------------------------------------------------------------

    def _dial(self, now_s: float, commands: list[Command]) -> None:
        self._cursor = self._intake.dialling()
        self._phase = Phase.DIALLING
        self._why = None
        self._streaming_since_s = None
        self._session_from = self._intake.delivered
        self._progressed = False
        self._deadline_s = now_s + self._feed.open_timeout_s + self._feed.close_within_s
        commands.append(Report(StatusState.CONNECTING))
        commands.append(template.dial(self._feed, self._cursor))

    def _opened(self, now_s: float, commands: list[Command]) -> None:
        if self._phase is not Phase.DIALLING:
            return
        self._phase = Phase.OPENING
        self._liveness.opened(now_s)
        self._deadline_s = now_s + self._feed.ready_within_s
        commands.extend(template.sends(self._feed, self._cursor))
        if self._feed.ready is None:
            self._ready(now_s, commands)

    def _ready(self, now_s: float, commands: list[Command]) -> None:
        self._phase = Phase.STREAMING
        self._streaming_since_s = now_s
        self._liveness.streaming(now_s)
        commands.append(Report(StatusState.STREAMING))
        self._intake.begin(commands)

    def _woke(self, now_s: float, commands: list[Command]) -> None:
        asked_s, self._wake_at_s = self._wake_at_s, None
        if asked_s is not None and now_s - asked_s > LATE_S:
            if self._liveness.was_away(now_s) and self._phase is Phase.OPENING:
                self._deadline_s = max(self._deadline_s, now_s + LATE_S)
        else:
            self._liveness.on_time()
        match self._phase:
            case Phase.BACKOFF if now_s >= self._deadline_s:
                self._dial(now_s, commands)
            case Phase.DIALLING if now_s >= self._deadline_s:
                self._close("the dial did not end in time", now_s, commands, abort=True)
            case Phase.CLOSING if now_s >= self._deadline_s:
                self._deadline_s = now_s + self._feed.close_within_s
                commands.append(Close(self._feed.close_code if self._stopping else _GAVE_UP, abort=True))
                if self._stopping is not None:
                    self._finish("stopped", self._stopping, commands)
            case Phase.OPENING if now_s >= self._deadline_s:
                commands.append(Count("not_ready"))
                within = f"{self._feed.ready_within_s:g} s"
                self._close(f"no message within {within} said that the subscription stands", now_s, commands)
            case Phase.OPENING | Phase.STREAMING:
                self._judge(now_s, commands)
            case _:
                pass

    def _judge(self, now_s: float, commands: list[Command]) -> None:
        keepalive = self._feed.keepalive
        match self._liveness.judge(now_s):
            case Verdict.PING_DUE:
                commands.append(Ping())
            case Verdict.LATE_PONG:
                commands.append(Count("late_pong"))
                self._close(f"no sign of life within {keepalive.pong_within_s:g} s of a ping", now_s, commands)
            case Verdict.STALE:
                commands.append(Count("stale"))
                self._close(f"no message for {keepalive.stale_after_s or 0:g} s", now_s, commands)
            case Verdict.ALIVE:
                pass

    def _close(self, why: str, now_s: float, commands: list[Command], *, abort: bool = False) -> None:
        self._phase = Phase.CLOSING
        self._why = why
        self._deadline_s = now_s + self._feed.close_within_s
        commands.append(Close(_GAVE_UP, abort=abort))

    def _stop(self, reason: str, now_s: float, commands: list[Command]) -> None:
        if self._stopping is not None:
            return
        self._stopping = reason
        if self._phase in (Phase.NEW, Phase.BACKOFF):
            self._finish("stopped", reason, commands)
            return
        if self._phase is not Phase.CLOSING:
            self._phase = Phase.CLOSING
            commands.append(Close(self._feed.close_code))
        self._deadline_s = now_s + self._feed.close_within_s

    def _closed(self, event: Closed, now_s: float, draw: float, commands: list[Command]) -> None:
        if self._phase in (Phase.NEW, Phase.BACKOFF):
            return
        if self._stopping is not None:
            self._finish("stopped", self._stopping, commands)
            return
        if self._proven(now_s):
            self._backoff.proven()
        why = (self._why or event.error)[:LONGEST_REASON]
        if self._why is None and event.code in _COUNTED_CODES:
            commands.append(Count(_COUNTED_CODES[event.code]))
        final = None if self._why is not None else self._final(event)
        if final is not None:
            reason = f"{why}; {final}, so it is not tried again until the spec changes"
            commands.append(Report(StatusState.FAILED, reason))
            self._finish("fatal", reason, commands)
            return
        self._intake.lost(why)
        self._phase = Phase.BACKOFF
        self._deadline_s = now_s + self._backoff.delay_s(draw, event.retry_after_s)
        commands.append(Report(StatusState.BACKOFF, why))

    def _proven(self, now_s: float) -> bool:
        """An upstream that accepts, says a word and closes has proven nothing, even if that word was a record."""
        if self._streaming_since_s is None:
            return False
        lasted_s = now_s - self._streaming_since_s
        return lasted_s >= self._feed.retry.proven_after_s or (self._progressed and lasted_s >= SHORTEST_PROOF_S)

    def _final(self, event: Closed) -> str | None:
        if event.http_status is not None and event.http_status in self._feed.retry.fatal_http_statuses:
            return f"HTTP {event.http_status} is final for this feed"
        if event.code is not None and event.code in self._feed.retry.fatal_close_codes:
            return f"close code {event.code} is final for this feed"
        return None

    def _finish(self, outcome: Ending, reason: str, commands: list[Command]) -> None:
        self._phase = Phase.FINISHED
        commands.append(Finished(outcome, reason))

    def _ask_to_wake(self, commands: list[Command]) -> None:
        if self._phase in (Phase.NEW, Phase.FINISHED):
            return
        due_s: float | None = self._deadline_s
        if self._phase is Phase.STREAMING:
            due_s = self._liveness.due_s()
        elif self._phase is Phase.OPENING:
            due_s = self._liveness.due_s(self._deadline_s)
        if due_s is not None and due_s != self._wake_at_s:
            self._wake_at_s = due_s
            commands.append(WakeAt(due_s))

    # --- what comes in and goes out -----------------------------------------------------------------------------------

    def _message(self, message: Message, now_s: float, commands: list[Command]) -> None:
        self._liveness.heard_at_s = now_s
        value = decode(message.data)
        if isinstance(value, NotJson):
            self._intake.unreadable(message, commands)
            return
        if self._phase is Phase.OPENING and self._feed.ready is not None and self._feed.ready(value):
            self._ready(now_s, commands)
        self._advanced(self._intake.message(value, message, commands), commands)

    def _advanced(self, position: Position | None, commands: list[Command]) -> None:
        if position is None:
            return
        self._progressed = self._progressed or self._intake.acknowledged > self._session_from
        if self._phase is not Phase.FINISHED:
            commands.append(Advance(position))
