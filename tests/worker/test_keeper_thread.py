"""The keeper's thread: it carries out what the keeper asks for, writes the fences, and is the watchdog.

The threads are real, the clock is the test's: it goes on only while no request is under way and the keeper has seen the
time that it is, so that leases run out where a test lets them, and never because a machine is slow.
"""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from streamlease.errors import Throttled
from streamlease.flow import Batch, Request, run
from streamlease.flows import control
from streamlease.flows.claim import Claimer, claim
from streamlease.lease import Claimed
from streamlease.model import DesiredState, LastEvent, LeaseMode, Position, Status, StatusState
from streamlease.timing import Timing
from streamlease.write import Item, Table
from streamlease_worker import keeper_thread
from streamlease_worker.clock import Verdict
from streamlease_worker.fence import Fence as Cell
from streamlease_worker.joining import Applicant, join
from streamlease_worker.keeper import Keeper
from streamlease_worker.keeper_events import (
    Accepted,
    Acquired,
    Fence,
    LoopTicked,
    MemberAlive,
    Notice,
    ReleaseRequested,
    Settled,
    StatusChanged,
)
from streamlease_worker.keeper_thread import ENDED_BY_WATCHDOG, KeeperThread
from streamlease_worker.log import Log
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore

TIMING = Timing(heartbeat_ms=2_000, lease_ms=15_000, skew_ms=0, margin_ms=500)
STEP_MS = 250
PATIENCE_S = 300.0
"""Of the test's clock."""
WITHIN_S = 60.0


class Threads(ThreadPoolExecutor):
    """Says whether something is under way on any of them."""

    under_way = 0
    _counting = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._count(1)
        future = super().submit(fn, *args, **kwargs)
        future.add_done_callback(lambda _: self._count(-1))
        return future

    @classmethod
    def _count(cls, more: int) -> None:
        with cls._counting:
            Threads.under_way += more


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Threads, "under_way", 0)
    monkeypatch.setattr(keeper_thread, "ThreadPoolExecutor", Threads)


class Bench:
    def __init__(self) -> None:
        self.clock = SetClock()
        self.began_s = self.clock.mono_s
        self.memory = MemoryStore(self.clock)
        self.notices: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.meets: Callable[[Request], None] = lambda _: None
        self.verdict = Verdict(may_claim=True, may_renew=True, error_ms=None, source="nothing", reason="")
        joined = run(join(Applicant("w", 0, 10, "", TIMING)), self.memory.perform)
        self.keeper = Keeper("w", timing=TIMING, mode=LeaseMode.CONNECTION, joined=joined)
        self.thread = KeeperThread(
            self.keeper,
            perform=self._perform,
            timing=TIMING,
            now=self.clock,
            notify=self.notices.put,
            log=Log(),
            judge=lambda _: self.verdict,
            end=self.ended.put,
        )

    def _perform(self, request: Request) -> object:
        self.meets(request)
        return self.memory.perform(request)

    def hold(self, name: str = "a") -> tuple[Claimed, Cell]:
        operator = control.Operator("somebody", 1, TIMING)
        run(
            control.create(
                name, upstream_url="wss://x", spec={}, labels={}, desired_state=DesiredState.STARTED, operator=operator
            ),
            self.memory.perform,
        )
        claimed = run(claim(name, nonce="n", claimer=Claimer("w", TIMING, LeaseMode.CONNECTION)), self.memory.perform)
        assert isinstance(claimed, Claimed)
        cell = Cell(name, claimed.lease.epoch, now_s=lambda: self.clock.mono_s)
        self.thread.watch(cell)
        self.thread.post(Acquired(claimed))
        return claimed, cell

    def until[N: Notice](self, kind: type[N], *, loop: bool = True) -> N:
        """The next notice of this kind; time passes meanwhile, and the loop ticks."""
        while True:
            try:
                notice = self.notices.get(timeout=0.002)
            except queue.Empty:
                self.goes_on(loop=loop)
            else:
                if isinstance(notice, kind):
                    return notice

    def goes_on(self, *, loop: bool) -> None:
        """A moment passes, unless the one before is not over."""
        if not Threads.under_way and self.thread.ticked_s == self.clock.mono_s:
            assert self.clock.mono_s < self.began_s + PATIENCE_S, "it never came"
            self.clock.advance(STEP_MS)
            self.thread.post(LoopTicked() if loop else StatusChanged("nobody", 1, Status(StatusState.STREAMING, 1)))

    def ends(self) -> str:
        """Why the process is ended; time passes meanwhile, and the loop stands still."""
        while True:
            try:
                return self.ended.get(timeout=0.002)
            except queue.Empty:
                self.goes_on(loop=False)

    def item(self, name: str = "a") -> Item:
        item = self.memory.item(Table.CONNECTIONS, name)
        assert item is not None
        return item


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.thread.start()
    yield made
    made.thread.stop()


@contextmanager
def started(made: Bench) -> Iterator[Bench]:
    made.thread.start()
    try:
        yield made
    finally:
        made.thread.stop()


def test_a_lease_is_renewed_while_the_loop_ticks_and_its_fence_stays_open(bench: Bench) -> None:
    claimed, cell = bench.hold()
    assert bench.until(Accepted) == Accepted("a", claimed.lease.epoch)
    first = bench.item()["lease_expires_at_ms"]
    for _ in range(8):
        bench.until(MemberAlive)
        cell.check()
    expires_at_ms = bench.item()["lease_expires_at_ms"]
    assert isinstance(expires_at_ms, int)
    assert isinstance(first, int)
    assert expires_at_ms > first


