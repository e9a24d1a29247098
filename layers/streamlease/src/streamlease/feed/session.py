"""One socket, from the HTTP call before its dial to its end: opening script, keepalive, pacing, deadlines.

    FETCHING → DIALLING → OPENING → STREAMING → CLOSING → gone

The machine owns sessions: one, or two while a rotation lasts.
"""

from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from urllib.parse import urlsplit

from streamlease.feed.adapted import Adapted
from streamlease.feed.decoding import Undecodable, json_value
from streamlease.feed.events import Close, Command, Count, Fetched, Ping, Reading, Send
from streamlease.feed.feed import Feed
from streamlease.feed.heartbeat import Heartbeat
from streamlease.feed.liveness import LATE_S, Liveness, Verdict
from streamlease.feed.pacing import MOST_WAITING, Pacer
from streamlease.feed.reader import number
from streamlease.feed.rules import Ruling
from streamlease.feed.script import Script, capture
from streamlease.feed.template import RECEIVED, SEQUENCE, SOCKET_ID, Templates
from streamlease.model import Sequence
from streamlease.write import Value

GAVE_UP = 1011
"""The close code of a client whose upstream shows no life."""
_SOCKET_IDS = 2**48
_NEVER = float("inf")


class Phase(Enum):
    NEW = "new"
    FETCHING = "fetching"
    DIALLING = "dialling"
    OPENING = "opening"
    STREAMING = "streaming"
    CLOSING = "closing"
    BACKOFF = "backoff"
    FINISHED = "finished"


