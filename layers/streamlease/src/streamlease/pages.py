"""Position pages: one worker's positions, about a kilobyte of them to an item (worker mode, design §2, §3). Pure.

A page is written whole, by its worker alone, on a version that only rises. Who buries the worker seals its pages first:
a sealed page refuses every write, so what is read after that stays true. Entries carry epoch and checkpoint_no; where
two pages name the same connection, the higher pair counts, so that entries may move from page to page.
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from streamlease.errors import Malformed
from streamlease.model import SCHEMA, Position, Saved
from streamlease.write import (
    Absent,
    Answer,
    Applied,
    Delete,
    Equals,
    Item,
    Less,
    Present,
    Put,
    Table,
    Update,
    Value,
    all_of,
)

PREFIX = "page#"
PAGE_BYTES = 1_024
"""What one write unit writes, names and keys of the item included."""
LARGEST_UNPACKED = 8 << 20
"""An item holds 400 KB; more than this in one page is not ours."""
_RAW_DEFLATE = -15


@dataclass(frozen=True, slots=True)
class Page:
    """A page as its item said at one moment."""

    number: int
    version: int
    sealed: bool
    entries: tuple[Saved, ...]


# --- outcomes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    pass


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A write of a higher version had landed first; `version` is what to go above."""

    version: int


@dataclass(frozen=True, slots=True)
class Unwritable:
    """`sealed`: this worker was buried. `missing`: there is no such page."""

    reason: Literal["sealed", "missing"]


type WriteOutcome = Written | Overtaken | Unwritable

# --- transitions -----------------------------------------------------------------------------------------------------


def key(worker_id: str, number: int) -> Mapping[str, str]:
    return {"worker_id": worker_id, "item": f"{PREFIX}{number}"}


def create(worker_id: str, number: int) -> Put:
    """An empty page. Condition: there is none, so that one that is sent twice empties nothing."""
    item: Item = {"schema": SCHEMA, **key(worker_id, number), "version": 0}
    return Put(Table.WORKER_ITEMS, item, Absent("worker_id"))


def write(worker_id: str, number: int, *, version: int, entries: Iterable[Saved]) -> Update:
    """Condition: the page exists (only then it has a version), is not sealed, and its version is below this one."""
    return Update(
        Table.WORKER_ITEMS,
        key(worker_id, number),
        all_of(Absent("sealed"), Less("version", version)),
        set={"version": version, "packed": pack(entries)},
    )


def written(answer: Answer) -> WriteOutcome:
    """A page that somebody edited by hand counts as missing."""
    if isinstance(answer, Applied):
        return Written()
    if answer.item is None:
        return Unwritable("missing")
    if "sealed" in answer.item:
        return Unwritable("sealed")
    version = answer.item.get("version")
    return Overtaken(version) if isinstance(version, int) else Unwritable("missing")


def seal(item: Item) -> Update:
    """Close a page as listed, for good. Condition: it exists (as a page), and nobody has yet."""
    return Update(
        Table.WORKER_ITEMS,
        {"worker_id": str(item["worker_id"]), "item": str(item["item"])},
        all_of(Present("version"), Absent("sealed")),
        set={"sealed": True},
    )


def remove(item: Item) -> Delete:
    """Remove a page as listed, of a worker that is dead for good. Condition: it is sealed."""
    key = {"worker_id": str(item["worker_id"]), "item": str(item["item"])}
    return Delete(Table.WORKER_ITEMS, key, Equals("sealed", value=True))


# --- contents --------------------------------------------------------------------------------------------------------


def is_page(item: Item) -> bool:
    return str(item.get("item", "")).startswith(PREFIX)


def page(item: Item) -> Page:
    """Decode a page item. Raises Malformed."""
    where = f"{item.get('item')} of worker {item.get('worker_id')!r}"
    number, version, packed = str(item.get("item")).removeprefix(PREFIX), item.get("version"), item.get("packed")
    if not number.isdecimal():
        raise Malformed(where, f"a page is called {PREFIX}<number>")
    if isinstance(version, bool) or not isinstance(version, int):
        raise Malformed(where, f"version must be a whole number, not {type(version).__name__}")
    if packed is not None and not isinstance(packed, bytes):
        raise Malformed(where, f"packed must be bytes, not {type(packed).__name__}")
    entries = () if packed is None else unpack(packed, where)
    return Page(int(number), version, "sealed" in item, entries)


