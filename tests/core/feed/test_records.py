"""Many records in a message, numbers that prove continuity, windows, cursors of other instances, and floors."""

import json
import weakref
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.feed.bounds import LONGEST_US, Bounds
from streamlease.feed.decoding import MOST_ENTRIES, Undecodable
from streamlease.feed.events import Closed, Deliver, Dial, Finished, Message, Record
from streamlease.feed.feed import Feed, RecordShape, Resume, Rule
from streamlease.feed.recent import Window
from streamlease.feed.shape import Dedupe, Extract, Part, Series
from streamlease.model import Position
from tests.core.feed.driver import WALL_MS, Driver, jetstream, path, ticker


def listed(**shape: Any) -> Feed:
    """Records are entries of `data`, and the sequence is the message's."""
    made = RecordShape(each=path("data"), sequence=path("seq"), of_message=frozenset({"sequence"}), **shape)
    return replace(jetstream(), record=made, resume=Resume({"c": "{sequence}"}, inclusive=False))


def own_numbers(**changes: Any) -> Feed:
    """Records are entries of `data`, each with a sequence of its own."""
    return replace(jetstream(), record=RecordShape(each=path("data"), sequence=path("n"), unique=True), **changes)


def series(driver: Driver, *entries: Any) -> list[tuple[object, object]]:
    for entry in entries:
        driver.message(entry)
    return [(gap.from_sequence, gap.to_sequence) for gap in driver.gaps]


# --- many records in one message --------------------------------------------------------------------------------------


def test_each_entry_is_a_record_and_a_sequence_of_the_message_numbers_them_below_it() -> None:
    driver = Driver(listed(unique=True))
    driver.stream()
    commands = driver.message({"seq": 5, "data": ["a", "b"]})
    assert len([command for command in commands if isinstance(command, Deliver)]) == 1
    assert [(record.sequence, record.record_id, record.payload) for record in driver.records] == [
        (5, "5/0", "a"),
        (5, "5/1", "b"),
    ]


def test_no_position_lies_within_a_message() -> None:
    driver = Driver(own_numbers())
    driver.stream()
    driver.message({"data": [{"n": 7}, {"n": 6}, {"n": 5}]})
    driver.acknowledge(2)
    assert driver.sequence() is None
    driver.acknowledge(3)
    assert driver.sequence() == 7


def test_no_position_lies_within_a_frame_of_several_messages() -> None:
    feed = replace(jetstream(), decode=lambda data: [{"time_us": 9}, {"time_us": 8}] if data == "2" else [])
    driver = Driver(feed)
    driver.stream()
    driver.on(Message("2", WALL_MS))
    driver.acknowledge(1)
    assert driver.sequence() is None
    driver.acknowledge(2)
    assert driver.sequence() == 9
    assert driver.on(Message("0", WALL_MS)) == []


def test_a_frame_that_was_broken_off_moves_no_position_for_what_was_left_of_it_is_still_to_come() -> None:
    frame: list[Any] = [{"time_us": 9}, {"bye": True}, {"time_us": 8}]
    rule = Rule(message=path("bye"), action="retry", name="goodbye")
    driver = Driver(replace(jetstream(), decode=lambda _: frame, rules=(rule,)))
    driver.stream()
    driver.on(Message("", WALL_MS))
    assert [record.sequence for record in driver.records] == [9]
    driver.acknowledge_all()
    assert driver.sequence() is None


def test_a_message_without_the_list_or_with_too_many_entries_is_delivered_whole() -> None:
    driver = Driver(listed())
    driver.stream()
    driver.message({"seq": 1, "type": "hello"})
    driver.message({"seq": 2, "data": [0] * (MOST_ENTRIES + 1)})
    driver.message({"seq": 3, "data": []})
    assert [record.sequence for record in driver.records] == [1, 2]
    assert (driver.counted("no_entries"), driver.counted("too_many")) == (1, 1)


