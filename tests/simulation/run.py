"""Run one scenario to its end or to its first violation."""

from collections import Counter
from dataclasses import dataclass, field

from streamlease.model import LeaseMode
from streamlease.timing import SKEW_MS
from tests.simulation.beliefs import Beliefs
from tests.simulation.check_delivery import DeliveryChecker
from tests.simulation.check_dials import DialChecker
from tests.simulation.check_end import EndChecker, Streaming
from tests.simulation.check_leases import LeaseChecker
from tests.simulation.check_pages import PageChecker
from tests.simulation.check_rest import until_even
from tests.simulation.clock import Clock
from tests.simulation.fleet import Fleet, Shell
from tests.simulation.inject import Injector
from tests.simulation.kernel import MS, Kernel, S
from tests.simulation.ledger import Ledger, Line
from tests.simulation.network import Network
from tests.simulation.offers import OffersQueue
from tests.simulation.operators import People, operator
from tests.simulation.process import Process
from tests.simulation.scenario import Scenario
from tests.simulation.schedule import ReconcileSchedule
from tests.simulation.sink import Sink
from tests.simulation.store import Store
from tests.simulation.stream import StreamFunction
from tests.simulation.upstream import Upstream
from tests.simulation.violation import Violated, Violation
from tests.simulation.worker import Deployed, Worker, World

RECOVERY_US = 12 * S
"""After lease and skew: sweep, claim, dial, a first record. Most fleets are well by then."""
LOOK_EVERY_US = 5 * S
"""So often is looked whether they are."""
STOP_SLACK_US = 5 * S
"""For the request that stops, and for the socket to close."""


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    violations: tuple[Violation, ...]
    faults: int
    events: int
    simulated_s: float
    faults_by_kind: Counter[str]
    counts: Counter[str]
    story: tuple[Line, ...] = field(default=(), repr=False)


def run(scenario: Scenario, *, tells: bool = False) -> Result:
    """Run `scenario`; with `tells`, keep its story."""
    simulation = Simulation(scenario, tells=tells)
    violations = simulation.play()
    ledger, kernel = simulation.ledger, simulation.kernel
    return Result(
        seed=scenario.seed,
        violations=tuple(violations),
        faults=len(ledger.faults),
        events=kernel.events,
        simulated_s=kernel.now_us / S,
        faults_by_kind=Counter(ledger.faults.values()),
        counts=ledger.counts,
        story=tuple(ledger.story),
    )


