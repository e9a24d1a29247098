"""Going on from where somebody asked for."""

from dataclasses import replace

from streamlease.feed.events import Dial, Opened
from streamlease.feed.machine import Machine
from streamlease.model import Position, Seek
from tests.core.feed.driver import Driver, jetstream, ticker


def driver_of(seek: Seek, feed: object = None, position: Position | None = None) -> Driver:
    driver = Driver(jetstream() if feed is None else feed)  # type: ignore[arg-type]
    driver.machine = Machine(driver.feed, position, seek=seek)
    driver.commands, driver.sockets, driver.dials = [], {}, 0
    driver.take(driver.machine.start(driver.now_s))
    return driver


def test_a_seek_to_a_position_is_dialled_with_it_and_told_in_a_gap_record() -> None:
    driver = driver_of(Seek("position", 50, from_sequence=70))
    assert driver.last(Dial).url.endswith("cursor=49")
    driver.on(Opened())
    driver.message({"time_us": 51})
    assert [(gap.from_sequence, gap.to_sequence, gap.reason) for gap in driver.gaps] == [
        (70, 50, "somebody asked to go on from 50 (seek)")
    ]
    driver.acknowledge_all()
    assert driver.machine.position == Position(51, "jetstream.test")


def test_a_seek_to_what_is_live_asks_for_no_position_and_leaves_one_at_once() -> None:
    driver = driver_of(Seek("live", from_sequence=70))
    assert "cursor" not in driver.last(Dial).url
    driver.on(Opened())
    assert driver.gaps[0].from_sequence == 70
    assert driver.machine.position == Position(None, "jetstream.test")
    driver.message({"time_us": 5})
    driver.acknowledge_all()
    assert driver.machine.position == Position(5, "jetstream.test")


def test_a_seek_to_the_beginning_uses_the_specs_cursor_for_it() -> None:
    feed = jetstream()
    driver = driver_of(Seek("beginning"), replace(feed, resume=replace(feed.resume, beginning=0, rewind=0)))
    assert driver.last(Dial).url.endswith("cursor=0")
    driver.on(Opened())
    assert len(driver.gaps) == 1


def test_a_seek_holds_only_while_no_position_was_made_since() -> None:
    driver = driver_of(Seek("position", 50), position=Position(60, "jetstream.test"))
    assert driver.last(Dial).url.endswith("cursor=59")
    driver.on(Opened())
    assert driver.gaps == []


def test_a_feed_that_cannot_resume_says_that_somebody_sought() -> None:
    driver = driver_of(Seek("live"), ticker())
    driver.on(Opened())
    assert driver.gaps[0].reason == "somebody asked to go on live (seek)"
