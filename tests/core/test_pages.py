"""Pages hold what they are given, in about a kilobyte, and tell what they cannot hold."""

import json
import random
import uuid
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import pages
from streamlease.errors import Malformed
from streamlease.model import Position, Saved
from streamlease.pages import PAGE_BYTES, Overtaken, Page, Unwritable, Written
from streamlease.write import Applied, Refused, apply, holds

TEXTS = st.text(min_size=1, max_size=40)
SEQUENCES = st.none() | st.integers() | st.floats(allow_nan=False) | TEXTS
POSITIONS = st.builds(Position, SEQUENCES, st.none() | TEXTS, st.none() | TEXTS, st.none() | TEXTS)
ENTRIES = st.builds(Saved, TEXTS, st.integers(0, 10**14), st.integers(1, 10**9), st.integers(1, 10**6), POSITIONS)
WORKER_ID = "3f2a9c0d1e2b4c5f8a7b6c5d4e3f2a1b-1a2b3c4d"
"""As long as a task's."""


@given(st.lists(ENTRIES, max_size=40))
def test_what_is_packed_is_unpacked(entries: list[Saved]) -> None:
    assert pages.unpack(pages.pack(entries)) == tuple(entries)


@given(st.lists(ENTRIES, max_size=5), st.integers(0, 300), st.booleans())
def test_a_page_is_read_as_it_was_written(entries: list[Saved], number: int, sealed: bool) -> None:
    item = apply(pages.create(WORKER_ID, number), None)
    assert item is not None
    assert pages.page(item) == Page(number, 0, sealed=False, entries=())
    item = apply(pages.write(WORKER_ID, number, version=3, entries=entries), item)
    assert item is not None
    if sealed:
        item = apply(pages.seal(item), item)
        assert item is not None
    assert pages.is_page(item)
    assert pages.page(item) == Page(number, 3, sealed, tuple(entries))


@given(st.binary(max_size=60))
def test_any_bytes_are_positions_or_malformed(packed: bytes) -> None:
    try:
        entries = pages.unpack(packed)
    except Malformed:
        return
    assert pages.unpack(pages.pack(entries)) == entries


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"item": "page#x"}, "page#<number>"),
        ({"version": None}, "version must be a whole number"),
        ({"version": True}, "version must be a whole number"),
        ({"packed": "text"}, "packed must be bytes"),
        ({"packed": b"\x00"}, "deflated"),
    ],
)
def test_a_page_that_cannot_be_read_is_named(changes: dict[str, Any], says: str) -> None:
    item = {"worker_id": "w1", "item": "page#1", "version": 1, **changes}
    with pytest.raises(Malformed, match=says) as caught:
        pages.page(item)
    assert str(caught.value).startswith(f"{item['item']} of worker 'w1'")


@pytest.mark.parametrize(
    "row",
    [
        "c1",
        ["c1", 1, 1],
        ["", 1, 1, 1],
        [7, 1, 1, 1],
        ["c1", "1", 1, 1],
        ["c1", True, 1, 1],
        ["c1", 1, 1.5, 1],
        ["c1", 1, 1, None],
        ["c1", 1, 1, 1, True],
        ["c1", 1, 1, 1, [2]],
        ["c1", 1, 1, 1, 2, 3],
    ],
)
def test_an_entry_that_cannot_be_read_is_malformed(row: Any) -> None:
    with pytest.raises(Malformed):
        pages.unpack(_deflated([row]))


def test_a_later_releases_entry_may_say_more() -> None:
    assert pages.unpack(_deflated([["c1", 1, 2, 3, 4, "i", "u", "t", {"more": 1}]])) == (
        Saved("c1", 1, 2, 3, Position(4, "i", "u", "t")),
    )


