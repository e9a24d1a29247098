"""docs/examples/atproto.yaml against subscribeRepos' rules."""

from streamlease.feed.feed import Feed
from streamlease.model import Position
from tests.protocols.atproto import Repos, frame
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example


def at(feed: Feed, sequence: int) -> Position:
    return Position(sequence, feed.url.split("/")[2])


@in_time
async def test_after_a_drop_commits_go_on_after_the_cursor_holes_and_all() -> None:
    async with Repos() as upstream, Streaming(example("atproto", upstream)) as owner:
        await passes(1)
        upstream.commits(5, 7, 12)
        await passes(2)
        upstream.drop()
        upstream.commits(13, 20)
        await passes(2)
        assert owner.sequences == [5, 7, 12, 13, 20]
        assert upstream.cursors == [None, 12]
        assert owner.gaps == []


@in_time
async def test_a_commit_is_delivered_as_json_with_its_links_and_bytes() -> None:
    async with Repos() as upstream, Streaming(example("atproto", upstream)) as owner:
        await passes(1)
        upstream.commits(5)
        await passes(1)
        (record,) = owner.records
        assert isinstance(record.payload, dict)
        assert record.payload["blocks"] == {"$bytes": "AAE"}
        assert set(record.payload["commit"]) == {"$link"}
        assert record.event_at_ms == 1_800_000_000_000


@in_time
async def test_a_cursor_from_the_future_is_for_a_person_to_decide() -> None:
    async with Repos() as upstream:
        upstream.commits(1, 2)
        feed = example("atproto", upstream)
        async with Streaming(feed, position=at(feed, 900)) as owner:
            ended = await owner.ended()
            assert (ended.outcome, ended.position, len(upstream.dialled)) == ("fatal", at(feed, 900), 1)
            assert owner.delivered == []


@in_time
async def test_an_outdated_cursor_goes_on_from_the_oldest_and_leaves_a_gap() -> None:
    async with Repos() as upstream:
        upstream.commits(1, 2, 50, 51)
        upstream.oldest = 50
        feed = example("atproto", upstream)
        async with Streaming(feed, position=at(feed, 1)) as owner:
            await passes(1)
            assert owner.sequences == [50, 51]
            (gap,) = owner.gaps
            assert gap.from_sequence == 1
            assert owner.delivered[0] == gap
            assert len(upstream.dialled) == 1


@in_time
async def test_a_consumer_that_is_too_slow_goes_on_where_it_was() -> None:
    async with Repos() as upstream, Streaming(example("atproto", upstream)) as owner:
        await passes(1)
        upstream.commits(1, 2)
        await passes(2)
        await upstream.tell(frame({"op": -1}, {"error": "ConsumerTooSlow", "message": "slow"}))
        await upstream.hang_up(1008)
        upstream.commits(3)
        await passes(2)
        assert owner.sequences == [1, 2, 3]
        assert owner.gaps == []


@in_time
async def test_an_error_that_it_does_not_know_is_tried_three_times() -> None:
    async with Repos() as upstream, Streaming(example("atproto", upstream)) as owner:
        for _ in range(4):
            await passes(15)
            await upstream.tell(frame({"op": -1}, {"error": "Strange"}))
        assert (await owner.ended()).outcome == "fatal"
        assert len(upstream.dialled) == 4
