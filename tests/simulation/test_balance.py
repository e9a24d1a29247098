"""Who has how many, and how often a connection moves: the real steps in small fleets without any fault but the one."""

from collections import Counter

import pytest

from streamlease.flow import Request
from streamlease.model import LeaseMode
from tests.simulation.kernel import S
from tests.simulation.network import RequestFault, Twist, label
from tests.simulation.scenario import Crash, Deploy, Planned, Scale
from tests.simulation.staged import BEGINS_US, Stage, play, scenario
from tests.simulation.worker import Worker

MODES = pytest.mark.parametrize("mode", list(LeaseMode), ids=lambda mode: mode.value)
CONNECTIONS = 24
WORKERS = 3


def staged(mode: LeaseMode, *plan: Planned, workers: int = 3, lasts_us: int = 60 * S, seed: int = 1) -> Stage:
    stage = play(scenario(mode, *plan, workers=workers, connections=CONNECTIONS, lasts_us=lasts_us, seed=seed))
    assert stage.violations == []
    return stage


def held(stage: Stage) -> list[int]:
    return sorted(shell.holds() for shell in stage.simulation.fleet.living())


def moves(stage: Stage, *, after_us: int = 0) -> Counter[object]:
    """How often each connection was claimed."""
    return Counter(each.key[0] for each in stage.writes("claim", after_us=after_us))


@MODES
def test_three_that_start_at_once_end_even(mode: LeaseMode) -> None:
    stage = staged(mode)
    assert held(stage) == [8, 8, 8]
    assert max(moves(stage).values()) <= 2


@MODES
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_l34_three_that_join_at_once_end_even(mode: LeaseMode, seed: int) -> None:
    joins = [Scale(BEGINS_US + n * S // 10, 1) for n in range(3)]
    stage = staged(mode, *joins, seed=seed)
    assert held(stage) == [4, 4, 4, 4, 4, 4]
    moved = moves(stage, after_us=BEGINS_US)
    assert max(moved.values()) <= 2, "for the first, some shares were larger"
    assert 12 <= moved.total() <= 15, "little more than the newcomers are to have"


@MODES
def test_l33_one_that_joins_is_filled_within_three_sweeps_and_then_it_rests(mode: LeaseMode) -> None:
    stage = staged(mode, Scale(BEGINS_US, 1), workers=2, lasts_us=180 * S)
    assert held(stage) == [8, 8, 8]
    claims = stage.writes("claim", after_us=BEGINS_US)
    assert len(claims) == 8
    sweeps = [each.at_us for each in stage.writes("summary", after_us=BEGINS_US)]
    filled = [at_us for at_us in sweeps if at_us <= claims[-1].at_us]
    joined_us = stage.writes("join", after_us=BEGINS_US)[0].at_us
    assert sum(at_us > joined_us for at_us in filled) <= 3


@MODES
def test_l4_what_a_dead_worker_leaves_goes_to_those_that_were_at_their_share(mode: LeaseMode) -> None:
    stage = staged(mode, Crash(BEGINS_US, "w0"), workers=4)
    assert max(held(stage)) - min(held(stage)) <= 1, "the one that replaced it is filled"
    assert sum(held(stage)) == CONNECTIONS


@MODES
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_l28_a_rolling_deployment_moves_each_connection_once(mode: LeaseMode, seed: int) -> None:
    stage = staged(mode, Deploy(BEGINS_US, mode, 6 * S), seed=seed, lasts_us=30 * S)
    moved = moves(stage, after_us=BEGINS_US)
    assert set(moved.values()) == {1}
    assert len(moved) == CONNECTIONS
    assert max(held(stage)) - min(held(stage)) <= 1


@pytest.mark.parametrize("mode", list(LeaseMode), ids=lambda mode: f"from {mode.value}")
def test_l28_a_deployment_from_one_mode_to_the_other_moves_each_connection_once(mode: LeaseMode) -> None:
    (other,) = set(LeaseMode) - {mode}
    stage = staged(mode, Deploy(BEGINS_US, other, 6 * S))
    assert set(moves(stage, after_us=BEGINS_US).values()) == {1}


@MODES
def test_a_scale_in_moves_what_the_one_had_and_nothing_else(mode: LeaseMode) -> None:
    stage = staged(mode, Scale(BEGINS_US, -1))
    assert held(stage) == [12, 12]
    moved = moves(stage, after_us=BEGINS_US)
    assert (len(moved), set(moved.values())) == (8, {1})


@MODES
def test_l29_a_drained_worker_is_given_nothing(mode: LeaseMode) -> None:
    stage = staged(mode, Scale(BEGINS_US, -1))
    (left,) = stage.writes("bury")
    drainer = str(left.key[0])
    claims = stage.writes("claim", after_us=BEGINS_US + S // 2)
    assert claims
    assert all(each.after is not None and each.after["lease_owner"] != drainer for each in claims)


@MODES
def test_a_new_generation_that_crashes_on_its_start_leaves_a_whole_fleet(mode: LeaseMode) -> None:
    """Each first process of it dies as the old one drains to it; the next one stays."""
    crashes = [Crash(BEGINS_US + n * 6 * S + 3 * S // 2, f"w{n}") for n in range(3)]
    stage = staged(mode, Deploy(BEGINS_US, mode, 6 * S), *crashes, lasts_us=120 * S)
    assert sum(held(stage)) == CONNECTIONS
    assert len(stage.writes("join", after_us=BEGINS_US)) >= 6
    assert max(moves(stage, after_us=BEGINS_US).values()) <= 3


@MODES
def test_one_whose_claims_are_never_answered_goes_though_it_asks_for_nothing_most_of_the_time(mode: LeaseMode) -> None:
    """It has no share while it is unwell, and claims nothing then; each time it has one, others give up for it."""
    broken = f"w1#{WORKERS}"

    def meanwhile(stage: Stage) -> None:
        network = stage.simulation.world.network
        usual = network.take

        def take(who: str, request: Request) -> RequestFault | None:
            shell = stage.simulation.fleet.running(who)
            if label(request) == "claim" and isinstance(shell, Worker) and shell.process.name == broken:
                return RequestFault(Twist.THROTTLED, "claim", who, 0, 0)
            return usual(who, request)

        network.take = take  # type: ignore[method-assign]

    plan = scenario(mode, Crash(BEGINS_US, "w1"), workers=WORKERS, connections=CONNECTIONS, lasts_us=480 * S)
    stage = play(plan, meanwhile)
    assert stage.violations == []
    assert len(stage.writes("join")) == WORKERS + 2, "it was started anew once more"
    assert held(stage) == [8, 8, 8]
