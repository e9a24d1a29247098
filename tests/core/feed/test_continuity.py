"""Where a gap record is due, and where it would be a lie."""

import json
from dataclasses import replace
from typing import Any

import pytest

from streamlease.feed.bounds import LONGEST_US, Bounds
from streamlease.feed.decoding import Trouble, Undecodable
from streamlease.feed.events import Gap, Message
from streamlease.feed.feed import RecordShape, Resume, Rule
from streamlease.model import Position
from tests.core.feed.driver import WALL_MS, Driver, event, jetstream, nostr, path, ticker


def edges(driver: Driver) -> list[tuple[object, object]]:
    return [(gap.from_sequence, gap.to_sequence) for gap in driver.gaps]


def test_the_first_dial_of_a_connection_leaves_no_gap() -> None:
    for feed in (ticker(), jetstream(), nostr()):
        driver = Driver(feed)
        driver.drop()
        driver.wake()
        driver.stream()
        assert driver.gaps == []


def test_a_reconnect_without_a_cursor_says_where_the_stream_broke_and_why_before_any_new_record() -> None:
    driver = Driver(ticker())
    driver.stream()
    driver.message({"id": 7})
    driver.drop("connection reset by peer")
    driver.wake()
    assert driver.gaps == []
    driver.stream()
    driver.message({"id": 12})
    assert isinstance(driver.deliveries[1], Gap)
    assert edges(driver) == [(7, None)]
    assert "connection reset by peer" in driver.gaps[0].reason


def test_dials_that_fail_meanwhile_make_it_no_more_than_one_gap() -> None:
    driver = Driver(ticker())
    driver.stream()
    driver.message({"id": 7})
    for _ in range(5):
        driver.again()
    driver.stream()
    assert edges(driver) == [(7, None)]


def test_a_new_owner_of_a_feed_that_cannot_resume_leaves_a_gap() -> None:
    driver = Driver(ticker(), Position(7, "ticker.test"))
    driver.stream()
    assert edges(driver) == [(7, None)]
    assert "new owner" in driver.gaps[0].reason


def test_a_new_owner_knows_of_a_stream_from_which_no_sequence_was_ever_read() -> None:
    plain = replace(ticker(), record=RecordShape())
    first = Driver(plain)
    first.stream()
    second = Driver(plain, first.machine.position)
    second.stream()
    assert edges(second) == [(None, None)]


def test_a_resume_with_a_cursor_leaves_no_gap() -> None:
    driver = Driver(jetstream(), Position(7, "jetstream.test"))
    driver.stream()
    driver.message({"time_us": 8})
    driver.acknowledge_all()
    driver.again()
    driver.stream()
    assert driver.gaps == []


def test_a_feed_that_can_resume_but_has_no_cursor_yet_leaves_a_gap_unless_it_gets_everything_again() -> None:
    driver = Driver(jetstream())
    driver.stream()
    driver.again()
    driver.stream()
    assert edges(driver) == [(None, None)]
    whole = Driver(nostr())
    whole.stream()
    whole.message(["EOSE", "sub"])
    whole.again()
    whole.stream()
    whole.message(["EOSE", "sub"])
    assert whole.gaps == []


def test_another_upstream_under_the_old_cursor_leaves_a_gap_and_starts_a_position_of_its_own() -> None:
    driver = Driver(jetstream(), Position(900, "old.test"))
    driver.stream()
    assert edges(driver) == [(900, None)]
    assert "old.test" in driver.gaps[0].reason
    driver.message({"time_us": 4})
    driver.acknowledge_all()
    assert driver.machine.position == Position(4, "jetstream.test")


def test_a_jump_in_contiguous_sequences_is_a_gap_from_and_to() -> None:
    driver = Driver(replace(jetstream(), record=RecordShape(sequence=path("seq"), unique=True, contiguous=True)))
    driver.stream()
    for sequence in (1, 2, 5, 6):
        driver.message({"seq": sequence})
    assert edges(driver) == [(2, 5)]
    assert [getattr(delivery, "sequence", "gap") for delivery in driver.deliveries] == [1, 2, "gap", 5, 6]
    assert "2 of them" in driver.gaps[0].reason


def test_a_contiguous_feed_resumed_too_far_on_is_a_gap() -> None:
    feed = replace(jetstream(), record=RecordShape(sequence=path("seq"), contiguous=True))
    driver = Driver(feed, Position(10, "jetstream.test"))
    driver.stream()
    driver.message({"seq": 10})
    driver.message({"seq": 15})
    assert edges(driver) == [(10, 15)]


