"""Whether the upstream still lives, judged only while this side is reading and on time.

A socket that nobody reads holds its pongs back, and a process that was suspended finds every deadline passed: neither
says anything of the upstream. Any message is a sign of life as good as a pong, for a pong queues behind the data.
"""

from enum import Enum
from typing import Literal, overload

from streamlease.feed.feed import Keepalive

GREETING_S = 5.0
"""What comes within this after readiness may be a greeting, or the last record once more: it shows no stream that
lives."""
REDIALS = 1
"""Of a silent socket, before another worker is to try."""
LATE_S = 1.0
"""A timer that fires this much after its time shows that this side was away."""


class Verdict(Enum):
    ALIVE = "alive"
    PING_DUE = "ping_due"
    LATE_PONG = "late_pong"
    STALE = "stale"


class Silence:
    """How many sockets of a connection have gone stale in a row, without one that lived. The first is dialled again. If
    that is silent too, it may be this worker's doing, and another is to try; a worker that took the connection over for
    that knows better: it is the upstream's doing, or the subscription's."""

    def __init__(self, *, suspect: bool) -> None:
        """`suspect`: it was silent on another worker, too."""
        self._suspect = suspect
        self._in_a_row = 0

    def ended(self, *, stale: bool, lived: bool) -> Literal["yielded", "quarantined"] | None:
        """What the end of a socket comes to; None: dial again."""
        if lived:
            self._suspect, self._in_a_row = False, 0
        if not stale:
            return None
        self._in_a_row += 1
        if self._suspect:
            return "quarantined"
        return "yielded" if self._in_a_row > REDIALS else None


class Liveness:
    """Clocks of one socket. Times are monotonic seconds."""

    def __init__(self, keepalive: Keepalive) -> None:
        self._ping_every_s = keepalive.ping_every_s
        self._pong_within_s = keepalive.pong_within_s
        self._stale_after_s = keepalive.stale_after_s
        self._reading = True
        self._excused = False
        self._ping_at_s: float | None = None
        self._pong_owed = False
        self._pong_from_s = 0.0
        self._fresh_from_s: float | None = None
        self._alive_from_s = float("inf")
        self.heard_at_s = 0.0
        """When the last message came. Set directly, for it is set at every message."""
        self.fresh_at_s = 0.0
        """When the last message came that was no heartbeat. Set directly too."""

    def opened(self, now_s: float) -> None:
        """A new socket: all clocks start, but for that of stale data."""
        self._ping_at_s = None if self._ping_every_s is None else now_s + self._ping_every_s
        self._pong_owed = False
        self._fresh_from_s = None
        self._excused = False
        self.heard_at_s = self.fresh_at_s = now_s

    def streaming(self, now_s: float) -> None:
        """From here on data is due."""
        self._fresh_from_s = now_s
        self._alive_from_s = now_s + min(GREETING_S, (self._stale_after_s or GREETING_S) / 2)

    @property
    def lived(self) -> bool:
        """Whether this socket has shown more than that it can be opened."""
        return self.fresh_at_s > self._alive_from_s

    def ponged(self) -> None:
        self._pong_owed = False
        self._excused = False

    def reading(self, on: bool, now_s: float) -> None:
        if on and not self._reading:
            self._restart(now_s)
        self._reading = on

    def was_away(self, now_s: float) -> bool:
        """This side's timer fired late. Whether that is an excuse: once in a row, so that a loop that is always late
        still judges."""
        if self._excused:
            return False
        self._restart(now_s)
        self._excused = True
        return True

    def on_time(self) -> None:
        self._excused = False

    @overload
    def due_s(self) -> float | None: ...
    @overload
    def due_s(self, latest_s: float) -> float: ...
    def due_s(self, latest_s: float | None = None) -> float | None:
        """When to `judge` next, at `latest_s` at the latest; None: never."""
        times = (self._ping_at_s, self._pong_due_s(), self._stale_at_s(), latest_s)
        return min((time for time in times if time is not None), default=None)

    def judge(self, now_s: float) -> Verdict:
        pong_due_s, stale_at_s = self._pong_due_s(), self._stale_at_s()
        if pong_due_s is not None and now_s >= pong_due_s:
            return Verdict.LATE_PONG
        if stale_at_s is not None and now_s >= stale_at_s:
            return Verdict.STALE
        if self._ping_at_s is not None and self._ping_every_s is not None and now_s >= self._ping_at_s:
            self._ping_at_s = now_s + self._ping_every_s
            if not self._pong_owed:
                self._pong_owed = True
                self._pong_from_s = now_s
            return Verdict.PING_DUE
        return Verdict.ALIVE

    def _pong_due_s(self) -> float | None:
        if not self._pong_owed or not self._reading:
            return None
        return max(self._pong_from_s, self.heard_at_s) + self._pong_within_s

    def _stale_at_s(self) -> float | None:
        if self._stale_after_s is None or self._fresh_from_s is None or not self._reading:
            return None
        return max(self._fresh_from_s, self.fresh_at_s) + self._stale_after_s

    def _restart(self, now_s: float) -> None:
        self._pong_from_s = now_s
        if self._fresh_from_s is not None:
            self._fresh_from_s = now_s
