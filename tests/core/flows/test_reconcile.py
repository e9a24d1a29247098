"""The scheduled run: what it offers, buries, walks through and reports."""

from collections import Counter
from dataclasses import replace

import pytest

from streamlease import membership
from streamlease.flow import Now, Request, run
from streamlease.flows.reconcile import OLDEST_READ, OWNER_WALK_EVERY_MS
from streamlease.flows.sweep import stored_fleet
from streamlease.membership import GONE_AFTER_MS
from streamlease.model import RECONCILE_ID, FleetSummary, LeaseMode
from streamlease.write import Always, Put, Read, Scan, Table
from tests.core.flows.stores import LATE_MS, TIMING, Fleet, busy, names, once
from tests.fakes.clock import SetClock
from tests.fakes.trouble import Troubled


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
    assert summary is not None
    assert replace(summary, shares=None) == FleetSummary(service_ms, live=1, owned=6, unowned=6, shards=0)


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
    fleet.edit("stray0", checkpoint_no="many")
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
    for number in range(1_001):
        fleet.own(f"stray{number}", "nobody", LeaseMode.WORKER, checkpoints=0)
    report = once(fleet)
    assert (report.unowned, report.orphaned) == (1_003, 1_001)
    assert Counter(fleet.offered()).most_common(1)[0][1] == 1