def test_of_a_message_with_too_many_entries_a_path_into_an_entry_is_not_read() -> None:
    """What it would find in the message is something else: a cursor of another kind, or a part of what is there."""
    driver = Driver(own_numbers(bounds=Bounds(per_record_us=LONGEST_US / 2)))
    driver.stream()
    driver.message({"data": [{"n": 1}]})
    driver.message({"n": 999, "data": [{"n": 2}, {"n": 3}, {"n": 4}]})
    assert [record.sequence for record in driver.records] == [1, None]
    driver.acknowledge_all()
    assert driver.sequence() == 1
    for payload, of_message in ((path("p"), frozenset[Part]()), (path("p"), frozenset[Part]({"payload"}))):
        shape = RecordShape(each=path("data"), payload=payload, of_message=of_message)
        driver = Driver(replace(ticker(), record=shape, bounds=Bounds(per_record_us=LONGEST_US / 2)))
        driver.stream()
        message = {"p": "a part", "data": [{"p": 2}, {"p": 3}, {"p": 4}]}
        driver.message(message)
        assert [record.payload for record in driver.records] == [message]


def test_two_messages_with_too_many_entries_are_no_duplicates_of_each_other() -> None:
    def key(value: Any) -> Any:
        return [path("s")(value), path("id")(value)]

    for dedupe, record_id in ((Dedupe(key), None), (Dedupe(), path("id")), (Dedupe(path("id")), None)):
        shape = RecordShape(each=path("data"), record_id=record_id, dedupe=dedupe)
        driver = Driver(replace(ticker(), record=shape, bounds=Bounds(per_record_us=LONGEST_US / 2)))
        driver.stream()
        for number in range(2):
            driver.message({"id": "same", "s": "A", "data": [{"s": "A", "id": number}] * 3})
        assert (len(driver.records), driver.counted("duplicate")) == (2, 0)


def test_a_record_that_lacks_a_part_of_its_key_is_no_duplicate() -> None:
    shape = RecordShape(dedupe=Dedupe(lambda value: [path("s")(value), path("id")(value)]))
    driver = Driver(replace(ticker(), record=shape))
    driver.stream()
    for entry in ({"s": "A", "is": "up"}, {"s": "A", "is": "down"}, {"s": "A", "id": 1}, {"s": "A", "id": 1}):
        driver.message(entry)
    assert (len(driver.records), driver.counted("duplicate")) == (3, 1)


def test_a_list_without_entries_is_no_record_however_many_there_were_before_it() -> None:
    frame: list[Any] = [{"data": [1, 2, 3]}, {"data": [4, 5, 6]}, {"data": []}]
    shape = RecordShape(each=path("data"))
    bounds = Bounds(per_record_us=LONGEST_US / 3)
    driver = Driver(replace(ticker(), decode=lambda _: frame, record=shape, bounds=bounds))
    driver.stream()
    driver.on(Message("", WALL_MS))
    assert [record.payload for record in driver.records] == [1, 2, 3, {"data": [4, 5, 6]}]


def test_records_that_would_repeat_a_long_message_time_and_again_are_delivered_as_one() -> None:
    shape = RecordShape(each=path("data"), payload=path("head"), of_message=frozenset({"payload"}))
    driver = Driver(replace(ticker(), record=shape))
    driver.stream()
    driver.message({"head": "x" * 100_000, "data": [0] * 20})
    assert len(driver.records) == 20
    driver.message({"head": "x" * 100_000, "data": [0] * 30})
    assert (len(driver.records), driver.counted("too_many")) == (21, 1)


def test_w37_the_messages_of_one_frame_give_no_more_records_together_than_one_of_them_may() -> None:
    def lists(data: str | bytes) -> list[Any]:
        return [{"data": [0] * 6_000} for _ in range(int(data))]

    feed = replace(jetstream(), decode=lists, record=RecordShape(each=path("data")))
    driver = Driver(feed)
    driver.stream()
    driver.on(Message("2", WALL_MS))
    assert (len(driver.records), driver.counted("too_many")) == (12_000, 0)
    driver.on(Message("4", WALL_MS))
    assert (len(driver.records), driver.counted("too_many")) == (24_002, 2)
    driver.on(Message("1", WALL_MS))
    assert (len(driver.records), driver.counted("too_many")) == (30_002, 2)


def test_w37_a_frame_that_would_take_too_long_is_delivered_as_it_came_and_counted() -> None:
    def many(data: str | bytes) -> list[Any]:
        return [{"n": index} for index in range(int(data))]

    feed = replace(jetstream(), decode=many, record=RecordShape(), bounds=Bounds(per_message_us=LONGEST_US / 10))
    driver = Driver(feed)
    driver.stream()
    driver.on(Message("10", WALL_MS))
    assert (len(driver.records), driver.counted("too_many")) == (10, 0)
    driver.on(Message("11", WALL_MS))
    assert [record.payload for record in driver.records[10:]] == ["11"]
    assert driver.counted("too_many") == 1


