"""docs/examples/bybit.yaml against Bybit's rules."""

from streamlease.model import StatusState
from tests.protocols.bybit import KEY, SECRET, Bybit
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example
from tests.protocols.upstream import wall_ms

SECRETS = {"secretsmanager:streamlease/bybit#key": KEY, "secretsmanager:streamlease/bybit#secret": SECRET}


@in_time
async def test_trades_are_records_and_a_lost_connection_is_a_gap() -> None:
    async with Bybit() as upstream, Streaming(example("bybit", upstream)) as owner:
        await passes(1)
        await upstream.trades("a", "b")
        await passes(2)
        upstream.drop()
        await passes(2)
        await upstream.trades("c", symbol="ETHUSDT")
        await passes(1)
        assert owner.ids == ["BTCUSDT/a", "BTCUSDT/b", "ETHUSDT/c"]
        assert len(owner.gaps) == 1


@in_time
async def test_a_ping_every_twenty_seconds_keeps_a_quiet_hour_and_is_no_record() -> None:
    for name in ("bybit-trades", "bybit-orders"):
        async with Bybit() as upstream, Streaming(example("bybit", upstream, name), secrets=SECRETS) as owner:
            await passes(3_600)
            assert owner.is_streaming
            assert (len(upstream.dialled), owner.delivered) == (1, [])


@in_time
async def test_a_ping_without_a_pong_ends_the_socket() -> None:
    async with Bybit() as upstream, Streaming(example("bybit", upstream)) as owner:
        await passes(1)
        upstream.pongs = False
        await passes(30)
        upstream.pongs = True
        assert owner.reasons(StatusState.BACKOFF) == ["the keepalive message was not answered"]


@in_time
async def test_a_book_may_begin_anew_and_else_has_no_holes() -> None:
    async with Bybit() as upstream, Streaming(example("bybit", upstream, "bybit-book")) as owner:
        await passes(1)
        await upstream.book(100, "snapshot")
        await upstream.book(101)
        await upstream.book(500, "snapshot", symbol="ETHUSDT")
        await upstream.book(1, "snapshot")
        await upstream.book(2)
        await upstream.book(4)
        await passes(1)
        assert len(owner.records) == 6
        assert [(gap.from_sequence, gap.to_sequence) for gap in owner.gaps] == [(2, 4)]


@in_time
async def test_each_login_is_signed_for_some_seconds_anew() -> None:
    async with Bybit() as upstream, Streaming(example("bybit", upstream, "bybit-orders"), secrets=SECRETS) as owner:
        await passes(1_000)
        upstream.drop()
        await passes(2)
        order = {"orderId": "o", "orderStatus": "Filled", "updatedTime": str(wall_ms())}
        await upstream.publish("order", [order])
        await passes(1)
        assert owner.ids == [f"o/Filled/{order['updatedTime']}"]


@in_time
async def test_a_key_that_is_not_known_and_a_topic_that_there_is_not_are_final() -> None:
    async with Bybit() as upstream:
        wrong = {**SECRETS, "secretsmanager:streamlease/bybit#secret": "bybit-of-nobody-0123"}
        async with Streaming(example("bybit", upstream, "bybit-orders"), secrets=wrong) as owner:
            assert (await owner.ended()).outcome == "fatal"
        feed = example("bybit", upstream, open=[{"req_id": "2", "op": "subscribe", "args": ["publicTrade.NONE"]}])
        async with Streaming(feed) as owner:
            assert (await owner.ended()).outcome == "fatal"
        assert len(upstream.dialled) == 2
