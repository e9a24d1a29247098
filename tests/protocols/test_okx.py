"""docs/examples/okx.yaml against OKX's rules."""

import asyncio

import pytest

from streamlease.model import StatusState
from tests.protocols.loopback import in_time, passes
from tests.protocols.okx import KEY, PASSPHRASE, SECRET, Okx
from tests.protocols.streaming import Streaming, example
from tests.protocols.upstream import wall_ms

REFERENCE = "secretsmanager:streamlease/okx"
SECRETS = {f"{REFERENCE}#key": KEY, f"{REFERENCE}#secret": SECRET, f"{REFERENCE}#passphrase": PASSPHRASE}


@in_time
async def test_trades_of_a_message_are_records_with_their_ids_and_times() -> None:
    async with Okx() as upstream, Streaming(example("okx", upstream)) as owner:
        await passes(1)
        await upstream.trades(1, 2)
        await upstream.trades(9, inst_id="ETH-USDT")
        await passes(1)
        assert owner.ids == ["BTC-USDT/1", "BTC-USDT/2", "ETH-USDT/9"]
        assert all(record.event_at_ms is not None for record in owner.records)


@in_time
async def test_w27_an_hour_of_silence_is_kept_alive_by_pings_alone() -> None:
    async with Okx() as upstream, Streaming(example("okx", upstream)) as owner:
        await passes(3_600)
        assert owner.is_streaming
        assert (len(upstream.dialled), owner.delivered) == (1, [])


@in_time
async def test_a_ping_without_a_pong_ends_the_socket() -> None:
    async with Okx() as upstream, Streaming(example("okx", upstream)) as owner:
        await passes(1)
        upstream.pongs = False
        await passes(31)
        upstream.pongs = True
        assert owner.reasons(StatusState.BACKOFF) == ["the keepalive message was not answered"]


@in_time
async def test_an_upgrade_that_is_announced_loses_and_doubles_nothing() -> None:
    async with Okx() as upstream, Streaming(example("okx", upstream)) as owner:
        await passes(1)
        await upstream.trades(1)
        await passes(40)
        upgrading = asyncio.create_task(upstream.upgrade())
        for number in range(2, 42):
            await upstream.trades(number)
            await passes(1)
        await upgrading
        assert owner.ids == [f"BTC-USDT/{number}" for number in range(1, 42)]
        assert owner.gaps == []
        assert (upstream.cut_off, len(upstream.dialled), len(upstream.lines)) == (0, 2, 1)


@in_time
async def test_a_lost_connection_leaves_a_gap() -> None:
    async with Okx() as upstream, Streaming(example("okx", upstream)) as owner:
        await passes(1)
        await upstream.trades(1)
        await passes(2)
        upstream.drop()
        await passes(2)
        await upstream.trades(5)
        await passes(1)
        assert len(owner.records) == 2
        assert len(owner.gaps) == 1


@in_time
async def test_a_book_whose_update_names_another_one_before_it_has_a_gap() -> None:
    async with Okx() as upstream, Streaming(example("okx", upstream, "okx-book")) as owner:
        await passes(1)
        for previous, number in ((-1, 10), (10, 15), (15, 15), (15, 3), (3, 7), (9, 12)):
            await upstream.book(previous, number)
        await passes(1)
        assert len(owner.records) == 6
        assert [(gap.from_sequence, gap.to_sequence) for gap in owner.gaps] == [(7, 12)]


@in_time
async def test_each_login_is_signed_anew() -> None:
    async with Okx() as upstream, Streaming(example("okx", upstream, "okx-orders"), secrets=SECRETS) as owner:
        await passes(100)
        upstream.drop()
        await passes(2)
        order = {"ordId": "o1", "state": "filled", "uTime": str(wall_ms()), "tradeId": "t1"}
        await upstream.publish("orders", "ANY", order)
        await passes(1)
        assert owner.is_streaming
        assert owner.ids == [f"o1/filled/{order['uTime']}/t1"]


@pytest.mark.parametrize("field", ["key", "secret", "passphrase"])
@in_time
async def test_a_login_that_is_refused_is_final(field: str) -> None:
    async with Okx() as upstream:
        wrong = {**SECRETS, f"{REFERENCE}#{field}": "okx-of-nobody-0123"}
        async with Streaming(example("okx", upstream, "okx-orders"), secrets=wrong) as owner:
            assert (await owner.ended()).outcome == "fatal"
            assert len(upstream.dialled) == 1
            assert "nobody" not in str(owner.states)
