"""A fleet of dial gates around one ledger, under virtual time: clocks that differ, requests that are lost or land late,
workers that die. What the upstream sees is `dialled`."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from streamlease.budget import Ask, Budget, Ledger
from streamlease.errors import Fault, Throttled, Unreachable
from streamlease.flow import Flow, Request
from streamlease.flows import budget as flows
from streamlease.timing import Instant
from streamlease.write import Put
from streamlease_worker.dial_gate import Allow, Command, DialGate, Take, Tell
from tests.fakes.memory import MemoryStore

START_MS = 1_800_000_000_000


@dataclass(slots=True)
class Trouble:
    """Chances, each of a request."""

    lost: float = 0.0
    unanswered: float = 0.0
    late: float = 0.0
    late_ms: int = 60_000
    throttled: float = 0.0


@dataclass(slots=True, eq=False)
class Worker:
    name: str
    gate: DialGate
    ahead_ms: int
    alive: bool = True
    tickets: dict[int, Instant] = field(default_factory=dict)
    told: list[Tell] = field(default_factory=list)
    due_ms: float | None = None


class Fleet:
    """Times are true milliseconds from 0. `connections` wait where `want` put them until they have dialled."""

    def __init__(self, budgets: tuple[Budget, ...], *, seed: int = 0, trouble: Trouble | None = None) -> None:
        self.now_ms = 0
        self.budgets = budgets
        self.draws = Random(seed)
        self.trouble = trouble or Trouble()
        self.store = MemoryStore(lambda: Instant(0.0, START_MS + self.now_ms))
        self.workers: list[Worker] = []
        self.dialled: list[tuple[int, int, str]] = []
        """When, since when it had waited, and by whom."""
        self.writes = 0
        self.reads = 0
        self.dial_ms: Callable[[], int] = lambda: self.draws.randrange(50, 3_000)
        self.secrets_ms: Callable[[], int] = lambda: self.draws.choice((0, 0, 0, 100, 5_000))
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._wanted: dict[int, tuple[Budget, ...]] = {}

    def worker(self, *, ahead_ms: int = 0) -> Worker:
        made = Worker(f"worker-{len(self.workers)}", DialGate(f"worker-{len(self.workers)}"), ahead_ms)
        made.gate.fleet(len(self.workers) + 1)
        self.workers.append(made)
        return made

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(at_ms, self.now_ms), self._count, action))

    def run(self, until_ms: int) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
        self.now_ms = until_ms

    def want(self, worker: Worker, *budgets: Budget) -> None:
        """`budgets`: all of the fleet's, where none is named."""
        since = self.clock(worker)
        self._want(worker, budgets or self.budgets, since)

    def _want(self, worker: Worker, budgets: tuple[Budget, ...], since: Instant) -> None:
        self._count += 1
        number = self._count
        worker.tickets[number] = since
        self._wanted[number] = budgets
        self.act(worker, worker.gate.want(number, "upstream.example", budgets, since, self.clock(worker)))

    def crash(self, worker: Worker) -> int:
        """Returns how many of its connections wait for another owner."""
        worker.alive = False
        left, worker.tickets = len(worker.tickets), {}
        return left

    def drain(self, worker: Worker) -> None:
        """It gives up all that waits there, in order."""
        for number in list(worker.tickets):
            del worker.tickets[number]
            self.act(worker, worker.gate.gone(number, self.clock(worker)))

    def clock(self, worker: Worker) -> Instant:
        return Instant(self.now_ms / 1_000, START_MS + self.now_ms + worker.ahead_ms)

    def act(self, worker: Worker, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Allow(ticket, until_s):
                    self.at(self.now_ms + self.secrets_ms(), lambda t=ticket, u=until_s: self._dial(worker, t, u))  # type: ignore[misc]
                case Tell():
                    worker.told.append(command)
                case Take(budget, ask, seen):
                    self._take(worker, budget, ask, seen)
        due_s = worker.gate.due_s
        if due_s is not None and due_s * 1_000 != worker.due_ms:
            worker.due_ms = due_s * 1_000
            self.at(-int(-worker.due_ms // 1) + 1, lambda: self._tick(worker))

    def _tick(self, worker: Worker) -> None:
        if worker.alive and worker.due_ms is not None and worker.due_ms <= self.now_ms:
            worker.due_ms = None
            self.act(worker, worker.gate.tick(self.clock(worker)))

    def _dial(self, worker: Worker, ticket: int, until_s: float) -> None:
        if not worker.alive:
            return
        if self.now_ms / 1_000 >= until_s:
            since = worker.tickets.pop(ticket)
            self.act(worker, worker.gate.gone(ticket, self.clock(worker)))
            self._want(worker, self._wanted[ticket], since)
            return
        self.dialled.append((self.now_ms, worker.tickets.pop(ticket).wall_ms - START_MS, worker.name))
        self.at(self.now_ms + self.dial_ms(), lambda: self._dialled(worker, ticket))

    def _dialled(self, worker: Worker, ticket: int) -> None:
        if worker.alive:
            self.act(worker, worker.gate.gone(ticket, self.clock(worker)))

    # --- requests take time, and may go wrong -------------------------------------------------------------------------

    def _take(self, worker: Worker, budget: Budget, ask: Ask, seen: Ledger | None) -> None:
        flow = flows.take(budget, ask, seen)
        self._step(worker, budget, flow, lambda: next(flow))

    def _step(self, worker: Worker, budget: Budget, flow: Flow[object], go: Callable[[], Request]) -> None:
        """Each request of the flow takes a while; its clock readings do not."""
        if not worker.alive:
            return
        try:
            request = go()
            while not isinstance(request, Put) and not hasattr(request, "partition"):
                request = flow.send(self.clock(worker))
        except StopIteration as stop:
            self.act(worker, worker.gate.answered(budget, stop.value, self.clock(worker)))
            return
        except Fault as fault:
            self.act(worker, worker.gate.answered(budget, fault, self.clock(worker)))
            return
        asked = request
        draw = self.draws.random()
        if isinstance(asked, Put):
            self.writes += 1
        else:
            self.reads += 1
        trouble = self.trouble
        if draw < trouble.late:
            self.at(self.now_ms + self.draws.randrange(trouble.late_ms), lambda: self._land(asked))
            self._later(2_000, worker, budget, flow, lambda: flow.throw(Unreachable("it timed out")))
        elif draw < trouble.late + trouble.unanswered:
            self.at(self.now_ms + 5, lambda: self._land(asked))
            self._later(2_000, worker, budget, flow, lambda: flow.throw(Unreachable("it timed out")))
        elif draw < trouble.late + trouble.unanswered + trouble.lost:
            self._later(2_000, worker, budget, flow, lambda: flow.throw(Unreachable("it timed out")))
        elif draw < trouble.late + trouble.unanswered + trouble.lost + trouble.throttled:
            self._later(20, worker, budget, flow, lambda: flow.throw(Throttled("slower")))
        else:
            answers: list[object] = []
            there_ms = self.draws.randrange(2, 20)
            self.at(self.now_ms + there_ms, lambda: answers.append(self.store.perform(asked)))
            self._later(2 * there_ms, worker, budget, flow, lambda: flow.send(answers[0]))

    def _land(self, request: Request) -> None:
        self.store.perform(request)

    def _later(self, ms: int, worker: Worker, budget: Budget, flow: Flow[object], go: Callable[[], Request]) -> None:
        self.at(self.now_ms + ms, lambda: self._step(worker, budget, flow, go))


def most_in_a_window(times_ms: list[int], window_ms: int) -> int:
    """The most that any stretch of `window_ms` has seen, wherever it begins."""
    times_ms = sorted(times_ms)
    most, first = 0, 0
    for last, at_ms in enumerate(times_ms):
        while at_ms - times_ms[first] > window_ms:
            first += 1
        most = max(most, last - first + 1)
    return most
