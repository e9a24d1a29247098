"""A process that can be stopped at any instant, also in the middle of a step, and goes on as if nothing had been.

Code of a step runs at one instant of the simulation. What it does to the world goes through `Thread.effect`, and what
happens to it comes in through `Thread.event`; both wait while the thread stands still. A pause within a step (at a
clock reading, say) so lets the rest of the step, and all that it does, happen after it, with clocks that say so.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from streamlease.timing import Instant
from streamlease_worker.clock import ClockWatch
from tests.simulation.clock import Clock
from tests.simulation.kernel import Kernel

type Place = Literal["clock", "stamp", "send", "check"]
"""Where within a step a pause may strike: between the two clocks (`stamp`: of a reading that goes into a request),
before a request leaves, after a deadline check."""


@dataclass(frozen=True, slots=True)
class Trap:
    """A pause that waits; `cause` is the planned entry it comes from."""

    length_us: int
    cause: int


class Thread:
    """One line of execution. `still_until_us`: nothing of it runs before that true instant."""

    __slots__ = ("_effects", "_events", "_waking", "process", "still_until_us")

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.still_until_us = 0
        self._effects: deque[Callable[[], None]] = deque()
        self._events: deque[Callable[[], None]] = deque()
        self._waking = False

    @property
    def now_us(self) -> int:
        """The true instant at which this thread's next line runs."""
        now_us = self.process.kernel.now_us
        return max(now_us, self.still_until_us)

    def hold(self, until_us: int) -> None:
        """Stand still until then."""
        self.still_until_us = max(self.still_until_us, until_us)

    def event(self, action: Callable[[], None]) -> None:
        """Something happens to this thread now: it runs `action` as soon as it is not standing still."""
        if not self.process.alive:
            return
        if self.still_until_us > self.process.kernel.now_us or self._events or self._effects:
            self._events.append(action)
            self._wake()
        else:
            action()

    def effect(self, action: Callable[[], None]) -> None:
        """This thread does something to the world, as the next thing it does."""
        if not self.process.alive:
            return
        if self.still_until_us > self.process.kernel.now_us or self._effects:
            self._effects.append(action)
            self._wake()
        else:
            action()

    def at(self, when_us: int, action: Callable[[], None]) -> None:
        """A timer of this thread."""
        self.process.kernel.at(when_us, lambda: self.event(action))

    def _wake(self) -> None:
        if not self._waking:
            self._waking = True
            self.process.kernel.at(self.still_until_us, self._go_on)

    def _go_on(self) -> None:
        self._waking = False
        kernel = self.process.kernel
        while self.process.alive and (self._effects or self._events):
            if self.still_until_us > kernel.now_us:
                self._wake()
                return
            # What the interrupted step still had to do comes before anything new.
            waiting = self._effects or self._events
            waiting.popleft()()


@dataclass(slots=True)
class Process:
    """One host's process: its clocks, its threads, and where a pause is waiting for it."""

    name: str
    kernel: Kernel
    clock: Clock
    role: str = ""
    """What faults know it by: the slot of the service that it fills, or the function's name."""
    alive: bool = True
    awake_from_us: int = 1 << 62
    """No pause lasts longer, however many strike one after the other."""
    threads: list[Thread] = field(default_factory=list)
    traps: dict[Place, list[Trap]] = field(default_factory=dict)
    """Pauses, by the place at which each will strike."""
    on_pause: Callable[["Process", Place, Trap], None] | None = None
    watch: ClockWatch | None = None
    """What the process knows of its wall clock, where it looks."""

    def thread(self) -> Thread:
        made = Thread(self)
        self.threads.append(made)
        return made

    def pause(self, length_us: int) -> None:
        """All code of the process stops; requests on their way go on."""
        until_us = max(self.kernel.now_us, *(t.still_until_us for t in self.threads)) + length_us
        until_us = min(until_us, self.awake_from_us)
        for each in self.threads:
            each.hold(until_us)

    def kill(self) -> None:
        self.alive = False

    def reach(self, place: Place) -> None:
        """The code is at `place`: a pause that waits there strikes."""
        waiting = self.traps.get(place)
        if waiting:
            trap = waiting.pop(0)
            if self.on_pause is not None:
                self.on_pause(self, place, trap)
            self.pause(trap.length_us)

    def reading(self, at_us: int) -> Instant:
        """What both clocks show at a true instant, with no pause between the two."""
        return Instant(self.clock.mono_s(at_us), self.clock.wall_ms(at_us))

    def instant(self, thread: Thread, place: Place = "clock") -> Instant:
        """Read both clocks, monotonic first; a pause may lie between the two."""
        now_us = thread.now_us
        mono_s = self.clock.mono_s(now_us)
        if self.traps:
            self.reach(place)
            now_us = thread.now_us
        return Instant(mono_s, self.clock.wall_ms(now_us))
