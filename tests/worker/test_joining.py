"""Entering the fleet and leaving it, with every answer lost that can be."""

import pytest

from streamlease.errors import Denied, Throttled, Unreachable
from streamlease.flow import Request, run
from streamlease.membership import Joined
from streamlease.timing import Timing
from streamlease.write import Table
from streamlease_worker.joining import ATTEMPTS, Applicant, join, leave, look_around
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore
from tests.fakes.trouble import Landing, Troubled, is_write

TIMING = Timing(heartbeat_ms=1_000, lease_ms=3_000)
APPLICANT = Applicant("worker-1", generation=3, capacity=10, zone="eu-west-1b", timing=TIMING)


class Bench:
    def __init__(self) -> None:
        self.clock = SetClock()
        self.memory = MemoryStore(self.clock)
        self.store = Troubled(self.memory.perform)

    def join(self) -> Joined:
        return run(join(APPLICANT), self.store.perform)


def test_a_worker_that_joins_is_live_with_all_it_said() -> None:
    bench = Bench()
    assert bench.join() == Joined(TIMING.deadline_s(bench.clock()))
    member = bench.memory.item(Table.MEMBERS, "worker-1")
    assert member is not None
    assert (member["state"], member["generation"], member["capacity"], member["zone"]) == ("LIVE", 3, 10, "eu-west-1b")


def test_a_join_whose_answer_was_lost_counts_from_its_own_send() -> None:
    bench = Bench()
    bench.store.trouble(Unreachable("no answer"), landing=Landing.BEFORE)
    first = bench.clock()

    def perform(request: Request) -> object:
        try:
            return bench.store.perform(request)
        finally:
            bench.clock.advance(300 if is_write(request) else 0)

    assert run(join(APPLICANT), perform) == Joined(TIMING.deadline_s(first))


def test_a_join_that_never_arrived_counts_from_the_send_that_did() -> None:
    bench = Bench()
    bench.store.trouble(Unreachable("no answer"))
    assert bench.join() == Joined(TIMING.deadline_s(bench.clock()))


def test_a_store_that_never_answers_ends_in_its_fault() -> None:
    bench = Bench()
    bench.store.trouble(Unreachable("no answer"), times=100)
    with pytest.raises(Unreachable):
        bench.join()
    assert sum(is_write(request) for request in bench.store.performed) == ATTEMPTS


@pytest.mark.parametrize("fault", [Throttled("slow down"), Denied("no permission")])
def test_a_refusal_is_the_callers_to_judge(fault: Throttled | Denied) -> None:
    bench = Bench()
    bench.store.trouble(fault)
    with pytest.raises(type(fault)):
        bench.join()


def test_looking_around_reads_from_everything_and_writes_nothing() -> None:
    bench = Bench()
    run(look_around("worker-1"), bench.store.perform)
    assert not any(is_write(request) for request in bench.store.performed)
    assert len(bench.store.performed) == 3


def test_a_worker_that_leaves_is_dead_at_once() -> None:
    bench = Bench()
    bench.join()
    run(leave("worker-1"), bench.store.perform)
    member = bench.memory.item(Table.MEMBERS, "worker-1")
    assert member is not None
    assert member["state"] == "DEAD"