def newest(pages: Iterable[Page]) -> dict[str, Saved]:
    """What a worker's pages say last of each connection."""
    found: dict[str, Saved] = {}
    for each in pages:
        for entry in each.entries:
            before = found.get(entry.connection_id)
            if before is None or (before.epoch, before.checkpoint_no) < (entry.epoch, entry.checkpoint_no):
                found[entry.connection_id] = entry
    return found


def pack(entries: Iterable[Saved]) -> bytes:
    """Compact JSON, deflated: ids, epochs and numbers have digits in common, and hosts repeat."""
    text = json.dumps([_row(entry) for entry in entries], separators=(",", ":"))
    packing = zlib.compressobj(9, zlib.DEFLATED, _RAW_DEFLATE)
    return packing.compress(text.encode()) + packing.flush()


def unpack(packed: bytes, where: str = "page") -> tuple[Saved, ...]:
    """Raises Malformed."""
    try:
        unpacking = zlib.decompressobj(_RAW_DEFLATE)
        text = unpacking.decompress(packed, LARGEST_UNPACKED)
        rows = json.loads(text) if unpacking.eof else None
    except (zlib.error, ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        raise Malformed(where, "packed is no list of positions, deflated")
    return tuple(_entry(row, where) for row in rows)


def size(worker_id: str, number: int, packed_bytes: int) -> int:
    """What DynamoDB counts for a page with so many packed bytes, in bytes."""
    names = ("schema", "worker_id", "item", "version", "packed", "sealed")
    numbers = 3 + 6  # schema; a version of up to ten digits
    return sum(map(len, names)) + len(worker_id.encode()) + len(f"{PREFIX}{number}") + numbers + 1 + packed_bytes


def estimate(entry: Saved) -> int:
    """About how many bytes an entry takes beside others of its kind, in a page: letters that do not repeat take five
    bits each, digits four, hosts a few bytes, and punctuation next to nothing."""
    position = entry.position
    digits = len(str(entry.epoch)) + len(str(entry.checkpoint_no))
    digits += len(str(position.sequence)) if isinstance(position.sequence, int | float) else 0
    letters = len(json.dumps(entry.connection_id)) + len(position.token or "")
    letters += len(position.sequence) if isinstance(position.sequence, str) else 0
    repeated = (position.instance is not None) + (position.resume_url is not None)
    return (letters * 5 + digits * 4) // 8 + 3 * repeated + 4


def _row(entry: Saved) -> list[Value]:
    position = entry.position
    row: list[Value] = [entry.connection_id, entry.epoch, entry.checkpoint_no, entry.spec_version]
    row += [position.sequence, position.instance, position.resume_url, position.token]
    while row[-1] is None:
        row.pop()
    return row


def _entry(row: object, where: str) -> Saved:
    """A row may end early, and a later release's may go on."""
    if not isinstance(row, list) or len(row) < 4:
        raise Malformed(where, "an entry is a list of connection_id, epoch, checkpoint_no, spec_version and a position")
    connection_id, epoch, checkpoint_no, spec_version, *rest = row
    sequence, *texts = (*rest, None, None, None, None)[:4]
    numbers_fit = all(isinstance(each, int) and not isinstance(each, bool) for each in row[1:4])
    texts_fit = all(isinstance(each, str | None) for each in texts)
    sequence_fits = isinstance(sequence, int | float | str | None) and not isinstance(sequence, bool)
    if not (isinstance(connection_id, str) and connection_id and numbers_fit and texts_fit and sequence_fits):
        raise Malformed(where, f"the entry of {connection_id!r} cannot be read")
    instance, resume_url, token = texts
    position = Position(sequence=sequence, instance=instance, resume_url=resume_url, token=token)
    return Saved(connection_id, epoch, checkpoint_no, spec_version, position)
