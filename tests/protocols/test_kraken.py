"""docs/examples/kraken.yaml against Kraken's rules."""

import pytest

from streamlease.model import StatusState
from tests.protocols.kraken import KEY, SECRET, Kraken
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example
from tests.protocols.upstream import wall_ms

SECRETS = {"secretsmanager:streamlease/kraken#key": KEY, "secretsmanager:streamlease/kraken#secret": SECRET}


@in_time
async def test_trades_of_each_symbol_are_numbered_and_a_missing_one_is_a_gap() -> None:
    async with Kraken() as upstream, Streaming(example("kraken", upstream)) as owner:
        await passes(1)
        await upstream.trades(1, 2)
        await upstream.trades(70, symbol="ETH/USD")
        await upstream.trades(4)
        await passes(1)
        assert owner.ids == ["BTC/USD/1", "BTC/USD/2", "ETH/USD/70", "BTC/USD/4"]
        (gap,) = owner.gaps
        assert (gap.from_sequence, gap.to_sequence) == (2, 4)
        assert gap.reason.startswith("BTC/USD")


@in_time
async def test_a_snapshot_after_a_drop_brings_what_was_missed_and_doubles_nothing() -> None:
    async with Kraken() as upstream, Streaming(example("kraken", upstream)) as owner:
        await passes(1)
        await upstream.trades(1, 2)
        await passes(2)
        upstream.drop()
        await upstream.trades(3)
        await passes(2)
        await upstream.trades(4)
        await passes(1)
        assert owner.ids == [f"BTC/USD/{number}" for number in (1, 2, 3, 4)]
        assert ["no cursor to go on from" in gap.reason for gap in owner.gaps] == [True]


@in_time
async def test_heartbeats_and_pings_keep_a_quiet_hour_and_are_no_records() -> None:
    async with Kraken() as upstream, Streaming(example("kraken", upstream)) as owner:
        await passes(600)
        assert owner.is_streaming
        assert (len(upstream.dialled), owner.delivered) == (1, [])


@in_time
async def test_an_upstream_without_a_heartbeat_is_dialled_again() -> None:
    async with Kraken() as upstream, Streaming(example("kraken", upstream)) as owner:
        await passes(5)
        upstream.beats = False
        await passes(9)
        upstream.beats = True
        await passes(5)
        assert len(upstream.dialled) == 2
        assert owner.is_streaming


@in_time
async def test_a_ping_without_its_pong_ends_the_socket_though_heartbeats_come() -> None:
    async with Kraken() as upstream, Streaming(example("kraken", upstream)) as owner:
        await passes(5)
        upstream.pongs = False
        await passes(38)
        upstream.pongs = True
        assert owner.reasons(StatusState.BACKOFF) == ["the keepalive message was not answered"]
        assert upstream.closed_with == [4000]


@in_time
async def test_a_pair_that_there_is_not_is_final_and_maintenance_is_waited_for() -> None:
    async with Kraken() as upstream:
        params = {"channel": "trade", "symbol": ["NO/NE"]}
        feed = example("kraken", upstream, open=[{"method": "subscribe", "params": params, "req_id": 1}])
        async with Streaming(feed) as owner:
            assert (await owner.ended()).outcome == "fatal"
        async with Streaming(example("kraken", upstream)) as owner:
            await passes(1)
            await upstream.tell({"channel": "status", "type": "update", "data": [{"system": "maintenance"}]})
            await passes(59)
            assert not owner.is_streaming
            await passes(5)
            assert owner.is_streaming


@in_time
async def test_a_book_is_delivered_update_by_update() -> None:
    async with Kraken() as upstream, Streaming(example("kraken", upstream, "kraken-book")) as owner:
        await passes(1)
        await upstream.book()
        await passes(1)
        assert [record.event_at_ms is not None for record in owner.records] == [True]


@in_time
async def test_ones_own_orders_come_for_a_token_of_each_dials_own() -> None:
    async with Kraken() as upstream:
        feed = example("kraken", upstream, "kraken-executions")
        async with Streaming(feed, secrets=SECRETS) as owner:
            await passes(1)
            await upstream.executions("e1")
            await passes(2)
            upstream.drop()
            await passes(2)
            await upstream.executions("e2", "e3")
            await upstream.executions("e4", lost=1)
            await passes(1)
            assert owner.ids == ["e1", "e2", "e3", "e4"]
            assert len(upstream.calls) == 2
            assert ["no cursor" in gap.reason for gap in owner.gaps] == [True, False]


@pytest.mark.parametrize("field", ["key", "secret"])
@in_time
async def test_a_call_with_a_key_that_is_none_is_final_and_dials_nothing(field: str) -> None:
    async with Kraken() as upstream:
        wrong = {**SECRETS, f"secretsmanager:streamlease/kraken#{field}": "a3Jha2VuLW9mLW5vYm9keQ=="}
        async with Streaming(example("kraken", upstream, "kraken-executions"), secrets=wrong) as owner:
            assert (await owner.ended()).outcome == "fatal"
            assert (len(upstream.calls), upstream.dialled) == (1, [])
            assert "a3Jha2Vu" not in str(owner.states)


@in_time
async def test_a_call_that_is_refused_for_its_nonce_is_tried_again() -> None:
    async with Kraken() as upstream:
        upstream.nonce = wall_ms() + 3_000
        async with Streaming(example("kraken", upstream, "kraken-executions"), secrets=SECRETS) as owner:
            await passes(30)
            assert owner.is_streaming
            assert "not as fetch.ok asks for" in owner.reasons(StatusState.BACKOFF)[0]
            assert len(upstream.calls) > 1
