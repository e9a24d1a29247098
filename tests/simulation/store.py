"""DynamoDB's meaning, in memory: base tables linearizable per item, indexes and a stream that follow behind.

A write takes place at the instant it lands, by `streamlease.write.holds` and `apply`: the same words as the real
executor's. How a request gets here, and whether its answer gets back, is `network`'s business.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from streamlease.write import (
    INDEX_ATTRIBUTES,
    INDEX_PROJECTED,
    KEY_ATTRIBUTES,
    Answer,
    Applied,
    Index,
    Item,
    Page,
    Query,
    Read,
    Refused,
    Scan,
    Table,
    Write,
    apply,
    holds,
)
from tests.simulation.clock import true_ms
from tests.simulation.kernel import MS, Kernel

type KeyTuple = tuple[str, ...]
type Place = tuple[int, str]
"""Where an item stands in an answer."""


@dataclass(frozen=True, slots=True)
class Landing:
    """One write that reached its table, whether or not its condition held."""

    at_us: int
    origin: str
    """The process whose request it was."""
    write: Write
    key: KeyTuple
    before: Item | None
    after: Item | None
    applied: bool
    stamp: tuple[str, int] | None = None
    """The worker id and epoch for which its sender wrote it, where it said."""


@dataclass(slots=True)
class Lag:
    """How far indexes follow behind. `extra_us` is what a fault adds."""

    least_us: int = 5 * MS
    most_us: int = 200 * MS
    extra_us: int = 0
    cause: int = 0


@dataclass(slots=True)
class View:
    """What an index shows now, and what is on its way into it."""

    shown: dict[str, Item] = field(default_factory=dict)
    last_us: dict[str, int] = field(default_factory=dict)
    """When the newest change of an item on its way will show: a later one never overtakes it."""


class Store:
    def __init__(self, kernel: Kernel, *, page_limit: int = 1_000) -> None:
        self.kernel = kernel
        self.lag = Lag()
        self.tables: dict[Table, dict[KeyTuple, Item]] = {table: {} for table in Table}
        self.observers: list[Callable[[Landing], None]] = []
        self.page_limit = page_limit
        self.lagging = 0
        """Index changes that the present extra lag has held back."""
        self._views = {index: View() for index in Index}
        self._draws: Random = kernel.draws("index lag")

    # --- requests, at the instant they land ---

    def write(self, write: Write, origin: str, stamp: tuple[str, int] | None = None) -> Answer:
        table = self.tables[write.table]
        key = tuple(write.key[name] for name in KEY_ATTRIBUTES[write.table])
        before = table.get(key)
        if not holds(write.condition, before):
            self._tell(Landing(self.kernel.now_us, origin, write, key, before, before, False, stamp))
            return Refused(before)
        after = apply(write, before)
        if after is None:
            table.pop(key, None)
        else:
            table[key] = after
        if write.table is Table.CONNECTIONS:
            self._index(key[0], before, after)
        self._tell(Landing(self.kernel.now_us, origin, write, key, before, after, True, stamp))
        return Applied(after)

    def read(self, read: Read) -> Item | None:
        return self.tables[read.table].get(tuple(read.key[name] for name in KEY_ATTRIBUTES[read.table]))

    def query(self, query: Query) -> Page:
        found: list[Item]
        match query.index:
            case None:
                found = [
                    item
                    for item in self.tables[query.table].values()
                    if item["worker_id"] == query.partition and str(item["item"]).startswith(query.prefix or "")
                ]
                found.sort(key=lambda item: str(item["item"]))
            case Index.BY_EXPIRY:
                found = [
                    item
                    for item in self._views[query.index].shown.values()
                    if item["desired_state_shard"] == query.partition
                    and (query.below is None or _expiry(item) < query.below)
                ]
                found.sort(key=_by_expiry)
                return self._page(found, query.cursor, query.limit, _by_expiry)
            case Index.BY_OWNER:
                shown = self._views[query.index].shown
                found = [shown[key] for key in sorted(shown) if shown[key]["lease_owner"] == query.partition]
        return self._page(found, query.cursor, query.limit)

    def scan(self, scan: Scan) -> Page:
        if scan.index is not None:
            shown = self._views[scan.index].shown
            return self._page([shown[key] for key in sorted(shown)], scan.cursor, scan.limit)
        table = self.tables[scan.table]
        return self._page([table[key] for key in sorted(table)], scan.cursor, scan.limit)

    def plant(self, table: Table, item: Item) -> None:
        """Somebody writes an item by hand, past every rule: nobody is asked, and no checker looks at it."""
        key = tuple(str(item[name]) for name in KEY_ATTRIBUTES[table])
        before = self.tables[table].get(key)
        self.tables[table][key] = item
        if table is Table.CONNECTIONS:
            self._index(key[0], before, item)

    # --- what the checkers look at ---

    def connection(self, connection_id: str) -> Item | None:
        return self.tables[Table.CONNECTIONS].get((connection_id,))

    def connections(self) -> Iterator[Item]:
        yield from self.tables[Table.CONNECTIONS].values()

    def member(self, worker_id: str) -> Item | None:
        return self.tables[Table.MEMBERS].get((worker_id,))

    # --- behind the scenes ---

    def _tell(self, landing: Landing) -> None:
        for observer in self.observers:
            observer(landing)

    def _page(
        self, found: list[Item], cursor: Item | None, limit: int, place: Callable[[Item], Place] | None = None
    ) -> Page:
        """`found` in the order of `place`. A cursor is the last item shown; what follows its place comes next, whether
        or not it is still there."""
        start = 0
        if cursor is not None:
            place = place or _by_key
            start = bisect_right(found, place(cursor), key=place)
        size = min(limit, self.page_limit)
        some = tuple(found[start : start + size])
        last = _place_item(some[-1]) if start + size < len(found) else None
        return Page(some, last, true_ms(self.kernel.now_us) // 1_000 * 1_000)

    def _index(self, connection_id: str, before: Item | None, after: Item | None) -> None:
        for index, view in self._views.items():
            image = _projection(index, connection_id, after)
            if image == _projection(index, connection_id, before):
                continue
            lag = self.lag
            self.lagging += lag.extra_us > 0
            due_us = self.kernel.now_us + self._draws.randint(lag.least_us, lag.most_us) + lag.extra_us
            due_us = max(due_us, view.last_us.get(connection_id, 0))
            view.last_us[connection_id] = due_us
            self.kernel.at(due_us, lambda view=view, image=image: _show(view, connection_id, image))  # type: ignore[misc]


def _show(view: View, connection_id: str, image: Item | None) -> None:
    if image is None:
        view.shown.pop(connection_id, None)
    else:
        view.shown[connection_id] = image


def _projection(index: Index, connection_id: str, item: Item | None) -> Item | None:
    if item is None or not all(name in item for name in INDEX_ATTRIBUTES[index]):
        return None
    names = INDEX_ATTRIBUTES[index] + INDEX_PROJECTED[index]
    return {"connection_id": connection_id, **{name: item[name] for name in names if name in item}}


def _expiry(item: Item) -> int:
    found = item["lease_expires_at_ms"]
    assert isinstance(found, int)
    return found


_PLACE = ("lease_expires_at_ms", "connection_id", "worker_id", "item")


def _by_expiry(item: Item) -> Place:
    return _expiry(item), str(item["connection_id"])


def _by_key(item: Item) -> Place:
    return 0, str(item["connection_id"]) if "connection_id" in item else f"{item['worker_id']}\0{item.get('item', '')}"


def _place_item(item: Item) -> Item:
    kept = (*_PLACE, "desired_state_shard") if "desired_state_shard" in item else _PLACE[1:]
    return {name: item[name] for name in kept if name in item}
