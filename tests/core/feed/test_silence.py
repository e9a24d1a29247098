"""A stream that says nothing: dialled again, given to another worker once, then put off; and dials that wait."""

from dataclasses import replace

import pytest

from streamlease.feed.events import (
    Close,
    Closed,
    Dial,
    DialBegun,
    DialHeld,
    Finished,
    Opened,
    Report,
    StopRequested,
    WakeAt,
)
from streamlease.feed.feed import Feed, Keepalive, Retry
from streamlease.feed.session import Phase
from streamlease.model import StatusState
from tests.core.feed.driver import Driver, first_is, nostr, ticker

STALE_S = 60.0


def silent(feed: Feed | None = None) -> Feed:
    return replace(feed or ticker(), keepalive=Keepalive(ping_every_s=None, stale_after_s=STALE_S))


def goes_stale(driver: Driver) -> None:
    driver.wake()
    assert driver.last(Close).code == 1011
    driver.on(Closed("closed by this side"))


def dials_again(driver: Driver) -> None:
    driver.wake()
    driver.on(Opened())


def test_a_silent_stream_is_dialled_again_and_then_left_to_another_worker() -> None:
    driver = Driver(silent())
    driver.on(Opened())
    goes_stale(driver)
    dials_again(driver)
    assert driver.machine.phase is Phase.STREAMING
    goes_stale(driver)
    assert driver.last(Finished) == Finished("yielded", "no message for 60 s, time and again: another worker is to try")
    assert driver.last(Report).state is StatusState.YIELDED
    assert len(driver.all(Dial)) == 2


def test_what_was_silent_elsewhere_too_is_put_off_with_its_reason() -> None:
    driver = Driver(silent(), suspect=True)
    driver.on(Opened())
    goes_stale(driver)
    assert driver.last(Finished) == Finished(
        "quarantined", "no message for 60 s, time and again: on another worker too"
    )
    assert driver.last(Report).state is StatusState.QUARANTINED
    assert len(driver.all(Dial)) == 1


def test_w11_a_dead_subscription_after_a_good_ack_is_flagged_and_not_dialled_for_ever() -> None:
    driver = Driver(silent(replace(nostr(), ready=first_is("EOSE"))))
    for _ in range(2):
        driver.on(Opened())
        driver.message(["EOSE", "sub"])
        driver.message(["NOTICE", "welcome"])
        goes_stale(driver)
        if driver.machine.phase is not Phase.FINISHED:
            driver.wake()
    assert driver.last(Finished).outcome == "yielded"


def test_w11_a_quiet_channel_that_is_not_said_to_go_stale_is_left_alone() -> None:
    driver = Driver(replace(ticker(), keepalive=Keepalive(ping_every_s=None)))
    driver.on(Opened())
    before = len(driver.all(WakeAt))
    assert driver.machine.phase is Phase.STREAMING
    assert driver.states == ["CONNECTING", "STREAMING"]
    assert len(driver.all(WakeAt)) == before, "nothing to wake for"


def test_a_stream_that_stops_again_and_again_after_it_has_lived_is_only_dialled_again() -> None:
    driver = Driver(silent(), suspect=True)
    for number in range(5):
        driver.on(Opened())
        driver.now_s += 20
        driver.message({"id": number})
        driver.wake()
        goes_stale(driver) if driver.machine.phase is Phase.STREAMING else driver.on(Closed("closed by this side"))
        driver.wake()
    assert driver.all(Finished) == []
    assert len(driver.all(Dial)) == 6


def test_a_greeting_or_the_last_record_once_more_shows_no_stream_that_lives() -> None:
    driver = Driver(silent())
    for number in range(2):
        driver.on(Opened())
        driver.now_s += 4
        driver.message({"id": number})
        driver.wake()
        goes_stale(driver) if driver.machine.phase is Phase.STREAMING else driver.on(Closed("closed by this side"))
        if not driver.all(Finished):
            driver.wake()
    assert driver.last(Finished).outcome == "yielded"


def test_an_end_of_another_kind_between_two_silences_counts_for_nothing() -> None:
    driver = Driver(silent())
    driver.on(Opened())
    goes_stale(driver)
    driver.wake()
    driver.on(Closed("nothing accepts connections"))
    dials_again(driver)
    goes_stale(driver)
    assert driver.last(Finished).outcome == "yielded"


def test_w10_failures_that_come_after_hours_of_streaming_never_add_up() -> None:
    driver = Driver(replace(ticker(), retry=Retry(first_s=1.0, longest_s=600.0)), draw=0.999)
    waits = []
    for _ in range(9):
        driver.on(Opened())
        driver.on(Closed("the upstream went away"), after_s=3 * 3_600)
        assert driver.wake_at_s is not None
        waits.append(driver.wake_at_s - driver.now_s)
        driver.wake()
    assert max(waits) <= 1.0


# --- waiting for a turn -----------------------------------------------------------------------------------------------


def test_while_a_dial_is_held_its_time_does_not_run() -> None:
    driver = Driver(ticker())
    driver.on(DialHeld())
    assert driver.states == ["CONNECTING"]
    driver.on(DialHeld(0, "waiting for the dial budget of ticker.test, about 12 min"), after_s=1)
    assert driver.last(Report) == Report(
        StatusState.CONNECTING, "waiting for the dial budget of ticker.test, about 12 min"
    )
    driver.wake(late_s=700)
    assert driver.all(Close) == []
    driver.on(DialBegun(), after_s=60)
    assert driver.wake_at_s == driver.now_s + 11.0
    driver.on(Opened(), after_s=9)
    assert driver.machine.phase is Phase.STREAMING


def test_a_dial_that_was_held_is_given_up_in_its_own_time() -> None:
    driver = Driver(ticker())
    driver.on(DialHeld())
    driver.on(DialBegun(), after_s=500)
    driver.wake()
    assert driver.last(Close).abort


def test_a_held_dial_is_stopped_at_once() -> None:
    driver = Driver(ticker())
    driver.on(DialHeld())
    driver.on(StopRequested("drain"), after_s=100)
    assert driver.all(Close)
    driver.on(Closed("the dial was given up"))
    assert driver.last(Finished).outcome == "stopped"


@pytest.mark.parametrize("event", [DialHeld(0, "late"), DialBegun(), DialHeld(7, "another's")])
def test_what_is_said_of_a_dial_that_has_ended_is_passed_over(event: DialHeld | DialBegun) -> None:
    driver = Driver(ticker())
    driver.on(Opened())
    states = driver.states
    wake_at_s = driver.wake_at_s
    driver.on(event)
    assert driver.states == states
    assert driver.wake_at_s == wake_at_s
