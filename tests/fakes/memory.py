"""The store in memory: DynamoDB's meaning by `write.holds` and `apply`, with pages that page and indexes that may lag.

The contract suite holds it against real implementations, so that a test on it proves something. Faults are not its
business: `trouble.Troubled` stands in front of this store or any other.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from streamlease.dynamodb.attributes import decode_item, encode_item
from streamlease.dynamodb.expressions import partiql
from streamlease.dynamodb.requests import described
from streamlease.errors import Denied, Fault, Malformed
from streamlease.flow import MOST_OFFERS, MOST_WRITES, Batch, Now, Request, SendOffers
from streamlease.model import Offer
from streamlease.timing import Instant
from streamlease.write import (
    INDEX_ATTRIBUTES,
    INDEX_PROJECTED,
    KEY_ATTRIBUTES,
    Answer,
    Applied,
    Delete,
    Index,
    Item,
    Page,
    Put,
    Query,
    Read,
    Refused,
    Scan,
    Table,
    Update,
    Value,
    Write,
    apply,
    holds,
)
from tests.fakes.clock import SetClock

type KeyTuple = tuple[str, ...]

_KINDS: Mapping[str, type] = {"lease_expires_at_ms": int}
"""Of index keys; the others are strings. An item whose index key is of another kind is refused as invalid."""


class MemoryStore:
    """Answers every request as the executor does. Safe to share between threads.

    With `lagging`, index answers stand still until `catch_up`. `offers` is what the queue took; `full` makes it take
    none.
    """

    def __init__(self, clock: Callable[[], Instant] | None = None, *, lagging: bool = False) -> None:
        self.clock = clock or SetClock()
        self.lagging = lagging
        self.offers: list[Offer] = []
        self.full = False
        self._lock = threading.RLock()
        self._tables: dict[Table, dict[KeyTuple, Item]] = {table: {} for table in Table}
        self._shown: dict[Index, dict[KeyTuple, Item]] = {index: {} for index in Index}
        self._on_their_way: deque[tuple[Index, KeyTuple, Item | None]] = deque()

    def perform(
        self, request: Request
    ) -> Answer | Item | Page | Instant | tuple[Answer | Fault, ...] | tuple[Offer, ...] | None:
        with self._lock:
            match request:
                case Put() | Update() | Delete():
                    return self._write(request)
                case Read(table, key):
                    return self._tables[table].get(_tuple(table, key))
                case Query():
                    return self._query(request)
                case Scan():
                    return self._scan(request)
                case Batch(writes):
                    return self._batch(writes)
                case SendOffers(offers):
                    return self._send(offers)
                case Now():
                    return self.clock()

    def item(self, table: Table, *key: str) -> Item | None:
        """What is stored now."""
        return self._tables[table].get(key)

    def items(self, table: Table) -> tuple[Item, ...]:
        return tuple(self._tables[table].values())

    def catch_up(self, changes: int | None = None) -> None:
        """Let the oldest `changes` (None: all) that are on their way show in the indexes."""
        with self._lock:
            for _ in range(len(self._on_their_way) if changes is None else changes):
                index, key, image = self._on_their_way.popleft()
                if image is None:
                    self._shown[index].pop(key, None)
                else:
                    self._shown[index][key] = image

    # --- writes ---

    def _write(self, write: Write) -> Answer:
        write = _prepared(write)
        table, key = self._tables[write.table], _tuple(write.table, write.key)
        before = table.get(key)
        if not holds(write.condition, before):
            return Refused(before)
        try:
            after = apply(write, before)
        except Malformed as problem:
            raise Denied(str(problem)) from None
        if after is None:
            table.pop(key, None)
        else:
            table[key] = after
        if write.table is Table.CONNECTIONS:
            for index in Index:
                image = _projection(index, after)
                if image != _projection(index, before):
                    self._on_their_way.append((index, key, image))
            if not self.lagging:
                self.catch_up()
        return Applied(after)

    def _batch(self, writes: Sequence[Write]) -> tuple[Answer | Fault, ...]:
        if len(writes) > MOST_WRITES:
            raise ValueError(f"a batch has at most {MOST_WRITES} writes, not {len(writes)}")
        return tuple(self._member(write) for write in writes)

    def _member(self, write: Write) -> Answer | Fault:
        if not isinstance(write, Update):
            raise TypeError(f"a batch is of updates only, not of {type(write).__name__}")
        try:
            partiql(write, write.table, "a member of a batch")  # raises for what a batch cannot say
            answer = self._write(write)
        except Malformed as problem:
            return Denied(f"{problem}; it was not sent")
        except Denied as denied:
            return denied
        return Applied() if isinstance(answer, Applied) else answer

    def _send(self, offers: tuple[Offer, ...]) -> tuple[Offer, ...]:
        if len(offers) > MOST_OFFERS:
            raise ValueError(f"offers are sent by at most {MOST_OFFERS}, not {len(offers)}")
        if self.full:
            return offers
        self.offers.extend(offers)
        return ()

    # --- reads ---

    def _query(self, query: Query) -> Page:
        hash_name, *range_names = KEY_ATTRIBUTES[query.table] if query.index is None else INDEX_ATTRIBUTES[query.index]
        found = [item for item in self._source(query.table, query.index) if item[hash_name] == query.partition]
        if query.below is not None:
            found = [item for item in found if _less(item[range_names[0]], query.below)]
        if query.prefix is not None:
            found = [item for item in found if str(item[range_names[0]]).startswith(query.prefix)]
        return self._page(found, query.index, query.table, query.cursor, query.limit)

    def _scan(self, scan: Scan) -> Page:
        return self._page(self._source(scan.table, scan.index), scan.index, scan.table, scan.cursor, scan.limit)

    def _source(self, table: Table, index: Index | None) -> Iterable[Item]:
        return self._tables[table].values() if index is None else self._shown[index].values()

    def _page(self, items: Iterable[Item], index: Index | None, table: Table, cursor: Item | None, limit: int) -> Page:
        names = (*(INDEX_ATTRIBUTES[index] if index else ()), *KEY_ATTRIBUTES[table])

        def place(item: Item) -> tuple[str | int, ...]:
            return tuple(_key_value(item[name]) for name in names)

        ordered = sorted(items, key=place)
        if cursor is not None:
            after = place(cursor)
            ordered = [item for item in ordered if place(item) > after]
        shown = tuple(ordered[:limit])
        # As DynamoDB does: a page that is full has a cursor, even where nothing follows.
        last = {name: shown[-1][name] for name in names} if shown and len(shown) == limit else None
        return Page(shown, last, self.clock().wall_ms // 1000 * 1000)


def _tuple(table: Table, key: Mapping[str, Value]) -> KeyTuple:
    return tuple(str(key[name]) for name in KEY_ATTRIBUTES[table])


def _key_value(value: Value) -> str | int:
    assert isinstance(value, str | int)
    return value


def _less(value: Value, limit: int) -> bool:
    return isinstance(value, int) and value < limit


def _projection(index: Index, item: Item | None) -> Item | None:
    names = INDEX_ATTRIBUTES[index]
    if item is None or any(name not in item for name in names):
        return None
    kept = {*KEY_ATTRIBUTES[Table.CONNECTIONS], *names, *INDEX_PROJECTED[index]}
    return {name: value for name, value in item.items() if name in kept}


def _prepared(write: Write) -> Write:
    """`write` with its values as DynamoDB would give them back. Raises Denied for what it would refuse as invalid."""
    match write:
        case Put(table, item):
            return replace(write, item=_stored(table, item, item))
        case Update(table, key, set=attributes):
            return replace(write, set=_stored(table, key, attributes))
        case Delete():
            return write


def _stored(table: Table, key: Item, attributes: Item) -> Item:
    where = described(table, {name: str(key[name]) for name in KEY_ATTRIBUTES[table]})
    keys = set(KEY_ATTRIBUTES[table])
    if table is Table.CONNECTIONS:
        keys.update(*INDEX_ATTRIBUTES.values())
    for name in keys & attributes.keys():
        kind, value = _KINDS.get(name, str), attributes[name]
        if not isinstance(value, kind) or isinstance(value, bool) or value == "":
            raise Denied(f"{where}: {name} is {value!r}, which is no key")
    try:
        return decode_item(encode_item(attributes, where))
    except Malformed as problem:
        raise Denied(f"{problem}; it was not sent") from None
