"""A run's timeline, for a person: who believed what, about one connection and the workers that touched it."""

from collections.abc import Iterable

from tests.simulation.ledger import Line

MOST_LINES = 120


def told(story: Iterable[Line], connection_id: str, most: int = MOST_LINES) -> str:
    """The last lines that concern a connection (all connections, where it is empty), one event to a line."""
    kept = [
        line for line in story if not connection_id or not line.connection_id or line.connection_id == connection_id
    ]
    left_out = max(0, len(kept) - most)
    head = [f"  … {left_out} earlier lines left out"] if left_out else []
    return "\n".join([*head, *(_line(line) for line in kept[-most:])])


def _line(line: Line) -> str:
    about = f"{line.connection_id}: " if line.connection_id else ""
    return f"  {line.at_us / 1e6:10.3f} s  {line.who:<20} {about}{line.what}"
