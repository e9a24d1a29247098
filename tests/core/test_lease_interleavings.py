"""Any interleaving of claims, renewals, releases, heartbeats, burials and changes: never two that deliver, never an
epoch twice, never a stale write that changes anything (design §7, 1 and 2; the last is checked at each write)."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlease.model import LeaseMode
from tests.core.lease_world import World


@pytest.mark.parametrize(
    "modes",
    [(LeaseMode.CONNECTION,), (LeaseMode.WORKER,), tuple(LeaseMode)],
    ids=["connection mode", "worker mode", "a fleet in transition"],
)
@settings(max_examples=120)
@given(seed=st.integers(0, 1 << 32))
def test_never_two_deliver_and_an_epoch_names_one_owner(modes: Sequence[LeaseMode], seed: int) -> None:
    world = World(Random(seed), modes)
    for _ in range(300):
        world.step()


def test_the_walks_do_what_they_are_for() -> None:
    """Leases move, expire under their owners and are orphaned; connections are deleted and made again."""
    worlds = [World(Random(seed), tuple(LeaseMode)) for seed in range(30)]
    delivering = 0
    for world in worlds:
        for _ in range(300):
            world.step()
            delivering += any(w.may_deliver(world.true_ms / 1000) for w in world.workers.values())
    owners = [who.split()[0] for world in worlds for who in world.epochs.values()]
    states = [cell.item["state"] for world in worlds for cell in world.members.values() if cell.item]
    assert len(owners) > 5 * len(worlds)
    assert delivering > 20 * len(worlds)
    assert states.count("DEAD") > len(worlds)
    assert sum(world.recreated for world in worlds) > 3
