"""Two generations that disagree about the mode, in one fleet: each takes over, buries and audits the other's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import lease, membership
from streamlease.flow import run
from streamlease.flows import audit
from streamlease.flows.bury import bury_expired
from streamlease.flows.claim import Claimer, claim
from streamlease.flows.sweep import members, sweep
from streamlease.lease import Checkpoint, Claimed
from streamlease.model import Lease, LeaseMode, Position
from streamlease.timing import Timing
from streamlease.write import Table
from tests.core.flows.stores import LATE_MS, SHARDS, TIMING, Fleet, once

CONNECTION, WORKER = LeaseMode.CONNECTION, LeaseMode.WORKER
QUICK = Timing(heartbeat_ms=2_000, lease_ms=6_000)
"""What worker mode usually runs by, beside connection mode's 10 s and 30 s."""
OTHER = {CONNECTION: WORKER, WORKER: CONNECTION}


def take(fleet: Fleet, connection_id: str, worker_id: str, mode: LeaseMode) -> Lease | None:
    nonce = f"{worker_id}/{fleet.clock.wall_ms}"
    outcome = run(claim(connection_id, nonce=nonce, claimer=Claimer(worker_id, TIMING, mode)), fleet.perform)
    return outcome.lease if isinstance(outcome, Claimed) else None


def bury(fleet: Fleet) -> Any:
    return run(bury_expired(run(members(), fleet.perform).members, timing=QUICK), fleet.perform)


def expiry(fleet: Fleet, connection_id: str) -> int | None:
    return fleet.connection(connection_id).lease_expires_at_ms


@pytest.mark.parametrize("old", [CONNECTION, WORKER])
def test_what_one_mode_releases_the_other_takes(old: LeaseMode) -> None:
    fleet = Fleet()
    held = fleet.own("c1", "old", old)
    fleet.perform(lease.release(held, checkpoint=Checkpoint(2, Position(7)), now_ms=fleet.clock.wall_ms))
    taken = take(fleet, "c1", "new", OTHER[old])
    assert taken is not None
    assert taken.epoch == held.epoch + 1
    assert (expiry(fleet, "c1") is None) is (OTHER[old] is WORKER)
    assert fleet.connection("c1").position == Position(7)


@pytest.mark.parametrize("old", [CONNECTION, WORKER])
def test_what_a_dead_worker_of_one_mode_held_the_other_takes_over(old: LeaseMode) -> None:
    fleet = Fleet()
    fleet.join("old")
    held = fleet.own("c1", "old", old)
    assert take(fleet, "c1", "new", OTHER[old]) is None
    fleet.clock.advance(LATE_MS)
    if old is WORKER:
        assert take(fleet, "c1", "new", CONNECTION) is None, "it stands on its member, whatever the claimer's mode"
    assert bury(fleet).orphaned == (old is WORKER)
    found = run(sweep(shards=SHARDS, timing=QUICK, enough=9, turn=0), fleet.perform)
    assert [candidate.connection_id for candidate in found.candidates] == ["c1"]
    taken = take(fleet, "c1", "new", OTHER[old])
    assert taken is not None
    assert taken.epoch == held.epoch + 1


def test_a_burial_frees_only_what_stood_on_the_member() -> None:
    """Its id may have been in both modes by hand only; the conditions do not rest on that."""
    fleet = Fleet()
    fleet.join("dead")
    held = fleet.own("c1", "dead", CONNECTION)
    fleet.own("c2", "dead", WORKER)
    fleet.clock.advance(LATE_MS)
    fleet.perform(lease.renew(held, sent=fleet.clock(), timing=TIMING))
    assert bury(fleet).orphaned == 1
    assert [fleet.connection(name).lease_owner for name in ("c1", "c2")] == ["dead", None]
    assert take(fleet, "c1", "new", WORKER) is None


@pytest.mark.parametrize("mode", [CONNECTION, WORKER])
def test_the_minutes_audit_gives_up_a_late_claim_of_either_mode(mode: LeaseMode) -> None:
    fleet = Fleet()
    fleet.own("c1", "w1", mode)
    listed = run(audit.listed("w1"), fleet.perform)
    assert [item["connection_id"] for item in listed] == ["c1"]
    assert run(audit.release_unknown("w1", "c1"), fleet.perform) is True
    assert fleet.connection("c1").lease_owner is None
    assert expiry(fleet, "c1") == 0


@pytest.mark.parametrize("mode", [CONNECTION, WORKER])
def test_the_walk_of_owners_leaves_the_living_of_either_mode_alone(mode: LeaseMode) -> None:
    fleet = Fleet()
    fleet.join("alive")
    fleet.own("c1", "alive", mode)
    report = once(fleet)
    assert (report.walked_owners, report.orphaned, fleet.connection("c1").lease_owner) == (True, 0, "alive")


WORKERS = {"c-1": CONNECTION, "c-2": CONNECTION, "w-1": WORKER, "w-2": WORKER}
STEPS = st.lists(
    st.tuples(st.sampled_from(["claim", "release", "die", "bury", "wait", "beat"]), st.sampled_from(sorted(WORKERS))),
    max_size=40,
)


@given(STEPS)
def test_whatever_a_mixed_fleet_goes_through_its_survivor_gets_everything(steps: list[tuple[str, str]]) -> None:
    fleet = Fleet()
    ids = [f"c{number}" for number in range(4)]
    for name in ids:
        fleet.add(name)
    alive = set(WORKERS)
    held: dict[str, list[Lease]] = {name: [] for name in WORKERS}
    for name in WORKERS:
        fleet.join(name)
    for what, who in steps:
        if what == "wait":
            fleet.clock.advance(7_000)
        elif what == "bury":
            bury(fleet)
        elif who in alive and fleet.member(who)["state"] == "LIVE":
            match what:
                case "claim":
                    taken = [take(fleet, name, who, WORKERS[who]) for name in ids]
                    held[who] += [each for each in taken if each is not None]
                case "release":
                    for each in held[who]:
                        fleet.perform(lease.release(each, checkpoint=Checkpoint(9), now_ms=fleet.clock.wall_ms))
                    held[who].clear()
                case "die":
                    alive.discard(who)
                case "beat" if fleet.clock.wall_ms + TIMING.lease_ms > _expiry(fleet, who):
                    fleet.beat(who)
    fleet.clock.advance(LATE_MS)
    fleet.join("survivor")
    for _ in range(3):
        bury(fleet)
        fleet.clock.advance(lease.LONGEST_POSTPONEMENT_MS)
        fleet.beat("survivor")
        for name in ids:
            take(fleet, name, "survivor", WORKER)
    assert [fleet.connection(name).lease_owner for name in ids] == ["survivor"] * 4
    assert all(expiry(fleet, name) is None for name in ids)
    states = {str(item["worker_id"]): item["state"] for item in fleet.store.items(Table.MEMBERS)}
    assert {state for name, state in states.items() if name != "survivor"} <= {"DEAD", "GONE"}
    assert membership.GONE_AFTER_MS <= lease.LONGEST_POSTPONEMENT_MS, "so that some were forgotten on the way"


def _expiry(fleet: Fleet, worker_id: str) -> int:
    found = fleet.member(worker_id)["lease_expires_at_ms"]
    assert isinstance(found, int)
    return found
