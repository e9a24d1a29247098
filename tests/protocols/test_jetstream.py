"""docs/examples/jetstream.yaml against Jetstream's rules."""

from streamlease.model import Position, StatusState
from tests.protocols.jetstream import REACHES_BACK_US, Jetstream
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example
from tests.protocols.upstream import wall_ms

DAY_US = 24 * 3_600 * 1_000_000


@in_time
async def test_after_a_drop_the_older_endpoint_goes_on_and_nothing_is_missing_or_doubled() -> None:
    async with Jetstream() as upstream, Streaming(example("jetstream", upstream)) as owner:
        await passes(1)
        upstream.happen(3)
        await passes(2)
        upstream.drop()
        upstream.happen(3)
        await passes(2)
        assert owner.sequences == [event.time_us for event in upstream.log.entries]
        assert owner.gaps == []
        assert upstream.cursors == [None, upstream.log.entries[2].time_us - 1]
        assert owner.counts["duplicate"] == 2


@in_time
async def test_the_next_owner_goes_on_from_the_position_with_the_same_ids() -> None:
    async with Jetstream() as upstream:
        async with Streaming(example("jetstream", upstream)) as first:
            await passes(1)
            upstream.happen(2)
            await passes(1)
            ended = await first.stop()
        upstream.happen(2)
        async with Streaming(example("jetstream", upstream), position=ended.position) as second:
            await passes(1)
            assert second.gaps == []
            assert [*first.ids, *second.ids[-2:]] == [*dict.fromkeys([*first.ids, *second.ids])]


@in_time
async def test_a_cursor_older_than_36_hours_leaves_a_gap_for_the_older_endpoint_says_nothing() -> None:
    async with Jetstream() as upstream:
        upstream.happen(2, ago_us=2 * DAY_US)
        upstream.happen(2, ago_us=DAY_US)
        feed = example("jetstream", upstream)
        old = Position(upstream.log.entries[0].time_us, feed.url.split("/")[2])
        async with Streaming(feed, position=old) as owner:
            await passes(1)
            assert owner.sequences == [event.time_us for event in upstream.log.entries[2:]]
            assert ["reaches back" in gap.reason for gap in owner.gaps] == [True]


@in_time
async def test_another_hosts_cursor_is_rewound_and_leaves_a_gap() -> None:
    async with Jetstream() as upstream:
        upstream.happen(1, ago_us=10_000_000)
        at = wall_ms() * 1_000
        async with Streaming(example("jetstream", upstream), position=Position(at, "jetstream1.example")) as owner:
            await passes(1)
            assert upstream.cursors == [at - 5_000_001]
            assert ["jetstream1.example" in gap.reason for gap in owner.gaps] == [True]


@in_time
async def test_after_a_drop_the_newer_endpoint_goes_on_from_its_number() -> None:
    async with Jetstream() as upstream, Streaming(example("jetstream", upstream, "jetstream-events")) as owner:
        await passes(1)
        upstream.happen(3)
        await passes(2)
        await upstream.tell({"$type": "error", "error": "ConsumerTooSlow"})
        await upstream.hang_up(1008)
        upstream.happen(2)
        await passes(3)
        assert owner.sequences == [1, 2, 3, 4, 5]
        assert upstream.cursors == [None, 3]
        assert owner.gaps == []


@in_time
async def test_an_hour_of_pings_is_answered_and_nothing_is_ever_sent() -> None:
    async with Jetstream() as upstream, Streaming(example("jetstream", upstream, "jetstream-events")) as owner:
        for _ in range(90):
            await passes(40)
            upstream.happen()
        assert owner.is_streaming
        assert len(upstream.dialled) == 1


@in_time
async def test_a_cursor_that_is_refused_as_too_old_is_final_or_live_as_the_rule_says() -> None:
    async with Jetstream() as upstream:
        upstream.happen(2, ago_us=REACHES_BACK_US + DAY_US)
        feed = example("jetstream", upstream, "jetstream-events")
        old = Position(1, feed.url.split("/")[2])
        async with Streaming(feed, position=old) as owner:
            ended = await owner.ended()
            assert (ended.outcome, ended.position, len(upstream.dialled)) == ("fatal", old, 1)
        live = [{"http": 400, "body": "error=='CursorTooOld'", "then": "live"}]
        feed = example("jetstream", upstream, "jetstream-events", rules=live)
        async with Streaming(feed, position=old) as owner:
            await passes(1)
            upstream.happen()
            await passes(1)
            assert owner.sequences == [3]
            assert len(owner.gaps) == 1


@in_time
async def test_an_upstream_that_is_unavailable_is_dialled_again() -> None:
    async with Jetstream() as upstream:
        upstream.refusals.append((503, ""))
        async with Streaming(example("jetstream", upstream, "jetstream-events")) as owner:
            await passes(2)
            assert owner.is_streaming
            assert "503" in owner.reasons(StatusState.BACKOFF)[0]
