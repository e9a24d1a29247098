"""Days of one connection: what it holds and what a message costs stay as they were."""

import gc
import sys
import tracemalloc
from types import FrameType
from typing import Any

from streamlease.feed.events import Acknowledged, Command, Deliver, Message, Record
from streamlease.feed.feed import Feed, RecordShape, Resume
from streamlease.feed.shape import Dedupe
from tests.core.feed.driver import WALL_MS, Driver, path

EACH_DAY = 1_500
MOST_REMEMBERED = 500
DAY_S = 86_400.0


def feed() -> Feed:
    """One that remembers as much as a feed can: ids within a window, a cursor that many records share."""
    return Feed(
        "trades",
        "wss://ticker.test/ws",
        record=RecordShape(sequence=path("at"), record_id=path("id"), dedupe=Dedupe(most=MOST_REMEMBERED)),
        resume=Resume(query={"cursor": "{sequence}"}, rewind=1),
    )


def live_through(driver: Driver, day: int) -> int:
    """A day with a lost socket each fourth of it; how many calls of Python code it took."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    for quarter in range(4):
        driver.stream()
        sys.setprofile(count)
        for number in range(EACH_DAY // 4):
            at = (day * 4 + quarter) * EACH_DAY // 4 + number
            driver.now_s += DAY_S / EACH_DAY
            text = f'{{"at": {at // 3}, "id": "{at:09}"}}'
            commands = driver.machine.handle(Message(text, WALL_MS + at, driver.dials), driver.now_s, 0.5)
            assert acknowledged(driver, commands) == 1
        sys.setprofile(None)
        driver.drop()
        driver.wake()
    return calls


def acknowledged(driver: Driver, commands: list[Command]) -> int:
    """How many records there were; all of them are durable at once."""
    records = [each for command in commands if isinstance(command, Deliver) for each in command.deliveries]
    for record in records:
        driver.machine.handle(Acknowledged(record.number), driver.now_s, 0.5)
    return len([each for each in records if isinstance(each, Record)])


def test_w13_after_days_under_load_a_message_costs_what_it_did_and_nothing_more_is_held() -> None:
    driver = Driver(feed())
    for day in range(2):  # until the window of ids is full
        live_through(driver, day)
    driver.commands.clear()
    gc.collect()
    tracemalloc.start()
    try:
        third = live_through(driver, 2)
        driver.commands.clear()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        days = []
        for day in range(3, 8):
            days.append(live_through(driver, day))
            driver.commands.clear()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(abs(calls - third) <= third // 50 for calls in days)
    assert after - before < 20 * EACH_DAY  # 7,500 messages came: less than four bytes of each are left
