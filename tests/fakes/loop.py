"""An event loop whose time passes only when nothing else is left to do: an hour of waiting takes no time, in order.

For code that waits on timers and on itself alone; a loop that waits for a thread never moves its clock.
"""

import asyncio
import selectors
from collections.abc import Coroutine


class Stuck(AssertionError):
    """Nothing is ready, no timer is set: this would wait for ever."""


class _Selector(selectors.DefaultSelector):
    def __init__(self, late_s: float, stuck_s: float) -> None:
        super().__init__()
        self.passed_s = 0.0
        self._late_s = late_s
        self._stuck_s = stuck_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        ready = super().select(self._stuck_s if timeout is None else self._late_s)
        if not ready:
            if timeout is None:
                raise Stuck("everything waits for something that nobody will do")
            self.passed_s += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """`late_s`: real time that is given to the kernel before any time passes. `stuck_s`: and where no timer is set."""

    def __init__(self, *, late_s: float = 0.0, stuck_s: float = 0.0) -> None:
        self._virtual = _Selector(late_s, stuck_s)
        super().__init__(self._virtual)

    def busy(self, for_s: float) -> None:
        """Something keeps the loop busy for so long."""
        self._virtual.passed_s += for_s

    def time(self) -> float:
        return 1_000.0 + self._virtual.passed_s


def run[T](main: Coroutine[object, object, T]) -> T:
    """Run `main` to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
