"""What is done about what an upstream says: in messages, close frames and HTTP answers."""

from itertools import pairwise
from typing import Any

import pytest

from streamlease.feed.events import Close, Closed, Dial, Finished, Opened, Report, Send
from streamlease.model import Position, StatusState
from streamlease.spec import compile_spec
from tests.core.feed.driver import WALL_MS, Driver
from tests.core.spec.files import one

CURSOR: dict[str, Any] = {
    "record": {"sequence": "seq", "unique": True, "when": "seq"},
    "resume": {"query": {"cursor": "{sequence}"}},
}


def driver_of(*rules: dict[str, Any], position: Position | None = None, draw: float = 0.5, **fields: Any) -> Driver:
    return Driver(compile_spec(one(rules=list(rules), **fields)), position, draw=draw)


def test_a_message_may_be_answered_with_a_part_of_it_and_the_stream_goes_on() -> None:
    rule = {"message": "method=='heartbeat'", "capture": {"id": "id"}, "send": {"id": "{id}", "method": "alive"}}
    driver = driver_of(rule, record={"when": "method=='data'"})
    driver.stream()
    driver.message({"method": "heartbeat", "id": 7})
    driver.message({"method": "heartbeat", "id": 8})
    assert driver.sent == [{"id": 7, "method": "alive"}, {"id": 8, "method": "alive"}]
    assert driver.states == ["CONNECTING", "STREAMING"]


def test_the_first_rule_that_fits_is_followed() -> None:
    driver = driver_of({"message": "a", "send": "first"}, {"message": "b", "send": "second"})
    driver.stream()
    driver.message({"a": 1, "b": 1})
    driver.message({"b": 1})
    assert [send.text for send in driver.all(Send)] == ["first", "second"]


def test_a_message_that_ends_the_socket_is_no_data_and_says_which_rule_it_was() -> None:
    driver = driver_of({"message": "type=='error'", "then": "retry"}, close_code=4001)
    driver.stream()
    driver.message({"type": "error"})
    assert driver.last(Close).code == 4001
    assert driver.records == []
    driver.message({"type": "late"})
    assert driver.records == []
    driver.on(Closed("closed", 4001))
    assert driver.last(Report).reason == "the upstream sent what rules[0] is for"
    driver.wake()
    assert len(driver.all(Dial)) == 2


@pytest.mark.parametrize(
    ("after", "message", "seconds"), [("45s", {}, 45), ("wait", {"wait": 90}, 90), ("wait", {"wait": "x"}, 0)]
)
def test_w23_a_full_upstream_is_tried_again_slowly(after: str, message: dict[str, Any], seconds: float) -> None:
    driver = driver_of({"message": "code==`406`", "then": "retry", "after": after})
    for _ in range(3):
        driver.stream()
        driver.message({"code": 406, **message})
        driver.on(Closed("closed", 1000))
        assert driver.wake_at_s is not None
        assert driver.wake_at_s - driver.now_s >= seconds
        driver.wake()
    assert driver.all(Finished) == []


def test_w22_too_many_sockets_closes_this_one_and_waits_longer_each_time() -> None:
    driver = driver_of({"message": "reason=='too_many_websockets'", "then": "retry"}, draw=0.99)
    waits = []
    for _ in range(4):
        driver.stream()
        driver.message({"type": "disconnect", "reason": "too_many_websockets"})
        driver.on(Closed("closed", 1000))
        before_s = driver.now_s
        driver.wake()
        waits.append(driver.now_s - before_s)
    assert waits == sorted(waits)
    assert waits[-1] > 3


