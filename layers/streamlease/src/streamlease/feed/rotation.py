"""When a socket is to be replaced before its upstream closes it, and what the new one says until the old one is closed.

While both are open the old one's messages are delivered and the new one's wait, so that the order of each is kept and
nothing looks missing that only comes late. Bounded: when too much waits, the change is made at once.
"""

from dataclasses import dataclass

from streamlease.feed.decoding import Trouble
from streamlease.feed.events import Message
from streamlease.feed.feed import Rotation
from streamlease.write import Value

MOST_WAITING = 1_000
MOST_WAITING_BYTES = 4 << 20
SHORTEST_RETRY_S = 5.0
"""Before a rotation that failed is tried again, at the least."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One message of the new socket, as it was read."""

    value: Value
    message: Message
    unreadable: Trouble | None


class Turn:
    """Of one connection: when its socket is to be replaced, and the new one's messages so far."""

    def __init__(self, rotation: Rotation) -> None:
        self._rotation = rotation
        self._due_s: float | None = None
        self._change_at_s: float | None = None
        self._kept: list[Kept] = []
        self._kept_bytes = 0

    def streaming(self, now_s: float, draw: float) -> None:
        """A socket has become the one that is read: it may live so long."""
        self._change_at_s = None
        after_s = self._rotation.after_s
        self._due_s = None if after_s is None else now_s + max(after_s - draw * self._rotation.jitter_s, 0.0)

    def now(self, now_s: float) -> None:
        """The upstream says that it will close soon."""
        self._due_s = now_s

    def failed(self, now_s: float, wait_s: float) -> None:
        self._drop()
        self._due_s = now_s + max(wait_s, SHORTEST_RETRY_S)

    def over(self) -> None:
        """There is no socket to replace any more."""
        self._due_s = None
        self._drop()

    def begun(self) -> None:
        self._due_s = None

    def ready(self, now_s: float) -> None:
        """The new socket is ready: both are open for the overlap."""
        self._change_at_s = now_s + self._rotation.overlap_s

    def keep(self, kept: Kept, now_s: float) -> None:
        """A message of the new socket. When too many wait it takes over, ready or not."""
        self._kept.append(kept)
        self._kept_bytes += len(kept.message.data)
        if len(self._kept) >= MOST_WAITING or self._kept_bytes >= MOST_WAITING_BYTES:
            self._change_at_s = now_s

    def change_due(self, now_s: float) -> bool:
        return self._change_at_s is not None and now_s >= self._change_at_s

    def changed(self) -> list[Kept]:
        """The new socket takes over: what it has said."""
        kept = self._kept
        self._drop()
        return kept

    def due(self, now_s: float) -> bool:
        return self._due_s is not None and now_s >= self._due_s

    def due_s(self, *, can_rotate: bool, can_change: bool) -> float | None:
        """What is due and cannot be done waits for an event, not for a time."""
        times = (self._due_s if can_rotate else None, self._change_at_s if can_change else None)
        return min((time for time in times if time is not None), default=None)

    def _drop(self) -> None:
        self._kept, self._kept_bytes, self._change_at_s = [], 0, None
