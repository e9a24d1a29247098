"""Deliveries that fail, come again, come twice: what was not processed is never dropped."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.consume.consumer import Consumer
from streamlease.consume.reader import Batch, HeldBack, Order, Reader, Verdict, id_of
from streamlease.consume.store import MemoryFences
from streamlease.envelope import Envelope
from tests.core.consume.envelopes import gap, record
from tests.core.consume.streams import interleavings, shards

A1, A2, A3 = record("a", 1, "1"), record("a", 2, "2"), record("a", 2, "3")
B1 = record("b", 1, "1")


class Failing(Exception):
    """What the caller's own work raises."""


def failing_at(*bad: Envelope, out: list[Envelope]) -> Callable[[Envelope], None]:
    def act(envelope: Envelope) -> None:
        if envelope in bad:
            raise Failing
        out.append(envelope)

    return act


def units_that_fail(
    batch: Batch, units: Sequence[tuple[Envelope, ...]], act: Callable[[Envelope], object]
) -> list[int]:
    """As Powertools does: every unit is tried, whatever became of those before."""
    failed = []
    for at, unit in enumerate(units):
        try:
            batch.each(unit, act)
        except (Failing, HeldBack):
            failed.append(at)
    return failed


# --- each ------------------------------------------------------------------------------------------------------------


def test_each_fresh_one_is_acted_upon_in_order_and_the_verdicts_are_counted() -> None:
    reader, out = Reader(), list[Envelope]()
    batch = reader.batch()
    counted = batch.each((A1, A2, A1, A2, B1), out.append)
    assert out == [A1, A2, B1]
    assert counted == Counter({Verdict.FRESH: 3, Verdict.STALE: 1, Verdict.DUPLICATE: 1})
    batch.each((B1,), out.append)
    assert batch.counted[Verdict.DUPLICATE] == 2
    assert batch.settled == {"a", "b"}


def test_a_record_of_an_older_epoch_that_failed_is_not_stale_when_it_comes_again() -> None:
    reader, out = Reader(), list[Envelope]()
    units = [(A1,), (A2,), (A3,)]
    assert units_that_fail(reader.batch(), units, failing_at(A1, out=out)) == [0, 1, 2]
    assert out == []
    assert units_that_fail(reader.batch(), units, out.append) == []
    assert out == [A1, A2, A3]


def test_of_a_unit_that_fails_half_way_the_first_half_is_dropped_when_it_comes_again() -> None:
    reader, out = Reader(), list[Envelope]()
    unit = (A1, A2, A3)
    assert units_that_fail(reader.batch(), [unit], failing_at(A2, out=out)) == [0]
    assert units_that_fail(reader.batch(), [unit], out.append) == []
    assert out == [A1, A2, A3]


def test_in_a_stream_a_failure_holds_back_everything_after_it_until_the_next_delivery() -> None:
    reader, out = Reader(Order.STREAM), list[Envelope]()
    batch = reader.batch()
    assert units_that_fail(batch, [(A1,), (B1,)], failing_at(A1, out=out)) == [0, 1]
    with pytest.raises(HeldBack, match="'b'"):
        batch.each((B1,), out.append)
    reader.batch().each((B1,), out.append)
    assert out == [B1]


def test_with_an_order_for_each_connection_a_failure_holds_back_its_connection_alone() -> None:
    reader, out = Reader(Order.CONNECTION), list[Envelope]()
    assert units_that_fail(reader.batch(), [(A1,), (B1,), (A2,)], failing_at(A1, out=out)) == [0, 2]
    assert out == [B1]


def test_what_shares_a_unit_with_a_failure_and_comes_after_it_is_held_back_too() -> None:
    reader, out = Reader(Order.CONNECTION), list[Envelope]()
    newer = record("b", 2, "2")
    assert units_that_fail(reader.batch(), [(A1, B1), (newer,)], failing_at(A1, out=out)) == [0, 1]
    assert units_that_fail(reader.batch(), [(A1, B1), (newer,)], out.append) == []
    assert out == [A1, B1, newer]


def test_without_an_order_a_failure_holds_back_nothing() -> None:
    reader, out = Reader(Order.NONE), list[Envelope]()
    assert units_that_fail(reader.batch(), [(A1,), (A2,)], failing_at(A1, out=out)) == [0]
    reader.batch().each((A1,), out.append)
    assert out == [A2, A1]


def test_what_ends_the_process_is_a_failure_too() -> None:
    reader = Reader()

    def act(envelope: Envelope) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reader.batch().each((A1,), act)
    assert reader.judge(A1) is Verdict.FRESH


# --- together --------------------------------------------------------------------------------------------------------


def test_all_fresh_ones_are_acted_upon_at_once_as_if_each_had_been_processed_before_the_next() -> None:
    reader, seen = Reader(), list[tuple[Envelope, ...]]()
    batch = reader.batch()
    counted = batch.together((A1, A1, A2, A1, B1, gap("b", 1)), seen.append)
    assert seen == [(A1, A2, B1, gap("b", 1))]
    assert counted == Counter({Verdict.FRESH: 4, Verdict.DUPLICATE: 1, Verdict.STALE: 1})
    batch.together((A1, A2), seen.append)
    assert len(seen) == 1


def test_nothing_is_remembered_of_what_failed_together() -> None:
    reader = Reader()
    before = reader.state()
    batch = reader.batch()

    def fail(envelopes: tuple[Envelope, ...]) -> None:
        raise Failing

    with pytest.raises(Failing):
        batch.together((A1, A2), fail)
    assert reader.state() == before
    with pytest.raises(HeldBack):
        batch.together((B1,), fail)


