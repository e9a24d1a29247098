"""How far the position may go, and what is dialled with it."""

import json
from dataclasses import replace
from typing import Any

from streamlease.feed.events import Advance, Dial, Message
from streamlease.feed.feed import Feed, RecordShape, Resume
from streamlease.model import Position
from tests.core.feed.driver import WALL_MS, Driver, event, jetstream, nostr, path, ticker

RELAY = "relay.test"


def test_the_position_follows_the_acknowledged_prefix_only() -> None:
    driver = Driver(jetstream())
    driver.stream()
    for sequence in (10, 20, 30):
        driver.message({"time_us": sequence})
    driver.acknowledge(2)
    assert driver.sequence() == 20
    driver.acknowledge(1)
    assert driver.sequence() == 20


def test_the_position_never_falls_when_sequences_run_backwards() -> None:
    driver = Driver(ticker())
    driver.stream()
    for sequence in (10, 8, 9):
        driver.message({"id": sequence})
        driver.acknowledge_all()
    assert driver.sequence() == 10
    assert len(driver.all(Advance)) == 2


def test_the_position_passes_no_record_that_came_late_and_is_not_durable_yet() -> None:
    driver = Driver(jetstream())
    driver.stream()
    for sequence in (10, 30, 25, 20, 28, 40):
        driver.message({"time_us": sequence})
    followed = []
    for number in range(1, 7):
        driver.acknowledge(number)
        followed.append(driver.sequence())
    assert followed == [10, 20, 20, 28, 30, 40]


def test_where_the_record_of_a_cursor_is_not_sent_again_the_position_stays_before_one_that_came_late() -> None:
    feed = jetstream()
    driver = Driver(replace(feed, resume=replace(feed.resume, inclusive=False)))
    driver.stream()
    for sequence in (10, 30, 20, 40):
        driver.message({"time_us": sequence})
    followed = []
    for number in range(1, 5):
        driver.acknowledge(number)
        followed.append(driver.sequence())
    assert followed == [10, 10, 30, 40]


def test_what_came_late_in_a_message_of_several_holds_the_position_until_all_of_it_is_durable() -> None:
    frame: list[Any] = [{"time_us": 20}, {"time_us": 30}]
    driver = Driver(replace(jetstream(), decode=lambda data: frame if data == "" else [json.loads(data)]))
    driver.stream()
    driver.message({"time_us": 40})
    driver.on(Message("", WALL_MS))
    driver.acknowledge(2)
    assert driver.sequence() == 20
    driver.acknowledge(3)
    assert driver.sequence() == 40


def test_an_acknowledgement_of_what_was_never_delivered_moves_nothing_past_what_was() -> None:
    driver = Driver(ticker())
    driver.stream()
    driver.message({"id": 1})
    driver.acknowledge(99)
    driver.message({"id": 2})
    assert driver.sequence() == 1
    driver.acknowledge(2)
    assert driver.sequence() == 2


def test_a_new_owner_dials_with_the_stored_cursor_less_the_rewind() -> None:
    driver = Driver(jetstream(), Position(1_725_911_162_329_308, "jetstream.test"))
    assert driver.last(Dial).url == "wss://jetstream.test/subscribe?wanted=post&cursor=1725911162329307"


def test_a_reconnect_dials_with_the_newest_durable_cursor() -> None:
    driver = Driver(jetstream(), Position(10, "jetstream.test"))
    driver.stream()
    for sequence in (11, 12, 13):
        driver.message({"time_us": sequence})
    driver.acknowledge(2)
    assert driver.again().url.endswith("cursor=11")


def test_a_resume_drops_what_this_owner_delivered_already() -> None:
    driver = Driver(jetstream(), Position(10, "jetstream.test"))
    driver.stream()
    for sequence in (11, 12, 13):
        driver.message({"time_us": sequence})
    driver.acknowledge(2)
    driver.again()
    driver.stream()
    for sequence in (11, 12, 13, 14):
        driver.message({"time_us": sequence})
    assert [record.sequence for record in driver.records] == [11, 12, 13, 14]
    assert driver.counted("duplicate") == 3
    driver.acknowledge_all()
    assert driver.sequence() == 14


def test_another_owner_sends_duplicates_with_the_same_record_id() -> None:
    first, second = Driver(nostr()), Driver(nostr(), Position(10, RELAY))
    for driver in (first, second):
        driver.stream()
        driver.message(event(10, "a"))
    assert first.records[0].record_id == second.records[0].record_id == "a"


def test_a_replay_that_comes_newest_first_moves_nothing_before_it_is_complete() -> None:
    driver = Driver(nostr(), Position(5, RELAY))
    driver.stream()
    assert driver.sent == [["REQ", "sub", {"kinds": [1], "since": 3}]]
    for sequence in (30, 20, 10):
        driver.message(event(sequence, str(sequence)))
        driver.acknowledge_all()
    assert driver.all(Advance) == []
    assert driver.message(["EOSE", "sub"])[-1] == Advance(Position(30, RELAY))


def test_a_complete_replay_moves_nothing_before_all_of_it_is_durable() -> None:
    driver = Driver(nostr(), Position(5, RELAY))
    driver.stream()
    for sequence in (30, 20, 10):
        driver.message(event(sequence, str(sequence)))
    driver.acknowledge(2)
    driver.message(["EOSE", "sub"])
    driver.message(event(31, "31"))
    assert driver.all(Advance) == []
    driver.acknowledge(3)
    assert driver.sequence() == 30
    driver.acknowledge(4)
    assert driver.sequence() == 31