def test_close_codes_reasons_and_statuses_have_rules_of_their_own() -> None:
    rules: list[dict[str, Any]] = [
        {"close": [4004, 4010], "then": "fatal"},
        {"reason": "quota", "then": "quarantine"},
        {"http": [418], "then": "fatal"},
        {"http": 403, "then": "retry"},
    ]
    for closed, outcome in (
        (Closed("x", 4010), "fatal"),
        (Closed("x", 4009), None),
        (Closed("x", 1013, reason="Daily QUOTA exceeded"), "quarantined"),
        (Closed("x", None, 418), "fatal"),
        (Closed("x", None, 403), None),
        (Closed("x", None, 404), "fatal"),
    ):
        driver = driver_of(*rules)
        driver.on(closed)
        finished = driver.all(Finished)
        assert [each.outcome for each in finished] == ([outcome] if outcome else [])
        states = {"fatal": StatusState.FAILED, "quarantined": StatusState.QUARANTINED, None: StatusState.BACKOFF}
        assert driver.last(Report).state is states[outcome]


def test_what_this_side_closed_for_is_not_blamed_on_the_close_code() -> None:
    driver = driver_of({"close": 1011, "then": "fatal"}, keepalive={"stale_after": "5s"})
    driver.stream()
    driver.wake()
    driver.on(Closed("closed", 1011))
    assert driver.all(Finished) == []


def test_w28_a_third_1008_in_a_row_is_final_and_a_proven_stream_in_between_forgives() -> None:
    driver = driver_of()
    for proven in (False, False, True, False):
        driver.stream()
        driver.now_s += 60 if proven else 0
        driver.drop(code=1008)
        assert driver.all(Finished) == []
        driver.wake()
    driver.drop(code=1008)
    assert driver.last(Finished).outcome == "fatal"
    assert "2 times in a row" in driver.last(Finished).reason


def test_w28_accept_then_close_is_dialled_ever_more_slowly() -> None:
    driver = driver_of(draw=0.99)
    dialled_at = [driver.now_s]
    for _ in range(12):
        driver.stream()
        driver.drop(code=1000)
        driver.wake()
        dialled_at.append(driver.now_s)
    waits = [round(later - earlier, 6) for earlier, later in pairwise(dialled_at)]
    assert waits == sorted(waits)
    assert waits[-1] > 55


def test_w10_rules_that_count_forget_after_hours_of_streaming() -> None:
    driver = driver_of({"close": 1006, "then": "retry", "times": 2, "otherwise": "fatal"})
    for _ in range(9):
        driver.stream()
        driver.now_s += 7_200
        driver.drop()
        driver.wake()
    assert driver.all(Finished) == []


def test_a_cursor_that_is_too_old_goes_live_with_a_gap_record_or_fails_as_the_spec_says() -> None:
    refused = Closed("HTTP 400", http_status=400, body='{"error":"CursorTooOld"}')
    for then in ("live", "fatal"):
        driver = driver_of(
            {"http": 400, "body": "error=='CursorTooOld'", "then": then}, position=Position(5, "feed.test"), **CURSOR
        )
        assert driver.last(Dial).url.endswith("?cursor=5")
        driver.on(refused)
        if then == "fatal":
            assert driver.last(Finished).outcome == "fatal"
            continue
        driver.wake()
        assert "cursor" not in driver.last(Dial).url
        driver.stream()
        driver.message({"seq": 90})
        assert [gap.from_sequence for gap in driver.gaps] == [5]
        assert driver.machine.position == Position(5, "feed.test")
        driver.acknowledge_all()
        assert driver.machine.position == Position(90, "feed.test")


def test_a_future_cursor_may_be_dropped_by_the_operators_choice_though_sequences_fall() -> None:
    driver = driver_of(
        {"message": "error=='FutureCursor'", "then": "live"}, position=Position(900, "feed.test"), **CURSOR
    )
    driver.stream()
    driver.message({"error": "FutureCursor"})
    driver.on(Closed("closed", 1000))
    driver.wake()
    driver.stream()
    driver.message({"seq": 3})
    driver.acknowledge_all()
    assert driver.machine.position == Position(3, "feed.test")
    assert [gap.from_sequence for gap in driver.gaps] == [900]