@given(interleavings())
def test_together_lets_through_what_each_does(envelopes: tuple[Envelope, ...]) -> None:
    one_by_one, at_once = list[Envelope](), list[tuple[Envelope, ...]]()
    first, second = Reader(), Reader()
    assert first.batch().each(envelopes, one_by_one.append) == second.batch().together(envelopes, at_once.append)
    assert tuple(one_by_one) == (at_once[0] if at_once else ())
    assert {name: first.mark(name) for name in "cd"} == {name: second.mark(name) for name in "cd"}


# --- a shard, read by functions that fail and die ---------------------------------------------------------------------

TROUBLES = st.sampled_from(["none", "none", "none", "act", "again", "dies", "dies saved"])


def not_stale(stream: tuple[Envelope, ...]) -> list[Envelope]:
    """What has to be processed: all but what stands behind a newer epoch of its connection."""
    newest: dict[str, int] = {}
    wanted = []
    for each in stream:
        newest[each.connection_id] = max(each.epoch, newest.get(each.connection_id, each.epoch))
        if each.epoch == newest[each.connection_id]:
            wanted.append(each)
    return wanted


@given(shards(), st.data(), st.sampled_from([0, 2, 100]))
def test_a_shard_is_read_whole_whatever_fails_comes_twice_or_dies(
    stream: tuple[Envelope, ...], data: st.DataObject, kept_ids: int
) -> None:
    """Lambda's own rule: from the first failure on, everything comes again. No record that is not stale goes missing,
    and but for the death of a process, epochs never fall."""
    store, out, has_died = MemoryFences(), list[Envelope](), False
    consumer = Consumer(store, kept_ids=kept_ids)
    left = [stream[at : at + 3] for at in range(0, len(stream), 3)]
    troubles = 0
    while left:
        units = left[: data.draw(st.integers(1, 4))]
        trouble = data.draw(TROUBLES) if troubles < 12 else "none"
        troubles += trouble != "none"
        dies = trouble.startswith("dies")
        fails_at = data.draw(st.integers(0, 9)) if trouble != "none" else -1
        before = len(out)

        def act(envelope: Envelope, fails_at: int = fails_at, before: int = before) -> None:
            if len(out) - before == fails_at:
                raise Failing
            out.append(envelope)

        batch = consumer.begin(each.connection_id for unit in units for each in unit)
        failed = units_that_fail(batch, units, act)
        if trouble != "dies":
            consumer.save(batch)
        if dies:
            has_died, consumer = True, Consumer(store, kept_ids=kept_ids)
        if not dies and trouble != "again":
            left = left[failed[0] if failed else len(units) :]
    ids = {(each.connection_id, id_of(each)) for each in out}
    for each in not_stale(stream):
        assert each in out if id_of(each) is None else (each.connection_id, id_of(each)) in ids
    for connection_id in "cd":
        epochs = [each.epoch for each in out if each.connection_id == connection_id]
        assert has_died or epochs == sorted(epochs)
        newest = max((each.epoch for each in out if each.connection_id == connection_id), default=None)
        assert newest is None or store.load([connection_id])[connection_id].epoch == newest


# --- a FIFO queue ----------------------------------------------------------------------------------------------------


@given(shards(), st.data())
def test_a_fifo_queue_is_read_whole_and_in_order_whatever_fails(
    stream: tuple[Envelope, ...], data: st.DataObject
) -> None:
    """Its rule: what fails comes again, before what follows it in its group."""
    reader, out = Reader(Order.CONNECTION), list[Envelope]()
    left = [(each,) for each in stream]
    failures = 0
    while left:
        units, rest = left[:5], left[5:]
        bad = data.draw(st.sets(st.sampled_from(range(len(units))))) if failures < 12 else set()
        failures += bool(bad)
        failing = [units[at][0] for at in bad]
        failed = units_that_fail(reader.batch(), units, failing_at(*failing, out=out))
        left = [units[at] for at in failed] + rest
    ids = {(each.connection_id, id_of(each)) for each in out}
    for each in not_stale(stream):
        assert each in out if id_of(each) is None else (each.connection_id, id_of(each)) in ids
    for connection_id in "cd":
        epochs = [each.epoch for each in out if each.connection_id == connection_id]
        assert epochs == sorted(epochs)


# --- a standard queue ------------------------------------------------------------------------------------------------


@given(shards(), st.data())
def test_a_standard_queue_loses_nothing_and_doubles_no_id_whatever_order_it_gives(
    stream: tuple[Envelope, ...], data: st.DataObject
) -> None:
    reader, out = Reader(Order.NONE), list[Envelope]()
    left = data.draw(st.permutations([(each,) for each in stream]))
    failures = 0
    while left:
        bad = data.draw(st.sets(st.sampled_from(range(len(left))))) if failures < 6 else set()
        failures += bool(bad)
        failing = [left[at][0] for at in bad]
        left = [left[at] for at in units_that_fail(reader.batch(), left, failing_at(*failing, out=out))]
    found = Counter((each.connection_id, id_of(each)) for each in out if id_of(each) is not None)
    assert set(found) == {(each.connection_id, id_of(each)) for each in stream if id_of(each) is not None}
    assert set(found.values()) <= {1}
    assert all(each in out for each in stream if id_of(each) is None)
