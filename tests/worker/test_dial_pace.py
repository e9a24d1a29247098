"""A fleet's dials as an upstream with a budget sees them: no wave, and no rest that the budget does not ask for."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlease.budget import SLOWEST_STEP_MS, Limit, host_budget
from tests.worker.dialling import Fleet, most_in_a_window

S = 1_000
JITTER_MS = 1_000
"""Full jitter of a first redial."""


def _fleet(limit: Limit | None, workers: int, *, seed: int = 0) -> Fleet:
    """Secrets are there at once, and so are answers: nothing but the gate spreads the dials."""
    fleet = Fleet(() if limit is None else (host_budget("upstream.example", "eu", limit),), seed=seed)
    fleet.secrets_ms, fleet.dial_ms = lambda: 0, lambda: 1
    for _ in range(workers):
        fleet.worker(ahead_ms=0)
    for worker in fleet.workers:
        worker.gate.fleet(workers)
    return fleet


def _want(fleet: Fleet, at_ms: int, connections: int, *, within_ms: int) -> None:
    for number in range(connections):
        worker = fleet.workers[number % len(fleet.workers)]
        fleet.at(at_ms + fleet.draws.randrange(within_ms), lambda w=worker: fleet.want(w))  # type: ignore[misc]


def _until_dialled(fleet: Fleet, dials: int, at_most_ms: int) -> None:
    while len(fleet.dialled) < dials and fleet.now_ms < at_most_ms:
        fleet.run(fleet.now_ms + 100)


def _times_ms(fleet: Fleet) -> list[int]:
    return [at_ms for at_ms, _, _ in fleet.dialled]


def _most_in_a_bin(times_ms: list[int], bin_ms: int) -> int:
    return max(Counter(at_ms // bin_ms for at_ms in times_ms).values())


@pytest.mark.parametrize("workers", [1, 3, 20])
def test_1000_dropped_at_once_come_back_at_the_pace_of_their_budget_and_not_as_a_wave(workers: int) -> None:
    limit = Limit(dials=1_000, per_ms=10 * S)
    fleet = _fleet(limit, workers)
    _want(fleet, 0, 1_000, within_ms=100)
    _until_dialled(fleet, 1_000, 20 * S)
    dropped_ms = fleet.now_ms + 2 * S
    _want(fleet, dropped_ms, 1_000, within_ms=JITTER_MS)
    _until_dialled(fleet, 2_000, dropped_ms + 40 * S)
    times_ms = _times_ms(fleet)
    back_ms = [at_ms - dropped_ms for at_ms in times_ms[1_000:]]
    assert len(back_ms) == 1_000
    assert most_in_a_window(times_ms, limit.per_ms) <= limit.dials
    assert _most_in_a_bin(back_ms, 100) <= 30
    assert max(back_ms) <= 17 * S, "a window, and what the first opening has of the one before"
    if workers == 1:
        assert max(Counter(at_ms // S for at_ms in times_ms).values()) <= 150, "nor was the first opening one"
        assert min(back_ms) < 500, "what it left is there at once"
        assert max(later - at_ms for at_ms, later in pairwise(back_ms)) <= S


def test_a_failover_that_a_budget_has_room_for_takes_hardly_longer_than_without_one() -> None:
    fleet = _fleet(Limit(dials=300, per_ms=300 * S), 3)
    _want(fleet, 0, 70, within_ms=100)
    fleet.run(60 * S)
    assert max(_times_ms(fleet)) < 2 * S
    assert fleet.writes < 30


def test_without_a_budget_no_connection_of_a_failover_waits_for_more_than_its_handshake() -> None:
    fleet = _fleet(None, 2)
    fleet.dial_ms = lambda: 20
    _want(fleet, 5 * S, 500, within_ms=1)
    fleet.run(60 * S)
    assert len(fleet.dialled) == 500
    assert max(_times_ms(fleet)) - 5 * S <= 8 * 21 + 5, "32 at a time, and nothing but that"
    assert fleet.reads + fleet.writes == 0


@settings(max_examples=40, deadline=None)
@given(
    dials=st.integers(1, 500),
    per_ms=st.sampled_from((2 * S, 5 * S, 10 * S, 60 * S, 300 * S)),
    workers=st.integers(1, 4),
    waves=st.lists(st.tuples(st.integers(0, 60 * S), st.integers(1, 300)), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_whatever_is_wanted_no_window_sees_more_than_the_limit_and_no_moment_more_than_its_part(
    dials: int, per_ms: int, workers: int, waves: list[tuple[int, int]], seed: int
) -> None:
    limit = Limit(dials, per_ms)
    fleet = _fleet(limit, workers, seed=seed)
    wanted = 0
    for at_ms, connections in waves:
        connections = min(connections, 2 * dials)
        wanted += connections
        _want(fleet, at_ms, connections, within_ms=50)
    _until_dialled(fleet, wanted, 60 * S + 12 * (per_ms + 15 * S) * (1 + wanted // dials))
    times_ms = _times_ms(fleet)
    assert len(times_ms) == wanted, "everybody has dialled in the end"
    assert most_in_a_window(times_ms, per_ms) <= dials
    bin_ms = max(1, limit.spread_ms // 100)
    few = 2 * workers + bin_ms // SLOWEST_STEP_MS + 1
    assert _most_in_a_bin(times_ms, bin_ms) <= 0.2 * dials + few, "a hundredth of the time: a fifth of them at most"
