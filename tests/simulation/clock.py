"""What a process believes the time is: its own offset, rate and steps, on both clocks."""

from dataclasses import dataclass, field

START_MS = 1_800_000_000_000
"""Unix milliseconds of the true instant 0."""


def true_ms(at_us: int) -> int:
    return START_MS + at_us // 1_000


@dataclass(slots=True)
class Clock:
    """Reads one host's clocks at a true instant. The monotonic one has a rate error, and never steps."""

    offset_ms: float = 0.0
    """Of the wall clock, while nothing is wrong with it."""
    rate_ppm: float = 0.0
    booted_s: float = 0.0
    """What the monotonic clock showed at the true instant 0: no two hosts agree on it."""
    astray_ms: float = 0.0
    """What it is off by beside that."""
    alone_since_us: int | None = None
    """Since when its time daemon reaches no reference: it goes on to tell what it measured last."""
    steps: list[tuple[int, float]] = field(default_factory=list)
    """When the wall clock was stepped, and what it was off by before."""

    def mono_s(self, at_us: int) -> float:
        return self.booted_s + at_us * (1 + self.rate_ppm / 1e6) / 1e6

    def wall_ms(self, at_us: int) -> int:
        return START_MS + int(at_us / 1_000 + self.offset_ms + self.astray_ms)

    def true_us(self, mono_s: float) -> int:
        """The true instant at which the monotonic clock shows `mono_s`, rounded up: a timer never fires early."""
        return int((mono_s - self.booted_s) * 1e6 / (1 + self.rate_ppm / 1e6)) + 1

    def measured(self, at_us: int) -> tuple[float, int]:
        """What its time daemon measured at `at_us`: a bound of the error, and the second at which it did."""
        if self.alone_since_us is not None:
            at_us = min(at_us, self.alone_since_us)
        offset_ms = self.offset_ms + self.astray_ms
        for stepped_us, before_ms in reversed(self.steps):
            if stepped_us > at_us:
                offset_ms = before_ms
        return abs(offset_ms), (START_MS + int(at_us / 1_000 + offset_ms)) // 1_000 * 1_000

    def set(self, offset_ms: float, at_us: int) -> None:
        """The clock steps within what it may be off by."""
        self.steps.append((at_us, self.offset_ms + self.astray_ms))
        self.offset_ms = offset_ms

    def stray(self, by_ms: float, at_us: int) -> None:
        """The clock steps by so much, until it is set back by as much."""
        self.steps.append((at_us, self.offset_ms + self.astray_ms))
        self.astray_ms += by_ms
