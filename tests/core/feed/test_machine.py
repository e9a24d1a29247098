"""The life of a connection, told from outside: what goes in, what comes out."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

from streamlease.feed import machine
from streamlease.feed.decoding import Trouble
from streamlease.feed.events import (
    COUNTED,
    Advance,
    Close,
    Closed,
    Count,
    Deliver,
    Dial,
    Finished,
    Message,
    Opened,
    Ping,
    Ponged,
    Reading,
    Record,
    Report,
    StopRequested,
    WakeAt,
)
from streamlease.feed.feed import Keepalive, Retry
from streamlease.feed.session import Phase
from streamlease.model import Position, StatusState
from tests.core.feed.driver import WALL_MS, Driver, event, jetstream, nostr, ticker


def test_a_plain_feed_dials_streams_and_delivers() -> None:
    driver = Driver(ticker())
    assert driver.last(Dial).url == "wss://ticker.test/ws"
    driver.stream()
    driver.message({"id": 7, "price": "1.5"})
    assert driver.records == [Record(1, 7, None, None, WALL_MS, {"id": 7, "price": "1.5"})]
    assert driver.states == ["CONNECTING", "STREAMING"]


def test_open_messages_go_out_in_order_and_readiness_waits_for_the_upstreams_word() -> None:
    driver = Driver(nostr())
    driver.on(Opened())
    assert driver.sent == [["REQ", "sub", {"kinds": [1]}]]
    assert driver.states == ["CONNECTING"]
    driver.message(["EOSE", "sub"])
    assert driver.states == ["CONNECTING", "STREAMING"]
    assert driver.deliveries == []


def test_records_before_readiness_are_delivered() -> None:
    driver = Driver(nostr())
    driver.on(Opened())
    driver.message(event(10, "a"))
    assert [record.record_id for record in driver.records] == ["a"]
    assert driver.machine.phase is Phase.OPENING


def test_a_silent_handshake_is_given_up_and_dialled_again() -> None:
    driver = Driver(replace(nostr(), ready_within_s=5.0))
    driver.on(Opened())
    assert driver.wake_at_s == 105.0
    driver.wake()
    assert driver.last(Close).code == 1011
    assert driver.counted("not_ready") == 1
    driver.on(Closed("closed by this side"))
    assert driver.last(Report).state is StatusState.BACKOFF
    assert "subscription" in (driver.last(Report).reason or "")
    driver.wake()
    assert len(driver.all(Dial)) == 2


def test_a_dial_that_never_ends_is_aborted_and_asked_for_again_only_once_it_is_closed() -> None:
    driver = Driver(ticker())
    driver.wake()
    assert driver.last(Close).abort
    driver.wake()
    assert driver.wake_at_s == driver.now_s + 1.0
    driver.wake()
    assert len(driver.all(Dial)) == 1
    driver.on(Closed("aborted"))
    driver.wake()
    assert len(driver.all(Dial)) == 2


def test_a_message_that_is_not_json_is_delivered_as_it_came_without_a_sequence_and_counted() -> None:
    driver = Driver(ticker())
    driver.stream()
    driver.on(Message("hello", WALL_MS))
    driver.on(Message(b"\xff\x00", WALL_MS))
    assert [(record.payload, record.sequence) for record in driver.records] == [("hello", None), (b"\xff\x00", None)]
    assert driver.counted("not_json") == 2


def test_json_in_a_binary_message_is_json() -> None:
    driver = Driver(ticker())
    driver.stream()
    driver.on(Message(b'{"id": 3}', WALL_MS))
    assert driver.records[0].sequence == 3


def test_a_record_without_a_readable_sequence_is_delivered_and_counted() -> None:
    driver = Driver(ticker())
    driver.stream()
    for value in ({"price": 1}, {"id": None}, {"id": [1]}, {"id": True}, {"id": "x7"}, {"id": 10**40}, 5):
        driver.message(value)
    assert [record.sequence for record in driver.records] == [None] * 7
    assert driver.counted("unreadable_sequence") == 7


def test_nesting_that_no_decoder_should_follow_is_delivered_as_text() -> None:
    driver = Driver(ticker())
    driver.stream()
    for depth in (201, 5_000, 200_000):
        driver.on(Message("[" * depth + "]" * depth, WALL_MS))
    assert [type(record.payload) for record in driver.records] == [str, str, str]
    assert driver.counted("not_json") == 3


def test_a_payload_path_that_leads_nowhere_delivers_the_whole_message() -> None:
    driver = Driver(nostr())
    driver.stream()
    driver.message(["EVENT", "sub"])
    assert driver.records[0].payload == ["EVENT", "sub"]
    assert driver.counted("unreadable_payload") == 1


def test_accept_then_close_waits_longer_each_time() -> None:
    driver = Driver(ticker(), draw=1.0)
    waits = []
    for _ in range(9):
        driver.stream()
        driver.drop()
        before_s = driver.now_s
        driver.wake()
        waits.append(driver.now_s - before_s)
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


def test_an_upstream_that_says_a_word_and_closes_waits_longer_each_time_too() -> None:
    driver = Driver(jetstream(), draw=1.0)
    waits = []
    for number in range(4):
        driver.stream()
        driver.message({"time_us": number})
        driver.acknowledge_all()
        driver.drop()
        before_s = driver.now_s
        driver.wake()
        waits.append(driver.now_s - before_s)
    assert waits == [0.5, 1, 2, 4]


def test_backoff_starts_over_after_a_long_stream_or_acknowledged_records_of_it() -> None:
    for proof in ("time", "records"):
        driver = Driver(jetstream(), draw=1.0)
        for _ in range(5):
            driver.again()
        driver.stream()
        if proof == "records":
            driver.message({"time_us": 5})
            driver.acknowledge_all()
        driver.now_s += 30 if proof == "time" else 1
        driver.drop()
        assert driver.wake_at_s == driver.now_s + 0.5, proof


def test_a_late_acknowledgement_of_an_earlier_socket_proves_nothing_of_this_one() -> None:
    driver = Driver(jetstream(), draw=1.0)
    driver.stream()
    driver.message({"time_us": 5})
    driver.again()
    driver.stream()
    driver.acknowledge(1)
    driver.now_s += 2
    driver.drop()
    assert driver.wake_at_s == driver.now_s + 1.0


def test_many_reconnects_each_after_hours_never_add_up() -> None:
    driver = Driver(ticker(), draw=0.99)
    for _ in range(50):
        driver.stream()
        driver.now_s += 7_200
        driver.drop()
        assert driver.wake_at_s is not None
        assert driver.wake_at_s - driver.now_s < 0.5
        driver.wake()


def test_what_the_upstream_asks_to_wait_is_waited_but_not_for_ever() -> None:
    for asked_s, least_s, most_s in (
        (20.0, 20.0, 20.5),
        (1e12, 3600.0, 3600.5),
        (-5.0, 0, 0.5),
        (float("nan"), 0, 0.5),
    ):
        driver = Driver(ticker())
        driver.on(Closed("busy", http_status=503, retry_after_s=asked_s))
        assert driver.wake_at_s is not None
        assert least_s <= driver.wake_at_s - driver.now_s <= most_s


def test_1000_1001_1006_and_429_are_no_ends() -> None:
    driver = Driver(ticker())
    for closed in (Closed("bye", 1000), Closed("going away", 1001), Closed("gone", 1006), Closed("slow", None, 429)):
        driver.on(closed)
        driver.wake()
    assert len(driver.all(Dial)) == 5
    assert driver.all(Finished) == []


def test_a_final_close_code_or_http_status_ends_it_visibly() -> None:
    coded = replace(ticker(), retry=Retry(fatal_close_codes=frozenset({4004})))
    for feed, closed, names in ((coded, Closed("bad token", 4004), "4004"), (ticker(), Closed("no", None, 403), "403")):
        driver = Driver(feed)
        commands = driver.on(closed)
        assert isinstance(commands[-2], Report)
        assert commands[-2].state is StatusState.FAILED
        assert isinstance(commands[-1], Finished)
        assert commands[-1].outcome == "fatal"
        assert names in commands[-1].reason


def test_a_stop_closes_the_socket_reads_no_more_and_ends_when_it_is_closed() -> None:
    driver = Driver(ticker())
    driver.stream()
    assert driver.on(StopRequested("drain"))[0] == Close(1000, socket=1)
    driver.message({"id": 1})
    assert driver.deliveries == []
    assert driver.on(Closed("closed", 1000)) == [Finished("stopped", "drain")]
    assert driver.on(Opened()) == []
    assert driver.on(StopRequested("again")) == []


def test_a_stop_does_not_wait_for_an_upstream_that_never_closes() -> None:
    driver = Driver(ticker())
    driver.stream()
    driver.on(StopRequested("drain"))
    assert driver.wake_at_s == driver.now_s + 1.0
    assert driver.wake() == [Close(1000, abort=True, socket=1), Finished("stopped", "drain")]


def test_a_stop_while_dialling_gives_up_the_dial_and_while_waiting_ends_at_once() -> None:
    driver = Driver(ticker())
    driver.on(StopRequested("drain"))
    assert driver.all(Close) == [Close(1000, socket=1)]
    assert driver.on(Opened()) == []
    assert driver.on(Closed("given up")) == [Finished("stopped", "drain")]
    waiting = Driver(ticker())
    waiting.drop()
    assert waiting.on(StopRequested("drain")) == [Finished("stopped", "drain")]


def test_a_stop_wins_over_a_final_close_code() -> None:
    driver = Driver(ticker())
    driver.on(StopRequested("drain"))
    assert driver.on(Closed("no", http_status=403)) == [Finished("stopped", "drain")]


def test_acknowledgements_after_the_end_still_move_the_position() -> None:
    driver = Driver(ticker())
    driver.stream()
    driver.message({"id": 5})
    driver.on(StopRequested("drain"))
    driver.drop()
    assert driver.acknowledge_all() == []
    assert driver.machine.position == Position(5, "ticker.test")


def test_pings_go_out_at_their_interval_and_a_missing_pong_ends_the_socket() -> None:
    driver = Driver(replace(ticker(), keepalive=Keepalive(ping_every_s=20, pong_within_s=5)))
    driver.stream()
    assert driver.wake()[0] == Ping(1)
    assert driver.now_s == 120
    driver.on(Ponged(), after_s=1)
    assert driver.wake()[0] == Ping(1)
    assert driver.now_s == 140
    driver.wake()
    assert driver.now_s == 145
    assert driver.last(Close).code == 1011
    assert driver.counted("late_pong") == 1


def test_a_pong_behind_a_flood_of_data_is_not_missed() -> None:
    driver = Driver(replace(ticker(), keepalive=Keepalive(ping_every_s=20, pong_within_s=5)))
    driver.stream()
    driver.wake()
    for number in range(20):
        driver.now_s += 4
        driver.message({"id": number})
        driver.on(Reading(on=True))
    assert driver.all(Close) == []


def test_nothing_is_judged_while_this_side_does_not_read_but_pings_go_on() -> None:
    driver = Driver(replace(ticker(), keepalive=Keepalive(ping_every_s=20, pong_within_s=5, stale_after_s=30)))
    driver.stream()
    driver.on(Reading(on=False))
    for _ in range(10):
        driver.wake()
    assert len(driver.all(Ping)) == 10
    assert driver.all(Close) == []
    driver.on(Reading(on=True))
    assert driver.wake_at_s == driver.now_s + 5
    driver.wake()
    assert driver.counted("late_pong") == 1


def test_a_feed_without_data_is_stale_however_well_it_pongs() -> None:
    driver = Driver(replace(ticker(), keepalive=Keepalive(ping_every_s=20, pong_within_s=5, stale_after_s=50)))
    driver.stream()
    while not driver.all(Close):
        driver.wake()
        driver.on(Ponged())
    assert driver.now_s == 150
    assert driver.counted("stale") == 1


def test_a_process_that_was_away_does_not_blame_the_upstream_for_it_but_only_once_in_a_row() -> None:
    driver = Driver(replace(ticker(), keepalive=Keepalive(ping_every_s=20, pong_within_s=5, stale_after_s=60)))
    driver.stream()
    driver.wake()
    driver.wake(late_s=300)
    assert driver.all(Close) == []
    driver.wake(late_s=300)
    assert len(driver.all(Close)) == 1


def test_without_pings_and_staleness_there_is_nothing_to_wake_for() -> None:
    driver = Driver(replace(ticker(), keepalive=Keepalive(ping_every_s=None)))
    assert not any(isinstance(command, WakeAt) for command in driver.on(Opened()))


def test_oversized_messages_and_bad_utf8_are_counted_and_dialled_again() -> None:
    driver = Driver(ticker())
    driver.on(Closed("a message above 1 MiB", 1009))
    driver.wake()
    driver.on(Closed("text that is not UTF-8", 1007))
    assert driver.counted("oversized") == 1
    assert driver.counted("invalid_utf8") == 1
    assert driver.machine.phase is Phase.BACKOFF


def test_events_that_come_too_late_change_nothing() -> None:
    driver = Driver(ticker())
    driver.drop()
    before = list(driver.commands)
    driver.on(Opened())
    driver.on(Closed("again"))
    driver.on(Message("{}", WALL_MS))
    driver.on(Ponged())
    assert driver.commands == before


def test_an_acknowledged_record_moves_the_position_and_names_its_upstream() -> None:
    driver = Driver(ticker())
    driver.stream()
    assert driver.all(Advance) == [Advance(Position(None, "ticker.test"))]
    driver.message({"id": 5})
    assert driver.acknowledge_all() == [Advance(Position(5, "ticker.test"))]
    assert driver.acknowledge_all() == []


def test_delivery_numbers_count_records_and_gaps_from_one() -> None:
    driver = Driver(ticker(), Position(4, "ticker.test"))
    driver.stream()
    driver.message({"id": 9})
    assert [delivery.number for delivery in driver.deliveries] == [1, 2]
    assert [type(command) for command in driver.message({"id": 10})] == [Deliver]
    assert driver.all(Count) == [Count("gap")]


def test_all_that_is_counted_has_a_meaning_and_all_meanings_are_counted() -> None:
    folder = Path(machine.__file__).parent
    source = "".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    counted = set(re.findall(r'Count\("(\w+)"', source)) | set(machine._COUNTED_CODES.values())
    counted |= set(get_args(Trouble.__value__))
    assert counted == set(COUNTED)
