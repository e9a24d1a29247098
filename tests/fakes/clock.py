"""A clock that stands still until it is moved."""

from dataclasses import dataclass

from streamlease.timing import Instant


@dataclass(slots=True)
class SetClock:
    """Both clocks of one machine. Called, it is read; nothing else moves it but `advance`."""

    wall_ms: int = 1_800_000_000_000
    mono_s: float = 1_000.0

    def __call__(self) -> Instant:
        return Instant(self.mono_s, self.wall_ms)

    def advance(self, ms: int) -> None:
        self.wall_ms += ms
        self.mono_s += ms / 1000
