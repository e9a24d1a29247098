"""Run a real procedure (`streamlease.flow`) over the simulated network, one request after the other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamlease.errors import Fault, Malformed
from streamlease.flow import Flow, Now, Request
from streamlease_worker.faults import Unsteady
from tests.simulation.network import Network, Stamps
from tests.simulation.process import Thread

type Done = Callable[[Any], None]
"""Called with what the flow returned, or with the Fault or Malformed it raised."""


@dataclass(slots=True)
class Drive[T]:
    """One running flow. `dies_after`: the process is killed before the request of this number."""

    flow: Flow[T]
    thread: Thread
    network: Network
    timeout_us: int
    done: Done
    dies_after: int | None = None
    cause: int = 0
    stamps: Stamps = ()
    steady: bool = False
    """Whether a time is refused that the process knows to be wrong (`streamlease_worker.clock.steady`)."""
    requests: int = 0

    def start(self) -> None:
        self._step(None)

    def _step(self, answer: object) -> None:
        try:
            request: Request = (
                self.flow.throw(answer) if isinstance(answer, Fault) else self.flow.send(answer)  # no fault, no throw
            )
            while isinstance(request, Now):
                request = self._now()
        except StopIteration as stop:
            self.done(stop.value)
            return
        except (Fault, Malformed) as problem:
            self.done(problem)
            return
        self.requests += 1
        if self.dies_after is not None and self.requests > self.dies_after:
            self.network.ledger.hit("function died", type(request).__name__, self.thread.process.name, self.cause)
            self.thread.process.kill()
            self.done(None)
            return
        self.network.send(self.thread, request, self.timeout_us, self._step, self.stamps)

    def _now(self) -> Request:
        process = self.thread.process
        instant = process.instant(self.thread, "stamp")
        if self.steady and process.watch is not None:
            verdict = process.watch.judge(instant)
            if not verdict.may_claim:
                return self.flow.throw(Unsteady(verdict.reason))
        return self.flow.send(instant)


def drive[T](
    flow: Flow[T],
    thread: Thread,
    network: Network,
    *,
    timeout_us: int,
    done: Done,
    dies_after: int | None = None,
    cause: int = 0,
    stamps: Stamps = (),
    steady: bool = False,
) -> Drive[T]:
    running = Drive(flow, thread, network, timeout_us, done, dies_after, cause, stamps, steady)
    running.start()
    return running
