"""The scheduled run, when time runs out, it crashes, or a request fails: the next makes it good."""

from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import membership
from streamlease.errors import Conflict, Denied, Fault, Throttled, Unreachable
from streamlease.flow import Batch, Request, run
from streamlease.flows.reconcile import OLDEST_READ, OWNER_WALK_EVERY_MS, Report, reconcile
from streamlease.flows.sweep import stored_fleet
from streamlease.membership import raise_shards
from streamlease.model import RECONCILE_ID, LeaseMode
from streamlease.write import Always, Applied, Item, Put, Query, Table, Update
from tests.core.flows.stores import LATE_MS, SHARDS, TIMING, Fleet, busy, names, once, steps
from tests.fakes.trouble import Landing, Troubled

# --- time -------------------------------------------------------------------------------------------------------------


@given(step_ms=st.integers(5, 25), shards=st.integers(1, 8))
def test_a_run_keeps_to_its_time_and_the_next_goes_on_until_all_is_done(step_ms: int, shards: int) -> None:
    """Each request takes so long, each run has a second: a pass over the shards may take all of it every time, and
    burials and owners have their turn all the same."""
    fleet = busy(4)
    fleet.perform(raise_shards(shards))

    def perform(request: Request) -> object:
        fleet.clock.advance(step_ms)
        return fleet.perform(request)

    runs, orphaned = 0, 0
    wanted = set(names("free", "expired", "orphan", "stray", count=4))
    offered: set[str] = set()
    while not (wanted <= offered and orphaned == 8):
        runs += 1
        assert runs < 20
        fleet.clock.advance(1)
        fleet.beat("alive")
        began_s = fleet.clock.mono_s
        report = once(fleet, perform, budget_s=1.0)
        # after the time is up: a page of a shard with those it dates, or a page of owners; and what ends every run
        assert fleet.clock.mono_s - began_s <= 1.0 + (10 + max(2 * OLDEST_READ, 16 * 5)) * step_ms / 1_000
        offered |= set(fleet.offered())
        orphaned += report.orphaned
        for number in range(4):
            held = fleet.connection(f"owned{number}")
            fleet.edit(f"owned{number}", lease_expires_at_ms=fleet.clock.wall_ms + 60_000, lease_epoch=held.lease_epoch)
    assert fleet.connection("held0").lease_owner == "alive"


def test_a_pass_that_took_several_runs_counts_all_of_it_and_writes_the_summary_at_its_end() -> None:
    fleet = Fleet()
    for number in range(40):
        fleet.add(f"c{number}")
        fleet.edit(f"c{number}", desired_state_shard=f"STARTED#{number % SHARDS}")

    def perform(request: Request) -> object:
        fleet.clock.advance(1_000 if isinstance(request, Query) else 0)
        return fleet.perform(request)

    seen = []
    for _ in range(3):
        report = once(fleet, perform, budget_s=2.0)
        summary = run(stored_fleet(), fleet.perform)
        seen.append((report.complete, report.unowned, report.offered, summary and summary.unowned))
    assert seen == [(False, 10, 10, None), (False, 30, 20, None), (True, 40, 10, 40)]
    assert len(set(fleet.offered())) == 40


def test_a_walk_that_is_cut_within_a_page_frees_some_in_every_run_and_all_in_the_end() -> None:
    fleet = Fleet()
    for number in range(600):
        fleet.own(f"stray{number}", "nobody", LeaseMode.WORKER, checkpoints=0)

    def perform(request: Request) -> object:
        fleet.clock.advance(1_000 if isinstance(request, Batch) else 0)
        return fleet.perform(request)

    freed: list[int] = []
    while sum(freed) < 600:
        report = once(fleet, perform, budget_s=2.0)
        freed.append(report.orphaned)
        assert report.orphaned in (100, 200), "two seconds, of which other parts may have had theirs"
        assert report.walked_owners is (sum(freed) == 600)
    assert len(set(fleet.offered())) == 600


def test_a_place_beyond_the_last_shard_is_the_first() -> None:
    fleet = Fleet()
    fleet.add("c1")
    item: Item = {"worker_id": RECONCILE_ID, "shard": 99, "cursor": {"connection_id": "x"}, "unowned": 7}
    fleet.perform(Put(Table.MEMBERS, item, Always()))
    report = once(fleet)
    assert (report.unowned, report.complete) == (1, True)


def test_without_any_time_a_run_does_nothing_and_loses_no_place() -> None:
    fleet = busy()
    before = fleet.store.items(Table.CONNECTIONS)
    report = once(fleet, budget_s=0.0)
    assert (report.complete, report.offered, report.buried, report.orphaned) == (False, 0, 0, 0)
    assert run(stored_fleet(), fleet.perform) is None, "nothing was counted, so nothing is said of the fleet"
    assert fleet.store.items(Table.CONNECTIONS) == before
    assert once(fleet).complete is True


# --- crashes and faults -----------------------------------------------------------------------------------------------


def requests_of_a_run(count: int) -> int:
    troubled = Troubled(busy(count).perform)
    run(reconcile(shards=SHARDS, timing=TIMING, budget_s=50.0), troubled.perform)
    return len(troubled.performed)


