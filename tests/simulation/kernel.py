"""Virtual time: a heap of events, and randomness split by concern, so that one change does not move all the rest.

Time is whole microseconds since the run began. Nothing in a simulation reads any other clock or random source, so one
seed is one run.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

MS = 1_000
S = 1_000_000
MINUTE = 60 * S


class Kernel:
    """The only clock that is true. Events of the same instant happen in the order they were asked for."""

    def __init__(self, seed: str) -> None:
        self.now_us = 0
        self.events = 0
        self._seed = seed
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def at(self, when_us: int, action: Callable[[], None]) -> None:
        """Call `action` at `when_us`, or at once after what is going on where that has passed."""
        self._order += 1
        heappush(self._heap, (max(when_us, self.now_us), self._order, action))

    def after(self, delay_us: int, action: Callable[[], None]) -> None:
        self.at(self.now_us + delay_us, action)

    def run_until(self, end_us: int) -> None:
        """Let everything happen up to and with `end_us`."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.now_us, _, action = heappop(heap)
            self.events += 1
            action()
        self.now_us = max(self.now_us, end_us)

    def draws(self, concern: str) -> Random:
        """Randomness for one concern, the same for the same seed whatever else is drawn."""
        return Random(f"{self._seed}/{concern}")
