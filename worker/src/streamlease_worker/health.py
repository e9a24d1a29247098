"""The health file: what the worker says of itself, and what a container's probe makes of it.

    python -m streamlease_worker.health

The event loop writes the file, with the keeper's last round in it: so it grows old when either of them stands still.
The probe runs every half a minute beside the worker, on its CPU: this module imports next to nothing.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

FILE_VARIABLE = "STREAMLEASE_HEALTH_FILE"
WRITE_EVERY_S = 1.0
STALE_S = 15.0
KEEPER_STALE_S = 5.0
NOTHING_CONNECTED_S = 300.0
"""Longer than most outages of an upstream: those are no fault of the worker's, and another would fare no better."""
HEALTHY, UNHEALTHY, BAD_INPUT = 0, 1, 2


class Health(NamedTuple):
    at_ms: int
    worker_id: str
    owned: int
    keeper_silent_s: float
    """Since the keeper last went round."""
    member_left_s: float
    """Until the member lease runs out; negative: since it did."""
    running: int
    """Connections that are to be open: neither given up nor put off."""
    connected: int
    waiting: int
    """For their turn to dial, or for a budget."""
    unconnected_s: float
    """For how long nothing has been connected, with more to do than to wait."""


class Connectedness:
    """Since when nothing is connected that could be. Seconds are monotonic."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def unconnected_s(self, now_s: float, *, running: int, connected: int, waiting: int) -> float:
        if connected or running <= waiting:
            self._since_s = None
            return 0.0
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s


def write(path: Path, health: Health) -> None:
    """In one step, so that a reader sees the old or the new. Raises OSError."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps(health._asdict()))
    beside.replace(path)


def complaint(path: Path, now_ms: int) -> str | None:
    """What is wrong, as a sentence. None: nothing."""
    try:
        health = Health(**json.loads(path.read_text()))
        age_s = (now_ms - health.at_ms) / 1000
        if abs(age_s) > STALE_S:  # ahead: the clock was set back, and nothing was written since
            return f"the worker's event loop has said nothing for {abs(age_s):.0f} s"
        if health.keeper_silent_s > KEEPER_STALE_S:
            return f"the worker's keeper has said nothing for {health.keeper_silent_s:.0f} s: no lease is being renewed"
        if health.member_left_s < 0:
            return f"the worker's membership ran out {-health.member_left_s:.0f} s ago: no heartbeat has come through"
        if health.unconnected_s > NOTHING_CONNECTED_S:
            waiting = f", {health.waiting} of which wait for their turn to dial," if health.waiting else ""
            return (
                f"none of the worker's {health.running} connections{waiting} has been connected"
                f" for {health.unconnected_s:.0f} s"
            )
    except FileNotFoundError:
        return f"there is no health file {str(path)!r}: the worker has not started yet, or was told of another file"
    except (OSError, ValueError, TypeError) as error:
        return f"the health file {str(path)!r} cannot be read ({error})"
    return None


def main(environment: Mapping[str, str] | None = None) -> int:
    """Returns the exit code: 0 well; 1 not; 2 for bad input."""
    file = (os.environ if environment is None else environment).get(FILE_VARIABLE, "").strip()
    if not file:
        return _complain(f"{FILE_VARIABLE} is not set: name the file that the worker writes", BAD_INPUT)
    wrong = complaint(Path(file), time.time_ns() // 1_000_000)
    return HEALTHY if wrong is None else _complain(wrong, UNHEALTHY)


def _complain(sentence: str, code: int) -> int:
    sys.stderr.write(f"streamlease-worker: {sentence}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