def test_w37_a_message_with_more_values_than_are_looked_through_is_delivered_as_it_came() -> None:
    feed = replace(jetstream(), record=RecordShape(), bounds=Bounds(per_value_us=LONGEST_US / 100))
    driver = Driver(feed)
    driver.stream()
    driver.message([0] * 99)
    assert (len(driver.records), driver.counted("too_many")) == (1, 0)
    driver.message([0] * 100)
    assert (driver.records[1].payload, driver.counted("too_many")) == (json.dumps([0] * 100), 1)


def test_w37_a_message_with_more_entries_of_lists_than_are_looked_through_is_delivered_as_it_came() -> None:
    driver = Driver(replace(jetstream(), record=RecordShape(), bounds=Bounds(per_entry_us=LONGEST_US / 100)))
    driver.stream()
    fits, exceeds = [{"a": 0, "b": 0}] * 50 + [[0] * 49], [{"a": 0, "b": 0}] * 50 + [[0] * 50]
    driver.message({"d": fits})
    assert (driver.records[0].payload, driver.counted("too_many")) == ({"d": fits}, 0)
    driver.message({"d": exceeds})
    assert (driver.records[1].payload, driver.counted("too_many")) == (json.dumps({"d": exceeds}), 1)


def test_w37_what_is_read_of_the_message_is_read_once_for_all_its_records_and_not_kept() -> None:
    seen: list[Any] = []

    def key(message: Any) -> Any:
        seen.append(message)
        return message["k"]

    shape = RecordShape(
        each=path("data"),
        dedupe=Dedupe(key),
        series=Series(number=path("n"), key=key),
        record_id=key,
        of_message=frozenset({"dedupe", "key", "record_id"}),
    )
    driver = Driver(replace(ticker(), record=shape))
    driver.stream()
    driver.message({"k": [1, 2], "data": [{"n": 1}, {"n": 2}, {"n": 3}]})
    assert len(seen) == 3
    driver.message({"k": [3], "data": [{"n": 1}]})
    assert [record.record_id for record in driver.records] == ["1/2", "3"]
    assert len(seen) == 6


def test_w37_what_was_read_of_a_message_for_its_number_alone_is_not_kept() -> None:
    class Long(list[Any]):
        """That can be referred to weakly."""

    message = Long([7])
    kept = weakref.ref(message)
    frames = [message]
    series = Series(number=path(0), of_messages=True)
    shape = RecordShape(each=path("data"), when=path("no"), series=series, of_message=frozenset({"number"}))
    driver = Driver(replace(ticker(), decode=lambda _: [frames.pop()], record=shape))
    driver.stream()
    driver.on(Message("", WALL_MS))
    del message
    assert kept() is None


def test_w37_a_number_of_thousands_of_digits_is_neither_a_cursor_nor_an_id() -> None:
    feed = replace(ticker(), record=RecordShape(sequence=path("n"), sequence_type="string", record_id=path("n")))
    driver = Driver(feed)
    driver.stream()
    driver.on(Message(f'{{"n": {"1" * 1_000}}}', WALL_MS))
    driver.on(Message(f'{{"n": {"1" * 1_100}}}', WALL_MS))
    assert [(record.sequence, record.record_id) for record in driver.records] == [
        ("1" * 1_000, "1" * 1_000),
        (None, None),
    ]


def test_w37_what_was_read_of_a_message_is_forgotten_with_it() -> None:
    message: dict[str, Any] = {"k": "a", "data": [0]}
    shape = RecordShape(each=path("data"), record_id=path("k"), of_message=frozenset({"record_id"}))
    driver = Driver(replace(ticker(), decode=lambda _: [message], record=shape))
    driver.stream()
    driver.on(Message("", WALL_MS))
    message["k"] = "b"
    driver.on(Message("", WALL_MS))
    assert [record.record_id for record in driver.records] == ["a", "b"]


