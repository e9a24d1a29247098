"""`make chaos [FAULTS=200] [SEED=…] [MODE=connection|worker]`: real workers, real faults, and what holds all the same.

Progress goes to standard error; it ends with one JSON line on standard output. Exit 0: everything held; 1: something
did not, or the run could not be made; 2: bad arguments.
"""

import argparse
import json
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from streamlease.errors import StreamleaseError
from streamlease.model import LeaseMode
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.progress import PlainLines
from tests.chaos.arena import TIMING, arena
from tests.chaos.run import RECOVERED_WITHIN_S, Outcome, play

BOTH = "both"


def line(outcomes: Sequence[Outcome], seed: int, took_s: float) -> dict[str, object]:
    """What the run says last."""
    hits: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    for outcome in outcomes:
        hits.update({kind.value: count for kind, count in outcome.hits.items()})
        misses.update({kind.value: count for kind, count in outcome.misses.items()})
    return {
        "faults": hits.total(),
        "overlaps": sum(outcome.counted("overlap", "after_deadline", "no_owner") for outcome in outcomes),
        "missing": sum(outcome.counted("missing") for outcome in outcomes),
        "duplicates": sum(outcome.duplicates for outcome in outcomes),
        "violations": sum(len(outcome.violations) for outcome in outcomes),
        "seed": seed,
        "seconds": round(took_s, 1),
        "lease_ms": TIMING.lease_ms,
        "heartbeat_ms": TIMING.heartbeat_ms,
        "recovered_within_s": RECOVERED_WITHIN_S,
        "faults_by_kind": dict(sorted(hits.items())),
        "hit_nothing": misses.total(),
        "modes": {
            outcome.mode.value: {
                "faults": sum(outcome.hits.values()),
                "violations": dict(Counter(found.what for found in outcome.violations)),
                "duplicates": outcome.duplicates,
                "stale_records": outcome.stale,
                "torn_lines": outcome.torn,
                "records": outcome.records,
                "attempts": outcome.attempts,
                "claims": outcome.claims,
                "recovered_s": round(outcome.recovered_s, 1),
                "exit_codes": dict(outcome.exit_codes),
                "seconds": round(outcome.took_s, 1),
            }
            for outcome in outcomes
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="how many have to hit something (200)")
    parser.add_argument("--seed", type=int, default=None, help="of the plan of faults (drawn, and printed)")
    parser.add_argument("--mode", choices=[*LeaseMode, BOTH], default=BOTH, help="of leases; both: half each (both)")
    parser.add_argument("--workers", type=int, default=3, help="side by side (3)")
    parser.add_argument("--connections", type=int, default=24, help="how many (24)")
    parser.add_argument("--keep", action="store_true", help="keep logs, journals and records also of a run that held")
    told = parser.parse_args(arguments)
    modes = list(LeaseMode) if told.mode == BOTH else [LeaseMode(told.mode)]
    if told.faults < len(modes):
        parser.error(f"--faults is {told.faults}: say {len(modes)} or more, one a mode")
    if not 2 <= told.workers <= 8 or not 2 <= told.connections <= 200:
        parser.error("--workers is 2 to 8, --connections 2 to 200")
    if told.seed is not None and told.seed < 0:
        parser.error(f"--seed is {told.seed}: say 0 or more")
    if not sys.platform.startswith("linux"):
        sys.stderr.write("chaos: it needs Linux, where a process's disk can be full (prlimit) and others' is not\n")
        return 1
    seed: int = secrets.randbelow(1_000_000_000) if told.seed is None else told.seed
    folder = Path(tempfile.mkdtemp(prefix="streamlease-chaos-"))
    shown = PlainLines(sys.stderr)
    shown.say(f"seed {seed}; logs, journals and records are in {folder}")
    began_s = time.monotonic()
    outcomes: list[Outcome] = []
    try:
        with arena(folder, shown) as place:
            for number, mode in enumerate(modes):
                faults = told.faults // len(modes) + (number < told.faults % len(modes))
                outcomes.append(
                    play(
                        place,
                        mode,
                        faults=faults,
                        seed=seed,
                        workers=told.workers,
                        connections=told.connections,
                        say=shown.say,
                    )
                )
    except (LocalFault, StreamleaseError, AssertionError) as fault:
        shown.say(f"the run was not made to its end: {fault}")
        if len(outcomes) < len(modes):
            return 1
    result = line(outcomes, seed, time.monotonic() - began_s)
    sys.stdout.write(json.dumps(result) + "\n")
    failed = bool(result["violations"])
    if failed:
        shown.say(f"the same plan again: make chaos FAULTS={told.faults} SEED={seed} MODE={told.mode}")
    elif not told.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
