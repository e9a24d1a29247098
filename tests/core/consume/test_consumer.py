"""A reader whose marks are kept in a store."""

from collections.abc import Iterable, Mapping

import pytest

from streamlease.consume.consumer import Consumer
from streamlease.consume.reader import Mark
from streamlease.consume.store import MemoryFences
from streamlease.envelope import Envelope
from streamlease.errors import Unreachable
from tests.core.consume.envelopes import record


class Counting(MemoryFences):
    """Remembers what is written, and can be out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Mapping[str, Mark]] = []
        self.is_gone = False

    def load(self, connection_ids: Iterable[str]) -> dict[str, Mark]:
        self._reach()
        return super().load(connection_ids)

    def save(self, marks: Mapping[str, Mark]) -> dict[str, Mark]:
        self._reach()
        self.written.append(marks)
        return super().save(marks)

    def _reach(self) -> None:
        if self.is_gone:
            raise Unreachable("no answer")


def process(consumer: Consumer, *envelopes: Envelope) -> list[Envelope]:
    out: list[Envelope] = []
    batch = consumer.begin(each.connection_id for each in envelopes)
    batch.each(envelopes, out.append)
    consumer.save(batch)
    return out


def test_without_ids_the_store_is_written_only_where_an_epoch_has_changed() -> None:
    store = Counting()
    consumer = Consumer(store)
    process(consumer, record("c", 1, "1"), record("d", 1, "1"))
    process(consumer, record("c", 1, "2"), record("d", 2, "2"))
    process(consumer, record("c", 1, "3"), record("d", 1, "3"))
    assert store.written == [{"c": Mark(1), "d": Mark(1)}, {"d": Mark(2)}]


def test_with_ids_the_newest_are_written_at_every_batch_that_has_new_ones() -> None:
    store = Counting()
    consumer = Consumer(store, kept_ids=2)
    process(consumer, *(record("c", 1, record_id) for record_id in "123"))
    process(consumer, record("c", 1, "3"))
    process(consumer, record("c", 1, "4"))
    assert store.written == [{"c": Mark(1, ("2", "3"))}, {"c": Mark(1, ("3", "4"))}]


def test_ids_of_two_processes_come_together_in_the_store() -> None:
    store = Counting()
    one, two = Consumer(store, kept_ids=9), Consumer(store, kept_ids=9)
    process(one, record("c", 1, "1"))
    process(two, record("c", 1, "2"))
    assert process(one, record("c", 1, "2"), record("c", 1, "1")) == []
    assert store.load("c") == {"c": Mark(1, ("1", "2"))}


def test_who_was_overtaken_by_another_reader_is_told_and_goes_on_under_the_newer_fence() -> None:
    store = Counting()
    one, two = Consumer(store), Consumer(store)
    batch = one.begin(["c"])
    process(two, record("c", 2, "2"))
    batch.each([record("c", 1, "1")], lambda _: None)
    assert one.save(batch) == {"c"}
    assert store.load(["c"]) == {"c": Mark(2)}
    store.is_gone = True
    out: list[Envelope] = []
    one.reader.batch().each([record("c", 1, "3")], out.append)
    assert out == []


def test_a_store_out_of_reach_fails_the_batch_and_what_was_processed_is_told_by_its_ids_when_it_comes_again() -> None:
    store = Counting()
    consumer = Consumer(store)
    batch, out = consumer.begin(["c"]), list[Envelope]()
    batch.each([record("c", 1, "1")], out.append)
    store.is_gone = True
    with pytest.raises(Unreachable):
        consumer.save(batch)
    with pytest.raises(Unreachable):
        consumer.begin(["c"])
    store.is_gone = False
    assert process(consumer, record("c", 1, "1")) == []
    assert store.load(["c"]) == {"c": Mark(1)}


@pytest.mark.parametrize("kept_ids", [-1, 1_025])
def test_more_ids_than_fit_into_an_item_are_refused(kept_ids: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 1024"):
        Consumer(MemoryFences(), kept_ids=kept_ids)