class Session:
    """Commands are appended to the list given, in order."""

    def __init__(
        self,
        feed: Feed,
        templates: Templates,
        number: int,
        variables: dict[str, Value],
        *,
        url: str | None = None,
        fresh: bool = False,
    ) -> None:
        """`url`: where to dial instead of the feed's. `fresh`: past any cache of secrets."""
        self.announced = url is not None
        """Whether it is dialled where the upstream said on an earlier socket, to resume or for this once."""
        self.number = number
        self.phase = Phase.NEW
        self.variables = variables
        self.why: str | None = None
        """What this side closes it for."""
        self.ruling: Ruling | None = None
        """What is to be done once it is closed, where the upstream's words decided that."""
        self.streaming_since_s: float | None = None
        self.deadline_s = 0.0
        self.liveness = Liveness(feed.keepalive)
        self.beat = None if feed.keepalive.beat is None else Heartbeat(feed.keepalive.beat)
        self.adapted: Adapted | None = None
        self.adapter_at_s: float | None = None
        """When the adapter wants to be woken."""
        self._feed = feed
        self._templates = templates
        self._url = url
        self._fresh = fresh
        self._script = Script(feed, templates, variables)
        self._pacer = None if feed.pace is None else Pacer(feed.pace)
        self.aborted = False
        beat = feed.keepalive.beat
        self._knows_heartbeats = feed.keepalive.heartbeat is not None or (beat is not None and beat.answer is not None)
        self.stale = False
        """Whether this side closed it for its silence."""

    @property
    def cursor(self) -> Sequence | None:
        """What it asked the upstream to go on from."""
        cursor = self.variables.get(SEQUENCE)
        return cursor if isinstance(cursor, int | float | str) and not isinstance(cursor, bool) else None

    @property
    def is_open(self) -> bool:
        return self.phase is Phase.OPENING or self.phase is Phase.STREAMING

    # --- getting there -----------------------------------------------------------------------------------------------

    def begin(self, now_s: float, commands: list[Command]) -> None:
        fetching = self._feed.fetch
        if fetching is None or (fetching.next_url is not None and self._url is not None):
            self._dial(now_s, commands)
            return
        self.phase = Phase.FETCHING
        self.deadline_s = now_s + fetching.within_s + self._feed.close_within_s
        commands.append(self._templates.fetch(fetching, self.variables, socket=self.number, fresh=self._fresh))

    def fetched(self, event: Fetched, now_s: float, commands: list[Command]) -> str | None:
        """What is wrong with the answer, if anything; else the dial is under way."""
        fetching = self._feed.fetch
        if fetching is None:
            return None
        if event.status is None:
            return event.error or "the call before the dial failed"
        answer: Value = None
        if event.body:
            with suppress(Undecodable):
                answer = json_value(event.body)
        if not 200 <= event.status < 300:
            return f"the call before the dial was answered with HTTP {event.status}"
        if fetching.good is not None and not fetching.good(answer):
            return "the call before the dial was answered, but not as fetch.ok asks for"
        capture(fetching.capture, answer, self.variables)
        missing = [name for name in fetching.capture if name not in self.variables]
        if missing:
            return f"the call before the dial was answered without {', '.join(missing)}"
        if fetching.next_url is not None:
            url = fetching.next_url(answer)
            if not isinstance(url, str):
                return "the call before the dial was answered without a URL to dial"
            problem = self.use(url)
            if problem is not None:
                return problem
        self._dial(now_s, commands)
        return None

    def use(self, url: str) -> str | None:
        """Dial there. What is wrong with it, if anything: no secret goes out in the clear by the upstream's word."""
        problem = unusable(url, self._feed)
        if problem is None:
            self._url = url
        return problem

    def _dial(self, now_s: float, commands: list[Command]) -> None:
        self.phase = Phase.DIALLING
        self.deadline_s = now_s + self._feed.open_timeout_s + self._feed.close_within_s
        commands.append(self._templates.dial(self.variables, socket=self.number, url=self._url, fresh=self._fresh))

    def held(self) -> bool:
        """It waits for its turn to dial, however long that takes. Whether it can."""
        if self.phase is not Phase.FETCHING and self.phase is not Phase.DIALLING:
            return False
        self.deadline_s = _NEVER
        return True

    def begun(self, now_s: float) -> None:
        """What was held goes out now."""
        if self.deadline_s == _NEVER:
            fetch = self._feed.fetch if self.phase is Phase.FETCHING else None
            within_s = self._feed.open_timeout_s if fetch is None else fetch.within_s
            self.deadline_s = now_s + within_s + self._feed.close_within_s

    def opened(self, now_s: float, draw: float, commands: list[Command]) -> bool:
        """Whether it is ready at once."""
        self.opening(now_s, draw)
        return self.go_on(now_s, commands)

    def opening(self, now_s: float, draw: float) -> None:
        self.phase = Phase.OPENING
        self.variables[SOCKET_ID] = f"{int(draw * _SOCKET_IDS):012x}"
        self.liveness.opened(now_s)
        self._beats(now_s, draw)

    def heard(self, value: Value, now_s: float, draw: float, commands: list[Command]) -> bool:
        """A message while opening; whether with it the socket is ready."""
        ready = False
        if self._script.heard(value):
            self._beats(now_s, draw)
            ready = self.go_on(now_s, commands)
        return ready or (self._script.done and not self._held() and self._feed.ready is not None and self._says(value))

    def _says(self, value: Value) -> bool:
        return self._feed.ready is not None and bool(self._feed.ready(value))

    def _held(self) -> bool:
        return self._pacer is not None and self._pacer.waiting

    def go_on(self, now_s: float, commands: list[Command]) -> bool:
        """The script, as far as it goes; whether it has come to readiness."""
        script = self._script
        while not script.done and not self._held() and script.within_s is None:
            for message in script.next():
                self.say(message, now_s, commands)
        if self._held():
            self.deadline_s = now_s + self._feed.ready_within_s
            return False
        if script.within_s is not None:
            self.deadline_s = now_s + script.within_s
            return False
        self.deadline_s = now_s + self._feed.ready_within_s
        return self._feed.ready is None

    def streaming(self, now_s: float) -> None:
        self.phase = Phase.STREAMING
        self.streaming_since_s = now_s
        self.liveness.streaming(now_s)

    # --- talking -----------------------------------------------------------------------------------------------------

    def say(
        self, message: Value, now_s: float, commands: list[Command], more: Mapping[str, Value] | None = None
    ) -> None:
        """Send a message of the spec, if what it needs is there: the variables, and `more`."""
        variables = {**self.variables, **more} if more else self.variables
        send = self._templates.send(message, variables, socket=self.number)
        if send is not None:
            self.send(send, now_s, commands)

    def send(self, command: Send | Ping, now_s: float, commands: list[Command]) -> None:
        if self._pacer is None:
            commands.append(command)
            return
        commands.extend(self._pacer.send(command, now_s))
        if self._pacer.overfull:
            self.close(f"more than {MOST_WAITING} messages wait for their turn to be sent", now_s, commands)

    def captured(self, now_s: float, draw: float) -> None:
        """Variables changed: the interval of the keepalive may be among them."""
        self._beats(now_s, draw)

    def heard_at(self, now_s: float) -> None:
        """Something came. Where the feed knows heartbeats, `fresh` tells whether it was more than one."""
        self.liveness.heard_at_s = now_s
        if not self._knows_heartbeats:
            self.liveness.fresh_at_s = now_s
        if self.beat is not None:
            self.beat.heard_at_s = now_s

    def fresh(self, now_s: float) -> None:
        self.liveness.fresh_at_s = now_s

    def answers(self, value: Value) -> bool:
        """Whether this message answers a beat."""
        beat = self._feed.keepalive.beat
        if self.beat is None or beat is None or beat.answer is None or not beat.answer(value):
            return False
        self.beat.answered()
        return True

    def _beats(self, now_s: float, draw: float) -> None:
        beat = self._feed.keepalive.beat
        if self.beat is None or beat is None:
            return
        every_s = beat.every_s
        if beat.every_from is not None:
            named = number(self.variables.get(beat.every_from))
            every_s = None if named is None else named * beat.every_unit_s
        if every_s is not None:
            self.beat.starts(every_s, now_s, draw)

    # --- time --------------------------------------------------------------------------------------------------------

    def due_s(self) -> float | None:
        if not self.is_open:
            return None if self.deadline_s == _NEVER else self.deadline_s
        times = (
            self.deadline_s if self.phase is Phase.OPENING else None,
            self.liveness.due_s(),
            None if self.beat is None else self.beat.due_s(),
            None if self._pacer is None else self._pacer.due_s(),
            self.adapter_at_s,
        )
        return min((time for time in times if time is not None), default=None)

    def reading(self, event: Reading, now_s: float) -> None:
        self.liveness.reading(event.on, now_s)
        if self.beat is not None:
            self.beat.reading(event.on, now_s)

    def was_away(self, now_s: float) -> None:
        """This side's timer fired late."""
        if not self.liveness.was_away(now_s):
            return
        if self.beat is not None:
            self.beat.restart(now_s)
        if self.phase is Phase.OPENING:
            self.deadline_s = max(self.deadline_s, now_s + LATE_S)

    def woke(self, now_s: float, received: Sequence | None, commands: list[Command]) -> bool:
        """What time asks for, while the socket is open; whether it has become ready with it."""
        if self._held() and self._pacer is not None:
            commands.extend(self._pacer.go_on(now_s))
            if self.phase is Phase.OPENING and self._script.within_s is None and not self._held():
                return self.go_on(now_s, commands)
        if self.phase is Phase.OPENING and now_s >= self.deadline_s:
            commands.append(Count("not_ready"))
            within_s = self._script.within_s
            self.close(
                f"no message within {self._feed.ready_within_s:g} s said that the subscription stands"
                if within_s is None
                else f"what the open script expects did not come within {within_s:g} s",
                now_s,
                commands,
            )
            return False
        self._judge(now_s, received, commands)
        return False

    def _judge(self, now_s: float, received: Sequence | None, commands: list[Command]) -> None:
        keepalive = self._feed.keepalive
        match self.liveness.judge(now_s):
            case Verdict.PING_DUE:
                self.send(Ping(self.number), now_s, commands)
            case Verdict.LATE_PONG:
                commands.append(Count("late_pong"))
                self.close(f"no sign of life within {keepalive.pong_within_s:g} s of a ping", now_s, commands)
                return
            case Verdict.STALE:
                commands.append(Count("stale"))
                self.stale = True
                self.close(f"no message for {keepalive.stale_after_s or 0:g} s", now_s, commands)
                return
            case Verdict.ALIVE:
                pass
        if self.beat is None or keepalive.beat is None:
            return
        match self.beat.judge(now_s):
            case "beat":
                variables = self.variables if received is None else {**self.variables, RECEIVED: received}
                message = keepalive.beat.message
                send = self._templates.send(message, variables, socket=self.number, null_if_absent=True)
                if send is not None:
                    self.send(send, now_s, commands)
            case "missed":
                commands.append(Count("unanswered"))
                self.close("the keepalive message was not answered", now_s, commands, code=keepalive.beat.close_code)
            case None:
                pass

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(
        self, why: str, now_s: float, commands: list[Command], *, code: int = GAVE_UP, abort: bool = False
    ) -> None:
        if self.phase is Phase.CLOSING and not abort:
            return
        self.aborted = abort
        self.phase = Phase.CLOSING
        self.why = self.why or why
        self.deadline_s = now_s + self._feed.close_within_s
        commands.append(Close(code, abort=abort, socket=self.number))


def unusable(url: str, feed: Feed) -> str | None:
    """What is wrong with a URL that the upstream names, if anything."""
    schemes = ("wss://",) if feed.url.startswith("wss://") else ("ws://", "wss://")
    is_plain = len(url) <= 4_096 and url.isprintable() and " " not in url
    if not url.startswith(schemes) or not is_plain or not _has_host(url):
        return f"the upstream named a URL to dial that does not begin with {' or '.join(schemes)}, or is no URL"
    return None


def _has_host(url: str) -> bool:
    """Whether it can be taken apart at all, as `wss://[` cannot, nor `wss://host:99999`."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