@given(st.lists(st.lists(ENTRIES, max_size=4), max_size=4))
def test_the_newest_of_all_pages_counts_wherever_it_stands(contents: list[list[Saved]]) -> None:
    found = pages.newest(_pages(contents))
    for entry in (entry for page in contents for entry in page):
        best = found[entry.connection_id]
        assert (best.epoch, best.checkpoint_no) >= (entry.epoch, entry.checkpoint_no)
    assert set(found.values()) <= {entry for page in contents for entry in page}


# --- what a write's answer means -------------------------------------------------------------------------------------


def test_m9_a_late_write_makes_no_page_and_changes_no_newer_or_sealed_one() -> None:
    late = pages.write("w1", 1, version=4, entries=())
    assert not holds(late.condition, None)
    assert not holds(late.condition, {"worker_id": "w1", "item": "page#1", "version": 4})
    assert not holds(late.condition, {"worker_id": "w1", "item": "page#1", "version": 3, "sealed": True})
    assert holds(late.condition, {"worker_id": "w1", "item": "page#1", "version": 3})


def test_a_page_that_is_made_twice_loses_nothing() -> None:
    assert not holds(pages.create("w1", 1).condition, {"worker_id": "w1", "item": "page#1", "version": 4})


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Applied(), Written()),
        (Refused(None), Unwritable("missing")),
        (Refused({"version": 2, "sealed": True}), Unwritable("sealed")),
        (Refused({"version": 9}), Overtaken(9)),
        (Refused({"version": "9"}), Unwritable("missing")),
    ],
)
def test_an_answer_says_whether_the_page_is_written(answer: Applied | Refused, outcome: object) -> None:
    assert pages.written(answer) == outcome


# --- size ------------------------------------------------------------------------------------------------------------


def plain(draws: random.Random) -> Saved:
    """36 characters that do not repeat, and one number."""
    connection_id = str(uuid.UUID(int=draws.getrandbits(128)))
    return _saved(connection_id, draws, Position(1_764_400_000_000_000 + draws.randrange(10**12)))


def discords(draws: random.Random) -> Saved:
    url, token = f"wss://gateway-us-east1-{draws.choice('abcd')}.discord.gg", f"{draws.getrandbits(128):032x}"
    position = Position(draws.randrange(10**6), "gateway.discord.gg", url, token)
    return _saved(str(uuid.UUID(int=draws.getrandbits(128))), draws, position)


@pytest.mark.parametrize(("entry", "least"), [(plain, 20), (discords, 13)])
def test_so_many_positions_go_into_one_write_unit(entry: Any, least: int) -> None:
    draws = random.Random(1)
    for _ in range(20):
        packed = pages.pack([entry(draws) for _ in range(least)])
        assert pages.size(WORKER_ID, 312, len(packed)) <= PAGE_BYTES


@pytest.mark.parametrize("entry", [plain, discords])
def test_an_estimate_is_not_far_from_the_truth(entry: Any) -> None:
    draws = random.Random(2)
    entries = [entry(draws) for _ in range(15)]
    assert 0.9 < sum(map(pages.estimate, entries)) / len(pages.pack(entries)) < 1.3


def test_a_pages_size_is_counted_with_the_names_and_keys_of_its_item() -> None:
    item = {"schema": 1, "worker_id": "w1", "item": "page#10", "version": 12, "packed": b"12345", "sealed": True}
    texts = sum(len(name) for name in item) + len("w1") + len("page#10") + 5 + 1
    assert texts + 2 + 2 <= pages.size("w1", 10, 5) <= texts + 9


def _saved(connection_id: str, draws: random.Random, position: Position) -> Saved:
    return Saved(connection_id, 1_764_400_000_000 + draws.randrange(10**9), draws.randrange(1, 5_000), 1, position)


def _pages(contents: Iterable[list[Saved]]) -> list[Page]:
    return [Page(number, 1, sealed=True, entries=tuple(entries)) for number, entries in enumerate(contents)]


def _deflated(rows: Any) -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packing.compress(json.dumps(rows).encode()) + packing.flush()