def test_an_id_of_several_parts_is_joined_and_is_none_where_a_part_is_missing() -> None:
    feed = replace(ticker(), record=RecordShape(record_id=lambda value: [path("s")(value), path("n")(value)]))
    driver = Driver(feed)
    driver.stream()
    for entry in ({"s": "A", "n": 1}, {"s": "A"}, {"s": "", "n": 2}, {"s": [3, "x"], "n": 4}):
        driver.message(entry)
    assert [record.record_id for record in driver.records] == ["A/1", None, None, "3/x/4"]


def test_w37_what_cannot_be_decoded_is_counted_and_delivered_as_it_came_and_the_connection_goes_on() -> None:
    def bomb(data: str | bytes) -> list[Any]:
        raise Undecodable("too_large")

    driver = Driver(replace(jetstream(), decode=bomb))
    driver.stream()
    driver.on(Message(b"\x1f\x8b", WALL_MS))
    assert [(record.payload, record.sequence) for record in driver.records] == [(b"\x1f\x8b", None)]
    assert driver.counted("too_large") == 1
    assert driver.socket == "open"
    assert len(driver.all(Dial)) == 1


def test_w37_a_message_too_large_for_the_socket_at_the_same_cursor_is_quarantined_instead_of_dialled_for_ever() -> None:
    driver = Driver(jetstream(), Position(5, "jetstream.test"))
    for _ in range(2):
        driver.stream()
        driver.on(Closed("the upstream sent a message of more than 1,048,576 bytes", code=1009), after_s=2)
        driver.wake()
    driver.stream()
    driver.on(Closed("the upstream sent a message of more than 1,048,576 bytes", code=1009))
    assert driver.counted("oversized") == 3
    assert driver.last(Finished).outcome == "quarantined"
    assert "1,048,576 bytes" in driver.last(Finished).reason


# --- series -----------------------------------------------------------------------------------------------------------


def numbered(**how: Any) -> Feed:
    return replace(ticker(), record=RecordShape(series=Series(number=path("n"), **how)))


def test_a_jump_within_one_key_is_a_gap_of_that_key_and_no_others() -> None:
    driver = Driver(numbered(key=path("s")))
    driver.stream()
    told = series(
        driver, {"s": "A", "n": 1}, {"s": "B", "n": 70}, {"s": "A", "n": 2}, {"s": "A", "n": 5}, {"s": "B", "n": 71}
    )
    assert told == [(2, 5)]
    assert driver.gaps[0].reason == "A: numbers rise by one here, and 2 are missing"
    assert [type(delivery).__name__ for delivery in driver.deliveries][2:5] == ["Record", "Gap", "Record"]


def test_ranges_have_to_meet() -> None:
    driver = Driver(numbered(first=path("U")))
    driver.stream()
    told = series(
        driver, {"U": 1, "n": 10}, {"U": 11, "n": 15}, {"U": 14, "n": 20}, {"U": 22, "n": 25}, {"U": 3, "n": 9}
    )
    assert told == [(20, 22)]
    assert series(driver, {"U": 26, "n": 30}) == [(20, 22)]


def test_a_record_that_names_the_one_before_may_jump_and_even_fall() -> None:
    driver = Driver(numbered(previous=path("p")))
    driver.stream()
    assert series(driver, {"p": -1, "n": 10}, {"p": 10, "n": 15}, {"p": 15, "n": 15}, {"p": 15, "n": 3}) == []
    assert series(driver, {"p": 3, "n": 9}, {"p": 11, "n": 12}) == [(9, 12)]
    assert series(driver, {"p": 9, "n": 11}, {"n": 20}) == [(9, 12), (12, 20)]
    assert series(driver, {"p": -1, "n": 1}, {"p": 1, "n": 2}) == [(9, 12), (12, 20)]


def test_a_series_begins_anew_where_a_record_says_so() -> None:
    driver = Driver(numbered(restart=lambda entry: path("n")(entry) == 1))
    driver.stream()
    assert series(driver, {"n": 500}, {"n": 501}, {"n": 1}, {"n": 2}) == []
    assert series(driver, {"n": 4}) == [(2, 4)]


def test_an_entry_without_a_number_proves_nothing_and_is_counted() -> None:
    driver = Driver(numbered())
    driver.stream()
    assert series(driver, {"n": 1}, {}, {"n": "x"}, {"n": 1.5}, {"n": 2}) == []
    assert driver.counted("unreadable_number") == 3


