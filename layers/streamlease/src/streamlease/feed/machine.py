"""One connection's life as a state machine: events in, commands out. No await, clock, randomness or I/O.

    NEW → (FETCHING) → DIALLING → OPENING → STREAMING → CLOSING → BACKOFF → DIALLING … → FINISHED

One socket's life is a `session`, and what is said on it is heard in `hearing`; here is what follows for the connection:
from a socket's end, and from the change to the next (`rotation`). What is read goes through `intake`. The position
moves by acknowledgements only (`ledger`), and what cannot be proven gapless is said in a gap record (`continuity`).
Longer than most files: it is the one place where sockets, position and ends meet.
"""

from dataclasses import replace

from streamlease.feed.adapted import Clock
from streamlease.feed.backoff import Backoff
from streamlease.feed.decoding import Trouble
from streamlease.feed.endings import Endings
from streamlease.feed.events import (
    Acknowledged,
    Advance,
    Closed,
    Command,
    Count,
    DialBegun,
    DialHeld,
    Ending,
    Event,
    Fetched,
    Finished,
    Message,
    Opened,
    Ponged,
    Reading,
    Report,
    StopRequested,
    WakeAt,
    Woke,
)
from streamlease.feed.feed import Feed, Rule
from streamlease.feed.hearing import Follows, Hearing
from streamlease.feed.intake import LONGEST_REASON, Intake
from streamlease.feed.liveness import LATE_S, Silence
from streamlease.feed.rotation import Kept, Turn
from streamlease.feed.rules import Rules, Ruling
from streamlease.feed.session import GAVE_UP, Phase, Session, unusable
from streamlease.feed.sockets import Sockets
from streamlease.model import Position, Seek, StatusState
from streamlease.write import Value

SHORTEST_PROOF_S = 1.0
"""A connection that ends sooner has not proven itself by acknowledged records, so that no upstream is dialled more than
about once a second."""
ROTATE = Ruling("rotate", Rule())
_COUNTED_CODES = {1009: "oversized", 1007: "invalid_utf8"}


