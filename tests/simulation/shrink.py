"""Make a failing scenario small: leave out planned entries, as long as the same rule is broken."""

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.run import Result, run
from tests.simulation.scenario import Planned, Scenario

type Fails = Callable[[tuple[Planned, ...]], bool]


def shrunk(scenario: Scenario, failed: Result, *, most_runs: int = 150) -> Scenario:
    """The scenario with as few planned entries as still break the rule that `failed` broke first."""
    rule = failed.violations[0].rule

    def fails(plan: tuple[Planned, ...]) -> bool:
        again = run(replace(scenario, plan=plan))
        return any(violation.rule == rule for violation in again.violations)

    return replace(scenario, plan=fewest(scenario.plan, fails, most_runs=most_runs))


def fewest(plan: tuple[Planned, ...], fails: Fails, *, most_runs: int) -> tuple[Planned, ...]:
    """Drop halves, then quarters, down to single entries, keeping what is needed for `fails` to stay true."""
    size, runs = max(1, len(plan) // 2), 0
    while runs < most_runs:
        kept, at = plan, 0
        while at < len(kept) and runs < most_runs:
            fewer = kept[:at] + kept[at + size :]
            runs += 1
            if fails(fewer):
                kept = fewer
            else:
                at += size
        if size == 1 and len(kept) == len(plan):
            return kept
        plan, size = kept, max(1, size // 2)
    return plan