def test_w33_a_lost_socket_of_a_feed_without_a_cursor_is_one_gap_and_its_series_begin_anew() -> None:
    driver = Driver(numbered(key=path("s")))
    driver.stream()
    driver.message({"s": "A", "n": 1})
    driver.again()
    driver.stream()
    assert series(driver, {"s": "A", "n": 9}, {"s": "A", "n": 10}) == [(None, None)]


def test_a_series_goes_on_over_a_resume_unless_numbers_are_the_sockets_own() -> None:
    for per_socket, told in ((False, [(1, 5)]), (True, [])):
        feed = replace(
            jetstream(),
            record=RecordShape(sequence=path("time_us"), series=Series(number=path("n"), per_socket=per_socket)),
        )
        driver = Driver(feed)
        driver.stream()
        driver.message({"time_us": 1, "n": 1})
        driver.acknowledge_all()
        driver.again()
        driver.stream()
        assert series(driver, {"time_us": 2, "n": 5}) == told


def test_the_keys_of_a_series_are_bounded_and_the_one_unseen_for_the_longest_is_forgotten() -> None:
    driver = Driver(numbered(key=path("s"), most_keys=2))
    driver.stream()
    told = series(
        driver,
        {"s": "A", "n": 1},
        {"s": "B", "n": 1},
        {"s": "A", "n": 2},
        {"s": "C", "n": 1},
        {"s": "B", "n": 9},
        {"s": "C", "n": 3},
    )
    assert told == [(1, 3)]


@pytest.mark.parametrize("of_frames", [True, False])
def test_what_was_not_taken_apart_may_have_begun_a_series_anew_so_it_leaves_a_gap(*, of_frames: bool) -> None:
    """Or the lower numbers after it would prove nothing until they have passed those before."""
    how = Series(number=path("n"), restart=lambda entry: path("n")(entry) == 1)
    bounds = Bounds(per_value_us=LONGEST_US / 10) if of_frames else Bounds(per_record_us=LONGEST_US / 2)
    driver = Driver(replace(ticker(), record=RecordShape(each=path("data"), series=how), bounds=bounds))
    driver.stream()
    driver.message({"data": [{"n": 500}]})
    driver.message({"data": [{"n": 1}, {"n": 2}, {"n": 3}]})
    assert driver.counted("too_many") == 1
    assert [type(delivery).__name__ for delivery in driver.deliveries] == ["Record", "Gap", "Record"]
    assert series(driver, {"data": [{"n": 4}]}, {"data": [{"n": 9}]})[1:] == [(4, 9)]


def test_numbers_that_only_rise_tell_themselves_what_is_missing_after_what_was_not_taken_apart() -> None:
    driver = Driver(replace(numbered(), bounds=Bounds(per_value_us=LONGEST_US / 10)))
    driver.stream()
    assert series(driver, {"n": 1}, {"n": 2, "x": [0] * 9}) == []
    assert driver.counted("too_many") == 1
    assert series(driver, {"n": 3}) == [(1, 3)]


@pytest.mark.parametrize("key", [None, path("s")])
def test_a_series_may_have_begun_in_what_was_not_taken_apart_so_it_leaves_a_gap(key: Extract | None) -> None:
    driver = Driver(replace(numbered(key=key), bounds=Bounds(per_value_us=LONGEST_US / 15)))
    driver.stream()
    if key is not None:
        driver.message({"s": "A", "n": 1})
    assert series(driver, {"s": "B", "n": 7, "x": [0] * 9}) == [(None, None)]
    assert driver.counted("too_many") == 1
    assert [type(delivery).__name__ for delivery in driver.deliveries][-2:] == ["Gap", "Record"]
    assert series(driver, {"s": "B", "n": 9}, {"s": "B", "n": 10}) == [(None, None)]
    if key is not None:
        assert series(driver, {"s": "A", "n": 3})[1:] == [(1, 3)]


def test_sequences_without_one_that_they_follow_do_not_tell_what_is_missing_after_what_was_not_taken_apart() -> None:
    record = RecordShape(sequence=path("n"), contiguous=True)
    driver = Driver(replace(ticker(), record=record, bounds=Bounds(per_value_us=LONGEST_US / 10)))
    driver.stream()
    long = {"x": [0] * 9}
    assert series(driver, {"n": 1} | long, {"n": 4}, {"n": 5} | long, {"n": 6}) == [(None, None), (4, 6)]