def test_a_replay_cut_off_moves_nothing_until_a_later_one_is_complete() -> None:
    driver = Driver(nostr(), Position(5, RELAY))
    driver.stream()
    driver.message(event(30, "c"))
    driver.acknowledge_all()
    driver.again()
    assert driver.machine.position == Position(5, RELAY)
    driver.stream()
    for sequence, name in ((31, "d"), (30, "c"), (20, "b")):
        driver.message(event(sequence, name))
    driver.acknowledge_all()
    assert driver.all(Advance) == []
    driver.message(["EOSE", "sub"])
    assert driver.sequence() == 31
    assert [record.record_id for record in driver.records] == ["c", "d", "b"]


def test_records_of_the_cursors_own_second_are_told_apart_by_their_ids() -> None:
    driver = Driver(nostr())
    driver.stream()
    driver.message(["EOSE", "sub"])
    for name in ("a", "b"):
        driver.message(event(10, name))
    driver.acknowledge(1)
    driver.again()
    driver.stream()
    for name in ("c", "b", "a"):
        driver.message(event(10, name))
    assert [record.record_id for record in driver.records] == ["a", "b", "c"]


def test_an_exclusive_cursor_stays_behind_until_a_shared_sequence_is_over() -> None:
    feed = replace(
        jetstream(),
        record=RecordShape(sequence=path("t")),
        resume=Resume(query={"after": "{sequence}"}, inclusive=False),
    )
    driver = Driver(feed)
    driver.stream()
    for sequence in (10, 10, 11):
        driver.message({"t": sequence})
    driver.acknowledge(2)
    assert driver.sequence() is None
    driver.acknowledge(3)
    assert driver.sequence() == 10
    resumed = Driver(feed, Position(10, "jetstream.test"))
    resumed.stream()
    for sequence in (4, 5, 6):
        resumed.message({"t": sequence})
        resumed.acknowledge_all()
    assert resumed.machine.position == Position(10, "jetstream.test")
    unique = Driver(replace(feed, record=RecordShape(sequence=path("t"), unique=True)))
    unique.stream()
    unique.message({"t": 10})
    unique.acknowledge_all()
    assert unique.sequence() == 10


def test_a_record_dated_in_the_future_does_not_take_the_position_there() -> None:
    now_s = WALL_MS // 1_000
    feed = nostr()
    driver = Driver(replace(feed, record=replace(feed.record, sequence_unit="s")))
    driver.stream()
    driver.message(["EOSE", "sub"])
    driver.message(event(now_s + 3_600, "wrong clock"))
    driver.message(event(now_s - 1, "right clock"))
    driver.acknowledge_all()
    assert driver.sequence() == now_s
    assert driver.counted("future_sequence") == 1
    assert driver.records[0].sequence == now_s + 3_600


def test_microseconds_of_an_upstream_slightly_ahead_are_held_to_the_arrival_without_being_counted() -> None:
    feed = jetstream()
    driver = Driver(replace(feed, record=replace(feed.record, sequence_unit="us")))
    driver.stream()
    driver.message({"time_us": WALL_MS * 1_000 + 200_000})
    driver.acknowledge_all()
    assert driver.sequence() == WALL_MS * 1_000
    assert driver.counted("future_sequence") == 0


def opaque() -> Feed:
    return replace(
        jetstream(),
        record=RecordShape(sequence=path("c"), sequence_type="string"),
        resume=Resume(query={"cursor": "{sequence}"}),
    )


def test_opaque_cursors_go_in_the_order_of_their_first_delivery() -> None:
    driver = Driver(opaque(), Position("zz", "jetstream.test"))
    driver.stream()
    for cursor in ("zz", "b", "a", "b"):
        driver.message({"c": cursor})
    driver.acknowledge(1)
    assert driver.sequence() is None
    driver.acknowledge(3)
    assert driver.sequence() == "a"
    driver.acknowledge(4)
    assert driver.machine.position == Position("a", "jetstream.test")


def test_an_opaque_cursor_is_quoted_and_one_that_is_unprintable_or_endless_is_none() -> None:
    driver = Driver(opaque())
    driver.stream()
    for cursor in ("a\nb", "", "x" * 1_025):
        driver.message({"c": cursor})
    assert driver.counted("unreadable_sequence") == 3
    driver.message({"c": "a&b={env:TOKEN}"})
    driver.acknowledge_all()
    assert driver.again().url.endswith("&cursor=a%26b%3D%7Benv:TOKEN%7D")


def test_numbers_written_as_text_are_numbers() -> None:
    driver = Driver(ticker())
    driver.stream()
    driver.message({"id": "12345678901234567890"})
    driver.message({"id": "1.5"})
    assert [record.sequence for record in driver.records] == [12345678901234567890, 1.5]


def test_a_stored_position_of_another_kind_is_no_cursor_and_leaves_a_gap() -> None:
    driver = Driver(jetstream(), Position("abc", "jetstream.test"))
    assert "cursor" not in driver.last(Dial).url
    driver.stream()
    assert [(gap.from_sequence, gap.to_sequence) for gap in driver.gaps] == [("abc", None)]
    driver.message({"time_us": 3})
    driver.acknowledge_all()
    assert driver.sequence() == 3


def test_resume_url_and_token_of_a_position_stay_with_it() -> None:
    driver = Driver(ticker(), Position(1, "ticker.test", "wss://resume.test", "session"))
    driver.stream()
    driver.message({"id": 2})
    driver.acknowledge_all()
    assert driver.machine.position == Position(2, "ticker.test", "wss://resume.test", "session")
