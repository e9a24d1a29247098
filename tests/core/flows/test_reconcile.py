"""The scheduled run: idempotent, whole over several runs, the same after a crash or a fault at any request."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import membership
from streamlease.errors import Conflict, Denied, Fault, Throttled, Unreachable
from streamlease.flow import Now, Request, run
from streamlease.flows.reconcile import OLDEST_READ, OWNER_WALK_EVERY_MS, WALK_PAGE, Report, reconcile
from streamlease.flows.sweep import stored_fleet
from streamlease.membership import GONE_AFTER_MS, raise_shards
from streamlease.model import RECONCILE_ID, FleetSummary, LeaseMode
from streamlease.write import Always, Applied, Item, Put, Query, Read, Scan, Table, Update
from tests.core.flows.stores import SHARDS, TIMING, Fleet, steps
from tests.fakes.clock import SetClock
from tests.fakes.trouble import Landing, Troubled

LATE_MS = TIMING.lease_ms + TIMING.skew_ms + 1_001
"""Also by the whole seconds of a service's `Date`."""


def once(fleet: Fleet, perform: Any = None, *, budget_s: float = 50.0) -> Report:
    return run(reconcile(shards=SHARDS, timing=TIMING, budget_s=budget_s), perform or fleet.perform)


def busy(count: int = 3) -> Fleet:
    """Of each kind `count`: free, expired, owned by the living, owned in worker mode by the dead or by nobody known."""
    fleet = Fleet()
    fleet.join("dead", owned=count)
    for number in range(count):
        fleet.own(f"orphan{number}", "dead", LeaseMode.WORKER)
        fleet.own(f"stray{number}", "never-joined", LeaseMode.WORKER)
        fleet.own(f"expired{number}", "dead")
    fleet.clock.advance(LATE_MS)
    fleet.join("alive", owned=2 * count, load={"streaming": count})
    for number in range(count):
        fleet.own(f"owned{number}", "alive")
        fleet.own(f"held{number}", "alive", LeaseMode.WORKER)
        fleet.add(f"free{number}")
    return fleet


def names(*kinds: str, count: int = 3) -> list[str]:
    return sorted(f"{kind}{number}" for kind in kinds for number in range(count))


def test_one_run_offers_all_that_nobody_owns_buries_the_dead_and_reports() -> None:
    fleet = busy()
    report = once(fleet)
    assert sorted(fleet.offered()) == names("free", "expired", "orphan", "stray")
    assert (report.unowned, report.offered, report.buried, report.orphaned) == (6, 6, 1, 6)
    assert (report.live_members, report.started_not_streaming) == (1, 6 + 3)
    assert (report.complete, report.walked_owners, report.untaken_offers, report.malformed) == (True, True, 0, [])
    assert {item["lease_owner"] for item in fleet.store.items(Table.CONNECTIONS) if "lease_owner" in item} == {
        "alive",
        "dead",  # of the expired ones, which stand on their expiry until somebody takes them
    }
    summary = run(stored_fleet(), fleet.perform)
    service_ms = fleet.clock.wall_ms // 1_000 * 1_000
    assert summary == FleetSummary(service_ms, live=1, owned=6, unowned=6, shards=0)


def test_a_second_run_offers_again_and_writes_nothing_but_its_own_items() -> None:
    fleet = busy()
    once(fleet)
    fleet.offered()
    before = fleet.store.items(Table.CONNECTIONS)
    fleet.clock.advance(1)
    report = once(fleet)
    assert (report.unowned, report.buried, report.orphaned, report.walked_owners) == (12, 0, 0, False)
    assert fleet.store.items(Table.CONNECTIONS) == before
    assert sorted(fleet.offered()) == names("free", "expired", "orphan", "stray")


def test_an_empty_stack_needs_nothing() -> None:
    fleet = Fleet()
    report = once(fleet)
    assert (report.complete, report.unowned, report.live_members, report.oldest_unowned_ms) == (True, 0, 0, 0)


# --- how long somebody waits ------------------------------------------------------------------------------------------


