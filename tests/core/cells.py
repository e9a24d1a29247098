"""One item and its writes, one at a time: the smallest store there is; and a lease in it, made by its transitions."""

from dataclasses import dataclass, field

from streamlease import items, lease
from streamlease.lease import Change, Claimed, Done
from streamlease.model import DesiredState, Lease, LeaseMode
from streamlease.timing import Instant, Timing
from streamlease.write import KEY_ATTRIBUTES, Answer, Applied, Item, Put, Refused, Table, Write, apply, holds


@dataclass(slots=True)
class Cell:
    """`put` is what a store does with a conditional write of this one item."""

    item: Item | None = None
    _places: set[tuple[Table, tuple[object, ...]]] = field(default_factory=set)

    def put(self, write: Write) -> Answer:
        self._places.add(place(write))
        assert len(self._places) == 1, "writes of one item all name it"
        if not holds(write.condition, self.item):
            return Refused(self.item)
        self.item = apply(write, self.item)
        return Applied(self.item)


def place(write: Write) -> tuple[Table, tuple[object, ...]]:
    """The item that a write is of."""
    key = write.item if isinstance(write, Put) else write.key
    return write.table, tuple(key[attribute] for attribute in KEY_ATTRIBUTES[write.table])


NOW_MS = 1_800_000_000_000
TIMING = Timing()


def at(ms: int) -> Instant:
    return Instant(50.0 + ms / 1000, NOW_MS + ms)


def fresh(state: DesiredState = DesiredState.STARTED) -> Cell:
    cell = Cell()
    answer = cell.put(
        lease.create(
            "c1",
            upstream_url="wss://up.example",
            spec={"sink": "default"},
            labels={"team": "a"},
            desired_state=state,
            shard="STARTED#3",
            now_ms=NOW_MS,
            updated_by="me",
        )
    )
    assert lease.created(answer) == Done()
    return cell


def claim(cell: Cell, worker_id: str, ms: int, mode: LeaseMode = LeaseMode.CONNECTION, nonce: str = "") -> object:
    nonce = nonce or f"{worker_id}@{ms}"
    request = lease.claim("c1", worker_id=worker_id, nonce=nonce, sent=at(ms), timing=TIMING, mode=mode)
    return lease.claimed(cell.put(request), worker_id=worker_id, nonce=nonce, sent=at(ms), timing=TIMING)


def owned(worker_id: str = "w1", mode: LeaseMode = LeaseMode.CONNECTION) -> tuple[Cell, Lease]:
    cell = fresh()
    outcome = claim(cell, worker_id, 1_000, mode)
    assert isinstance(outcome, Claimed)
    return cell, outcome.lease


def change(cell: Cell, wanted: Change) -> None:
    assert cell.item is not None
    request = lease.control(items.connection(cell.item), wanted, shard="STARTED#3", now_ms=NOW_MS, updated_by="you")
    assert isinstance(lease.controlled(cell.put(request)), Done)
