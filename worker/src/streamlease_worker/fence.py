"""One epoch's permission to deliver: a cell that the keeper writes and sinks read, from any thread.

The deadline stands in the cell itself, so that a stalled keeper or event loop fences by doing nothing. The check is the
last line before an attempt (design §4): whatever runs after it may come late, but carries this epoch.
"""

from collections.abc import Callable

from streamlease.dynamodb.clock import monotonic_s
from streamlease.errors import StreamleaseError


class Fence:
    """Written by the keeper's thread alone; single attributes are read and written whole, so no lock is needed."""

    __slots__ = ("_deadline_s", "_now_s", "_reason", "connection_id", "epoch")

    def __init__(self, connection_id: str, epoch: int, *, now_s: Callable[[], float] = monotonic_s) -> None:
        """Closed to deliveries until the first `extend`. `now_s` is the clock that deadlines are instants of."""
        self.connection_id = connection_id
        self.epoch = epoch
        self._deadline_s = float("-inf")
        self._reason: str | None = None
        self._now_s = now_s

    @property
    def reason(self) -> str:
        return self._reason or "its lease ran out"

    def extend(self, deadline_s: float) -> None:
        """Attempts may begin until then. Without effect once closed."""
        if self._reason is None:
            self._deadline_s = max(self._deadline_s, deadline_s)

    def close(self, reason: str) -> None:
        """For good."""
        if self._reason is None:
            self._reason = reason
        self._deadline_s = float("-inf")

    def left_s(self) -> float:
        """How long attempts may still begin; 0 where not at all."""
        return max(0.0, self._deadline_s - self._now_s())

    def check(self) -> None:
        """Raises Fenced. The last line before an attempt."""
        if self._now_s() >= self._deadline_s:
            raise Fenced(self)


class Fenced(StreamleaseError):
    """This epoch may begin no more attempts, ever."""

    def __init__(self, fence: Fence) -> None:
        super().__init__(
            f"connection {fence.connection_id!r} may deliver no more in epoch {fence.epoch}: {fence.reason}"
        )
        self.fence = fence