def settled(fleet: Fleet) -> dict[str, tuple[object, ...]]:
    """What is left of a fleet's connections when everything is done, whenever it was."""
    return {
        str(item["connection_id"]): (
            item.get("lease_owner"),
            item["lease_epoch"],
            item.get("crashes"),
            "lease_expires_at_ms" in item,
            item["last_event"],
        )
        for item in fleet.store.items(Table.CONNECTIONS)
    }


def test_a_run_that_crashes_at_any_request_is_made_good_by_the_next() -> None:
    """L30: every connection is freed exactly once, and offered in the next run at the latest."""
    whole = busy(2)
    once(whole)
    whole.offered()
    once(whole)
    last = settled(whole)
    for step in range(requests_of_a_run(2) + 1):
        fleet = busy(2)
        counted = CountingOrphans(fleet)
        ended = steps(reconcile(shards=SHARDS, timing=TIMING, budget_s=50.0), counted, step)
        assert ended is (step >= requests_of_a_run(2))
        offered = fleet.offered()
        report = once(fleet, counted.perform)
        assert report.complete is True
        again = fleet.offered()
        assert settled(fleet) == last, step
        assert set(counted.orphaned.values()) == {1}
        assert set(offered + again) >= set(names("free", "expired", "orphan", "stray", count=2)), step
        assert max(Counter(again).values()) == 1


class CountingOrphans(Fleet):
    """The same store, and how often each connection was orphaned in it."""

    def __init__(self, fleet: Fleet) -> None:
        self.clock, self.store = fleet.clock, fleet.store
        self.orphaned: Counter[str] = Counter()
        self.perform = self._perform  # type: ignore[assignment]

    def _perform(self, request: Request) -> object:
        answer = self.store.perform(request)
        if isinstance(request, Batch):
            for write, each in zip(request.writes, cast("tuple[object, ...]", answer), strict=True):
                self._count(write, each)
        else:
            self._count(request, answer)
        return answer

    def _count(self, write: object, answer: object) -> None:
        if isinstance(write, Update) and write.set.get("last_event") == "ORPHANED" and isinstance(answer, Applied):
            self.orphaned[write.key["connection_id"]] += 1


@pytest.mark.parametrize(
    "fault", [Unreachable("x"), Throttled("x"), Conflict("x"), Denied("x")], ids=lambda f: type(f).__name__
)
@pytest.mark.parametrize("landing", [Landing.NEVER, Landing.BEFORE])
def test_a_fault_at_any_request_ends_the_run_or_costs_its_hint_and_the_next_makes_it_good(
    fault: Fault, landing: Landing
) -> None:
    whole = busy(2)
    once(whole)
    last = settled(whole)
    for step in range(requests_of_a_run(2)):
        fleet = busy(2)
        counted = CountingOrphans(fleet)
        troubled = Troubled(counted.perform)
        troubled.trouble(
            fault,
            when=lambda request, at=step, seen=troubled: len(seen.performed) == at + 1,  # type: ignore[misc]
            landing=landing if isinstance(fault, Unreachable) else Landing.NEVER,
        )
        try:
            report = once(fleet, troubled.perform)
        except Fault as raised:
            assert raised is fault  # noqa: PT017 - of most requests
        else:
            assert report.untaken_offers > 0
        offered = fleet.offered()
        fleet.clock.advance(OWNER_WALK_EVERY_MS)
        fleet.beat("alive")
        for number in range(2):
            fleet.edit(f"owned{number}", lease_expires_at_ms=fleet.clock.wall_ms + 60_000)
        once(fleet, counted.perform)
        assert settled(fleet) == last, step
        assert set(counted.orphaned.values()) == {1}
        assert set(offered + fleet.offered()) >= set(names("free", "expired", "orphan", "stray", count=2))


def test_two_runs_at_once_do_each_thing_once() -> None:
    fleet = busy()
    counted = CountingOrphans(fleet)
    flows = [reconcile(shards=SHARDS, timing=TIMING, budget_s=50.0) for _ in range(2)]
    pending: list[Any] = [next(flow) for flow in flows]
    reports: list[Report] = []
    while flows:
        for number, flow in reversed(list(enumerate(flows))):
            try:
                pending[number] = flow.send(counted.perform(pending[number]))
            except StopIteration as stop:
                reports.append(stop.value)
                del flows[number], pending[number]
    assert sum(report.buried for report in reports) == 1
    assert sum(report.orphaned for report in reports) == 6
    assert set(counted.orphaned.values()) == {1}
    assert set(fleet.offered()) == set(names("free", "expired", "orphan", "stray"))


def test_index_lag_delays_and_never_misleads() -> None:
    fleet = Fleet(lagging=True)
    fleet.join("alive")
    fleet.own("c1", "alive", LeaseMode.WORKER)
    fleet.add("c2")
    assert once(fleet).unowned == 0
    fleet.store.catch_up()
    assert once(fleet).unowned == 1
    fleet.join("dead")
    fleet.own("c2", "dead", LeaseMode.WORKER)
    fleet.clock.advance(LATE_MS)
    fleet.beat("alive")
    assert once(fleet).orphaned == 0, "the index still shows c2 as free"
    fleet.store.catch_up()
    assert once(fleet).orphaned == 1
    assert fleet.connection("c1").lease_owner == "alive"
    assert membership.GONE_AFTER_MS >= 15 * 60_000, "a burial is open for longer than any index lags"