@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(1, 4)), max_size=40))
def test_every_number_left_out_of_a_series_lies_within_a_gap_of_it(steps: list[tuple[str, int]]) -> None:
    driver = Driver(numbered(key=path("s")))
    driver.stream()
    reached = {"A": 0, "B": 0}
    missing: set[tuple[str, int]] = set()
    for key, rise in steps:
        if reached[key]:
            missing.update((key, number) for number in range(reached[key] + 1, reached[key] + rise))
        reached[key] += rise
        driver.message({"s": key, "n": reached[key]})
    told = {
        (gap.reason[0], number)
        for gap in driver.gaps
        if isinstance(gap.from_sequence, int) and isinstance(gap.to_sequence, int)
        for number in range(gap.from_sequence + 1, gap.to_sequence)
    }
    assert told == missing


# --- duplicates -------------------------------------------------------------------------------------------------------


def test_a_declared_window_drops_what_came_within_it_and_nothing_after() -> None:
    feed = replace(ticker(), record=RecordShape(dedupe=Dedupe(path("id"), within_s=10)))
    driver = Driver(feed)
    driver.stream()
    for id_, after_ms in ((1, 0), (2, 1), (1, 10_000), (1, 10_001), (None, 10_002), (None, 10_003)):
        driver.message({"id": id_}, at_ms=WALL_MS + after_ms)
    assert [record.received_at_ms - WALL_MS for record in driver.records] == [0, 1, 10_001, 10_002, 10_003]
    assert driver.counted("duplicate") == 1


def test_a_window_outlasts_sockets_and_positions() -> None:
    feed = replace(jetstream(), record=RecordShape(sequence=path("time_us"), record_id=path("id"), dedupe=Dedupe()))
    driver = Driver(feed)
    driver.stream()
    driver.message({"time_us": 5, "id": "a"})
    driver.message({"time_us": 50, "id": "b"})
    driver.acknowledge_all()
    driver.again()
    driver.stream()
    driver.message({"time_us": 60, "id": "a"})
    assert [record.record_id for record in driver.records] == ["a", "b"]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 30)), max_size=60), st.integers(1, 5))
def test_a_window_is_bounded_and_holds_exactly_the_last_keys_of_its_time(
    steps: list[tuple[str, int]], most: int
) -> None:
    window, now, last = Window(most, 50), 0, dict[str, int]()
    for key, later in steps:
        now += later
        assert window.holds(key, now) == (key in list(last)[-most:] and now - last[key] <= 50)
        window.add(key, now)
        last.pop(key, None)
        last[key] = now
        assert len(window) <= most


def test_keys_of_any_kind_and_length_are_told_apart() -> None:
    feed = replace(ticker(), record=RecordShape(dedupe=Dedupe(path("k"))))
    driver = Driver(feed)
    driver.stream()
    keys: list[Any] = ["x" * 5_000, "x" * 5_001, ["a", 1], ["a", 2], {"b": 1}, True, 1.5]
    for key in [*keys, *keys]:
        driver.message({"k": key})
    assert len(driver.records) == len(keys)


# --- cursors ----------------------------------------------------------------------------------------------------------

ELSEWHERE = Position(900, "old.test")


def url(driver: Driver) -> str:
    return driver.last(Dial).url


def resuming(**how: Any) -> Feed:
    return replace(jetstream(), resume=Resume({"cursor": "{sequence}"}, **how))


def test_another_instances_cursor_is_rewound_or_left_out_and_leaves_a_gap_either_way() -> None:
    rewound = Driver(resuming(rewind=1, rewind_elsewhere=100), ELSEWHERE)
    assert url(rewound).endswith("cursor=799")
    live = Driver(resuming(elsewhere="live"), ELSEWHERE)
    assert "cursor" not in url(live)
    for driver in (rewound, live):
        driver.stream()
        driver.message({"time_us": 4})
        driver.acknowledge_all()
        assert [(gap.from_sequence, gap.to_sequence) for gap in driver.gaps] == [(900, None)]
        assert driver.machine.position == Position(4, "jetstream.test")
        assert driver.again().url.endswith("cursor=4" if driver is live else "cursor=3")


