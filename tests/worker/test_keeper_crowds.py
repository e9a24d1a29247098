"""Thousands at once in one keeper: bounded steps, nothing lost, and nobody is offered who is not to be."""

import pytest

from streamlease.lease import Claimed
from streamlease.model import DesiredState, LeaseMode
from streamlease.write import Table
from streamlease_worker.keeper_events import (
    Fence,
    PositionAdvanced,
    Release,
    ReleaseRequested,
    SendOffers,
    Settled,
    StopWanted,
    VersionSeen,
)
from tests.worker.keeping import Bench, at

CROWD = 3_000
PARALLEL = 4


def crowd(mode: LeaseMode) -> tuple[Bench, list[Claimed]]:
    bench = Bench(mode, parallel=PARALLEL)
    held = [bench.hold(f"c{number}") for number in range(CROWD)]
    for claimed in held:
        bench.report(claimed)
    bench.live(2_000)
    return bench, held


@pytest.mark.parametrize("mode", LeaseMode)
def test_three_thousand_stopped_at_once_are_all_released_with_their_newest_position_and_offered_to_nobody(
    mode: LeaseMode,
) -> None:
    bench, held = crowd(mode)
    for number, claimed in enumerate(held):
        name = claimed.connection.connection_id
        bench.do(PositionAdvanced(name, claimed.lease.epoch, 1, at(number)))
        bench.change(name, desired_state=DesiredState.STOPPED)
        if mode is LeaseMode.WORKER:  # by way of the inbox; in connection mode its next renewal tells
            bench.do(VersionSeen(bench.seen(name)))
    bench.live(1_500)
    told = {wanted.connection_id for wanted in bench.all(StopWanted)}
    assert told == {f"c{number}" for number in range(CROWD)}

    for claimed in held:
        bench.do(ReleaseRequested(claimed.connection.connection_id, claimed.lease.epoch))
        assert sum(isinstance(command, Release) for command in bench.asked) <= PARALLEL
    bench.live(1_500)
    assert len(bench.all(Settled)) == CROWD
    assert bench.all(SendOffers) == []
    assert bench.all(Fence) == []
    assert bench.keeper.owned == 0
    for number, item in enumerate(
        sorted(bench.memory.items(Table.CONNECTIONS), key=lambda each: int(str(each["connection_id"])[1:]))
    ):
        assert "lease_owner" not in item
        position = item["position"]
        assert isinstance(position, dict)
        assert position["sequence"] == number
