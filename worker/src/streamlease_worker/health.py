"""The health file: what the worker says of itself, and what a container's probe makes of it.

The event loop writes it, with the keeper's last round in it: so it grows old when either of them stands still.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

WRITE_EVERY_S = 1.0
STALE_S = 15.0
KEEPER_STALE_S = 5.0


@dataclass(frozen=True, slots=True)
class Health:
    at_ms: int
    worker_id: str
    owned: int
    keeper_silent_s: float
    """Since the keeper last went round."""
    member_left_s: float
    """Until the member lease runs out; negative: since it did."""


def write(path: Path, health: Health) -> None:
    """In one step, so that a reader sees the old or the new. Raises OSError."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps(asdict(health)))
    beside.replace(path)


def complaint(path: Path, now_ms: int) -> str | None:
    """What is wrong, as a sentence. None: nothing."""
    try:
        fields = json.loads(path.read_text())
        health = Health(**fields)
        age_s = (now_ms - health.at_ms) / 1000
        if age_s > STALE_S:
            return f"the worker's event loop has said nothing for {age_s:.0f} s"
        if health.keeper_silent_s > KEEPER_STALE_S:
            return f"the worker's keeper has said nothing for {health.keeper_silent_s:.0f} s: no lease is being renewed"
        if health.member_left_s < 0:
            return f"the worker's membership ran out {-health.member_left_s:.0f} s ago: no heartbeat has come through"
    except FileNotFoundError:
        return f"there is no health file {str(path)!r}: the worker has not started yet, or was told of another file"
    except (OSError, ValueError, TypeError) as error:
        return f"the health file {str(path)!r} cannot be read ({error})"
    return None
