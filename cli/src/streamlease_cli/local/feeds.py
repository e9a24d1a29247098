"""The relay's authors as connections: a file as a person would write it, and its application as `streamlease apply`."""

import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from streamlease_cli import bulk, procedures
from streamlease_cli.documents import load_or_refuse
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.session import Session

_PARALLEL = 16


def connection_ids(authors: Sequence[str]) -> dict[str, str]:
    """The author of each connection, by the connection's id."""
    width = len(str(len(authors)))
    return {f"notes-{number:0{width}}": author for number, author in enumerate(authors, 1)}


def write_feeds(path: Path, relay_url: str, feeds: dict[str, str]) -> None:
    """One connection an author, each with a subscription of its own, which resumes and loses nothing.

    The cursor is `created_at`: whole seconds, shared by many records and inclusive. `rewind: 1`, since a note is stored
    up to a second after its time; stored notes come newest first, so nothing advances before EOSE.
    """
    document = {
        "defaults": {
            "url": relay_url,
            "labels": {"kind": "notes"},
            "ready": "[0]=='EOSE'",
            "record": {
                "when": "[0]=='EVENT'",
                "payload": "[2]",
                "sequence": "[2].created_at",
                "sequence_unit": "s",
                "id": "[2].id",
                "event_at": "[2].created_at",
                "event_at_unit": "s",
            },
            "resume": {
                "rewind": 1,
                "inclusive": True,
                "order": "newest_first",
                "complete": "[0]=='EOSE'",
                "without_cursor": "all",
            },
        },
        "connections": [
            {
                "id": "{name}",
                "for_each": [{"name": name, "author": author} for name, author in feeds.items()],
                "open": [["REQ", "notes", {"authors": ["{author}"], "kinds": [1], "since": "{sequence}"}]],
            }
        ],
    }
    path.write_text(yaml.safe_dump(document, sort_keys=False, width=120))


def apply(session: Session, path: Path) -> int:
    """Makes the connections of the file; how many. Raises LocalFault where one could not be made, Fault, BadInput."""
    wanted = load_or_refuse([str(path)], recursive=False)
    operator = session.operator()
    tried = bulk.each(
        wanted, lambda one: session.run(procedures.settle(one, operator)), parallel=_PARALLEL, sleep=time.sleep
    )
    for one in tried:
        if one.problem is not None:
            raise LocalFault(f"connection {one.subject.connection_id} could not be made: {one.problem}")
    return len(wanted)
