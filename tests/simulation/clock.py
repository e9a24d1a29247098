"""What a process believes the time is: its own offset, rate and steps, on both clocks."""

from dataclasses import dataclass

START_MS = 1_800_000_000_000
"""Unix milliseconds of the true instant 0."""


def true_ms(at_us: int) -> int:
    return START_MS + at_us // 1_000


@dataclass(slots=True)
class Clock:
    """Reads one host's clocks at a true instant. The monotonic one has a rate error, and never steps."""

    offset_ms: float = 0.0
    rate_ppm: float = 0.0
    booted_s: float = 0.0
    """What the monotonic clock showed at the true instant 0: no two hosts agree on it."""

    def mono_s(self, at_us: int) -> float:
        return self.booted_s + at_us * (1 + self.rate_ppm / 1e6) / 1e6

    def wall_ms(self, at_us: int) -> int:
        return START_MS + int(at_us / 1_000 + self.offset_ms)

    def true_us(self, mono_s: float) -> int:
        """The true instant at which the monotonic clock shows `mono_s`, rounded up: a timer never fires early."""
        return int((mono_s - self.booted_s) * 1e6 / (1 + self.rate_ppm / 1e6)) + 1

    def error_ms(self) -> float:
        return abs(self.offset_ms)

    def step(self, by_ms: float) -> None:
        self.offset_ms += by_ms
