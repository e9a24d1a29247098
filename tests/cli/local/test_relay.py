"""The real relay and the real publisher: what the demo counts on."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from streamlease_cli.local.checkout import find_checkout
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.publisher import Published, Publisher, start_publisher
from streamlease_cli.local.relay import Relay, start_relay

FEEDS = 4


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with start_relay(find_checkout(), tmp_path_factory.mktemp("relay") / "log") as relay:
        yield relay


@pytest.fixture(scope="module")
def stopped(relay: Relay, tmp_path_factory: pytest.TempPathFactory) -> tuple[Publisher, Published]:
    """A publisher that stored some hundreds of notes, and its last word."""
    log = tmp_path_factory.mktemp("publisher") / "log"
    with start_publisher(find_checkout(), relay, feeds=FEEDS, rate=200, log=log) as publisher:
        publisher.process.wait_until(lambda: publisher.published().stored >= 200, 60)
        return publisher, publisher.stop()


@asynccontextmanager
async def subscription(relay: Relay, wanted: dict[str, object]) -> AsyncIterator[ClientConnection]:
    async with connect(relay.url, compression=None) as socket:
        await socket.send(json.dumps(["REQ", "it", wanted]))
        yield socket


async def replay(relay: Relay, wanted: dict[str, object]) -> list[dict[str, Any]]:
    """The stored events, in the order they came."""
    events = []
    async with subscription(relay, wanted) as socket:
        while (message := json.loads(await socket.recv()))[0] == "EVENT":
            events.append(message[2])
    assert message == ["EOSE", "it"]
    return events


def test_what_the_publisher_counts_is_what_the_relay_has(relay: Relay, stopped: tuple[Publisher, Published]) -> None:
    publisher, last = stopped
    stored = [event for event in relay.stored() if event.author in publisher.feeds]
    assert last == Published(stored=len(stored), refused=0, unanswered=0)
    assert len({event.event_id for event in stored}) == len(stored)
    assert {event.author for event in stored} == set(publisher.feeds)
    assert len(publisher.feeds) == FEEDS


def test_a_replay_is_complete_and_newest_first(relay: Relay, stopped: tuple[Publisher, Published]) -> None:
    feed = stopped[0].feeds[0]
    events = asyncio.run(replay(relay, {"authors": [feed]}))
    times = [event["created_at"] for event in events]
    assert times == sorted(times, reverse=True)
    assert {event["id"] for event in events} == {event.event_id for event in relay.stored() if event.author == feed}


def test_since_is_inclusive_and_many_records_share_a_second(relay: Relay, stopped: tuple[Publisher, Published]) -> None:
    feed = stopped[0].feeds[0]
    stored = [event for event in relay.stored() if event.author == feed]
    [(busiest_s, count)] = Counter(event.created_at_s for event in stored).most_common(1)
    events = asyncio.run(replay(relay, {"authors": [feed], "since": busiest_s}))
    assert count > 1
    assert {event["id"] for event in events} == {event.event_id for event in stored if event.created_at_s >= busiest_s}


def test_two_hundred_subscribers_at_once_are_all_served(relay: Relay, stopped: tuple[Publisher, Published]) -> None:
    async def all_at_once() -> list[int]:
        feeds = stopped[0].feeds
        replays = [replay(relay, {"authors": [feeds[number % FEEDS]]}) for number in range(200)]
        return [len(events) for events in await asyncio.gather(*replays)]

    assert sum(asyncio.run(all_at_once())) == stopped[1].stored * 200 / FEEDS


def test_a_publisher_of_no_relay_says_so(relay: Relay, tmp_path: Path) -> None:
    nowhere = Relay(relay.process, 1, relay.database)
    with pytest.raises(LocalFault, match=r"the publisher lost ws://127\.0\.0\.1:1/"):
        start_publisher(find_checkout(), nowhere, feeds=1, rate=1, log=tmp_path / "log")


def test_a_publisher_that_loses_its_relay_is_a_fault_not_a_pause(tmp_path: Path) -> None:
    with (
        start_relay(find_checkout(), tmp_path / "relay.log") as relay,
        start_publisher(find_checkout(), relay, feeds=1, rate=100, log=tmp_path / "log") as publisher,
    ):
        folder = relay.database.parent
        relay.process.kill()
        assert relay.process.wait(60) == -signal.SIGKILL
        assert not folder.exists()
        assert publisher.process.wait(60) == 1
        with pytest.raises(LocalFault, match="the publisher ended with 1"):
            publisher.published()
