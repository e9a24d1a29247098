"""The number of shards is raised while the fleet runs: at every moment, whatever is nobody's is found by every sweep,
whether its caller knows the new number yet or not."""

import pytest

from streamlease import items, lease, plan
from streamlease.flow import run
from streamlease.flows import control
from streamlease.flows.claim import Claimer, claim
from streamlease.flows.control import Operator
from streamlease.flows.reconcile import reconcile
from streamlease.flows.sweep import sweep
from streamlease.lease import Change, Claimed
from streamlease.model import DesiredState, LeaseMode
from streamlease.write import Table
from tests.core.flows.stores import LATE_MS, TIMING, Fleet

BEFORE, AFTER = 2, 8
COUNT = 60
WORKERS = ("worker-1", "worker-2")


def operator(shards: int) -> Operator:
    return Operator(updated_by="me", shards=shards, timing=TIMING)


def create(fleet: Fleet, connection_id: str, shards: int) -> None:
    run(control.prepare(operator(shards)), fleet.perform)
    run(
        control.create(
            connection_id,
            upstream_url="wss://up.example",
            spec={},
            labels={},
            desired_state=DesiredState.STARTED,
            operator=operator(shards),
        ),
        fleet.perform,
    )


def change(fleet: Fleet, connection_id: str, shards: int, state: DesiredState | None = None) -> None:
    run(control.prepare(operator(shards)), fleet.perform)
    wanted = Change(desired_state=state, labels={"edited": "yes"})
    run(control.change(connection_id, wanted, operator=operator(shards)), fleet.perform)


def take(fleet: Fleet, connection_id: str, worker_id: str, mode: LeaseMode) -> Claimed:
    flow = claim(connection_id, nonce=f"{worker_id} {fleet.clock.wall_ms}", claimer=Claimer(worker_id, TIMING, mode))
    claimed = run(flow, fleet.perform)
    assert isinstance(claimed, Claimed)
    fleet.perform(lease.checkpoint(claimed.lease, lease.Checkpoint(1)))
    return claimed


def nobodys(fleet: Fleet) -> set[str]:
    """By the items themselves."""
    return {
        str(item["connection_id"])
        for item in fleet.store.items(Table.CONNECTIONS)
        if item["desired_state"] == "STARTED"
        and isinstance(expires_at_ms := item.get("lease_expires_at_ms"), int)
        and expires_at_ms < TIMING.expired_before_ms(fleet.clock.wall_ms)
    }


def all_sweeps_agree(fleet: Fleet) -> None:
    wanted = nobodys(fleet)
    for configured in (1, BEFORE, AFTER):
        seen = run(sweep(shards=configured, timing=TIMING, enough=1_000, turn=0), fleet.perform)
        assert {candidate.connection_id for candidate in seen.candidates} == wanted
        fleet.clock.advance(1)
        fleet.offered()
        report = run(reconcile(shards=configured, timing=TIMING, budget_s=50.0), fleet.perform)
        assert set(fleet.offered()) == wanted
        assert report.complete is True
        fleet.clock.advance(1)


def stand_under_one_key_each(fleet: Fleet) -> None:
    for item in fleet.store.items(Table.CONNECTIONS):
        found = items.connection(item)
        if found.desired_state is DesiredState.STARTED:
            keys = {plan.shard(found.connection_id, shards) for shards in (BEFORE, AFTER)}
            assert item["desired_state_shard"] in keys
        else:
            assert "desired_state_shard" not in item


# --- what happens meanwhile ------------------------------------------------------------------------------------------


def create_one_more(fleet: Fleet, *_: object) -> None:
    """By a command that knows the new number, before anybody else does."""
    create(fleet, "first of the new number", AFTER)


def change_some(fleet: Fleet, names: list[str], *_: object) -> None:
    """Owned ones and free ones; the last by a command that is behind."""
    for name in names[10:30]:
        change(fleet, name, AFTER)
    for name in names[25:35]:
        change(fleet, name, BEFORE)


def start_and_stop_some(fleet: Fleet, names: list[str], *_: object) -> None:
    for name in names[30:40]:
        change(fleet, name, AFTER, DesiredState.STOPPED)
    for name in names[30:35]:
        change(fleet, name, AFTER, DesiredState.STARTED)


def take_some(fleet: Fleet, names: list[str], _: list[Claimed], mode: LeaseMode) -> None:
    """Under their old keys."""
    for name in names[40:50]:
        take(fleet, name, "worker-2", mode)


def release_some(fleet: Fleet, _: list[str], owned: list[Claimed], *__: object) -> None:
    for each in owned[5:15]:
        fleet.perform(lease.release(each.lease, checkpoint=lease.Checkpoint(2), now_ms=fleet.clock.wall_ms))


def let_leases_run_out(fleet: Fleet, *_: object) -> None:
    """Those of connections: the workers themselves live on."""
    fleet.clock.advance(LATE_MS)
    for worker_id in WORKERS:
        fleet.beat(worker_id)


@pytest.mark.parametrize("mode", LeaseMode)
def test_a_changed_number_of_shards_leaves_nothing_unfound_at_any_moment(mode: LeaseMode) -> None:
    fleet = Fleet()
    for worker_id in WORKERS:
        fleet.join(worker_id)
    names = [f"c{number}" for number in range(COUNT)]
    for name in names:
        create(fleet, name, BEFORE)
    owned = [take(fleet, name, "worker-1", mode) for name in names[:20]]
    for act in (create_one_more, change_some, start_and_stop_some, take_some, release_some, let_leases_run_out):
        act(fleet, names, owned, mode)
        stand_under_one_key_each(fleet)
        all_sweeps_agree(fleet)
    moved = [name for name in names if fleet.item(name) and _is_under(fleet, name, AFTER)]
    assert set(names[10:25]) <= set(moved), "a change takes a connection to its new key"


def _is_under(fleet: Fleet, name: str, shards: int) -> bool:
    return (fleet.item(name) or {}).get("desired_state_shard") == plan.shard(name, shards)
