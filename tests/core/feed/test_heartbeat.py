"""Keepalive in messages, and what counts as a heartbeat and not as data."""

from typing import Any

from streamlease.feed.events import Close, Closed, Dial, Message, Opened, Ping, Reading, Report, Send
from streamlease.spec import compile_spec
from tests.core.feed.driver import WALL_MS, Driver
from tests.core.spec.files import one


def driver_of(draw: float = 0.5, **message: Any) -> Driver:
    return Driver(compile_spec(one(keepalive={"ping_every": "off", "message": message})), draw=draw)


NAMED: dict[str, Any] = {
    "open": [{"expect": "op==`10`", "capture": {"interval": "d.heartbeat_interval"}}],
    "record": {"when": "op==`0`", "sequence": "s"},
    "keepalive": {
        "ping_every": "off",
        "message": {"send": {"op": 1, "d": "{received}"}, "every": "interval", "first": "random", "answer": "op==`11`"},
    },
}


def test_a_text_goes_out_at_its_interval() -> None:
    driver = driver_of(send="ping", every="20s")
    driver.stream()
    driver.wake()
    driver.wake()
    assert [send.text for send in driver.all(Send)] == ["ping", "ping"]
    assert driver.now_s == 140


def test_w27_an_upstream_that_wants_a_text_ping_when_silent_gets_one_only_then_and_its_pong_is_no_data() -> None:
    driver = driver_of(send="ping", every="25s", if_silent=True, answer="@=='pong'")
    driver.stream()
    for _ in range(5):
        driver.now_s += 10
        driver.message({"price": 1})
    while not driver.all(Send):
        driver.wake()
    assert driver.now_s == 175
    driver.on(Message("pong", WALL_MS))
    assert len(driver.records) == 5
    assert driver.counted("not_json") == 0


def test_w27_data_goes_on_with_the_pings_of_an_upstream_that_drops_the_silent() -> None:
    driver = driver_of(send="ping", every="25s", if_silent=True, answer="@=='pong'")
    driver.stream()
    for _ in range(20):
        driver.wake()
        driver.on(Message("pong", WALL_MS))
    driver.message({"price": 1})
    assert driver.all(Close) == []
    assert len(driver.records) == 1


def test_w7_an_answer_that_is_missing_ends_the_socket_with_its_cause_and_code() -> None:
    driver = driver_of(send={"op": "ping"}, every="20s", answer="op=='pong'", answer_within="5s", close_code=4009)
    driver.stream()
    driver.wake()
    driver.message({"op": "pong"})
    driver.wake()
    driver.wake()
    assert driver.now_s == 145
    assert driver.last(Close).code == 4009
    assert driver.counted("unanswered") == 1
    driver.on(Closed("closed", 4009))
    assert driver.last(Report).reason == "the keepalive message was not answered"


def test_w7_and_w39_a_missing_pong_is_an_error_with_its_cause_and_the_dial_that_follows_is_made() -> None:
    driver = Driver(compile_spec(one(keepalive={"ping_every": "20s", "pong_within": "5s"})))
    driver.stream()
    driver.wake()
    driver.wake()
    driver.on(Closed("closed", 1011))
    assert driver.last(Report).reason == "no sign of life within 5 s of a ping"
    driver.wake()
    assert len(driver.all(Dial)) == 2


def test_the_upstream_names_the_interval_and_the_first_comes_at_a_random_part_of_it() -> None:
    driver = Driver(compile_spec(one(**NAMED)), draw=0.25)
    driver.on(Opened())
    assert driver.wake_at_s == 130
    driver.message({"op": 10, "d": {"heartbeat_interval": 40_000}})
    assert driver.wake_at_s == 110
    driver.wake()
    assert driver.sent == [{"op": 1, "d": None}]
    driver.message({"op": 11})
    driver.message({"op": 0, "s": 7})
    driver.wake()
    assert driver.now_s == 150
    assert driver.sent[-1] == {"op": 1, "d": 7}
    driver.wake()
    assert driver.last(Close).code == 4000


def test_an_interval_that_is_nonsense_is_bounded_or_passed_over() -> None:
    for interval, wakes in ((0, None), (-5, None), ("x", None), (1e30, 100 + 86_400), (1e300, None), (1e-9, 100.1)):
        driver = Driver(compile_spec(one(**NAMED)), draw=0.999999)
        driver.on(Opened())
        driver.message({"op": 10, "d": {"heartbeat_interval": interval}})
        if wakes is None:
            assert driver.machine._sockets.main is not None
            assert driver.machine._sockets.main.due_s() is None
        else:
            assert driver.wake_at_s is not None
            assert abs(driver.wake_at_s - wakes) < 1


def test_w18_beats_go_out_while_nothing_is_read_and_no_answer_is_missed_meanwhile() -> None:
    driver = driver_of(send="ping", every="20s", answer="@=='pong'", answer_within="5s")
    driver.stream()
    driver.on(Reading(on=False))
    for _ in range(10):
        driver.wake()
    assert len(driver.all(Send)) == 10
    assert driver.all(Close) == []
    driver.on(Reading(on=True))
    driver.wake()
    assert driver.counted("unanswered") == 1


def test_w18_a_process_that_was_away_does_not_blame_the_upstream_for_an_answer() -> None:
    driver = driver_of(send="ping", every="20s", answer="@=='pong'", answer_within="5s")
    driver.stream()
    driver.wake()
    driver.wake(late_s=60)
    assert driver.all(Close) == []


def test_heartbeats_are_no_data() -> None:
    driver = Driver(compile_spec(one(keepalive={"heartbeat": "channel=='heartbeat'"})))
    driver.stream()
    driver.message({"channel": "heartbeat"})
    driver.message({"channel": "book"})
    assert len(driver.records) == 1


def test_w11_and_w14_heartbeats_and_answers_do_not_keep_a_dead_subscription_fresh() -> None:
    keepalive: dict[str, Any] = {
        "ping_every": "off",
        "stale_after": "70s",
        "heartbeat": "op=='hb'",
        "message": {"send": "ping", "every": "20s", "answer": "op=='pong'"},
    }
    driver = Driver(compile_spec(one(keepalive=keepalive)))
    driver.stream()
    driver.message({"price": 1})
    while not driver.all(Close):
        driver.wake()
        driver.message({"op": "pong"})
        driver.message({"op": "hb"})
    assert driver.now_s == 170
    assert driver.counted("stale") == 1


def test_protocol_pings_and_messages_go_side_by_side() -> None:
    driver = Driver(compile_spec(one(keepalive={"ping_every": "20s", "message": {"send": "hi", "every": "30s"}})))
    driver.stream()
    driver.wake()
    driver.wake()
    assert (len(driver.all(Ping)), len(driver.all(Send))) == (1, 1)
