"""A new socket before the upstream closes the old one: in time, without a hole, and nothing left of the old one."""

from typing import Any

import pytest

from streamlease.feed.events import Close, Closed, Dial, Finished, Message, Opened, Report, StopRequested
from streamlease.feed.rotation import MOST_WAITING
from streamlease.feed.session import Phase
from streamlease.model import Position, StatusState
from streamlease.spec import compile_spec
from tests.core.feed.driver import WALL_MS, Driver
from tests.core.spec.files import one

OVERLAP: dict[str, Any] = {"rotate": {"after": "1h", "jitter": "10m", "order": "make_before_break"}}
HARD: dict[str, Any] = {"rotate": {"after": "1h"}}
CURSOR: dict[str, Any] = {
    "record": {"sequence": "seq", "unique": True, "when": "seq"},
    "resume": {"query": {"cursor": "{sequence}"}},
}
IDS: dict[str, Any] = {"record": {"sequence": "seq", "unique": True, "contiguous": True, "when": "seq"}}


def driver_of(position: Position | None = None, draw: float = 0.5, **fields: Any) -> Driver:
    return Driver(compile_spec(one(keepalive={"ping_every": "off"}, **fields)), position, draw=draw)


def test_break_before_make_closes_first_with_the_code_of_a_handoff_and_dials_at_once() -> None:
    driver = driver_of(**HARD, **CURSOR, close_code=4000)
    driver.stream()
    driver.message({"seq": 5})
    driver.acknowledge_all()
    assert driver.wake_at_s == 100 + 3_600
    driver.wake()
    assert driver.last(Close) == Close(4000, socket=1)
    driver.on(Closed("closed", 4000))
    assert driver.last(Dial).url.endswith("?cursor=5")
    assert StatusState.BACKOFF.value not in driver.states


def test_the_old_one_of_two_is_closed_with_the_code_of_a_handoff() -> None:
    driver = driver_of(**OVERLAP, **CURSOR, close_code=4000)
    driver.stream()
    driver.message({"seq": 5})
    driver.acknowledge_all()
    driver.wake()
    driver.on(Opened(2))
    while not driver.all(Close):
        driver.wake()
    assert driver.all(Close) == [Close(4000, socket=1)]


def test_a_lifetime_is_shortened_by_chance_so_that_sockets_do_not_rotate_together() -> None:
    for draw, after_s in ((0.0, 3_600), (0.5, 3_300)):
        driver = driver_of(draw=draw, **OVERLAP)
        driver.stream()
        assert driver.wake_at_s == 100 + after_s


def rotated(driver: Driver) -> None:
    """As far as a new socket that is ready, the old one still being read."""
    driver.stream()
    driver.wake()
    assert driver.last(Dial).socket == driver.dials
    driver.on(Opened(driver.dials))


def test_make_before_break_reads_the_old_one_until_the_new_one_took_over() -> None:
    driver = driver_of(**OVERLAP, **IDS)
    driver.stream()
    driver.message({"seq": 1})
    driver.wake()
    driver.message({"seq": 2}, socket=1)
    driver.on(Opened(2))
    driver.message({"seq": 4}, socket=2)
    driver.message({"seq": 3}, socket=1)
    driver.message({"seq": 4}, socket=1)
    assert driver.all(Close) == []
    driver.wake()
    assert driver.last(Close) == Close(1000, socket=1)
    driver.message({"seq": 99}, socket=1)
    driver.message({"seq": 5}, socket=2)
    driver.on(Closed("closed", 1000, socket=1))
    driver.message({"seq": 6}, socket=2)
    assert [record.sequence for record in driver.records] == [1, 2, 3, 4, 5, 6]
    assert driver.gaps == []
    assert driver.counted("duplicate") == 1
    assert driver.states == ["CONNECTING", "STREAMING"]


