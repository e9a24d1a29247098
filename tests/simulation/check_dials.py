"""A dial budget is the fleet's: no stretch of true time sees more dials begin than it allows."""

from collections import deque
from dataclasses import dataclass, field

from streamlease.budget import Limit
from tests.simulation.kernel import MS, Kernel
from tests.simulation.violation import Violated, Violation


@dataclass(slots=True)
class DialChecker:
    kernel: Kernel
    limit: Limit | None
    dials: int = 0
    _lately_us: deque[int] = field(default_factory=deque)

    def on_dial(self) -> None:
        """Somebody's dial begins."""
        self.dials += 1
        limit, now_us, lately_us = self.limit, self.kernel.now_us, self._lately_us
        if limit is None:
            return
        lately_us.append(now_us)
        while lately_us[0] < now_us - limit.per_ms * MS:
            lately_us.popleft()
        if len(lately_us) > limit.dials:
            what = f"{len(lately_us)} within {limit.per_ms} ms, and {limit.dials} are allowed"
            raise Violated(Violation(7, "a dial budget is never exceeded", now_us, "", what))
