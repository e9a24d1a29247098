"""docs/examples/alpaca.yaml against Alpaca's rules."""

from dataclasses import replace

import pytest

from streamlease.feed.feed import Feed
from streamlease.model import StatusState
from tests.protocols.alpaca import KEY, SECRET, Alpaca
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example

SECRETS = {"secretsmanager:streamlease/alpaca#key": KEY, "secretsmanager:streamlease/alpaca#secret": SECRET}


def streaming(feed: Feed, **secrets: str) -> Streaming:
    changed = {f"secretsmanager:streamlease/alpaca#{name}": value for name, value in secrets.items()}
    return Streaming(feed, secrets={**SECRETS, **changed})


@in_time
async def test_each_trade_of_a_list_is_a_record() -> None:
    async with Alpaca() as upstream, streaming(example("alpaca", upstream)) as owner:
        await passes(1)
        await upstream.trades(1, 2)
        await upstream.trades(1, symbol="MSFT")
        await passes(1)
        assert owner.ids == ["AAPL/V/1", "AAPL/V/2", "MSFT/V/1"]
        assert all(record.event_at_ms is not None for record in owner.records)
        assert owner.gaps == []


@in_time
async def test_the_old_connection_is_closed_before_another_is_opened_and_a_gap_is_left() -> None:
    async with Alpaca() as upstream, streaming(example("alpaca", upstream, rotate={"after": "1h"})) as owner:
        await passes(1)
        await upstream.trades(1)
        await passes(3_700)
        await upstream.trades(2)
        await passes(1)
        assert owner.ids == ["AAPL/V/1", "AAPL/V/2"]
        assert (len(owner.gaps), len(upstream.dialled), upstream.most_open) == (1, 2, 1)


@in_time
async def test_w23_where_another_connection_stands_it_is_tried_slowly_until_that_is_gone() -> None:
    async with Alpaca() as upstream, streaming(example("alpaca", upstream)) as first:
        await passes(1)
        async with streaming(example("alpaca", upstream)) as second:
            await passes(3_600)
            assert 40 < len(upstream.dialled) < 70
            assert first.is_streaming
            await first.stop()
            await passes(130)
            assert second.is_streaming
            assert second.reasons(StatusState.BACKOFF)


@in_time
async def test_a_client_that_was_too_slow_dials_again() -> None:
    async with Alpaca() as upstream, streaming(example("alpaca", upstream)) as owner:
        await passes(1)
        await upstream.trades(1)
        await passes(2)
        await upstream.too_slow()
        await passes(12)
        assert owner.is_streaming
        assert len(upstream.dialled) == 2


@pytest.mark.parametrize("name", ["key", "secret"])
@in_time
async def test_an_authentication_that_fails_is_final(name: str) -> None:
    async with Alpaca() as upstream, streaming(example("alpaca", upstream), **{name: "alpaca-nobody-0123"}) as owner:
        assert (await owner.ended()).outcome == "fatal"
        assert len(upstream.dialled) == 1
        assert "nobody" not in str(owner.states)


@in_time
async def test_data_that_was_not_paid_for_is_final() -> None:
    async with Alpaca() as upstream:
        feed = example("alpaca", upstream)
        opening = [*feed.open_messages[:2], {"action": "subscribe", "trades": ["PAID"]}]
        assert len(opening) == 3
        async with streaming(replace(feed, open_messages=tuple(opening))) as owner:
            assert (await owner.ended()).outcome == "fatal"
