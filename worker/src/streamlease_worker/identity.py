"""What a worker is called, and where it stands: the ECS task's, or this machine's."""

import json
import secrets
import socket
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

METADATA_VARIABLE = "ECS_CONTAINER_METADATA_URI_V4"
WITHIN_S = 2.0
ATTEMPTS = 3
"""Of one task of a deployment that knows its revision and one that does not, the second would count as older."""
LONGEST_NAME = 64
LONGEST_REVISION = 15


@dataclass(frozen=True, slots=True)
class Place:
    name: str
    zone: str
    """Empty outside of AWS."""
    revision: int = 0
    """Of the ECS task definition; 0 where it is not known."""


def place(environment: Mapping[str, str]) -> Place:
    """Asks the task's metadata endpoint, where there is one. Blocks for up to six seconds."""
    base = environment.get(METADATA_VARIABLE, "")
    for _ in range(ATTEMPTS if base.startswith("http://") else 0):
        try:
            with urllib.request.urlopen(f"{base}/task", timeout=WITHIN_S) as answer:  # noqa: S310  # http, as seen above
                task = json.load(answer)
            name = _plain(str(task["TaskARN"]).rpartition("/")[2])
            return Place(name, str(task.get("AvailabilityZone", "")), _revision(task))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return Place(_plain(socket.gethostname()), "")


def new_worker_id(name: str) -> str:
    """Never used before: every start of a process, and every new beginning within one, has its own."""
    return f"{name}-{secrets.token_hex(4)}"


def _revision(task: Mapping[str, Any]) -> int:
    found = str(task.get("Revision", ""))
    return int(found) if found.isascii() and found.isdigit() and len(found) <= LONGEST_REVISION else 0


def _plain(name: str) -> str:
    """Nothing that would look like something else in a table, a log or a shell."""
    kept = "".join(char for char in name if char.isascii() and (char.isalnum() or char in "-._"))
    return kept[:LONGEST_NAME].lstrip("-._") or "worker"
