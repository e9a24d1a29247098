"""`make simulate SEEDS=N [BASE=…] [MODE=…]`: run many seeds on all cores, and tell the story of the first that fails.

Ends with one JSON line on standard output. Exit 0: no violation; 1: some; 2: bad arguments.
"""

import argparse
import json
import multiprocessing
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.modes import MODES, Mode, mode_of, scenario_of
from tests.simulation.run import Result, run
from tests.simulation.shrink import shrunk
from tests.simulation.story import told

LEAST_FAULTS = 20
"""A seed with fewer faults that hit something is counted apart."""
PROGRESS_S = 5.0


def say(text: str) -> None:
    """Progress and reasons; standard output is for the answer."""
    sys.stderr.write(text + "\n")


@dataclass(slots=True)
class Summary:
    """What many runs came to."""

    seeds: int = 0
    enough: int = 0
    faults: int = 0
    events: int = 0
    simulated_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    faults_by_kind: Counter[str] = field(default_factory=Counter)
    failed: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.enough += result.faults >= LEAST_FAULTS
        self.faults += result.faults
        self.events += result.events
        self.simulated_s += result.simulated_s
        self.counts.update({k: n for k, n in result.counts.items() if " " not in k})
        self.faults_by_kind.update(result.faults_by_kind)
        if result.violations:
            self.failed.append(result)

    def line(self, base: int, real_s: float) -> dict[str, object]:
        per_seed = max(1, self.seeds)
        return {
            "seeds": self.seeds,
            "faults": self.faults,
            "violations": len(self.failed),
            "simulated_seconds": round(self.simulated_s),
            "events": self.events,
            "base": base,
            "seeds_with_20_faults": self.enough,
            "faults_per_seed": round(self.faults / per_seed, 1),
            "ambiguous_writes_per_seed": round(self.counts["ambiguous_writes"] / per_seed, 2),
            "ownership_changes_per_seed": round(self.counts["ownership_changes"] / per_seed, 1),
            "pauses_per_seed": round(self.counts["pauses"] / per_seed, 2),
            "real_seconds": round(real_s, 1),
            "simulated_seconds_per_second": round(self.simulated_s / real_s),
            "events_per_second": round(self.events / real_s),
        }


def one(task: tuple[int, Mode]) -> Result:
    seed, mode = task
    return run(scenario_of(seed, mode))


def many(tasks: Iterable[tuple[int, Mode]], cores: int, *, shows: bool) -> Summary:
    summary, began, shown = Summary(), time.monotonic(), time.monotonic()
    with multiprocessing.Pool(cores) as pool:
        for result in pool.imap_unordered(one, tasks, chunksize=4):
            summary.add(result)
            if result.violations:
                say(f"seed {result.seed}: {result.violations[0]}")
            if shows and time.monotonic() - shown >= PROGRESS_S:
                shown = time.monotonic()
                rate = summary.seeds / (shown - began)
                say(f"{summary.seeds} seeds, {len(summary.failed)} failed, {rate:.1f} a second")
    return summary


def explain(seed: int, mode: Mode) -> None:
    """Print the shortest story of a failing seed."""
    scenario = scenario_of(seed, mode)
    small = shrunk(scenario, run(scenario))
    result = run(small, tells=True)
    violation = result.violations[0]
    say(f"seed {seed}, {mode}: {violation}")
    say(f"left of its plan ({len(small.plan)} of {len(scenario.plan)} entries):")
    for entry in small.plan:
        say(f"  {entry}")
    say(told(result.story, violation.connection_id))
    say(f"again: make simulate SEEDS=1 BASE={seed} MODE={mode}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many (500)")
    parser.add_argument("--base", type=int, default=None, help="the first seed (drawn, and printed)")
    parser.add_argument("--mode", choices=MODES, default=None, help="one kind of fleet (each in its turn)")
    parser.add_argument("--cores", type=int, default=multiprocessing.cpu_count(), help="processes (all cores)")
    arguments = parser.parse_args()
    if arguments.seeds < 1 or arguments.cores < 1 or (arguments.base is not None and arguments.base < 0):
        parser.error("--seeds and --cores are at least 1, --base at least 0")
    base: int = secrets.randbelow(1_000_000_000) if arguments.base is None else arguments.base
    say(f"seeds {base} to {base + arguments.seeds - 1}")
    tasks = [(seed, mode_of(seed, arguments.mode)) for seed in range(base, base + arguments.seeds)]
    began = time.monotonic()
    summary = many(tasks, arguments.cores, shows=True)
    real_s = time.monotonic() - began
    if summary.failed:
        first = min(result.seed for result in summary.failed)
        explain(first, mode_of(first, arguments.mode))
    say(f"faults by kind: {dict(summary.faults_by_kind.most_common())}")
    sys.stdout.write(json.dumps(summary.line(base, real_s)) + "\n")
    return 1 if summary.failed else 0


if __name__ == "__main__":
    sys.exit(main())
