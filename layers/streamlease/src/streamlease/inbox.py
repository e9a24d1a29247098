"""A worker's inbox: "look at this connection again", one entry to a connection (worker mode, design §2). Pure.

An entry names the version to be seen. A newer change writes its version over an older entry, never the other way
round, and an entry is deleted on the very version that was acted on: so what arrives meanwhile stays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamlease.model import SCHEMA
from streamlease.plan import Notice
from streamlease.write import Absent, Delete, Equals, Item, Less, Put, Table, any_of

PREFIX = "inbox#"


@dataclass(frozen=True, slots=True)
class Entry:
    connection_id: str
    spec_version: int


def key(worker_id: str, connection_id: str) -> Mapping[str, str]:
    return {"worker_id": worker_id, "item": f"{PREFIX}{connection_id}"}


def put(notice: Notice) -> Put:
    """Condition: no entry yet, or one of an older version."""
    return Put(
        Table.WORKER_ITEMS,
        {"schema": SCHEMA, **key(notice.worker_id, notice.connection_id), "spec_version": notice.spec_version},
        any_of(Absent("worker_id"), Less("spec_version", notice.spec_version)),
    )


def delete(worker_id: str, entry: Entry) -> Delete:
    """Condition: the version is the one that was acted on."""
    return Delete(Table.WORKER_ITEMS, key(worker_id, entry.connection_id), Equals("spec_version", entry.spec_version))


def entries(listed: Iterable[Item]) -> tuple[Entry, ...]:
    """What a worker's items say. What makes no sense is left out: the minute's audit makes up for it."""
    found = []
    for item in listed:
        name, version = str(item.get("item", "")), item.get("spec_version")
        connection_id = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and connection_id and isinstance(version, int) and not isinstance(version, bool):
            found.append(Entry(connection_id, version))
    return tuple(found)
