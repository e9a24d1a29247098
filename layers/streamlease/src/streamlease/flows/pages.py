"""A worker's position pages in the store: written by it while it lives, sealed and read by whoever buries it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamlease import inbox, pages
from streamlease.errors import Fault, Malformed, Unreachable
from streamlease.flow import MOST_WRITES, Flow, batch, chunks, page, write
from streamlease.model import Connection, Saved
from streamlease.pages import Page
from streamlease.write import Answer, Item, Query, Table, Update


@dataclass(frozen=True, slots=True)
class PageWrite:
    """One page to be written. `fresh`: it may not be there yet, and is made first."""

    number: int
    version: int
    entries: tuple[Saved, ...]
    fresh: bool


@dataclass(frozen=True, slots=True)
class Testament:
    """What a dead worker's pages say last of each connection, and what could not be read of them."""

    entries: Mapping[str, Saved] = field(default_factory=dict)
    malformed: tuple[Malformed, ...] = ()


def save(worker_id: str, writes: tuple[PageWrite, ...]) -> Flow[tuple[Answer | Fault, ...]]:
    """Write up to 25 pages; one answer each, as `pages.written` reads it. Raises Fault where it struck them all.

    A page is made empty before its first write, which is then conditional on it like any other (decision 100).
    """
    faults: dict[int, Fault] = {}
    for each in writes:
        if each.fresh:
            try:
                yield from write(pages.create(worker_id, each.number))
            except Unreachable:  # so would the others be, each after its own time limit
                raise
            except Fault as fault:
                faults[each.number] = fault
    sent = [each for each in writes if each.number not in faults]
    answers = iter((yield from batch([_write(worker_id, each) for each in sent])) if sent else ())
    return tuple(faults[each.number] if each.number in faults else next(answers) for each in writes)


def seal(worker_id: str) -> Flow[Testament]:
    """Seal every page of a dead worker that is there, then read them. Raises Fault.

    Done again by every sweep of the dead: a page that is made late is sealed then. What it holds is true even so, and
    is carried as long as its epoch still stands.
    """
    listed = yield from items_of(worker_id, pages.PREFIX)
    unsealed = [pages.seal(item) for item in listed if pages.is_page(item) and "sealed" not in item]
    for group in chunks(unsealed, MOST_WRITES):
        for answer in (yield from batch(group)):
            if isinstance(answer, Fault):
                raise answer
    if unsealed:  # a last write may have come between
        listed = yield from items_of(worker_id, pages.PREFIX)
    found, malformed = decoded(listed)
    return Testament(pages.newest(each for each in found if each.sealed), malformed)


def saved_position(connection: Connection) -> Flow[Saved | None]:
    """What the owner's pages say of a connection, where that is newer than its item. Raises Fault."""
    if connection.lease_owner is None or connection.lease_expires_at_ms is not None:
        return None
    listed = yield from items_of(connection.lease_owner, pages.PREFIX)
    saved = pages.newest(decoded(listed)[0]).get(connection.connection_id)
    if saved is None or saved.epoch != connection.lease_epoch or saved.checkpoint_no <= connection.checkpoint_no:
        return None
    return saved if saved.spec_version >= connection.positions_since_version else None


def items_of(worker_id: str, prefix: str) -> Flow[tuple[Item, ...]]:
    """A worker's items of one kind, read consistently. Raises Fault."""
    found: list[Item] = []
    cursor: Item | None = None
    while True:
        answer = yield from page(Query(Table.WORKER_ITEMS, worker_id, cursor=cursor, prefix=prefix))
        found.extend(answer.items)
        cursor = answer.cursor
        if cursor is None:
            return tuple(found)


def decoded(listed: tuple[Item, ...]) -> tuple[tuple[Page, ...], tuple[Malformed, ...]]:
    """Those that can be read, and what is wrong with the others."""
    found: list[Page] = []
    malformed: list[Malformed] = []
    for item in listed:
        if not pages.is_page(item):
            continue
        try:
            found.append(pages.page(item))
        except Malformed as problem:
            malformed.append(problem)
    return tuple(found), tuple(malformed)


def _write(worker_id: str, each: PageWrite) -> Update:
    return pages.write(worker_id, each.number, version=each.version, entries=each.entries)


def discard(worker_id: str) -> Flow[None]:
    """Delete what is left of a worker that is dead for good: its pages, and its inbox. Raises Fault."""
    for item in (yield from items_of(worker_id, pages.PREFIX)):
        yield from write(pages.remove(item))
    for entry in inbox.entries((yield from items_of(worker_id, inbox.PREFIX))):
        yield from write(inbox.delete(worker_id, entry))