def test_the_oldest_waits_since_its_expiry_or_since_it_was_let_go() -> None:
    fleet = Fleet()
    fleet.own("expired", "w1")
    fleet.clock.advance(LATE_MS + 20_000)
    assert once(fleet).oldest_unowned_ms == LATE_MS + 20_000 - TIMING.lease_ms
    fleet.edit("expired", lease_owner=None, lease_expires_at_ms=0, status={"state": "RELEASED", "since_ms": 5})
    fleet.edit("expired", updated_at_ms=fleet.clock.wall_ms - 7_000)
    assert once(fleet).oldest_unowned_ms == 7_000


def test_a_dead_owners_last_status_is_not_taken_for_the_time_without_one() -> None:
    """It was streaming since yesterday; it has been nobody's for 5 s."""
    fleet = Fleet()
    fleet.join("dead")
    fleet.own("c1", "dead", LeaseMode.WORKER)
    fleet.edit("c1", status={"state": "STREAMING", "since_ms": fleet.clock.wall_ms - 86_400_000}, updated_at_ms=0)
    fleet.clock.advance(LATE_MS)
    once(fleet)
    fleet.clock.advance(5_000)
    assert once(fleet).oldest_unowned_ms == 5_000


def test_what_is_put_down_for_a_while_waits_since_it_may_be_taken() -> None:
    fleet = Fleet()
    fleet.add("c1")
    fleet.edit("c1", not_before_ms=fleet.clock.wall_ms + 60_000)
    fleet.clock.advance(30_000)
    assert once(fleet).oldest_unowned_ms == 0
    fleet.clock.advance(31_000)
    assert once(fleet).oldest_unowned_ms == 1_000


def test_only_so_many_of_the_freed_are_read_to_date_them() -> None:
    fleet = Fleet()
    for number in range(3 * OLDEST_READ):
        fleet.add(f"c{number}")
    troubled = Troubled(fleet.perform)
    once(fleet, troubled.perform)
    reads = [r for r in troubled.performed if isinstance(r, Read) and r.table is Table.CONNECTIONS]
    assert len(reads) == OLDEST_READ


def test_what_was_taken_or_broken_since_the_index_showed_it_dates_nothing() -> None:
    fleet = Fleet(lagging=True)
    for name in ("taken", "gone", "broken"):
        fleet.add(name)
    fleet.store.catch_up()
    fleet.own("taken", "w1")
    fleet.edit("broken", spec="{}")
    fleet.stop("gone")
    fleet.clock.advance(40_000)
    fleet.store._tables[Table.CONNECTIONS].pop(("gone",))
    report = once(fleet)
    assert report.oldest_unowned_ms == 0
    assert [problem.where for problem in report.malformed] == ["connection 'broken'"]
    assert report.offered == 3, "offers are hints"


# --- the walk of all owners -------------------------------------------------------------------------------------------


def test_m11_a_claim_that_landed_under_a_forgotten_id_is_found_by_the_walk() -> None:
    fleet = Fleet()
    fleet.join("dead")
    fleet.clock.advance(LATE_MS)
    once(fleet)
    fleet.clock.advance(GONE_AFTER_MS)
    once(fleet)
    assert fleet.member("dead")["state"] == "GONE"
    fleet.own("c1", "dead", LeaseMode.WORKER)
    assert once(fleet).orphaned == 0, "not every minute"
    fleet.clock.advance(OWNER_WALK_EVERY_MS)
    report = once(fleet)
    assert (report.orphaned, report.walked_owners) == (1, True)
    assert fleet.offered()[-1] == "c1"


@pytest.mark.parametrize("mode", LeaseMode)
def test_a_worker_that_joins_while_the_run_looks_loses_nothing(mode: LeaseMode) -> None:
    """The members were read before it joined, the owners after it claimed."""
    fleet = Fleet()
    fleet.add("c1")

    def perform(request: Request) -> object:
        answer = fleet.perform(request)
        if isinstance(request, Scan) and request.table is Table.MEMBERS:
            fleet.join("new")
            fleet.own("c1", "new", mode)
        return answer

    report = once(fleet, perform)
    assert (report.walked_owners, report.orphaned) == (True, 0)
    assert fleet.connection("c1").lease_owner == "new"