def test_a_resuming_feed_rotates_with_its_cursor_and_delivers_nothing_twice() -> None:
    driver = driver_of(**OVERLAP, **CURSOR)
    driver.stream()
    for sequence in (1, 2, 3):
        driver.message({"seq": sequence})
    driver.acknowledge(1)
    driver.wake()
    assert driver.last(Dial).url.endswith("?cursor=1")
    driver.on(Opened(2))
    for sequence in (1, 2, 3):
        driver.message({"seq": sequence}, socket=2)
    driver.wake()
    driver.message({"seq": 4}, socket=2)
    assert [record.sequence for record in driver.records] == [1, 2, 3, 4]


def test_a_full_buffer_makes_the_change_at_once() -> None:
    driver = driver_of(**OVERLAP)
    rotated(driver)
    for number in range(MOST_WAITING):
        driver.on(Message(str(number), WALL_MS, 2))
    assert driver.wake_at_s == driver.now_s
    driver.wake()
    assert driver.last(Close).socket == 1
    assert len(driver.records) == MOST_WAITING


def test_a_new_socket_that_cannot_be_had_leaves_the_old_one_alone_and_is_tried_again_later() -> None:
    driver = driver_of(**OVERLAP)
    driver.stream()
    driver.wake()
    driver.on(Closed("connection limit exceeded", http_status=403, socket=2))
    assert driver.all(Finished) == []
    assert driver.machine.phase is Phase.STREAMING
    assert driver.counted("rotation_failed") == 1
    assert driver.wake_at_s is not None
    assert driver.wake_at_s >= driver.now_s + 30
    driver.wake()
    assert driver.last(Dial).socket == 3


def test_an_old_socket_that_dies_during_the_change_hands_over_to_the_new_one_and_a_hole_is_told() -> None:
    for ready in (False, True):
        driver = driver_of(**OVERLAP, **IDS)
        driver.stream()
        driver.message({"seq": 1})
        driver.wake()
        if ready:
            driver.on(Opened(2))
            driver.message({"seq": 2}, socket=2)
        driver.on(Closed("gone", 1006, socket=1))
        assert driver.machine.phase is (Phase.STREAMING if ready else Phase.DIALLING)
        if not ready:
            driver.on(Opened(2))
            driver.message({"seq": 2}, socket=2)
        assert [record.sequence for record in driver.records] == [1, 2]
        assert len(driver.gaps) == (0 if ready else 1)
        assert len(driver.all(Dial)) == 2


def test_a_server_that_announces_its_end_is_left_at_once_for_the_url_that_it_names() -> None:
    rule = {"message": "type=='session_reconnect'", "then": "rotate", "url": "url"}
    driver = driver_of(rotate={"order": "make_before_break"}, rules=[rule])
    driver.stream()
    driver.now_s += 600
    driver.message({"type": "session_reconnect", "url": "wss://next.test/?id=1"})
    assert driver.last(Dial).url == "wss://next.test/?id=1"
    assert driver.records == []
    driver.on(Opened(2))
    driver.wake()
    assert driver.last(Close).socket == 1


def test_a_server_that_announces_its_end_is_left_and_dialled_again_where_only_one_socket_is_allowed() -> None:
    driver = driver_of(rules=[{"message": "code=='64008'", "then": "rotate"}])
    driver.stream()
    driver.now_s += 600
    driver.message({"code": "64008"})
    driver.on(Closed("closed", 1000))
    assert len(driver.all(Dial)) == 2


@pytest.mark.parametrize("order", ["make_before_break", "break_before_make"])
def test_a_server_that_asks_every_new_socket_to_rotate_is_dialled_ever_more_slowly(order: str) -> None:
    driver = driver_of(draw=0.9, rotate={"order": order}, rules=[{"message": "op==`7`", "then": "rotate"}])
    for _ in range(30):
        if driver.socket == "dialling":
            driver.on(Opened(driver.dials))
        if driver.socket == "open":
            driver.message({"op": 7}, socket=driver.dials)
        for number, state in list(driver.sockets.items()):
            if state == "closing":
                driver.on(Closed("closed", 1000, socket=number))
        if driver.wake_at_s is not None:
            driver.wake()
    lasted_s = driver.now_s - 100
    assert driver.dials <= 2 + lasted_s / 1