def test_upstreams_of_one_instance_share_their_cursors_whatever_host_is_dialled() -> None:
    driver = Driver(resuming(instance="jet"), Position(900, "jet"))
    assert url(driver).endswith("cursor=900")
    driver.stream()
    driver.message({"time_us": 901})
    driver.acknowledge_all()
    assert driver.gaps == []
    assert driver.machine.position == Position(901, "jet")


def test_an_upstream_whose_oldest_is_past_the_cursor_leaves_a_gap_up_to_there() -> None:
    feed = resuming(floor=path("oldest"))
    driver = Driver(replace(feed, record=replace(feed.record, when=path("time_us"))), Position(10, "jetstream.test"))
    driver.stream()
    driver.message({"oldest": 50})
    driver.message({"time_us": 50})
    driver.message({"oldest": 70})
    assert [(gap.from_sequence, gap.to_sequence) for gap in driver.gaps] == [(10, 50)]
    for cursor in (50, 60):
        within = Driver(feed, Position(cursor, "jetstream.test"))
        within.stream()
        within.message({"oldest": 50})
        assert within.gaps == []


def test_an_upstream_that_says_that_it_cannot_go_on_from_the_cursor_leaves_a_gap_and_goes_on() -> None:
    rule = Rule(message=lambda value: path("info")(value) == "OutdatedCursor", action="gap", name="rules[0]")
    feed = replace(jetstream(), rules=(rule,))
    driver = Driver(replace(feed, record=replace(feed.record, when=path("time_us"))), Position(10, "jetstream.test"))
    driver.stream()
    driver.message({"info": "OutdatedCursor"})
    driver.message({"time_us": 50})
    assert [(gap.from_sequence, gap.to_sequence) for gap in driver.gaps] == [(10, None)]
    assert driver.gaps[0].reason == "the upstream sent what rules[0] is for"
    assert driver.socket == "open"
    assert driver.records[0].sequence == 50


# --- any message at all -----------------------------------------------------------------------------------------------

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.floats(), st.text(max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["data", "seq", "n", "s", "p"]), inner, max_size=4)
    ),
    max_leaves=10,
)
shapes = st.builds(
    RecordShape,
    each=st.sampled_from([None, path("data")]),
    sequence=st.sampled_from([None, path("seq")]),
    sequence_type=st.sampled_from(["number", "string"]),
    record_id=st.sampled_from([None, path("n")]),
    unique=st.booleans(),
    contiguous=st.booleans(),
    series=st.one_of(
        st.none(),
        st.builds(
            Series,
            number=st.just(path("n")),
            previous=st.sampled_from([None, path("p")]),
            first=st.sampled_from([None, path("p")]),
            key=st.sampled_from([None, path("s")]),
            most_keys=st.just(2),
        ),
    ),
    dedupe=st.one_of(st.none(), st.builds(Dedupe, key=st.sampled_from([None, path("s")]), most=st.just(3))),
    of_message=st.sets(st.sampled_from(["sequence", "record_id", "number", "key", "dedupe"])).map(frozenset),
)


@given(shapes, st.lists(st.one_of(values, st.just("drop"), st.integers(1, 9).map(lambda n: ("ack", n))), max_size=25))
def test_whatever_messages_say_nothing_is_raised_and_no_position_passes_a_record_that_is_not_durable(
    shape: RecordShape, steps: list[Any]
) -> None:
    driver = Driver(replace(jetstream(), record=shape, resume=Resume({"c": "{sequence}"}, inclusive=shape.unique)))
    driver.stream()
    frames: list[tuple[int, int]] = []  # the first and last delivery of each message
    acknowledged = 0
    for step in steps:
        before = driver.machine.delivered
        if step == "drop":
            driver.on(Closed("gone", code=1006))
            driver.wake()
            driver.stream()
        elif isinstance(step, tuple):
            acknowledged = min(acknowledged + step[1], driver.machine.delivered)
            driver.acknowledge(acknowledged)
        else:
            driver.message(step)
            frames.append((before + 1, driver.machine.delivered))
        position = driver.machine.position
        if position is not None and position.sequence is not None:
            whole = {number for first, last in frames if last <= acknowledged for number in range(first, last + 1)}
            assert position.sequence in {record.sequence for record in driver.records if record.number in whole}
    numbers = [delivery.number for delivery in driver.deliveries]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(isinstance(delivery, Record) or delivery.reason for delivery in driver.deliveries)
