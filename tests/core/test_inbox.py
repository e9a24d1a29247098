"""An inbox entry names a version, and goes with no other."""

from hypothesis import given
from hypothesis import strategies as st

from streamlease import inbox
from streamlease.inbox import Entry
from streamlease.plan import Notice
from streamlease.write import Item, apply, holds

IDS = st.sampled_from(["a", "b#1", "inbox#x", "ü"])
VERSIONS = st.integers(1, 5)


@given(IDS, st.lists(VERSIONS, min_size=1))
def test_the_newest_change_stays_in_whatever_order_they_arrive(connection_id: str, versions: list[int]) -> None:
    item: Item | None = None
    for version in versions:
        put = inbox.put(Notice("w1", connection_id, version))
        if holds(put.condition, item):
            item = apply(put, item)
    assert item is not None
    assert inbox.entries([item]) == (Entry(connection_id, max(versions)),)


@given(IDS, VERSIONS, VERSIONS)
def test_m13_what_arrived_after_it_was_acted_on_is_not_deleted(connection_id: str, acted_on: int, stored: int) -> None:
    item = apply(inbox.put(Notice("w1", connection_id, stored)), None)
    delete = inbox.delete("w1", Entry(connection_id, acted_on))
    assert holds(delete.condition, item) is (stored == acted_on)


def test_what_is_no_entry_is_left_out() -> None:
    listed: list[Item] = [
        {"item": "page#1", "version": 1},
        {"item": "inbox#", "spec_version": 1},
        {"item": "inbox#a", "spec_version": "1"},
        {"item": "inbox#a", "spec_version": True},
        {"item": "inbox#a"},
        {},
        {"item": "inbox#b", "spec_version": 2},
    ]
    assert inbox.entries(listed) == (Entry("b", 2),)
