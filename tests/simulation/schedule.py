"""EventBridge's schedule and the reconcile function: the real `flows.reconcile.reconcile`, every minute, more or less.

It may be skipped, fire twice, and die between any two requests; its host's clock has no measured bound.
"""

from dataclasses import dataclass, field
from random import Random

from streamlease.errors import Fault, Malformed
from streamlease.flows.reconcile import Report, reconcile
from streamlease.timing import Timing
from tests.simulation.clock import Clock
from tests.simulation.drive import drive
from tests.simulation.kernel import MINUTE, Kernel, S
from tests.simulation.network import Network
from tests.simulation.process import Process

TIMEOUT_US = 60 * S
BUDGET_S = 45.0


@dataclass(slots=True)
class Firing:
    """What a fault makes of the next firing."""

    skip: bool = False
    double: bool = False
    dies_after: int | None = None
    clock_off_ms: float = 0.0
    cause: int = 0


@dataclass(slots=True)
class ReconcileSchedule:
    kernel: Kernel
    network: Network
    shards: int
    timing: Timing
    firings: list[Firing] = field(default_factory=list)
    runs: int = 0
    completed: int = 0
    _draws: Random = field(init=False)

    def __post_init__(self) -> None:
        self._draws = self.kernel.draws("schedule")
        self.kernel.at(self._draws.randrange(MINUTE), self._fire)

    def _fire(self) -> None:
        self.kernel.after(MINUTE, self._fire)
        firing = self.firings.pop(0) if self.firings else Firing()
        if firing.skip:
            self.network.ledger.hit("schedule skipped", "reconcile", "schedule", firing.cause)
            return
        self._run(firing)
        if firing.double:
            self.network.ledger.hit("schedule fired twice", "reconcile", "schedule", firing.cause)
            self.kernel.after(self._draws.randint(0, 2 * S), lambda: self._run(firing))

    def _run(self, firing: Firing) -> None:
        self.runs += 1
        self.network.ledger.say("reconcile-function", "runs")
        if firing.clock_off_ms:
            self.network.ledger.hit(
                "function clock off", f"{firing.clock_off_ms:+.0f} ms", "reconcile-function", firing.cause
            )
        clock = Clock(self._draws.uniform(-400, 400) + firing.clock_off_ms, 0.0, self._draws.uniform(0, 1e6))
        process = Process("reconcile-function", self.kernel, clock, "reconcile-function")
        thread = process.thread()
        flow = reconcile(shards=self.shards, timing=self.timing, budget_s=BUDGET_S)
        self.kernel.after(TIMEOUT_US, process.kill)
        drive(
            flow,
            thread,
            self.network,
            timeout_us=5 * S,
            done=self._after,
            dies_after=firing.dies_after,
            cause=firing.cause,
        )

    def _after(self, outcome: object) -> None:
        if isinstance(outcome, Report):
            self.completed += outcome.complete
            for problem in outcome.malformed:
                self.network.ledger.report(problem)
        elif isinstance(outcome, Fault | Malformed):
            self.network.ledger.count("reconcile_failed")
