"""docs/examples/binance.yaml against Binance's rules."""

from streamlease.feed.events import Gap
from tests.protocols.binance import Binance
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example

HOUR_S = 3_600


@in_time
async def test_trades_come_with_their_numbers_and_a_missing_one_is_a_gap() -> None:
    async with Binance() as upstream, Streaming(example("binance", upstream)) as owner:
        await passes(1)
        await upstream.trades(7, 8, 11)
        await passes(1)
        assert owner.sequences == [7, 8, 11]
        assert owner.ids == ["7", "8", "11"]
        assert [(gap.from_sequence, gap.to_sequence) for gap in owner.gaps] == [(8, 11)]


@in_time
async def test_a_lost_connection_leaves_one_gap_from_the_last_trade() -> None:
    async with Binance() as upstream, Streaming(example("binance", upstream)) as owner:
        await passes(1)
        await upstream.trades(7, 8)
        await passes(2)
        upstream.drop()
        await passes(5)
        await upstream.trades(20)
        await passes(1)
        assert owner.sequences == [7, 8, 20]
        assert [gap.from_sequence for gap in owner.gaps] == [8]


@in_time
async def test_two_days_of_sockets_that_live_a_day_lose_and_double_nothing() -> None:
    async with Binance() as upstream, Streaming(example("binance", upstream, keepalive={"ping_every": "10m"})) as owner:
        upstream.ping_every_s = 600.0
        await passes(1)
        for number in range(1, 98):
            await upstream.trades(number)
            await passes(HOUR_S / 2)
        assert owner.sequences == list(range(1, 98))
        assert owner.gaps == []
        assert upstream.died == 0
        assert len(upstream.dialled) == 3
        assert upstream.most_open == 2


@in_time
async def test_an_announced_shutdown_is_a_rotation_at_once() -> None:
    async with Binance() as upstream, Streaming(example("binance", upstream)) as owner:
        await passes(1)
        await upstream.trades(1)
        await passes(40)
        await upstream.shut_down_soon(upstream.lines[0])
        await upstream.trades(2)
        await passes(0.5)
        await upstream.trades(3)
        await passes(2)
        await upstream.trades(4)
        await passes(1)
        assert owner.sequences == [1, 2, 3, 4]
        assert owner.gaps == []
        assert len(upstream.dialled) == 2
        assert len(upstream.lines) == 1


@in_time
async def test_what_is_sent_keeps_within_five_a_second_with_pings_and_pongs() -> None:
    async with Binance() as upstream:
        upstream.ping_every_s = 1.0
        messages = [{"method": "SUBSCRIBE", "params": [f"s{index}@trade"], "id": 2} for index in range(12)]
        last = {"method": "SUBSCRIBE", "params": ["btcusdt@trade"], "id": 1}
        feed = example("binance", upstream, open=[*messages, last], keepalive={"ping_every": "1s"})
        async with Streaming(feed) as owner:
            await passes(2)
            assert not owner.is_streaming
            await passes(30)
            assert owner.is_streaming


@in_time
async def test_a_stream_that_there_is_not_is_final() -> None:
    async with Binance() as upstream:
        feed = example("binance", upstream, open=[{"method": "SUBSCRIBE", "params": ["btcusdt@nothing"], "id": 1}])
        async with Streaming(feed) as owner:
            assert (await owner.ended()).outcome == "fatal"
            assert len(upstream.dialled) == 1


@in_time
async def test_ranges_of_a_book_meet_or_leave_a_gap_by_symbol() -> None:
    async with Binance() as upstream, Streaming(example("binance", upstream, "binance-depth")) as owner:
        await passes(1)
        await upstream.depth(1, 5)
        await upstream.depth(100, 100, symbol="ethusdt")
        await upstream.depth(6, 9)
        await upstream.depth(9, 12)
        await upstream.depth(14, 15)
        await passes(1)
        assert len(owner.records) == 5
        (gap,) = owner.gaps
        assert (gap.from_sequence, gap.to_sequence) == (12, 14)
        assert isinstance(owner.delivered[-2], Gap)
