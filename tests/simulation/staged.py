"""A small healthy fleet to which one thing happens: for tests that are about that one thing."""

from collections.abc import Callable
from dataclasses import dataclass, field

from streamlease.model import LeaseMode
from streamlease.timing import Timing
from tests.simulation.fleet import Shell
from tests.simulation.kernel import S
from tests.simulation.network import label
from tests.simulation.run import Simulation
from tests.simulation.scenario import Planned, Scenario
from tests.simulation.store import Landing
from tests.simulation.upstream import Nature
from tests.simulation.violation import Violation

CONNECTION = Timing(heartbeat_ms=3_000, lease_ms=9_000)
WORKER = Timing(heartbeat_ms=2_000, lease_ms=6_000)
BEGINS_US = 20 * S
"""By then the fleet has long claimed everything."""


@dataclass(slots=True)
class Stage:
    """`landed` holds every write that was carried out, in order, `refused` every one whose condition did not hold."""

    simulation: Simulation
    violations: list[Violation] = field(default_factory=list)
    landed: list[Landing] = field(default_factory=list)
    refused: list[Landing] = field(default_factory=list)

    def writes(self, kind: str, *, after_us: int = 0) -> list[Landing]:
        return [each for each in self.landed if each.at_us >= after_us and label(each.write) == kind]

    def epochs(self, connection_id: str) -> list[object]:
        """The owners that a connection has had, one after the other."""
        return [
            each.after["lease_owner"] for each in self.writes("claim") if each.after and each.key[0] == connection_id
        ]

    def worker(self, slot: str) -> Shell:
        shell = self.simulation.fleet.running(slot)
        assert shell is not None
        return shell


def scenario(
    mode: LeaseMode,
    *plan: Planned,
    workers: int = 3,
    connections: int = 6,
    capacity: int = 100,
    lasts_us: int = 60 * S,
    offsets_ms: tuple[float, ...] = (500.0, -500.0, 0.0),
    seed: int = 1,
    clock: str = "dates",
) -> Scenario:
    quiet_us = BEGINS_US + lasts_us
    return Scenario(
        seed=seed,
        mode=mode,
        timing=CONNECTION,
        worker_timing=WORKER,
        shards=2,
        workers=workers,
        capacity=capacity,
        page_limit=1_000,
        connections={f"c{n}": Nature(every_us=3 * S) for n in range(connections)},
        plan=plan,
        quiet_us=quiet_us,
        end_us=quiet_us + 90 * S,
        offsets_ms=offsets_ms,
        rates_ppm=(100.0, -100.0, 0.0),
        late=frozenset(),
        last_acts=(),
        clock=clock,  # type: ignore[arg-type]  # a test's own word
    )


def play(scenario: Scenario, meanwhile: Callable[[Stage], None] = lambda _: None) -> Stage:
    """Run it; `meanwhile` may put events of its own on the kernel before."""
    stage = Stage(Simulation(scenario))
    stage.simulation.store.observers.append(
        lambda landing: (stage.landed if landing.applied else stage.refused).append(landing)
    )
    meanwhile(stage)
    stage.violations = stage.simulation.play()
    return stage