class Machine:
    """`start` once, then `handle` each event as it comes. Commands are to be carried out in order.

    Bounded: it holds one tuple for each delivery without an acknowledgement, up to `recent.MOST` record ids, what waits
    to be sent, and while a rotation lasts the new socket's first messages.
    """

    def __init__(
        self,
        feed: Feed,
        position: Position | None,
        clock: Clock | None = None,
        *,
        suspect: bool = False,
        seek: Seek | None = None,
    ) -> None:
        """`clock`: monotonic seconds, to time an adapter by; without it, no adapter is timed. `suspect`: another worker
        gave it up for its silence. `seek`: where somebody asked it to go on; it holds only without a position."""
        self._feed = feed
        self._intake = Intake(feed, position, seek)
        self._backoff = Backoff(feed.retry)
        self._rules = Rules(feed)
        self._endings = Endings(feed, self._rules)
        self._turn = Turn(feed.rotation)
        follows = Follows(
            ready=self._ready,
            data=self._data,
            numbered=self._numbered,
            kept=self._hold,
            rotates=self._announced,
            faulty=self._faulty,
        )
        self._hearing = Hearing(feed, self._rules, self._intake, clock, follows)
        self._silence = Silence(suspect=suspect)
        self._sockets = Sockets(feed, self._intake)
        self._waiting_until_s: float | None = None
        self._wake_at_s: float | None = None
        self._code = feed.close_code
        self._age_unknown = False
        self._session_from = 0
        self._progressed = False
        self._ending: tuple[Ending, str] | None = None
        self._finished = False

    @property
    def phase(self) -> Phase:
        """Of the socket that counts."""
        if self._finished:
            return Phase.FINISHED
        if self._ending is not None:
            return Phase.CLOSING
        if self._sockets.main is not None:
            return self._sockets.main.phase
        return Phase.NEW if self._waiting_until_s is None else Phase.BACKOFF

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
        adapting = self._feed.adapter
        if adapting is not None and adapting.factory is None and not self._finished:
            self._ending = ("yielded", adapting.problem)
            commands.append(Report(StatusState.BACKOFF, adapting.problem))
            self._finish(commands)
        elif self._sockets.main is None and self._waiting_until_s is None and not self._finished:
            self._dial(now_s, commands)
            self._ask_to_wake(commands)
        return commands

    def handle(self, event: Event, now_s: float, draw: float) -> list[Command]:
        """What to do about `event`. `now_s` is monotonic, `draw` uniform in [0, 1). An event that comes too late for
        the state it meets (a message after `Close`, say) is passed over."""
        commands: list[Command] = []
        if isinstance(event, Message):
            session = self._sockets.of(event.socket)
            if session is not None and session.is_open and self._message(session, event, now_s, draw, commands):
                self._ask_to_wake(commands)
            return commands
        if isinstance(event, Acknowledged):
            self._advanced(self._intake.acknowledge(event.number), commands)
            if self._feed.acks is not None and not self._finished:
                self._acknowledge(now_s, commands)
                self._ask_to_wake(commands)
            return commands
        if self._finished:
            return commands
        match event:
            case Opened(socket):
                self._opened(self._sockets.of(socket), now_s, draw, commands)
            case Ponged(socket):
                if (session := self._sockets.of(socket)) is not None:
                    session.liveness.ponged()
            case Reading(_, socket):
                if (session := self._sockets.of(socket)) is not None:
                    session.reading(event, now_s)
            case Woke():
                self._woke(now_s, draw, commands)
            case Fetched():
                self._fetched(event, now_s, draw, commands)
            case DialHeld():
                session = self._sockets.of(event.socket)
                if session is not None and session.held() and event.reason and session is self._sockets.main:
                    commands.append(Report(StatusState.CONNECTING, event.reason))
            case DialBegun(socket):
                if (session := self._sockets.of(socket)) is not None:
                    session.begun(now_s)
            case Closed():
                self._closed(event, now_s, draw, commands)
            case StopRequested(reason):
                if self._ending is None:
                    self._end("stopped", reason, now_s, commands)
        self._ask_to_wake(commands)
        return commands

    # --- getting there ------------------------------------------------------------------------------------------------

    def _dial(self, now_s: float, commands: list[Command]) -> None:
        """For the main session."""
        self._waiting_until_s = None
        self._sockets.main = self._sockets.begun()
        self._begins(self._sockets.main)
        commands.append(Report(StatusState.CONNECTING))
        self._sockets.main.begin(now_s, commands)

    def _begins(self, session: Session, *, seamless: bool = False) -> None:
        """From here on this session's messages are the connection's. `seamless`: the one before was open meanwhile."""
        self._intake.dialled(session.cursor, seamless=seamless)
        self._session_from = self._intake.delivered
        self._progressed = False
        self._age_unknown = self._feed.resume.reaches_back_s is not None and session.cursor is not None

    def _fetched(self, event: Fetched, now_s: float, draw: float, commands: list[Command]) -> None:
        session = self._sockets.of(event.socket)
        if session is None:
            return
        problem = session.fetched(event, now_s, commands) if session.phase is Phase.FETCHING else "given up"
        if problem is not None:
            closed = Closed(problem, None, event.status, event.retry_after_s, session.number, body=event.body)
            self._closed(closed, now_s, draw, commands)

    def _opened(self, session: Session | None, now_s: float, draw: float, commands: list[Command]) -> None:
        if session is None or session.phase is not Phase.DIALLING:
            return
        if self._feed.adapter is None:
            is_ready = session.opened(now_s, draw, commands)
        else:
            session.opening(now_s, draw)
            self._hearing.adapt(session, None, now_s, draw, commands)
            is_ready = session.is_open and session.go_on(now_s, commands)
        if is_ready:
            self._ready(session, now_s, draw, commands)

    def _ready(self, session: Session, now_s: float, draw: float, commands: list[Command]) -> None:
        session.streaming(now_s)
        if session is not self._sockets.main:
            self._turn.ready(now_s)
            return
        self._turn.streaming(now_s, draw)
        commands.append(Report(StatusState.STREAMING))
        self._intake.begin(commands)
        self._hold(session, commands)

    # --- what comes in ------------------------------------------------------------------------------------------------

    def _message(self, session: Session, message: Message, now_s: float, draw: float, commands: list[Command]) -> bool:
        """Whether it may have changed what is to be waited for."""
        session.heard_at(now_s)
        before = session.phase
        if self._feed.acks is not None and message.socket == 0:
            message = replace(message, socket=session.number)
        if self._age_unknown and session is self._sockets.main:
            self._look_at_age(session, message, now_s, commands)
        if session.adapted is not None:
            self._hearing.adapt(session, message, now_s, draw, commands)
        else:
            self._hearing.decoded(session, message, now_s, draw, commands)
        if self._feed.acks is not None:
            self._acknowledge(now_s, commands)
        return before is Phase.OPENING or self._hearing.controlled or session is not self._sockets.main

    def _data(
        self,
        session: Session,
        value: Value,
        message: Message,
        trouble: Trouble | None,
        now_s: float,
        commands: list[Command],
    ) -> None:
        if session is self._sockets.main:
            self._take(value, message, trouble, commands)
        else:
            self._turn.keep(Kept(value, message, trouble), now_s)

    def _numbered(self, session: Session, value: Value, commands: list[Command]) -> None:
        if session is self._sockets.main:
            self._intake.numbered(value, commands)

    def _announced(self, session: Session, url: str | None, now_s: float, draw: float, commands: list[Command]) -> bool:
        if not self._feed.rotation.overlap or session is not self._sockets.main:
            return False
        self._sockets.use(url)
        self._turn.now(now_s)
        self._rotate(now_s, draw, commands)
        return True

    def _faulty(self, fault: str, now_s: float, commands: list[Command]) -> None:
        if self._ending is None:
            commands.append(Count("adapter"))
            commands.append(Report(StatusState.FAILED, fault))
            self._end("quarantined", fault, now_s, commands)

    def _look_at_age(self, session: Session, message: Message, now_s: float, commands: list[Command]) -> None:
        """The upstream may silently begin with the oldest that it has."""
        self._age_unknown = False
        resume, cursor = self._feed.resume, session.cursor
        age_s = None if cursor is None else self._intake.age_s(cursor, message.received_at_ms)
        if resume.reaches_back_s is None or age_s is None or age_s <= resume.reaches_back_s:
            return
        why = f"the cursor was {age_s:.0f} s old, and the upstream reaches back {resume.reaches_back_s:.0f} s"
        if resume.too_old == "fatal":
            session.ruling = Ruling("fatal", Rule(message=lambda _: True, name="resume.too_old"))
            session.close(why, now_s, commands, code=self._code)
        else:
            self._intake.cut_short(why, commands)

    def _take(self, value: Value, message: Message, unreadable: Trouble | None, commands: list[Command]) -> None:
        """A message of the socket that counts, as data."""
        if unreadable is None:
            self._advanced(self._intake.message(value, message, commands), commands)
        else:
            self._intake.unreadable(message, commands, unreadable)

    def _acknowledge(self, now_s: float, commands: list[Command]) -> None:
        """Tell the upstream what it waits to hear."""
        acks = self._feed.acks
        for due in self._intake.acks_due(commands):
            session = self._sockets.of(due.socket)
            if acks is not None and session is not None and session.is_open:
                session.say(acks.message, now_s, commands, more=due.values)

    def _hold(self, session: Session, commands: list[Command]) -> None:
        """Keep with the position what resuming needs."""
        resume = self._feed.resume
        if session is not self._sockets.main or (resume.token is None and resume.url is None):
            return
        token = None if resume.token is None else session.variables.get(resume.token)
        url = None if resume.url is None else session.variables.get(resume.url)
        if isinstance(url, str) and unusable(url, self._feed) is not None:
            url = None
        position = self._intake.hold(
            None if token is None else str(token), url if isinstance(url, str) else None, commands
        )
        if position is not None:
            commands.append(Advance(position))

    def _advanced(self, position: Position | None, commands: list[Command]) -> None:
        if position is None:
            return
        self._progressed = self._progressed or self._intake.acknowledged > self._session_from
        if not self._finished:
            commands.append(Advance(position))

    # --- from one socket to the next ----------------------------------------------------------------------------------

    def _rotate(self, now_s: float, draw: float, commands: list[Command]) -> None:
        main = self._sockets.main
        if main is None or not self._sockets.can_rotate:
            return
        if not self._feed.rotation.overlap:
            self._turn.over()
            main.ruling = ROTATE
            main.close("its time was over", now_s, commands, code=self._code)
            return
        if not self._proven(main, now_s):
            self._turn.failed(now_s, self._backoff.delay_s(draw))
            return
        self._turn.begun()
        commands.append(Count("rotation"))
        self._sockets.next = self._sockets.begun()
        self._sockets.next.begin(now_s, commands)

    def _change(self, now_s: float, draw: float, commands: list[Command]) -> None:
        """The new socket takes over from the old one, which is closed or closing."""
        session, self._sockets.next = self._sockets.next, None
        if session is None:
            return
        self._sockets.main = session
        seamless = session.phase is Phase.STREAMING
        self._begins(session, seamless=seamless)
        if seamless:
            self._turn.streaming(now_s, draw)
            self._intake.begin(commands)
            self._hold(session, commands)
        frame: Message | None = None
        for kept in self._turn.changed():
            if kept.message is not frame:
                frame = kept.message
                self._intake.frame(1)
            self._take(kept.value, kept.message, kept.unreadable, commands)
        if not seamless:
            commands.append(Report(StatusState.CONNECTING))

    # --- time ---------------------------------------------------------------------------------------------------------

    def _woke(self, now_s: float, draw: float, commands: list[Command]) -> None:
        asked_s, self._wake_at_s = self._wake_at_s, None
        late = asked_s is not None and now_s - asked_s > LATE_S
        for session in self._sockets:
            if late:
                session.was_away(now_s)
            else:
                session.liveness.on_time()
            self._wake(session, now_s, draw, commands)
        if self._ending is not None:
            if not self._finished and all(session.aborted for session in self._sockets):
                self._finish(commands)
            return
        if self._waiting_until_s is not None and now_s >= self._waiting_until_s:
            self._dial(now_s, commands)
        if self._turn.change_due(now_s) and self._sockets.can_change:
            self._sockets.last = self._sockets.main
            self._change(now_s, draw, commands)
            if self._sockets.last is not None:
                self._sockets.last.close("another socket took its place", now_s, commands, code=self._code)
        elif self._turn.due(now_s):
            self._rotate(now_s, draw, commands)

    def _wake(self, session: Session, now_s: float, draw: float, commands: list[Command]) -> None:
        if session.is_open:
            if session.woke(now_s, self._intake.received, commands):
                self._ready(session, now_s, draw, commands)
            self._wake_adapter(session, now_s, draw, commands)
        elif now_s >= session.deadline_s:
            code = GAVE_UP if self._ending is None else self._feed.close_code
            what = "call before the dial" if session.phase is Phase.FETCHING else "dial"
            session.close(f"the {what} did not end in time", now_s, commands, code=code, abort=True)

    def _wake_adapter(self, session: Session, now_s: float, draw: float, commands: list[Command]) -> None:
        if session.is_open and session.adapter_at_s is not None and now_s >= session.adapter_at_s:
            session.adapter_at_s = None
            self._hearing.adapt(session, None, now_s, draw, commands)

    def _ask_to_wake(self, commands: list[Command]) -> None:
        if self._finished:
            return
        times = [session.due_s() for session in self._sockets]
        if self._ending is None:
            turn = self._turn.due_s(can_rotate=self._sockets.can_rotate, can_change=self._sockets.can_change)
            times += [self._waiting_until_s, turn]
        due_s = min((time for time in times if time is not None), default=None)
        if due_s is not None and due_s != self._wake_at_s:
            self._wake_at_s = due_s
            commands.append(WakeAt(due_s))

    # --- the end of a socket, and of it all ---------------------------------------------------------------------------

    def _closed(self, event: Closed, now_s: float, draw: float, commands: list[Command]) -> None:
        session = self._sockets.of(event.socket)
        if session is None:
            return
        self._intake.socket_closed(session.number)
        if session is self._sockets.last:
            self._sockets.last = None
        elif session is self._sockets.next:
            self._sockets.next = None
            if self._ending is None:
                commands.append(Count("rotation_failed"))
                self._turn.failed(now_s, self._backoff.longest_s(draw))
        else:
            self._sockets.main = None
            if self._ending is None:
                self._lost(session, event, now_s, draw, commands)
        if self._ending is not None and not self._finished and not self._sockets:
            self._finish(commands)

    def _lost(self, session: Session, event: Closed, now_s: float, draw: float, commands: list[Command]) -> None:
        proven = self._proven(session, now_s)
        if proven:
            self._backoff.proven()
            self._endings.proven()
        ours = session.why is not None
        if not ours and event.code in _COUNTED_CODES:
            commands.append(Count(_COUNTED_CODES[event.code]))
        end = self._endings.of(
            event, session.why or event.error, ruling=session.ruling, ours=ours, announced=session.announced
        )
        self._sockets.ended(session, ruled=end.ruled)
        why = end.reason[:LONGEST_REASON]
        match end.action:
            case "fatal" | "quarantine":
                until = (
                    "until its spec changes or `start --again` asks for it" if end.action == "fatal" else "for a while"
                )
                reason = f"{end.reason}, so it is not tried again {until}"[: LONGEST_REASON + 100]
                state = StatusState.FAILED if end.action == "fatal" else StatusState.QUARANTINED
                commands.append(Report(state, reason))
                self._end("fatal" if end.action == "fatal" else "quarantined", reason, now_s, commands)
                return
            case "new_session" | "live":
                self._intake.forget(why, session=end.action == "new_session")
            case "refresh_secrets":
                self._sockets.fresh_secrets = True
            case _:
                pass
        silence = self._silence.ended(stale=session.stale, lived=session.liveness.lived)
        if silence is not None and self._sockets.next is None:
            state = StatusState.YIELDED if silence == "yielded" else StatusState.QUARANTINED
            elsewhere = "another worker is to try" if silence == "yielded" else "on another worker too"
            reason = f"{why}, time and again: {elsewhere}"
            commands.append(Report(state, reason))
            self._end(silence, reason, now_s, commands)
            return
        self._sockets.use(end.url)
        self._intake.lost(why)
        if self._sockets.next is not None:
            self._change(now_s, draw, commands)
        elif end.action == "rotate" and proven:
            self._dial(now_s, commands)
        else:
            self._turn.over()
            self._waiting_until_s = now_s + self._backoff.delay_s(draw, end.after_s)
            commands.append(Report(StatusState.BACKOFF, why))

    def _proven(self, session: Session, now_s: float) -> bool:
        """An upstream that accepts, says a word and closes has proven nothing, even if that word was a record."""
        if session.streaming_since_s is None:
            return False
        lasted_s = now_s - session.streaming_since_s
        return lasted_s >= self._feed.retry.proven_after_s or (self._progressed and lasted_s >= SHORTEST_PROOF_S)

    def _end(self, outcome: Ending, reason: str, now_s: float, commands: list[Command]) -> None:
        """Close what is open, and finish."""
        self._ending = (outcome, reason)
        self._waiting_until_s = None
        sessions = self._sockets
        for session in sessions:
            session.close(reason, now_s, commands, code=self._code)
            session.deadline_s = now_s + self._feed.close_within_s
        if not sessions:
            self._finish(commands)

    def _finish(self, commands: list[Command]) -> None:
        self._finished = True
        if self._ending is not None:
            commands.append(Finished(*self._ending))