@pytest.mark.parametrize("ahead_ms", [60_000, 86_400_000])
def test_a_run_by_a_clock_that_is_wrong_does_no_lasting_harm(ahead_ms: int) -> None:
    """Somebody's own machine: it buries nobody living, forgets nobody early and blocks no later summary or walk."""
    fleet = busy()
    fleet.perform(membership.leave("dead", now_ms=fleet.clock.wall_ms))
    wrong = SetClock(fleet.clock.wall_ms + ahead_ms)

    def perform(request: Request) -> object:
        return wrong() if isinstance(request, Now) else fleet.perform(request)

    once(fleet, perform)
    assert once(fleet, perform).orphaned == 0, "the first run has freed all there was"
    assert (fleet.member("alive")["state"], fleet.member("dead")["state"]) == ("LIVE", "DEAD")
    assert [fleet.connection(f"held{number}").lease_owner for number in range(3)] == ["alive"] * 3
    fleet.clock.advance(2_000)
    assert once(fleet).walked_owners is True
    summary = run(stored_fleet(), fleet.perform)
    assert summary is not None
    assert summary.at_ms == fleet.clock.wall_ms // 1_000 * 1_000


def test_each_owner_that_is_not_among_the_living_is_looked_up_once() -> None:
    fleet = Fleet()
    for number in range(20):
        fleet.own(f"c{number}", "nobody", LeaseMode.WORKER)
    troubled = Troubled(fleet.perform)
    assert once(fleet, troubled.perform).orphaned == 20
    looked_up = [r.key for r in troubled.performed if isinstance(r, Read) and r.table is Table.MEMBERS]
    assert looked_up.count({"worker_id": "nobody"}) == 1


def test_an_owner_whose_member_item_cannot_be_read_keeps_what_it_has() -> None:
    fleet = Fleet()
    fleet.perform(Put(Table.MEMBERS, {"worker_id": "odd", "state": "LIVE", "heartbeat": "x"}, Always()))
    fleet.own("c1", "odd", LeaseMode.WORKER)
    report = once(fleet)
    assert report.orphaned == 0
    assert [problem.where for problem in report.malformed] == ["member 'odd'"]


# --- what cannot be read ----------------------------------------------------------------------------------------------


def test_each_unreadable_item_is_reported_once_a_run_and_stops_nothing() -> None:
    fleet = busy()
    fleet.edit("orphan0", lease_epoch="7")
    fleet.edit("stray0", crashes="many")
    fleet.edit("free0", spec="{}")
    fleet.perform(Put(Table.MEMBERS, {"worker_id": "#fleet", "shards": "many"}, Always()))
    fleet.perform(Put(Table.MEMBERS, {"worker_id": "odd"}, Always()))
    fleet.perform(
        Put(Table.MEMBERS, {"worker_id": RECONCILE_ID, "shard": "x", "cursor": 5, "member": 7, "walk": []}, Always())
    )
    for _ in range(2):
        report = once(fleet)
        assert sorted(problem.where for problem in report.malformed) == [
            "connection 'free0'",
            "connection 'orphan0'",
            "connection 'stray0'",
            "fleet summary",
            "member 'odd'",
        ]
        assert report.complete is True
        fleet.clock.advance(OWNER_WALK_EVERY_MS)
    assert {"orphan1", "orphan2", "stray1", "stray2", "free1", "free2"} <= set(fleet.offered())


# --- pages ------------------------------------------------------------------------------------------------------------


def test_pages_of_shards_and_owners_are_all_read() -> None:
    fleet = Fleet()
    for number in range(1_003):
        fleet.add(f"free{number}")
        fleet.edit(f"free{number}", desired_state_shard="STARTED#0")
    for number in range(2 * WALK_PAGE + 1):
        fleet.own(f"stray{number}", "nobody", LeaseMode.WORKER, checkpoints=0)
    report = once(fleet)
    assert (report.unowned, report.orphaned) == (1_003, 2 * WALK_PAGE + 1)
    assert Counter(fleet.offered()).most_common(1)[0][1] == 1


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
        if isinstance(request, Update) and request.set.get("last_event") == "ORPHANED" and isinstance(answer, Applied):
            self.orphaned[request.key["connection_id"]] += 1
        return answer


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
