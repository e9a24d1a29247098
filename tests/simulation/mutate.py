"""`make mutations`: break each rule of the protocol in turn, and see that the simulator notices within 200 seeds.

Ends with one JSON line on standard output. Exit 0: all were noticed; 1: some were not; 2: bad arguments.
"""

import argparse
import json
import multiprocessing
import sys
from dataclasses import dataclass

from tests.simulation.draw import scenario
from tests.simulation.modes import Mode, mode_of, scenario_of
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.patching import patched
from tests.simulation.run import run
from tests.simulation.scenario import Scenario

MOST_SEEDS = 200


def say(text: str) -> None:
    """Progress and reasons; standard output is for the answer."""
    sys.stderr.write(text + "\n")


@dataclass(frozen=True, slots=True)
class Caught:
    """Which seed noticed a mutation, and by what; None: none did."""

    mutation: str
    breaks: str
    seed: int | None
    how: str


def notice(mutation: Mutation, seeds: range) -> Caught:
    """Run seeds under a mutation until one breaks a rule."""
    try:
        return _notice(mutation, seeds)
    except AttributeError as moved:
        return Caught(mutation.name, mutation.breaks, None, f"cannot be put in: {moved}")


def _notice(mutation: Mutation, seeds: range) -> Caught:
    with patched(mutation.patches):
        for seed in seeds:
            result = run(_scenario(mutation, seed))
            if result.violations:
                return Caught(mutation.name, mutation.breaks, seed, str(result.violations[0]))
    return Caught(mutation.name, mutation.breaks, None, "")


def _scenario(mutation: Mutation, seed: int) -> Scenario:
    if mutation.mode is not None:
        return scenario(seed, mutation.mode)
    mode: Mode = mode_of(seed, None)
    return scenario_of(seed, mode)


def _numbered(task: tuple[int, range]) -> Caught:
    number, seeds = task
    return notice(MUTATIONS[number], seeds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="some mutations only")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help=f"at most so many for each ({MOST_SEEDS})")
    parser.add_argument("--base", type=int, default=0, help="the first seed (0)")
    arguments = parser.parse_args()
    known = [mutation.name for mutation in MUTATIONS]
    unknown = sorted(set(arguments.names) - set(known))
    if unknown:
        parser.error(f"no mutation is called {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [n for n, name in enumerate(known) if not arguments.names or name in arguments.names]
    seeds = range(arguments.base, arguments.base + arguments.seeds)
    found: list[Caught] = []
    with multiprocessing.Pool() as pool:
        for caught in pool.imap_unordered(_numbered, [(n, seeds) for n in chosen]):
            found.append(caught)
            how = f"seed {caught.seed}: {caught.how}" if caught.seed is not None else f"NOT NOTICED {caught.how}"
            say(f"{caught.mutation} ({caught.breaks}): {how}")
    missed = sorted(caught.mutation for caught in found if caught.seed is None)
    by = {caught.mutation: caught.seed for caught in sorted(found, key=lambda each: known.index(each.mutation))}
    answer = {"mutations": len(found), "caught": len(found) - len(missed), "missed": missed, "by_seed": by}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
