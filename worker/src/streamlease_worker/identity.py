"""What a worker is called, and where it stands: the ECS task's, or this machine's."""

import json
import secrets
import socket
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

METADATA_VARIABLE = "ECS_CONTAINER_METADATA_URI_V4"
WITHIN_S = 2.0
LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Place:
    name: str
    zone: str
    """Empty outside of AWS."""


def place(environment: Mapping[str, str]) -> Place:
    """Asks the task's metadata endpoint, where there is one. Blocks for up to two seconds."""
    base = environment.get(METADATA_VARIABLE, "")
    if base.startswith("http://"):
        try:
            with urllib.request.urlopen(f"{base}/task", timeout=WITHIN_S) as answer:  # noqa: S310  # http, as seen above
                task = json.load(answer)
            return Place(_plain(str(task["TaskARN"]).rpartition("/")[2]), str(task.get("AvailabilityZone", "")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # its name is of use to people only
    return Place(_plain(socket.gethostname()), "")


def new_worker_id(name: str) -> str:
    """Never used before: every start of a process, and every new beginning within one, has its own."""
    return f"{name}-{secrets.token_hex(4)}"


def _plain(name: str) -> str:
    """Nothing that would look like something else in a table, a log or a shell."""
    kept = "".join(char for char in name if char.isascii() and (char.isalnum() or char in "-._"))
    return kept[:LONGEST_NAME].lstrip("-._") or "worker"