def test_w15_a_hundred_rotations_free_the_old_side_and_lose_nothing() -> None:
    driver = driver_of(draw=0.0, **OVERLAP, **IDS)
    driver.stream()
    sequence = 0
    for turn in range(1, 101):
        for _ in range(3):
            sequence += 1
            driver.message({"seq": sequence}, socket=turn)
        driver.acknowledge_all()
        driver.wake()
        driver.on(Opened(turn + 1))
        driver.message({"seq": sequence}, socket=turn + 1)
        driver.wake()
        driver.on(Closed("closed", 1000, socket=turn))
        assert driver.sockets == {turn + 1: "open"}
        assert driver.machine._sockets.last is None
        assert driver.machine._sockets.next is None
        assert driver.machine._turn._kept == []
    assert driver.now_s >= 100 + 100 * 3_600
    assert [record.sequence for record in driver.records] == list(range(1, sequence + 1))
    assert driver.gaps == []


def test_w20_records_flow_after_a_reconnect_not_only_the_socket() -> None:
    driver = driver_of(**OVERLAP, **IDS)
    rotated(driver)
    driver.wake()
    driver.on(Closed("reset", 1006, socket=1))
    driver.on(Closed("reset", 1006, socket=2))
    assert driver.last(Report).state is StatusState.BACKOFF
    driver.wake()
    driver.on(Opened(3))
    driver.message({"seq": 9}, socket=3)
    assert [record.sequence for record in driver.records] == [9]


def test_a_stop_during_a_rotation_closes_both_and_waits_for_both() -> None:
    driver = driver_of(**OVERLAP, close_code=4000)
    rotated(driver)
    driver.on(StopRequested("drain"))
    assert [(close.socket, close.code) for close in driver.all(Close)] == [(1, 4000), (2, 4000)]
    driver.on(Closed("closed", 4000, socket=2))
    assert driver.all(Finished) == []
    driver.on(Closed("closed", 4000, socket=1))
    assert driver.last(Finished) == Finished("stopped", "drain")


def test_a_final_answer_on_the_old_socket_ends_the_new_one_too() -> None:
    driver = driver_of(**OVERLAP, rules=[{"close": 4004, "then": "fatal"}])
    rotated(driver)
    driver.on(Closed("no", 4004, socket=1))
    assert driver.last(Close).socket == 2
    assert driver.all(Finished) == []
    driver.on(Closed("closed", 1000, socket=2))
    assert driver.last(Finished).outcome == "fatal"


def test_a_new_socket_that_says_too_much_before_it_is_ready_takes_over_and_what_is_not_proven_is_told() -> None:
    driver = driver_of(**OVERLAP, ready="ready")
    driver.on(Opened())
    driver.message({"ready": 1})
    driver.wake()
    driver.on(Opened(2))
    for number in range(MOST_WAITING):
        driver.on(Message(str(number), WALL_MS, 2))
    driver.wake()
    assert driver.last(Close).socket == 1
    assert len(driver.gaps) == 1
    assert len(driver.records) == 1 + MOST_WAITING
    driver.message({"ready": 1}, socket=2)
    assert driver.states == ["CONNECTING", "STREAMING", "CONNECTING", "STREAMING"]


def test_a_new_socket_that_dies_while_both_are_open_is_no_reason_to_wake_without_end() -> None:
    driver = driver_of(**OVERLAP)
    rotated(driver)
    driver.on(Closed("gone", 1006, socket=2))
    assert driver.wake_at_s is not None
    assert driver.wake_at_s > driver.now_s + 1
