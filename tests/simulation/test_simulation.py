"""A few seeds, the same in every run, and what must hold of the simulator itself. `make simulate` draws fresh ones."""

import time
from dataclasses import replace

import pytest

from tests.simulation.kernel import S
from tests.simulation.modes import MODES, mode_of, scenario_of
from tests.simulation.mutations import MUTATIONS
from tests.simulation.patching import patched
from tests.simulation.run import run
from tests.simulation.scenario import Crash, Planned
from tests.simulation.shrink import fewest, shrunk
from tests.simulation.story import told

MOST_SEEDS = 40
MOST_S = 12.0
"""`make simulate` runs as many as one likes; these are so few that the suite stays quick."""


BASE = 1_000


def test_seeds_break_no_invariant() -> None:
    began = time.monotonic()
    for seed in range(BASE, BASE + MOST_SEEDS):
        mode = mode_of(seed, None)
        result = run(scenario_of(seed, mode))
        assert not result.violations, (
            f"seed {seed} : {result.violations[0]}; make simulate SEEDS=1 BASE={seed} MODE={mode}"
        )
        if time.monotonic() - began > MOST_S:
            break


@pytest.mark.parametrize("mode", MODES)
def test_one_seed_is_one_run(mode: str) -> None:
    scenario = scenario_of(7, mode)  # type: ignore[arg-type]  # one of MODES
    first, again = run(scenario, tells=True), run(scenario, tells=True)
    assert first.story == again.story
    assert first.events == again.events
    assert first.faults_by_kind == again.faults_by_kind


def test_most_of_what_is_planned_hits_a_request_or_the_holder_of_a_lease() -> None:
    results = [run(scenario_of(seed, mode_of(seed, None))) for seed in range(6)]
    assert all(result.faults >= 20 for result in results)
    assert sum(result.counts["ambiguous_writes"] for result in results) > 0
    assert sum(result.counts["pauses"] for result in results) > 0


def test_a_rule_that_is_broken_is_noticed_and_its_story_is_short() -> None:
    mutation = next(each for each in MUTATIONS if each.name == "M16a")
    with patched(mutation.patches):
        scenario = scenario_of(0, "connection")
        failed = run(scenario)
        small = shrunk(scenario, failed, most_runs=60)
        again = run(small, tells=True)
    assert again.violations[0].rule == failed.violations[0].rule
    assert len(small.plan) < len(scenario.plan) / 4
    assert "claim" in told(again.story, again.violations[0].connection_id)


def test_a_scenario_without_faults_has_none() -> None:
    scenario = scenario_of(3, "worker")
    result = run(replace(scenario, plan=()))
    assert result.violations == ()
    assert result.faults == 0


def test_shrinking_keeps_just_what_is_needed() -> None:
    plan: tuple[Planned, ...] = tuple(Crash(n * S, "w0") for n in range(40))
    needed = {7 * S, 23 * S}
    kept = fewest(plan, lambda some: needed <= {each.at_us for each in some}, most_runs=200)
    assert {each.at_us for each in kept} == needed