@pytest.mark.parametrize("too_old", ["live", "fatal"])
def test_an_upstream_that_silently_begins_later_than_the_cursor_is_found_out_by_the_cursors_age(too_old: str) -> None:
    fields: dict[str, Any] = {
        "record": {"sequence": "us", "sequence_unit": "us"},
        "resume": {"query": {"cursor": "{sequence}"}, "reaches_back": "36h", "too_old": too_old},
    }
    hour_us = 3_600_000_000
    for hours, found in ((35, False), (37, True)):
        driver = Driver(compile_spec(one(**fields)), Position(WALL_MS * 1_000 - hours * hour_us, "feed.test"))
        driver.stream()
        driver.message({"us": WALL_MS * 1_000 - 30 * hour_us})
        if too_old == "live":
            assert len(driver.gaps) == (1 if found else 0)
            assert len(driver.records) == 1
        elif found:
            driver.on(Closed("closed", 1000))
            assert driver.last(Finished).outcome == "fatal"
            assert "reaches back" in driver.last(Finished).reason


def test_secrets_are_looked_up_anew_where_a_rule_says_so_and_only_once() -> None:
    driver = driver_of({"close": 4001, "then": "refresh_secrets"})
    driver.drop(code=4001)
    driver.wake()
    assert driver.last(Dial).fresh_secrets
    driver.drop(code=4001)
    assert driver.last(Finished).outcome == "fatal"


def test_the_upstream_may_name_the_next_url_once_and_never_a_worse_scheme() -> None:
    for url, dialled in (("wss://other.test/x", "wss://other.test/x"), ("ws://other.test/x", "wss://feed.test/ws")):
        driver = driver_of({"message": "url", "then": "retry", "url": "url"})
        driver.stream()
        driver.message({"url": url})
        driver.on(Closed("closed", 1000))
        driver.wake()
        assert driver.last(Dial).url == dialled
        driver.drop()
        driver.wake()
        assert driver.last(Dial).url == "wss://feed.test/ws"


def test_w31_a_reconnect_after_an_hour_goes_on_from_the_newest_durable_cursor() -> None:
    driver = driver_of(position=Position(5, "feed.test"), **CURSOR)
    driver.stream()
    for sequence in (6, 7, 8):
        driver.message({"seq": sequence})
    driver.acknowledge(2)
    driver.now_s += 3_600
    driver.drop()
    driver.wake()
    assert driver.last(Dial).url.endswith("?cursor=7")


def test_w33_a_feed_without_sequences_that_was_down_for_half_a_minute_says_so() -> None:
    driver = driver_of()
    driver.stream()
    driver.message({"price": 1})
    driver.drop()
    driver.wake()
    driver.on(Opened(), after_s=30)
    assert "lost" in driver.gaps[0].reason


def test_w12_after_a_1006_the_connection_is_dialled_again_and_streams() -> None:
    driver = driver_of()
    driver.stream()
    driver.drop(code=1006)
    driver.wake()
    driver.stream()
    driver.message({"price": 1})
    assert len(driver.records) == 1


def test_w17_messages_of_a_socket_that_was_given_up_are_dropped() -> None:
    driver = driver_of(keepalive={"stale_after": "5s"})
    driver.stream()
    driver.wake()
    driver.message({"from": "the dead"}, socket=1)
    driver.on(Closed("closed", 1011, socket=1))
    driver.wake()
    driver.stream()
    driver.message({"from": "the dead"}, socket=1)
    driver.message({"from": "the living"}, socket=2)
    assert [record.payload for record in driver.records] == [{"from": "the living"}]


def test_an_answer_may_say_what_was_read_last() -> None:
    driver = driver_of(
        {"message": "op==`1`", "send": {"op": 1, "d": "{received}"}}, record={"when": "s", "sequence": "s"}
    )
    driver.stream()
    driver.message({"op": 1})
    driver.message({"s": 7})
    driver.message({"op": 1})
    assert driver.sent == [{"op": 1}, {"op": 1, "d": 7}]
