"""What a fleet does that is short of something: of answers, of write capacity, of nothing at all."""

import pytest

from streamlease.model import LeaseMode
from streamlease.write import Table
from tests.simulation.kernel import MS, S
from tests.simulation.network import Twist, label
from tests.simulation.scenario import Act, Befall, Planned, SinkFault, Throttle
from tests.simulation.staged import BEGINS_US, CONNECTION, WORKER, Stage, play, scenario

both = pytest.mark.parametrize("mode", list(LeaseMode))
LEASE_US = {LeaseMode.CONNECTION: CONNECTION.lease_ms * MS, LeaseMode.WORKER: WORKER.lease_ms * MS}


def _longest_wait_us(stage: Stage, kind: str, after_us: int, until_us: int) -> int:
    """The longest time between two writes of this kind to the same item."""
    longest, last = 0, dict[tuple[str, ...], int]()
    for each in stage.writes(kind, after_us=after_us):
        if each.at_us > until_us:
            break
        longest = max(longest, each.at_us - last.get(each.key, each.at_us))
        last[each.key] = each.at_us
    assert len(last) > 1
    return longest


@both
def test_l13_no_renewal_waits_behind_claims_releases_checkpoints_or_the_sink(mode: LeaseMode) -> None:
    """Forty are stopped and started again at once; every other request takes as long as it may, and the sink too."""
    kinds = ("claim", "release", "page", "checkpoint", "list", "read", "offer", "control")
    slow: list[Planned] = [Befall(BEGINS_US, Twist.SLOW, kind, "*", 600 * MS) for kind in kinds for _ in range(150)]
    acts = [Act(BEGINS_US + S, f"c{n}", "stop") for n in range(40)]
    acts += [Act(BEGINS_US + 9 * S, f"c{n}", "start") for n in range(40)]
    stage = play(scenario(mode, *slow, *acts, SinkFault(BEGINS_US, 30 * S, 0.0, 0.0, S), workers=2, connections=80))
    assert stage.violations == []
    kind, timing = ("renew", CONNECTION) if mode is LeaseMode.CONNECTION else ("heartbeat", WORKER)
    # What is stopped, or moves, is renewed by somebody else, later; what stays is the measure.
    moved = {each.key for each in stage.writes("claim", after_us=BEGINS_US)}
    assert len(moved) < 75
    stage.landed = [each for each in stage.landed if each.key not in moved]
    longest_us = _longest_wait_us(stage, kind, BEGINS_US, BEGINS_US + 30 * S)
    assert longest_us <= (timing.heartbeat_ms + 250) * MS, f"{longest_us / S} s"


@both
def test_l14_half_a_lease_of_throttled_writes_costs_nobody_a_connection(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Throttle(BEGINS_US, "*", LEASE_US[mode] // 2)))
    assert stage.violations == []
    assert stage.writes("claim", after_us=BEGINS_US) == []


@both
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 6])
def test_l14_after_two_leases_of_throttled_writes_not_everybody_comes_back_at_once(mode: LeaseMode, seed: int) -> None:
    stage = play(scenario(mode, Throttle(BEGINS_US, "*", 2 * LEASE_US[mode]), connections=24, seed=seed))
    assert stage.violations == []
    claims = stage.writes("claim", after_us=BEGINS_US)
    assert {each.key[0] for each in claims} == {f"c{n}" for n in range(24)}
    first_us: dict[object, int] = {}
    for each in claims:
        first_us.setdefault(each.after and each.after["lease_owner"], each.at_us)
    came_back = sorted(first_us.values())
    assert len(came_back) == 3
    assert came_back[-1] - came_back[0] > S // 4, "each comes back when a heartbeat of its own has been answered"


@both
def test_l39_an_idle_fleet_refuses_no_write_and_writes_for_leases_what_its_mode_costs(mode: LeaseMode) -> None:
    seconds, workers, connections = 60, 3, 12
    stage = play(scenario(mode, workers=workers, connections=connections, lasts_us=seconds * S))
    assert stage.violations == []
    begins, ends = BEGINS_US, BEGINS_US + seconds * S
    quiet = [each for each in stage.landed if begins < each.at_us <= ends]
    refused = [each for each in stage.refused if begins < each.at_us <= ends]
    assert [each for each in refused if label(each.write) != "summary"] == [], "the summary's is the newest sweep's"
    beats = [each for each in quiet if label(each.write) == "heartbeat"]
    timing = CONNECTION if mode is LeaseMode.CONNECTION else WORKER
    assert workers * seconds * 1_000 / timing.heartbeat_ms * 0.9 <= len(beats)
    assert len(beats) <= workers * seconds * 1_000 / timing.heartbeat_ms * 1.35
    on_connections = [each for each in quiet if each.write.table is Table.CONNECTIONS]
    if mode is LeaseMode.WORKER:
        assert on_connections == [], "positions travel in pages"
    else:
        assert {label(each.write) for each in on_connections} == {"renew"}
        assert len(on_connections) <= connections * seconds * 1_000 / timing.heartbeat_ms * 1.35