def test_positions_told_in_a_rush_are_released_with_the_newest(bench: Bench) -> None:
    claimed, cell = bench.hold()
    bench.until(Accepted)
    for sequence in range(1, 1_001):
        bench.thread.advance("a", claimed.lease.epoch, 1, Position(sequence, "x"))
    bench.thread.post(ReleaseRequested("a", claimed.lease.epoch))
    assert bench.until(Settled).landed
    assert bench.item()["last_sequence"] == "1000"
    assert cell.reason == "its lease was given up"
    assert cell.left_s() == 0
    bench.until(MemberAlive)
    assert [offer.connection_id for offer in bench.memory.offers] == ["a"]


def test_a_status_reaches_the_item_with_a_renewal(bench: Bench) -> None:
    claimed, _ = bench.hold()
    bench.until(Accepted)
    bench.thread.post(StatusChanged("a", claimed.lease.epoch, Status(StatusState.STREAMING, 5)))
    while "status" not in bench.item():
        bench.until(MemberAlive)
    assert bench.item()["status"] == {"state": "STREAMING", "since_ms": 5}


def test_a_store_that_throttles_ends_in_a_closed_fence_and_a_notice(bench: Bench) -> None:
    claimed, cell = bench.hold()
    bench.until(Accepted)

    def throttle(request: Request) -> None:
        if isinstance(request, Batch):
            raise Throttled("slow down")

    bench.meets = throttle
    assert bench.until(Fence) == Fence("a", claimed.lease.epoch, "throttled")
    assert cell.reason == "throttled"
    assert cell.left_s() == 0


def test_nothing_is_renewed_by_a_clock_that_is_not_to_be_trusted(bench: Bench) -> None:
    claimed, cell = bench.hold()
    bench.until(Accepted)
    bench.verdict = Verdict(may_claim=False, may_renew=False, error_ms=9e3, source="date", reason="it is 9 s ahead")
    assert bench.until(Fence) == Fence("a", claimed.lease.epoch, "clock")
    assert cell.left_s() == 0


def test_a_bug_on_the_way_to_the_store_counts_as_no_answer_and_ends_nothing(bench: Bench) -> None:
    claimed, _ = bench.hold()
    bench.until(Accepted)

    def stumble(request: Request) -> None:
        raise KeyError(type(request).__name__)

    bench.meets = stumble
    assert bench.until(Fence).reason == "unreachable"
    bench.thread.post(ReleaseRequested("a", claimed.lease.epoch))
    bench.meets = lambda _: None
    assert isinstance(bench.until(Settled), Settled)
    assert bench.ended.empty()


def test_releases_asked_for_within_a_moment_share_a_call(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_thread, "GATHER_S", 0.1)
    epochs = [(f"c{number}", bench.hold(f"c{number}")[0].lease.epoch) for number in range(8)]
    for _ in epochs:
        bench.until(Accepted)
    calls: queue.SimpleQueue[Batch] = queue.SimpleQueue()

    def count(request: Request) -> None:
        if isinstance(request, Batch) and LastEvent.RELEASED in repr(request):
            calls.put(request)

    bench.meets = count
    for name, epoch in epochs:
        bench.thread.post(ReleaseRequested(name, epoch))
    assert all(bench.until(Settled).landed for _ in epochs)
    assert 1 <= calls.qsize() <= 3, "more than one where a renewal was under way"


def test_a_release_asked_for_as_the_keeper_ends_is_sent_all_the_same() -> None:
    bench = Bench()
    with started(bench):
        claimed, _ = bench.hold()
        bench.until(Accepted)
        bench.thread.post(ReleaseRequested("a", claimed.lease.epoch))
    assert "lease_owner" not in bench.item()


def test_an_offer_that_cannot_be_sent_costs_nothing_else(bench: Bench) -> None:
    epochs = [(name, bench.hold(name)[0].lease.epoch) for name in "ab"]

    def stumble(request: Request) -> None:
        if type(request).__name__ == "SendOffers":
            raise KeyError("queue")

    bench.meets = stumble
    bench.until(Accepted)
    bench.until(Accepted)
    for name, epoch in epochs:
        bench.thread.post(ReleaseRequested(name, epoch))
        assert bench.until(Settled).landed


def test_a_loop_that_stands_still_past_a_deadline_ends_the_process() -> None:
    with started(Bench()) as bench:
        bench.hold()
        assert bench.until(Fence, loop=False).reason == "loop_blocked"
        assert bench.ends().startswith("the event loop stood still for")


@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit], ids=["by an error", "by leaving its thread"])
def test_a_keeper_that_crashes_ends_the_process(monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]) -> None:
    bench = Bench()

    def crash(*_: object) -> None:
        raise kind("oops")

    monkeypatch.setattr(bench.keeper, "handle", crash)
    with started(bench):
        assert bench.ended.get(timeout=WITHIN_S) == f"the keeper crashed ({kind.__name__}: oops)"


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), MemoryError()])
def test_l40_a_keeper_whose_thread_is_ended_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Nothing renews any more: whoever would go on without it would be alive, green and doing nothing."""
    bench = Bench()

    def end(*_: object) -> None:
        raise error

    with started(bench):
        bench.hold()
        monkeypatch.setattr(bench.keeper, "handle", end)
        assert bench.ended.get(timeout=WITHIN_S).startswith(f"the keeper crashed ({type(error).__name__}")


def test_the_watchdog_ends_a_process_whose_loop_could_not() -> None:
    code = "from streamlease_worker.keeper_thread import end_process\ntry:\n end_process('x')\nfinally:\n print('no')"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert ended.returncode == ENDED_BY_WATCHDOG
    assert ended.stdout == ""
    assert json.loads(ended.stderr) == {"level": "error", "event": "ended_by_watchdog", "reason": "x"}
