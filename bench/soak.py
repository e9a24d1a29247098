"""Half an hour of churn: connections that are dropped, fall silent and rotate. Memory, tasks and descriptors stay flat.

    python -m bench.soak [--minutes 30] [--connections 300] [--every 5] [--samples FILE] [--plot FILE] [--json]

The first quarter warms up; then the medians of the second and of the last quarter are compared. Exit code 1 where
memory grew by more than 5 %, tasks or descriptors by more than 10 %, where a task was left when all had stopped, or
where too few connections streamed at the end.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import processes
from bench.holding import say

MOST_GROWTH = {"resident_kib": 0.05, "tasks": 0.10, "descriptors": 0.10}
LEAST_STREAMING = 0.6
"""Of the connections: one in five falls silent instead of being dropped, for 20 of some 60 seconds."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--connections", type=int, default=300)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    parser.add_argument("--samples", type=Path, help="where to keep them, as JSON lines")
    parser.add_argument("--plot", type=Path, help="where to draw them: a .svg or .png")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    processes.prepare()
    with processes.upstream("bench.churn_upstream") as (port,):
        told = (port, str(asked.minutes * 60), str(asked.connections), str(asked.every))
        lines = processes.lines("bench.soak_side", *told)
    *samples, left = map(json.loads, lines)
    if len(samples) < 8:
        raise SystemExit(f"{len(samples)} samples are too few to compare quarters of: take more --minutes")
    with tempfile.TemporaryDirectory(prefix="streamlease-bench-") as folder:
        kept = asked.samples or Path(folder) / "samples.jsonl"
        kept.write_text("".join(f"{line}\n" for line in lines))
        if asked.plot:
            command = [str(processes.PYTHON), "-m", "bench.soak_plot", str(kept), str(asked.plot)]
            subprocess.run(command, check=True, cwd=processes.ROOT)  # noqa: S603 - ours
    found = figures(samples, left, asked.connections)
    for name, value in found.items():
        print(f"{name:22} {value}", file=sys.stderr)
    if asked.json:
        say(**found)
    return 0 if found["flat"] else 1


def figures(samples: list[dict[str, Any]], left: dict[str, Any], connections: int) -> dict[str, Any]:
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    found: dict[str, Any] = {"minutes": round(samples[-1]["at_s"] / 60, 1), "connections": connections}
    flat = left["left_tasks"] == 0
    for name, most in MOST_GROWTH.items():
        before, after = (statistics.median(sample[name] for sample in part) for part in (early, late))
        found |= {f"{name}_early": round(before), f"{name}_late": round(after)}
        flat = flat and after <= before * (1 + most)
    streaming = statistics.median(sample["streaming"] for sample in late)
    counts: dict[str, int] = {}
    for sample in samples:
        for name, number in sample["counts"].items():
            counts[name] = counts.get(name, 0) + number
    return found | {
        "records": sum(sample["records"] for sample in samples),
        "losses": sum(sample["losses"] for sample in samples),
        "openings": sum(sample["readiness"] for sample in samples),
        "taken_over": sum(sample["taken_over"] for sample in samples),
        "streaming_late": round(streaming),
        "counts": counts,
        "left_tasks": left["left_tasks"],
        "flat": flat and streaming >= LEAST_STREAMING * connections,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
