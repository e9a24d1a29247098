"""A budget that the whole fleet's dials share: what a cold start, a failover and a killer of workers make of it."""

from dataclasses import replace

import pytest

from streamlease.budget import Limit
from streamlease.model import LeaseMode
from tests.simulation.kernel import S
from tests.simulation.network import Service, Twist
from tests.simulation.scenario import BUSIEST, Befall, Crash, Partition, Planned, Scenario
from tests.simulation.staged import BEGINS_US, play, scenario

both = pytest.mark.parametrize("mode", list(LeaseMode))


def _budgeted(staged: Scenario, limit: Limit, *, poison: str = "") -> Scenario:
    natures = {name: replace(each, poison=name == poison) for name, each in staged.connections.items()}
    return replace(staged, dials=limit, connections=natures)


@both
def test_a_failover_stays_within_the_budget_and_ends_with_everything_streaming(mode: LeaseMode) -> None:
    """The checker looks at each dial; the ledger's writes are lost, land late and twice meanwhile."""
    twists = (Twist.LOST, Twist.ANSWER_LOST, Twist.LANDS_LATE, Twist.TWICE, Twist.CONFLICT)
    doubtful: tuple[Planned, ...] = tuple(Befall(BEGINS_US, twist, "dials", "*", 20 * S) for twist in twists * 3)
    plan = (
        *doubtful,
        Crash(BEGINS_US, BUSIEST),
        Partition(BEGINS_US + 30 * S, BUSIEST, Service.UPSTREAM, 5 * S, False),
    )
    stage = play(_budgeted(scenario(mode, *plan, connections=16, lasts_us=90 * S), Limit(5, 10_000)))
    assert stage.violations == []
    assert stage.simulation.dials.dials >= 16 + 16 // 3


@both
def test_m17_a_connection_that_kills_who_dials_it_after_a_wait_is_put_off_all_the_same(mode: LeaseMode) -> None:
    """While it waits for its turn, its owner says so in the item. That is a word, and no checkpoint."""
    stage = play(_budgeted(scenario(mode, connections=8, lasts_us=150 * S), Limit(3, 10_000), poison="c7"))
    assert stage.violations == []
    assert stage.simulation.ledger.counts["killed by c7"] > 1
    words = [
        each for each in stage.landed if each.key[0] == "c7" and "waiting" in str((each.after or {}).get("status"))
    ]
    assert words
    assert all(each.after is not None and each.after["checkpoint_no"] == 0 for each in words)
