"""A machine with clocks that err, the task metadata beside it, and a service with a `Date`: all under virtual time."""

from dataclasses import dataclass

from streamlease.timing import Instant
from streamlease_worker.clock import ClockWatch, Reading

START_MS = 1_800_000_000_000


@dataclass(slots=True)
class Machine:
    error_ms: int = 0
    """How far the wall clock is ahead of true time."""
    true_ms: int = START_MS
    slewed_ms: int = 0

    def now(self) -> Instant:
        return Instant((self.true_ms + self.slewed_ms - START_MS) / 1000 + 77, self.true_ms + self.error_ms)

    def advance(self, ms: int) -> None:
        self.true_ms += ms

    def step(self, ms: int) -> None:
        self.error_ms += ms

    def slew(self, ms: int) -> None:
        """As a step, but that the monotonic clock goes along."""
        self.error_ms += ms
        self.slewed_ms += ms

    def measured(self, slack_ms: float = 0.4, *, synchronised: bool = True) -> Reading:
        """What ClockDrift would say, measured now."""
        return Reading(abs(self.error_ms) + slack_ms, self.now().wall_ms // 1000 * 1000, synchronised)

    def reads(self, watch: ClockWatch, reading: Reading | None = None) -> None:
        """The metadata answers at once; None: with what it measures now."""
        watch.read(reading or self.measured(), self.now(), self.now())

    def calls(self, watch: ClockWatch, *, there_ms: int = 20, back_ms: int = 20, kept_ms: int = 0) -> None:
        """A request is answered by a service whose clock is right; its `Date` is cut to seconds after `kept_ms`."""
        sent = self.now()
        self.advance(there_ms)
        date_ms = (self.true_ms - kept_ms) // 1000 * 1000
        self.advance(back_ms)
        watch.dated(date_ms, sent, self.now())
