"""An event loop whose time passes only when nothing else is left to do: an hour of waiting takes no time, in order.

For code that waits on timers and on itself alone; a loop that waits for a socket or a thread never moves its clock.
"""

import asyncio
import selectors
from collections.abc import Coroutine


class Stuck(AssertionError):
    """Nothing is ready, no timer is set: this would wait for ever."""


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Stuck("everything waits for something that nobody will do")
            self.passed_s += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
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
