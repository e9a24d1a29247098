"""Keeps what is sent within what an upstream takes: so many messages in any window."""

from collections import deque

from streamlease.feed.events import Ping, Send
from streamlease.feed.feed import Pace

MOST_WAITING = 1_000


class Pacer:
    """Of one socket. What may not go out yet waits in order."""

    def __init__(self, pace: Pace) -> None:
        self._counts_pings = pace.counts_pings
        self._most = max(1, pace.messages - (1 if pace.counts_pings else 0))
        self._per_s = pace.per_s
        self._sent_s: deque[float] = deque()
        self._waiting: deque[Send | Ping] = deque()

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def overfull(self) -> bool:
        return len(self._waiting) > MOST_WAITING

    def send(self, command: Send | Ping, now_s: float) -> list[Send | Ping]:
        """What goes out now."""
        if isinstance(command, Ping) and not self._counts_pings:
            return [command]
        self._waiting.append(command)
        return self.go_on(now_s)

    def go_on(self, now_s: float) -> list[Send | Ping]:
        while self._sent_s and now_s >= self._sent_s[0] + self._per_s:
            self._sent_s.popleft()
        out: list[Send | Ping] = []
        while self._waiting and len(self._sent_s) < self._most:
            self._sent_s.append(now_s)
            out.append(self._waiting.popleft())
        return out

    def due_s(self) -> float | None:
        return self._sent_s[0] + self._per_s if self._waiting and self._sent_s else None
