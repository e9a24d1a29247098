"""What every bench says of itself: when, on what machine, by which command; and how its result is told and kept."""

import json
import os
import platform
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Taken at the beginning: the load average is of what ran before."""

    command: str
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    load_before: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))

    def as_json(self) -> dict[str, Any]:
        machine = {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "load_before": self.load_before,
            "load_after": round(os.getloadavg()[0], 1),
        }
        return {"at": self.at, "command": self.command, "machine": machine}


def parser(name: str, doc: str | None) -> ArgumentParser:
    made = ArgumentParser(prog=f"python -m bench.{name}", description=(doc or "").partition("\n")[0])
    made.add_argument("--json", action="store_true", help="end with one line of JSON instead of a table")
    made.add_argument("--keep", type=Path, metavar="FILE", help="append that line to FILE, too")
    return made


def circumstances(name: str, arguments: list[str]) -> Circumstances:
    return Circumstances(" ".join([f"python -m bench.{name}", *arguments]))


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def tell(result: dict[str, Any], asked: Namespace, where: Circumstances) -> None:
    """`unmet` of the result, if any, are sentences about goals that were missed."""
    line = {**result, **where.as_json()}
    if asked.keep is not None:
        with asked.keep.open("a") as file:
            file.write(json.dumps(line) + "\n")
    if asked.json:
        print(json.dumps(line))
        return
    print("| figure | value |\n|---|---|")
    for name, value in line.items():
        if not isinstance(value, dict | list):
            print(f"| {name} | {value} |")
    for sentence in result.get("unmet", []):
        print(f"missed: {sentence}")


def some(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"must be 1 or more, not {number}")
    return number
