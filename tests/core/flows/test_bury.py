"""Who is dead is buried once, what it held in worker mode is freed, and it is forgotten when nothing is left."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import items, lease, membership
from streamlease.flow import Request, run
from streamlease.flows.bury import Burials, Stands, bury_expired, orphan_all, orphan_one
from streamlease.flows.sweep import members
from streamlease.lease import Checkpoint
from streamlease.model import LeaseMode, MemberState
from streamlease.write import Query, Table, Update
from tests.core.flows.stores import TIMING, Fleet
from tests.fakes.trouble import Troubled

LATE_MS = TIMING.lease_ms + TIMING.skew_ms + 1


def bury(fleet: Fleet, perform: Any = None, **options: Any) -> Burials:
    everybody = run(members(), fleet.perform).members
    return run(bury_expired(everybody, timing=TIMING, **options), perform or fleet.perform)


def states(fleet: Fleet) -> dict[str, str]:
    return {str(item["worker_id"]): str(item["state"]) for item in fleet.store.items(Table.MEMBERS)}


def test_the_expired_are_buried_and_their_worker_mode_leases_are_offered() -> None:
    fleet = Fleet()
    fleet.join("dead")
    fleet.own("c1", "dead", LeaseMode.WORKER)
    fleet.own("c2", "dead", LeaseMode.WORKER, checkpoints=0)
    fleet.clock.advance(LATE_MS)
    fleet.join("alive")
    fleet.own("c3", "alive", LeaseMode.WORKER)
    done = bury(fleet)
    assert done == Burials(buried=1, orphaned=2, untaken_offers=0, malformed=())
    assert states(fleet) == {"dead": "DEAD", "alive": "LIVE"}
    assert sorted(fleet.offered()) == ["c1", "c2"]
    freed = fleet.connection("c1")
    assert (freed.lease_owner, freed.lease_expires_at_ms, freed.crashes) == (None, 0, 0)
    assert fleet.connection("c2").crashes == 1
    assert fleet.connection("c3").lease_owner == "alive"


def test_whom_another_has_buried_is_swept_all_the_same_but_counted_once() -> None:
    fleet = Fleet()
    fleet.join("dead")
    fleet.own("c1", "dead", LeaseMode.WORKER)
    fleet.clock.advance(LATE_MS)
    everybody = run(members(), fleet.perform).members
    assert run(bury_expired(everybody, timing=TIMING), fleet.perform).buried == 1
    late = run(bury_expired(everybody, timing=TIMING), fleet.perform)
    assert (late.buried, late.orphaned) == (0, 0), "by the members as they were before"
    fleet.own("c2", "dead", LeaseMode.WORKER)  # a claim that was on its way
    assert bury(fleet).orphaned == 1, "M11: what lands under a dead id is found as long as it is remembered"


def test_a_member_that_beat_after_it_was_seen_keeps_everything() -> None:
    fleet = Fleet()
    fleet.join("slow")
    fleet.own("c1", "slow", LeaseMode.WORKER)
    fleet.clock.advance(LATE_MS)
    everybody = run(members(), fleet.perform).members
    fleet.beat("slow")
    assert run(bury_expired(everybody, timing=TIMING), fleet.perform) == Burials(0, 0, 0, ())
    assert fleet.connection("c1").lease_owner == "slow"


@pytest.mark.parametrize(("behind_ms", "buried"), [(None, 1), (0, 1), (1, 0), (8_000, 0)])
def test_nobody_is_buried_by_a_clock_that_runs_ahead_of_the_services(behind_ms: int | None, buried: int) -> None:
    fleet = Fleet()
    fleet.join("w1")
    fleet.clock.advance(LATE_MS)
    date_ms = None if behind_ms is None else fleet.clock.wall_ms - behind_ms
    assert bury(fleet, date_ms=date_ms).buried == buried


def test_a_lease_on_an_expiry_of_its_own_is_left_to_that() -> None:
    fleet = Fleet()
    fleet.join("dead")
    held = fleet.own("c1", "dead", LeaseMode.CONNECTION)
    fleet.clock.advance(LATE_MS)
    fleet.perform(lease.renew(held, sent=fleet.clock(), timing=TIMING))
    assert bury(fleet).orphaned == 0
    assert fleet.connection("c1").lease_owner == "dead"
    assert run(orphan_one("c1", "dead"), fleet.perform) == Stands()


def test_what_is_not_the_dead_ones_any_more_is_left_alone() -> None:
    fleet = Fleet()
    fleet.own("c1", "other", LeaseMode.WORKER)
    before = fleet.item("c1")
    assert run(orphan_one("c1", "dead"), fleet.perform) is None
    assert run(orphan_one("gone", "dead"), fleet.perform) is None
    assert fleet.item("c1") == before


def test_a_checkpoint_that_lands_between_read_and_orphaning_is_not_lost() -> None:
    fleet = Fleet()
    held = fleet.own("c1", "dead", LeaseMode.WORKER)
    flow = orphan_one("c1", "dead")
    request: Request = next(flow)
    while not isinstance(request, Update):
        request = flow.send(fleet.perform(request))
    fleet.perform(lease.checkpoint(held, Checkpoint(9)))
    with pytest.raises(StopIteration) as stop:
        flow.send(fleet.perform(request))
    assert stop.value.value is None
    assert fleet.connection("c1").lease_owner == "dead"
    swept = run(orphan_all("dead"), fleet.perform)
    assert (len(swept.offers), swept.left, swept.complete) == (1, 1, True)
    assert fleet.connection("c1").checkpoint_no == 9


def test_m12_a_burial_is_forgotten_only_after_a_late_sweep_that_found_nothing() -> None:
    fleet = Fleet()
    fleet.join("dead")
    fleet.clock.advance(LATE_MS)
    bury(fleet)
    fleet.clock.advance(membership.GONE_AFTER_MS - 1)
    bury(fleet)
    assert states(fleet) == {"dead": "DEAD"}
    fleet.own("c1", "dead", LeaseMode.WORKER)
    fleet.clock.advance(1)
    assert bury(fleet).orphaned == 1
    assert states(fleet) == {"dead": "DEAD"}, "this sweep was not empty"
    bury(fleet)
    assert states(fleet) == {"dead": "GONE"}
    assert "ttl" in fleet.member("dead")


def test_a_stopped_connection_on_an_expiry_of_its_own_does_not_keep_its_owner_from_being_forgotten() -> None:
    """Nobody will ever take it over, and nothing frees it."""
    fleet = Fleet()
    fleet.join("dead")
    fleet.own("c1", "dead")
    fleet.stop("c1")
    fleet.clock.advance(LATE_MS)
    bury(fleet)
    fleet.clock.advance(membership.GONE_AFTER_MS)
    bury(fleet)
    assert states(fleet) == {"dead": "GONE"}
    assert fleet.connection("c1").lease_owner == "dead"


def test_an_item_that_cannot_be_read_hides_no_other_and_keeps_its_owner_remembered() -> None:
    fleet = Fleet()
    fleet.join("dead")
    for name in ("c1", "c2", "c3"):
        fleet.own(name, "dead", LeaseMode.WORKER)
    fleet.edit("c2", spec_version="2")
    fleet.clock.advance(LATE_MS)
    done = bury(fleet)
    assert done.orphaned == 2
    assert [problem.where for problem in done.malformed] == ["connection 'c2'"]
    fleet.clock.advance(membership.GONE_AFTER_MS)
    bury(fleet)
    assert states(fleet) == {"dead": "DEAD"}


def test_offers_that_the_queue_does_not_take_are_counted() -> None:
    fleet = Fleet()
    fleet.join("dead")
    fleet.own("c1", "dead", LeaseMode.WORKER)
    fleet.clock.advance(LATE_MS)
    fleet.store.full = True
    assert bury(fleet).untaken_offers == 1
    assert fleet.connection("c1").lease_expires_at_ms == 0, "the sweeps find it"


def test_every_page_is_swept() -> None:
    fleet = Fleet()
    for number in range(1_003):
        fleet.own(f"c{number}", "dead", LeaseMode.WORKER, checkpoints=0)
    troubled = Troubled(fleet.perform)
    swept = run(orphan_all("dead"), troubled.perform)
    assert (len(swept.offers), swept.left, swept.complete) == (1_003, 1_003, True)
    shown = [r for r in troubled.performed if isinstance(r, Query) and r.table is Table.CONNECTIONS]
    assert len(shown) == 2


# --- time ------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 30))
def test_a_burial_keeps_to_its_time_and_goes_on_where_it_stopped(step_ms: int) -> None:
    """Each request takes so long; each run has 100 ms."""
    fleet = Fleet()
    for name in ("w1", "w2", "w3"):
        fleet.join(name)
        for number in range(3):
            fleet.own(f"{name}-{number}", name, LeaseMode.WORKER)
    fleet.clock.advance(LATE_MS)

    def perform(request: Request) -> object:
        fleet.clock.advance(step_ms)
        return fleet.perform(request)

    orphaned, begin_at, runs = 0, "", 0
    while orphaned < 9:
        runs += 1
        assert runs < 40
        began_s = fleet.clock.mono_s
        stop_at_s = began_s + 0.1
        done = bury(fleet, perform, begin_at=begin_at, stop_at_s=stop_at_s)
        assert fleet.clock.mono_s <= stop_at_s + 8 * step_ms / 1000, "it begins nothing new"
        orphaned += done.orphaned
        assert done.go_on_at is None or fleet.clock.mono_s >= stop_at_s
        begin_at = done.go_on_at or ""
    assert all(state == "DEAD" for state in states(fleet).values())
    assert set(fleet.offered()) == {f"w{n}-{i}" for n in (1, 2, 3) for i in range(3)}


def test_once_around_begins_with_the_member_named() -> None:
    fleet = Fleet()
    for name in ("w1", "w2", "w3"):
        fleet.join(name)
    fleet.clock.advance(LATE_MS)
    troubled = Troubled(fleet.perform)
    bury(fleet, troubled.perform, begin_at="w2")
    buried = [str(request.key["worker_id"]) for request in troubled.performed if isinstance(request, Update)]
    assert buried == ["w2", "w3", "w1"]
    assert all(items.member(fleet.member(name)).state is MemberState.DEAD for name in buried)
