"""docs/examples/finnhub.yaml against Finnhub's rules."""

from streamlease.feed.feed import Feed
from streamlease.model import StatusState
from tests.protocols.finnhub import TOKEN, Finnhub, trade
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example

SECRETS = {"secretsmanager:streamlease/finnhub#token": TOKEN}


def streaming(feed: Feed, **options: dict[str, str]) -> Streaming:
    return Streaming(feed, secrets=options.get("secrets", SECRETS))


@in_time
async def test_trades_that_share_a_time_are_all_delivered() -> None:
    async with Finnhub() as upstream, streaming(example("finnhub", upstream)) as owner:
        await passes(1)
        await upstream.trades(trade("AAPL", 1.5, at_ms=7), trade("AAPL", 1.5, at_ms=7), trade("MSFT", 2.5, at_ms=7))
        await passes(1)
        assert [record.payload["p"] for record in owner.records] == [1.5, 1.5, 2.5]  # type: ignore[index, call-overload]
        assert [record.event_at_ms for record in owner.records] == [7, 7, 7]
        assert owner.ids == [None] * 3


@in_time
async def test_pings_keep_a_quiet_market_open_and_are_no_records() -> None:
    async with Finnhub() as upstream, streaming(example("finnhub", upstream)) as owner:
        await passes(3_600)
        assert owner.is_streaming
        assert len(upstream.dialled) == 1
        assert owner.delivered == []


@in_time
async def test_w33_a_lost_connection_leaves_a_gap_for_nothing_can_be_replayed() -> None:
    async with Finnhub() as upstream, streaming(example("finnhub", upstream)) as owner:
        await passes(1)
        await upstream.trades(trade("AAPL", 1.0))
        await passes(2)
        upstream.drop()
        await passes(5)
        await upstream.trades(trade("AAPL", 2.0))
        await passes(1)
        assert len(owner.records) == 2
        assert ["there is no cursor to go on from" in gap.reason for gap in owner.gaps] == [True]


@in_time
async def test_one_connection_too_many_is_waited_for_and_no_reason_to_give_up() -> None:
    async with Finnhub() as upstream, streaming(example("finnhub", upstream)) as first:
        await passes(1)
        async with streaming(example("finnhub", upstream)) as second:
            await passes(30)
            assert len(upstream.dialled) == 2
            assert "429" in second.reasons(StatusState.BACKOFF)[0]
            await first.stop()
            await passes(61)
            assert second.is_streaming


@in_time
async def test_w34_a_wrong_token_is_final_once_it_was_looked_up_anew() -> None:
    async with Finnhub() as upstream:
        wrong = {"secretsmanager:streamlease/finnhub#token": "finnhub-wrong-000000"}
        async with streaming(example("finnhub", upstream), secrets=wrong) as owner:
            ended = await owner.ended()
            assert ended.outcome == "fatal"
            assert "401" in ended.reason
            assert len(upstream.dialled) == 2
            assert "finnhub-wrong" not in str(owner.states)


@in_time
async def test_symbols_that_are_refused_are_tried_three_times() -> None:
    async with Finnhub() as upstream:
        feed = example("finnhub", upstream, open=[{"type": "subscribe", "symbol": ""}])
        async with streaming(feed) as owner:
            await passes(3 * 31 + 1)
            ended = await owner.ended()
            assert (ended.outcome, len(upstream.dialled)) == ("fatal", 4)
