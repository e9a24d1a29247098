"""A function's clock has no measured bound: what it may do with a clock that runs ahead."""

from streamlease.flow import Now, Request, run
from streamlease.flows.reconcile import reconcile
from streamlease.membership import join
from streamlease.timing import Instant, Timing
from streamlease.write import Put, Query, Read, Scan, Update
from tests.simulation.clock import true_ms
from tests.simulation.kernel import Kernel, S
from tests.simulation.store import Store

TIMING = Timing(heartbeat_ms=2_000, lease_ms=6_000)


def test_a_function_whose_clock_runs_ahead_buries_no_living_member() -> None:
    kernel = Kernel("function clock")
    store = Store(kernel)
    at = Instant(0.0, true_ms(0))
    store.write(join("w1", generation=1, capacity=9, zone="", started_at_ms=0, sent=at, timing=TIMING), "w1")
    kernel.run_until(2 * S)

    def perform(request: Request) -> object:
        match request:
            case Now():
                return Instant(kernel.now_us / S, true_ms(kernel.now_us) + 8_000)
            case Put() | Update():
                return store.write(request, "function")
            case Read():
                return store.read(request)
            case Query():
                return store.query(request)
            case Scan():
                return store.scan(request)
            case _:
                return ()

    assert run(reconcile(shards=1, timing=TIMING, budget_s=10.0), perform).buried == 0
    member = store.member("w1")
    assert member is not None
    assert member["state"] == "LIVE"