def test_a_replay_as_long_as_the_upstream_makes_them_leaves_a_gap() -> None:
    feed = nostr()
    feed = replace(feed, resume=replace(feed.resume, at_most=3))
    driver = Driver(feed, Position(5, "relay.test"))
    driver.stream()
    for sequence in (30, 20, 10):
        driver.message(event(sequence, str(sequence)))
    driver.acknowledge_all()
    driver.message(["EOSE", "sub"])
    assert edges(driver) == [(3, 10)]
    assert driver.sequence() is None
    driver.acknowledge_all()
    assert driver.sequence() == 30
    fresh = Driver(feed)
    fresh.stream()
    for sequence in (30, 20, 10):
        fresh.message(event(sequence, str(sequence)))
    fresh.message(["EOSE", "sub"])
    assert fresh.gaps == []


@pytest.mark.parametrize("trouble", ["too_many", "too_large", "undecodable", "not_json"])
def test_a_replay_that_was_not_all_taken_apart_leaves_a_gap_where_the_upstream_has_a_limit(trouble: Trouble) -> None:
    def decode(data: str | bytes) -> list[Any]:
        if not data:
            raise Undecodable(trouble)
        return [json.loads(data)]

    feed = replace(nostr(), decode=decode)
    for at_most, told in ((3, [(3, 10)]), (None, [])):
        driver = Driver(replace(feed, resume=replace(feed.resume, at_most=at_most)), Position(5, "relay.test"))
        for _ in range(2):
            driver.stream()
            driver.message(event(10, "a"))
            driver.on(Message("", WALL_MS))
            driver.message(["EOSE", "sub"])
            assert edges(driver) == told
            driver.commands.clear()
            driver.again()
        driver.stream()
        driver.message(["EOSE", "sub"])
        assert driver.gaps == []


def test_a_text_that_is_no_json_counts_as_one_of_a_replay() -> None:
    feed = replace(nostr(), resume=replace(nostr().resume, at_most=2))
    for count, told in ((1, []), (2, [(3, None)])):
        driver = Driver(feed, Position(5, "relay.test"))
        driver.stream()
        for _ in range(count):
            driver.on(Message("no JSON", WALL_MS))
        driver.message(["EOSE", "sub"])
        assert edges(driver) == told


def test_what_was_not_taken_apart_may_have_said_that_something_is_missing_so_it_leaves_a_gap() -> None:
    says_so = replace(ticker(), rules=(Rule(message=path("jumped"), action="gap", name="jumped"),))
    has_floor = replace(jetstream(), resume=replace(jetstream().resume, floor=path("oldest")))
    bounds = Bounds(per_value_us=LONGEST_US / 10)
    for feed, told in ((says_so, 1), (has_floor, 1), (jetstream(), 0)):
        driver = Driver(replace(feed, bounds=bounds), Position(5, "jetstream.test"))
        driver.stream()
        before = len(driver.gaps)
        driver.message({"x": [0] * 20})
        assert driver.counted("too_many") == 1
        assert len(driver.gaps) - before == told


def test_a_feed_that_replays_everything_at_each_dial_leaves_no_gap() -> None:
    driver = Driver(replace(ticker(), resume=Resume(without_cursor="all")), Position(7, "ticker.test"))
    driver.stream()
    assert driver.gaps == []


def test_a_gap_that_was_told_is_not_told_again_by_the_numbers() -> None:
    feed = replace(ticker(), record=RecordShape(sequence=path("id"), contiguous=True))
    driver = Driver(feed, Position(7, "ticker.test"))
    driver.stream()
    driver.message({"id": 20})
    driver.message({"id": 21})
    assert edges(driver) == [(7, None)]


def test_a_socket_lost_before_anything_of_a_new_upstream_was_settled_leaves_another_gap() -> None:
    """One sequence of several records: the position stays one behind, so it is still the old upstream's."""
    feed = replace(
        jetstream(),
        record=RecordShape(sequence=path("time_us"), unique=False),
        resume=Resume(query={"cursor": "{sequence}"}, inclusive=False),
    )
    driver = Driver(feed, Position(900, "elsewhere.test"))
    driver.stream()
    driver.message({"time_us": 5})
    driver.acknowledge_all()
    assert driver.machine.position == Position(900, "elsewhere.test")
    driver.drop("connection reset by peer")
    driver.wake()
    driver.stream()
    driver.message({"time_us": 9})
    assert edges(driver) == [(900, None), (5, None)]
    assert "another upstream's" in driver.gaps[1].reason
