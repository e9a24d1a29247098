"""docs/examples/coinbase.yaml against Coinbase's rules."""

from tests.protocols.coinbase import NAME, Coinbase
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example


def streaming(upstream: Coinbase, key: str | None = None) -> Streaming:
    reference = "secretsmanager:streamlease/coinbase"
    secrets = {f"{reference}#key": key or upstream.key, f"{reference}#name": NAME}
    return Streaming(example("coinbase", upstream), secrets=secrets)


@in_time
async def test_every_trade_of_a_message_is_a_record_and_heartbeats_between_are_no_gap() -> None:
    async with Coinbase() as upstream, streaming(upstream) as owner:
        await passes(3)
        await upstream.trades(1, 2)
        await passes(3.5)
        await upstream.trades(3, product="ETH-USD")
        await passes(1)
        assert owner.ids == ["BTC-USD/1", "BTC-USD/2", "ETH-USD/3"]
        assert owner.gaps == []
        assert owner.records[0].event_at_ms is not None


@in_time
async def test_a_message_that_is_missing_is_a_gap_whichever_channel_it_was_of() -> None:
    async with Coinbase() as upstream, streaming(upstream) as owner:
        await passes(1.5)
        await upstream.trades(1)
        upstream.lose_one()
        await passes(2)
        await upstream.trades(2)
        await passes(1)
        (gap,) = owner.gaps
        assert isinstance(gap.from_sequence, int)
        assert gap.to_sequence == gap.from_sequence + 2


@in_time
async def test_heartbeats_keep_a_quiet_market_open_for_as_long_as_data_may_be_away() -> None:
    async with Coinbase() as upstream, streaming(upstream) as owner:
        for number in range(6):
            await upstream.trades(number)
            await passes(100)
        assert owner.is_streaming
        assert len(upstream.dialled) == 1


@in_time
async def test_after_a_drop_tokens_are_new_and_the_snapshot_is_told_from_new_trades() -> None:
    async with Coinbase() as upstream, streaming(upstream) as owner:
        await passes(1)
        await upstream.trades(1, 2)
        await passes(200)
        upstream.drop()
        await passes(2)
        await upstream.trades(3)
        await passes(1)
        assert owner.ids == ["BTC-USD/1", "BTC-USD/2", "BTC-USD/3"]
        assert len(owner.gaps) == len(upstream.dialled) - 1
        assert owner.counts["duplicate"] >= 2


@in_time
async def test_a_key_that_is_not_the_accounts_is_given_up_after_three_more_tries() -> None:
    async with Coinbase() as upstream, streaming(upstream, key=Coinbase().key) as owner:
        ended = await owner.ended()
        assert ended.outcome == "fatal"
        assert len(upstream.dialled) == 4
        assert "PRIVATE KEY" not in str(owner.states)