class Simulation:
    """One world, put together from a scenario."""

    def __init__(self, scenario: Scenario, *, tells: bool = False) -> None:
        self.scenario = scenario
        self.kernel = kernel = Kernel(str(scenario.seed))
        self.ledger = ledger = Ledger(kernel, tells)
        self.store = Store(kernel, page_limit=scenario.page_limit)
        queue = OffersQueue(kernel, ledger)
        network = Network(kernel, self.store, queue, ledger)
        self.upstreams = {name: Upstream(name, kernel, ledger, nature) for name, nature in scenario.connections.items()}
        self.sink = Sink(kernel, ledger)
        self.beliefs = Beliefs()
        self.dials = DialChecker(kernel, scenario.dials)
        self.world = World(kernel, network, self.sink, self.upstreams, self.beliefs, self.dials)
        self.stream = StreamFunction(kernel, network, Clock(scenario.offsets_ms[-1]))
        timing = scenario.timing_of(scenario.mode)
        self.people = People(kernel, network, operator(scenario.shards, timing), self.upstreams)
        self.schedule = ReconcileSchedule(kernel, network, scenario.shards, timing)
        self.fleet = Fleet(kernel, ledger, self._make, scenario.mode)
        self.leases = LeaseChecker(kernel, self.beliefs, ledger)
        self.delivery = DeliveryChecker(kernel, self.store, self.sink, self.beliefs, ledger, self.upstreams)
        self.sink.on_begin = self.delivery.on_begin
        self.beliefs.on_extend = self.delivery.on_extend
        self.pages = PageChecker(kernel, self.store)
        self.store.observers += [observer.observe for observer in (self.leases, self.delivery, self.pages, self.stream)]
        self._processes = 0

    def _make(self, slot: str, generation: int, mode: LeaseMode, ended: object) -> Shell:
        scenario, number = self.scenario, self._processes
        self._processes += 1
        clock = Clock(
            scenario.offsets_ms[number % len(scenario.offsets_ms)],
            scenario.rates_ppm[number % len(scenario.rates_ppm)],
            booted_s=1_000.0 * (number + 1),
        )
        process = Process(f"{slot}#{number}", self.kernel, clock, slot, awake_from_us=scenario.quiet_us)
        deployed = Deployed(
            mode, scenario.timing_of(mode), scenario.shards, scenario.capacity, generation, scenario.clock
        )
        return Worker(self.world, process, deployed, ended)  # type: ignore[arg-type]

    def play(self) -> list[Violation]:
        """Run until all is well after the faults have stopped, or until it has had all the time it may take."""
        scenario = self.scenario
        injector = Injector(
            self.kernel,
            self.ledger,
            self.world.network,
            self.fleet,
            self.people,
            self.stream,
            self.schedule,
            self.sink,
            self.upstreams,
            scenario.quiet_us,
        )
        self.people.create_all(tuple(each for each in scenario.connections if each not in scenario.late))
        self.fleet.begin(scenario.workers)
        injector.plan(scenario.plan)
        slowest_ms = max(scenario.timing.heartbeat_ms, scenario.worker_timing.heartbeat_ms)
        try:
            return self._end(slowest_ms) or until_even(self.kernel, self.fleet.living)
        except Violated as violated:
            return [violated.violation]

    def _end(self, slowest_ms: int) -> list[Violation]:
        """Run on until what is left to be done is done, and say what is not as it should be then."""
        scenario = self.scenario
        self._until_well()
        for act in scenario.last_acts:
            self.people.act(act)
        obeyed_us = self.kernel.now_us + 2 * slowest_ms * MS + STOP_SLACK_US
        self.kernel.run_until(min(obeyed_us, scenario.end_us))
        if not self.at_end(bound_us=0).violations(self.streaming()):
            return []
        self.kernel.run_until(scenario.end_us)
        return self.at_end(bound_us=scenario.end_us - scenario.quiet_us).violations(self.streaming())

    def _until_well(self) -> None:
        """Run on after the faults have stopped, until everything streams, or for as long as most fleets need for it."""
        scenario = self.scenario
        longest_ms = max(scenario.timing.lease_ms, scenario.worker_timing.lease_ms)
        most_us = scenario.quiet_us + (longest_ms + SKEW_MS) * MS + RECOVERY_US
        for at_us in range(scenario.quiet_us + LOOK_EVERY_US, most_us, LOOK_EVERY_US):
            self.kernel.run_until(at_us)
            if not self.at_end(bound_us=0).violations(self.streaming()):
                return
        self.kernel.run_until(most_us)

    def at_end(self, *, bound_us: int) -> EndChecker:
        """`bound_us`: what people asked for later than that before the end need not be there yet."""
        return EndChecker(
            self.kernel,
            self.store,
            self.sink,
            self.ledger,
            self.delivery,
            self.upstreams,
            bound_us,
            self.people.acts,
            self.leases.stopped_us,
            (2 * self.scenario.timing.heartbeat_ms * MS, 2 * self.scenario.worker_timing.heartbeat_ms * MS),
        )

    def streaming(self) -> dict[str, list[Streaming]]:
        found: dict[str, list[Streaming]] = {}
        for shell in self.fleet.living():
            assert isinstance(shell, Worker)
            for runner in shell.runners.values():
                state = Streaming(shell.worker_id, runner.epoch, runner.state, runner.spec)
                found.setdefault(runner.connection_id, []).append(state)
        return found
