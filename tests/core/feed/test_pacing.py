"""What is sent keeps within what an upstream takes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamlease.feed.events import Close, Opened, Ping, Send
from streamlease.feed.feed import Pace
from streamlease.feed.pacing import Pacer
from streamlease.feed.session import Phase
from streamlease.spec import compile_spec
from tests.core.feed.driver import Driver
from tests.core.spec.files import one


def driver_of(**fields: Any) -> Driver:
    return Driver(compile_spec(one(keepalive={"ping_every": "off"}, **fields)))


def test_messages_beyond_the_window_wait_their_turn_and_the_script_goes_on_when_they_are_out() -> None:
    open_: list[Any] = [f"sub {number}" for number in range(7)]
    driver = driver_of(open=[*open_, {"send": "last", "expect": "ok"}], pace={"messages": 3, "per": "1s"})
    driver.on(Opened())
    assert len(driver.all(Send)) == 3
    assert driver.machine.phase is Phase.OPENING
    driver.wake()
    assert (driver.now_s, len(driver.all(Send))) == (101, 6)
    driver.wake()
    assert [send.text for send in driver.all(Send)] == [*open_, "last"]
    driver.message({"ok": 1})
    assert driver.states[-1] == "STREAMING"


def test_w24_the_limit_holds_for_answers_and_keepalive_too() -> None:
    driver = driver_of(rules=[{"message": "ask", "send": "answer"}], pace={"messages": 2, "per": "10s"})
    driver.stream()
    for _ in range(5):
        driver.message({"ask": 1})
    assert len(driver.all(Send)) == 2
    driver.wake()
    assert (driver.now_s, len(driver.all(Send))) == (110, 4)


def test_where_pings_count_they_take_a_place_and_one_is_kept_free_for_pongs() -> None:
    pacer = Pacer(Pace(5, 1.0, counts_pings=True))
    assert len([out for _ in range(6) for out in pacer.send(Ping(1), 0.0)]) == 4
    assert pacer.waiting
    free = Pacer(Pace(1, 1.0))
    assert [free.send(Ping(1), 0.0) for _ in range(3)] == [[Ping(1)]] * 3


def test_an_upstream_that_makes_this_side_talk_without_end_is_left() -> None:
    driver = driver_of(rules=[{"message": "ask", "send": "answer"}], pace={"messages": 1, "per": "1h"})
    driver.stream()
    while not driver.all(Close):
        driver.message({"ask": 1})
    assert len(driver.all(Send)) == 1


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 5), st.floats(0.1, 3))
def test_no_window_ever_holds_more_than_the_limit_and_nothing_is_lost(
    waits: list[float], most: int, per_s: float
) -> None:
    pacer, now_s, sent = Pacer(Pace(most, per_s)), 0.0, list[tuple[float, str | bytes]]()
    for number, wait_s in enumerate(waits):
        now_s += wait_s
        sent += [(now_s, out.text) for out in pacer.send(Send(str(number)), now_s) if isinstance(out, Send)]
    while pacer.waiting:
        due_s = pacer.due_s()
        assert due_s is not None
        now_s = max(now_s, due_s)
        sent += [(now_s, out.text) for out in pacer.go_on(now_s) if isinstance(out, Send)]
    assert [text for _, text in sent] == [str(number) for number in range(len(waits))]
    for at_s, _ in sent:
        assert len([other for other, _ in sent if other <= at_s < other + per_s]) <= most
