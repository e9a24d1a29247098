"""What a reader lets through, for any course of things."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.consume.reader import Limits, Mark, Order, Reader, Verdict, id_of
from streamlease.envelope import Envelope
from streamlease.errors import Malformed
from streamlease.write import Value
from tests.core.consume.envelopes import gap, record
from tests.core.consume.streams import interleavings


def read(reader: Reader, envelopes: tuple[Envelope, ...]) -> list[Envelope]:
    """What comes out, when each is processed at once."""
    out: list[Envelope] = []
    reader.batch().each(envelopes, out.append)
    return out


# --- for any interleaving of two epochs or more ----------------------------------------------------------------------


@given(interleavings())
def test_the_epochs_of_a_connection_never_fall(envelopes: tuple[Envelope, ...]) -> None:
    out = read(Reader(), envelopes)
    for connection_id in "cd":
        epochs = [each.epoch for each in out if each.connection_id == connection_id]
        assert epochs == sorted(epochs)


@given(interleavings())
def test_no_record_id_of_a_connection_comes_out_twice(envelopes: tuple[Envelope, ...]) -> None:
    for order in Order:
        out = Counter((each.connection_id, id_of(each)) for each in read(Reader(order), envelopes))
        assert all(times == 1 for (_, record_id), times in out.items() if record_id is not None)


@given(interleavings(), st.integers(1, 4), st.integers(1, 6))
def test_within_a_small_window_no_record_id_comes_out_twice(
    envelopes: tuple[Envelope, ...], per_connection: int, total: int
) -> None:
    reader = Reader(limits=Limits(ids_per_connection=per_connection, ids=total))
    uses: list[tuple[str, str | None]] = []
    for each in envelopes:
        if id_of(each) is None:
            continue
        use, verdict = (each.connection_id, id_of(each)), reader.judge(each)
        if verdict is Verdict.FRESH and use in uses:
            last = max(at for at, before in enumerate(uses) if before == use)
            others = set(uses[last + 1 :])
            assert len(others) >= total or sum(owner == use[0] for owner, _ in others) >= per_connection
        reader.batch().each([each], lambda _: None)
        if verdict is not Verdict.STALE:
            uses.append(use)


@given(interleavings())
def test_no_record_of_the_newest_epoch_is_lost(envelopes: tuple[Envelope, ...]) -> None:
    out = read(Reader(), envelopes)
    newest = {each.connection_id: 0 for each in envelopes}
    for each in envelopes:
        newest[each.connection_id] = max(newest[each.connection_id], each.epoch)
    ids = {(each.connection_id, id_of(each)) for each in out}
    wanted = [each for each in envelopes if each.epoch == newest[each.connection_id]]
    assert all((each.connection_id, id_of(each)) in ids for each in wanted if id_of(each) is not None)
    without_ids = Counter(each for each in wanted if id_of(each) is None)
    assert all(out.count(each) == times for each, times in without_ids.items())


@given(interleavings())
def test_only_what_is_stale_or_a_duplicate_is_dropped(envelopes: tuple[Envelope, ...]) -> None:
    reader = Reader()
    out: list[Envelope] = []
    for each in envelopes:
        verdict = reader.judge(each)
        before = [other for other in out if other.connection_id == each.connection_id]
        is_stale = any(other.epoch > each.epoch for other in before)
        is_duplicate = id_of(each) is not None and any(id_of(other) == id_of(each) for other in before)
        expected = Verdict.STALE if is_stale else Verdict.DUPLICATE if is_duplicate else Verdict.FRESH
        assert verdict is expected
        if verdict is Verdict.FRESH:
            reader.processed(each)
            out.append(each)


@given(interleavings())
def test_without_an_order_nothing_but_duplicates_is_dropped(envelopes: tuple[Envelope, ...]) -> None:
    out = read(Reader(Order.NONE), envelopes)
    assert {(e.connection_id, id_of(e)) for e in out} == {(e.connection_id, id_of(e)) for e in envelopes}
    assert [each for each in out if id_of(each) is None] == [each for each in envelopes if id_of(each) is None]


@given(interleavings(), st.integers(0, 40))
def test_a_reader_that_is_kept_elsewhere_and_restored_goes_on_as_if_nothing_had_been(
    envelopes: tuple[Envelope, ...], cut: int
) -> None:
    reader = Reader()
    first = read(reader, envelopes[:cut])
    restored = Reader.restored(json.loads(json.dumps(reader.state())))
    assert first + read(restored, envelopes[cut:]) == read(Reader(), envelopes)
    assert restored.state() == reader.state() or cut < len(envelopes)


# --- one by one ------------------------------------------------------------------------------------------------------


def test_until_it_has_been_processed_a_record_stays_fresh_and_raises_no_fence() -> None:
    reader = Reader()
    newer, older = record("c", 2, "1"), record("c", 1, "2")
    assert [reader.judge(each) for each in (newer, newer, older)] == [Verdict.FRESH] * 3
    reader.processed(newer)
    assert [reader.judge(each) for each in (newer, older)] == [Verdict.DUPLICATE, Verdict.STALE]


def test_a_gap_raises_the_fence_and_is_fenced_but_is_never_a_duplicate() -> None:
    reader = Reader()
    assert read(reader, (gap("c", 2), gap("c", 2))) == [gap("c", 2), gap("c", 2)]
    assert reader.judge(gap("c", 1)) is Verdict.STALE


def test_a_duplicate_that_is_seen_makes_its_id_new() -> None:
    reader = Reader(limits=Limits(ids_per_connection=2))
    envelopes = tuple(record("c", 1, record_id) for record_id in ("1", "2", "1", "3", "1"))
    assert [id_of(each) for each in read(reader, envelopes)] == ["1", "2", "3"]


def test_a_rewound_connection_can_be_read_again_under_its_fence() -> None:
    reader = Reader()
    read(reader, (record("c", 2, "1"), record("d", 2, "1")))
    reader.forget_records("c")
    again = (record("c", 2, "1"), record("c", 1, "0"), record("d", 2, "1"))
    assert read(reader, again) == [record("c", 2, "1")]


def test_what_another_has_processed_is_adopted_and_takes_nothing_back() -> None:
    reader = Reader()
    read(reader, (record("c", 5, "1"),))
    reader.adopt("c", Mark(4, ("2",)))
    reader.adopt("d", Mark(9))
    assert [reader.judge(record("c", 4, "x")), reader.judge(record("d", 8, "x"))] == [Verdict.STALE] * 2
    assert [reader.judge(record("c", 5, record_id)) for record_id in "12"] == [Verdict.DUPLICATE] * 2


def test_a_mark_has_the_newest_ids() -> None:
    reader = Reader()
    read(reader, tuple(record("c", 3, str(number)) for number in range(5)))
    assert reader.mark("c", 2) == Mark(3, ("3", "4"))
    assert reader.mark("c", 0) == Mark(3)
    assert reader.mark("c") == Mark(3, ("0", "1", "2", "3", "4"))
    assert reader.mark("d") is None


GOOD: dict[str, Value] = {"v": 1, "order": "stream", "connections": {"c": {"epoch": 1, "record_ids": ["1"]}}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"v": 2}, "v must be 1"),
        ({"connections": []}, "connections"),
        ({"order": "random"}, "order must be one of stream, connection, none"),
        ({"connections": {"c": 1}}, "connection 'c': epoch"),
        ({"connections": {"c": {"epoch": True}}}, "connection 'c': epoch"),
        ({"connections": {"c": {"epoch": 1, "record_ids": "12"}}}, "record_ids must be a list"),
        ({"connections": {"c": {"epoch": 1, "record_ids": [1]}}}, "record_ids must be texts"),
    ],
)
def test_a_state_that_cannot_be_read_is_refused_with_a_sentence(change: dict[str, Value], why: str) -> None:
    assert Reader.restored(GOOD).state() == GOOD
    with pytest.raises(Malformed, match=why):
        Reader.restored({**GOOD, **change})
