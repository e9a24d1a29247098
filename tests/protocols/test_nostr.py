"""docs/examples/nostr.yaml against a relay's rules."""

from typing import Any

from streamlease.model import Position
from tests.protocols.loopback import in_time, passes
from tests.protocols.nostr import MOST_STORED, Relay
from tests.protocols.streaming import Streaming, example
from tests.protocols.upstream import wall_ms


def contents(owner: Streaming) -> list[str]:
    payloads: list[Any] = [record.payload for record in owner.records]
    return [payload["content"] for payload in payloads]


@in_time
async def test_what_is_stored_comes_newest_first_and_what_is_new_after_it() -> None:
    async with Relay() as relay:
        for text in "abc":
            relay.notes(text)
            await passes(1)
        async with Streaming(example("nostr", relay)) as owner:
            await passes(1)
            relay.notes("d")
            relay.notes("of another topic", topic="art")
            await passes(1)
            assert contents(owner) == ["c", "b", "a", "d"]
            assert relay.since == [None]


@in_time
async def test_after_a_drop_what_was_missed_is_replayed_and_nothing_is_missing_or_doubled() -> None:
    async with Relay() as relay, Streaming(example("nostr", relay)) as owner:
        await passes(1)
        relay.notes("a", "b")
        await passes(3)
        relay.drop()
        relay.notes("c")
        await passes(0.1)
        relay.notes("d", at_s=wall_ms() // 1_000 - 1)
        await passes(3)
        assert sorted(contents(owner)) == ["a", "b", "c", "d"]
        assert owner.gaps == []


@in_time
async def test_the_position_waits_for_the_end_of_a_replay_so_that_a_drop_within_it_loses_nothing() -> None:
    async with Relay() as relay:
        for index in range(100):
            relay.notes(f"n{index}", at_s=wall_ms() // 1_000 - 1_000 + index)
        feed = example("nostr", relay)
        oldest = relay.log.entries[0]["created_at"]
        relay.cut_after = 30
        async with Streaming(feed, position=Position(oldest - 5, feed.url.split("/")[2])) as owner:
            await passes(5)
            assert sorted(contents(owner)) == sorted(f"n{index}" for index in range(100))
            assert relay.since == [oldest - 7, oldest - 7]
            assert owner.gaps == []


@in_time
async def test_an_authors_wrong_clock_does_not_take_the_position_into_the_future() -> None:
    async with Relay() as relay, Streaming(example("nostr", relay)) as owner:
        await passes(1)
        relay.notes("from next year", at_s=wall_ms() // 1_000 + 365 * 86_400)
        await passes(3)
        relay.drop()
        relay.notes("today")
        await passes(3)
        assert sorted(contents(owner)) == ["from next year", "today"]
        assert relay.since[-1] is not None
        assert relay.since[-1] <= wall_ms() // 1_000


@in_time
async def test_a_replay_as_long_as_the_relay_makes_them_leaves_a_gap() -> None:
    async with Relay() as relay:
        now_s = wall_ms() // 1_000
        relay.notes(*(f"n{index}" for index in range(MOST_STORED + 10)), at_s=now_s - 10)
        feed = example("nostr", relay)
        async with Streaming(feed, position=Position(now_s - 100, feed.url.split("/")[2])) as owner:
            await passes(2)
            assert len(owner.records) == MOST_STORED
            assert ["at most 500" in gap.reason for gap in owner.gaps] == [True]


@in_time
async def test_another_relays_cursor_is_no_proof_and_leaves_a_gap() -> None:
    async with Relay() as relay:
        position = Position(wall_ms() // 1_000 - 100, "other.example")
        async with Streaming(example("nostr", relay), position=position) as owner:
            await passes(1)
            relay.notes("a")
            await passes(1)
            assert ["other.example" in gap.reason for gap in owner.gaps] == [True]


@in_time
async def test_a_relay_that_asks_for_authentication_is_given_up_with_its_reason() -> None:
    async with Relay() as relay:
        relay.wants_authentication = True
        async with Streaming(example("nostr", relay)) as owner:
            ended = await owner.ended()
            assert (ended.outcome, len(relay.dialled)) == ("fatal", 1)


@in_time
async def test_a_subscription_that_the_relay_closes_is_asked_for_again_later() -> None:
    async with Relay() as relay, Streaming(example("nostr", relay)) as owner:
        await passes(1)
        await relay.tell(["NOTICE", "slow down"])
        await relay.tell(["CLOSED", "sub", "error: shutting down idle subscription"])
        await passes(29)
        assert len(relay.dialled) == 1
        await passes(5)
        assert owner.is_streaming
        assert len(relay.dialled) == 2
