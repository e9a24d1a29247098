"""A keepalive in messages: when the next is due, and whether the last was answered.

As in `liveness`, an answer is missed only while this side is reading and on time; beats go out all the same.
"""

import math
from typing import Literal

from streamlease.feed.feed import Beat

SHORTEST_S = 0.1
LONGEST_S = 86_400.0
"""What an upstream names outside of these is taken for the nearer one."""


class Heartbeat:
    """Of one socket."""

    def __init__(self, beat: Beat) -> None:
        self._beat = beat
        self._every_s: float | None = None
        self._due_s: float | None = None
        self._owed_from_s: float | None = None
        self._reading = True
        self.heard_at_s = 0.0

    def starts(self, every_s: float, now_s: float, draw: float) -> None:
        """The interval is known, or has changed."""
        if not math.isfinite(every_s) or every_s <= 0:
            return
        every_s = min(max(every_s, SHORTEST_S), LONGEST_S)
        if every_s == self._every_s:
            return
        first = self._every_s is None
        self._every_s = every_s
        self.heard_at_s = now_s
        self._due_s = now_s + (every_s * draw if first and self._beat.first_at_random else every_s)

    def answered(self) -> None:
        self._owed_from_s = None

    def reading(self, on: bool, now_s: float) -> None:
        if on and not self._reading:
            self.restart(now_s)
        self._reading = on

    def restart(self, now_s: float) -> None:
        """This side was away: the answer may take its whole time from now."""
        if self._owed_from_s is not None:
            self._owed_from_s = now_s

    def due_s(self) -> float | None:
        times = (self._next_s(), self._missed_s())
        return min((time for time in times if time is not None), default=None)

    def judge(self, now_s: float) -> Literal["beat", "missed"] | None:
        missed_s, next_s = self._missed_s(), self._next_s()
        if missed_s is not None and now_s >= missed_s:
            return "missed"
        if next_s is None or now_s < next_s or self._every_s is None:
            return None
        self._due_s = now_s + self._every_s
        if self._beat.answer is not None and self._owed_from_s is None:
            self._owed_from_s = now_s
        return "beat"

    def _next_s(self) -> float | None:
        if self._due_s is None or self._every_s is None or not self._beat.if_silent:
            return self._due_s
        return max(self._due_s, self.heard_at_s + self._every_s)

    def _missed_s(self) -> float | None:
        if self._owed_from_s is None or not self._reading or self._every_s is None:
            return None
        within_s = self._beat.answer_within_s
        return self._owed_from_s + (self._every_s if within_s is None else within_s)
