"""The processes of a bench: upstreams that live as long as they are needed, and sides that print what they found.

All of them run in the benches' own environment, where the peers are; it is made at first use.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".local/envs/bench/bin/python"
SOURCES = ("", "layers/streamlease/src", "worker/src", "cli/src")


def prepare() -> None:
    """Make the environment, or bring it up to date."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts/setup.py"), "bench"], check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        raise SystemExit(done.returncode)


@contextlib.contextmanager
def upstream(module: str, *arguments: str) -> Iterator[list[str]]:
    """The words of the one line that it prints when it is ready."""
    process = subprocess.Popen(  # noqa: S603 - ours
        [PYTHON, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None  # noqa: S101 - a pipe, as asked
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{module} did not start")
        yield line.split()
    finally:
        process.communicate()  # closes its standard input, at which it ends


def side(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON object that it prints last."""
    found: dict[str, Any] = json.loads(lines(module, *arguments)[-1])
    return found


def lines(module: str, *arguments: str) -> list[str]:
    """What it prints, at least one line, once it has ended well."""
    done = subprocess.run(  # noqa: S603 - ours
        [PYTHON, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
        cwd=ROOT,
        check=False,
    )
    if done.returncode != 0 or not done.stdout.strip():
        raise SystemExit(f"{module} {arguments[0]} ended with {done.returncode}, and what it says is above")
    return done.stdout.splitlines()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in SOURCES)}
