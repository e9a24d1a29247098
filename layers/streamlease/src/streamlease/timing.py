"""Time as values: an instant read on both clocks, and the intervals that make leases safe (design §4)."""

from dataclasses import dataclass

SKEW_MS = 1_000
"""The most two wall clocks may differ; each clock's own error bound must stay within half of it."""
MARGIN_MS = 500
"""Taken off an owner's own deadline, for what the clocks and the scheduler do between check and effect."""

FRESH_FOR = 1.5
"""So many heartbeats after the last that was answered was sent, it is late."""


@dataclass(frozen=True, slots=True)
class Instant:
    """One reading of both clocks, monotonic first, so that a pause between the two can only shorten a lease."""

    mono_s: float
    wall_ms: int


@dataclass(frozen=True, slots=True)
class Timing:
    """The intervals of one fleet, all in milliseconds."""

    heartbeat_ms: int = 10_000
    lease_ms: int = 30_000
    skew_ms: int = SKEW_MS
    margin_ms: int = MARGIN_MS

    def __post_init__(self) -> None:
        if self.heartbeat_ms <= 0:
            raise ValueError(f"heartbeat must be positive, not {self.heartbeat_ms} ms")
        if self.heartbeat_ms * 3 > self.lease_ms:
            raise ValueError(
                f"heartbeat of {self.heartbeat_ms} ms needs a lease of at least three times that,"
                f" {self.heartbeat_ms * 3} ms, not {self.lease_ms} ms"
            )
        if self.skew_ms < 0 or self.margin_ms < 0 or self.margin_ms >= self.lease_ms - self.heartbeat_ms:
            raise ValueError(
                f"margin of {self.margin_ms} ms leaves no time to deliver in a lease of {self.lease_ms} ms"
            )

    def expires_at_ms(self, sent: Instant) -> int:
        """The expiry that a renewal or claim sent at `sent` writes."""
        return sent.wall_ms + self.lease_ms

    def deadline_s(self, sent: Instant) -> float:
        """The monotonic second after which the owner that sent at `sent` may begin no delivery."""
        return sent.mono_s + (self.lease_ms - self.margin_ms) / 1000

    def fresh_until_s(self, deadline_s: float) -> float:
        """Until when nothing is late about an owner whose deadline this is: half a heartbeat after its next was due."""
        sent_s = deadline_s - (self.lease_ms - self.margin_ms) / 1000
        return min(deadline_s, sent_s + FRESH_FOR * self.heartbeat_ms / 1000)

    def expired_before_ms(self, now_ms: int) -> int:
        """A lease whose expiry is below this has run out on every clock within the allowance."""
        return now_ms - self.skew_ms
