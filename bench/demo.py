"""The demonstration several times over: how its figures spread from run to run.

    python -m bench.demo [--runs 4] [--burners 1] [--keep bench/demo.jsonl] [-- the demonstration's own options]

`--burners` keeps so many cores busy beside it. Each run is a line of the file, in the report's keys without the single
connections, with the date and the machine's load before and after it. Exit code 1 if any run fell short of anything.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FIGURES = (
    ("kill gap p50, s", ("kill", "gap_seconds", "p50")),
    ("kill gap p99, s", ("kill", "gap_seconds", "p99")),
    ("kill gap max, s", ("kill", "gap_seconds", "max")),
    ("drain gap p50, s", ("drain", "gap_seconds", "p50")),
    ("drain gap p99, s", ("drain", "gap_seconds", "p99")),
    ("drain gap max, s", ("drain", "gap_seconds", "max")),
    ("records published", ("records", "published")),
    ("records missing", ("records", "missing")),
    ("records duplicated", ("records", "duplicates")),
    ("overlaps", ("overlaps",)),
    ("moves, most", ("moves", "max_per_connection")),
    ("beside the scenario, s", ("run", "beside_seconds")),
    ("load of 1 min before", ("machine", "load_before")),
)
BURN = "while True: pass"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--burners", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("options", nargs="*", help="the demonstration's own, after --")
    asked = parser.parse_args(arguments)
    found = []
    for number in range(1, asked.runs + 1):
        with burning(asked.burners):
            line = one_run(asked.options, burners=asked.burners)
        if line is None:
            print(f"run {number} gave no report", file=sys.stderr)
            continue
        print(f"run {number}: {'; '.join(line['unmet']) or 'everything kept to'}", file=sys.stderr)
        found.append(line)
        if asked.keep:
            with asked.keep.open("a") as file:
                file.write(json.dumps(line) + "\n")
    print(table(found))
    return 0 if len(found) == asked.runs and not any(line["unmet"] for line in found) else 1


def one_run(options: list[str], *, burners: int) -> dict[str, Any] | None:
    """The report of one demonstration; None where it ended without one."""
    began, load = datetime.now(UTC), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="streamlease-bench-") as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", "streamlease_cli.local.demo", *options, "--report", str(file)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)  # noqa: S603 - this Python
        if not file.exists():
            return None
        report: dict[str, Any] = json.loads(file.read_text())
    del report["per_connection"]
    report["run"]["beside_seconds"] = round(report["run"]["total_seconds"] - report["run"]["seconds"], 1)
    machine = {"cores": os.cpu_count(), "burners": burners, "load_before": load, "load_after": os.getloadavg()[0]}
    return {"at": began.isoformat(timespec="seconds"), "options": options, "machine": machine, **report}


@contextlib.contextmanager
def burning(cores: int) -> Iterator[None]:
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(cores)]  # noqa: S603 - this Python
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def table(lines: list[dict[str, Any]]) -> str:
    """Each figure's least, middle and most, as a Markdown table."""
    rows = ["| figure | min | median | max |", "|---|---|---|---|"]
    for name, path in FIGURES:
        values = sorted(value for line in lines if (value := at(line, path)) is not None)
        if values:
            shown = (values[0], values[len(values) // 2], values[-1])
            rows.append(f"| {name} | {' | '.join(f'{value:g}' for value in shown)} |")
    return "\n".join(rows)


def at(line: dict[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = line
    for name in path:
        value = value[name]
    return value if value is None else float(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
