"""One worker's clock is wrong: by an hour, for a while, and with a time daemon that does not say so."""

import pytest

from streamlease.model import LeaseMode
from tests.simulation.kernel import S
from tests.simulation.scenario import BUSIEST, Crash, Scale, StepClock
from tests.simulation.sink import Attempt
from tests.simulation.staged import BEGINS_US, Stage, play, scenario

both = pytest.mark.parametrize("mode", list(LeaseMode))
watched = pytest.mark.parametrize("clock", ["dates", "metadata"])
HOUR_MS = 3_600_000.0
either_way = pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
WITHIN_MS = (450.0, -450.0, 0.0)
"""Where clocks are measured to the millisecond: at the very edge of the allowance a worker would claim nothing."""


def _deliveries(stage: Stage) -> list[Attempt]:
    """Every attempt that begins, from now on, in true order."""
    seen: list[Attempt] = []
    checked = stage.simulation.sink.on_begin
    assert checked is not None

    def begin(attempt: Attempt) -> None:
        seen.append(attempt)
        checked(attempt)

    stage.simulation.sink.on_begin = begin
    return seen


def _overlaps(deliveries: list[Attempt]) -> list[Attempt]:
    """Attempts of a connection by one worker after another has begun to deliver it in a later epoch."""
    latest: dict[str, Attempt] = {}
    found = []
    for each in deliveries:
        known = latest.get(each.connection_id)
        if known is not None and each.epoch < known.epoch:
            found.append(each)
        else:
            latest[each.connection_id] = each
    return found


def _alone(stage: Stage) -> None:
    """From the beginning of the faults on, no time daemon reaches its reference."""

    def strike() -> None:
        for shell in stage.simulation.fleet.living():
            shell.process.clock.alone_since_us = stage.simulation.kernel.now_us

    stage.simulation.kernel.at(BEGINS_US, strike)


@both
@watched
@either_way
def test_l17_one_step_of_an_hour_of_one_clock_makes_no_overlap(mode: LeaseMode, by_ms: float, clock: str) -> None:
    """The clock stays wrong for two minutes; another worker joins, and one dies, meanwhile."""
    deliveries: list[Attempt] = []

    def watch(stage: Stage) -> None:
        nonlocal deliveries
        deliveries = _deliveries(stage)

    step = StepClock(BEGINS_US, BUSIEST, None, by_ms, 120 * S)
    plan = (step, Scale(BEGINS_US + 20 * S, 1), Crash(BEGINS_US + 40 * S, BUSIEST))
    begun = scenario(mode, *plan, connections=9, lasts_us=130 * S, clock=clock, offsets_ms=WITHIN_MS)
    stage = play(begun, watch)
    assert stage.violations == []
    assert "clock step" in stage.simulation.ledger.faults.values()
    assert _overlaps(deliveries) == []
    at_work = {each.worker for each in deliveries if BEGINS_US < each.began_us < BEGINS_US + 130 * S}
    assert len(at_work) >= 3, "the others went on meanwhile"


@both
@either_way
def test_l17_a_step_that_an_unsynchronised_daemon_does_not_tell_of_is_seen_all_the_same(
    mode: LeaseMode, by_ms: float
) -> None:
    """It goes on to say that it is right within milliseconds. The monotonic clock shows the step."""
    deliveries: list[Attempt] = []

    def watch(stage: Stage) -> None:
        nonlocal deliveries
        deliveries = _deliveries(stage)
        _alone(stage)

    plan = (StepClock(BEGINS_US + 5 * S, BUSIEST, None, by_ms, 60 * S), Crash(BEGINS_US + 15 * S, BUSIEST))
    stage = play(scenario(mode, *plan, lasts_us=90 * S, clock="metadata", offsets_ms=WITHIN_MS), watch)
    assert stage.violations == []
    assert _overlaps(deliveries) == []
    claims = [each for each in stage.writes("claim", after_us=BEGINS_US) if each.at_us < BEGINS_US + 60 * S]
    stepped = {shell.process.name for shell in stage.simulation.fleet.everybody if shell.process.clock.steps}
    assert len(stepped) == 1
    assert all(each.origin not in stepped for each in claims), "whose clock is an hour off takes nothing"


@both
def test_a_clock_that_is_no_longer_synchronised_stops_nobody(mode: LeaseMode) -> None:
    """What it measured last counts for ten minutes, and then the services' dates do."""
    crash = Crash(BEGINS_US + 650 * S, BUSIEST)
    stage = play(scenario(mode, crash, lasts_us=670 * S, clock="metadata", offsets_ms=(300.0, -300.0, 0.0)), _alone)
    assert stage.violations == []
    claims = stage.writes("claim", after_us=BEGINS_US)
    assert claims, "what the dead worker left is taken"
    assert min(each.at_us for each in claims) > crash.at_us
