"""docs/examples/slack.yaml against Socket Mode's rules."""

import asyncio

import pytest

from streamlease.model import StatusState
from tests.protocols.loopback import in_time, passes
from tests.protocols.slack import APP_TOKEN, Slack
from tests.protocols.streaming import Streaming, example
from tests.worker.sinking import MemorySink

SECRETS = {"secretsmanager:streamlease/slack#app_token": APP_TOKEN}


@in_time
async def test_w20_each_connection_has_a_url_of_its_own_and_an_event_is_acknowledged() -> None:
    async with Slack() as upstream, Streaming(example("slack", upstream), secrets=SECRETS) as owner:
        await passes(1)
        await upstream.event("e1")
        await passes(2)
        upstream.drop()
        await passes(2)
        await upstream.event("e2")
        await passes(1)
        assert owner.ids == upstream.acknowledged == ["e1", "e2"]
        assert len(upstream.calls) == len(upstream.dialled) == 2


@in_time
async def test_what_is_not_durable_is_not_acknowledged_and_comes_again_and_is_one_record() -> None:
    async with Slack() as upstream:
        sink = MemorySink()
        async with Streaming(example("slack", upstream), secrets=SECRETS, sink=sink) as owner:
            await passes(1)
            sink.open.clear()
            delivering = asyncio.create_task(upstream.event("e1"))
            await passes(5)
            assert upstream.acknowledged == []
            assert upstream.redelivered == ["e1"]
            sink.open.set()
            await delivering
            await passes(5)
            assert owner.ids == ["e1"]
            assert set(upstream.acknowledged) == {"e1"}


@in_time
async def test_a_policy_of_receipt_acknowledges_what_is_only_read() -> None:
    async with Slack() as upstream:
        sink = MemorySink()
        feed = example("slack", upstream, ack={"at": "receipt"})
        async with Streaming(feed, secrets=SECRETS, sink=sink):
            await passes(1)
            sink.open.clear()
            await upstream.event("e1")
            assert (upstream.acknowledged, upstream.redelivered) == (["e1"], [])
            sink.open.set()


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
@in_time
async def test_a_goodbye_is_a_new_socket_before_the_old_one_closes_and_nothing_comes_twice(reason: str) -> None:
    async with Slack() as upstream, Streaming(example("slack", upstream), secrets=SECRETS) as owner:
        await passes(1)
        await upstream.event("e0")
        await passes(40)
        leaving = asyncio.create_task(upstream.goodbye(reason))
        for number in range(1, 12):
            await upstream.event(f"e{number}")
            await passes(0.25)
        await leaving
        assert sorted(owner.ids, key=str) == sorted(f"e{number}" for number in range(12))
        assert upstream.redelivered == []
        assert owner.gaps == []
        assert len(upstream.dialled) == 2


@in_time
async def test_events_are_spread_over_the_sockets_of_an_app() -> None:
    async with (
        Slack() as upstream,
        Streaming(example("slack", upstream), secrets=SECRETS) as one,
        Streaming(example("slack", upstream), secrets=SECRETS) as other,
    ):
        await passes(1)
        for number in range(6):
            await upstream.event(f"e{number}")
        await passes(1)
        assert len(one.records) == len(other.records) == 3


@in_time
async def test_w22_a_socket_too_many_is_tried_again_later() -> None:
    async with Slack() as upstream, Streaming(example("slack", upstream), secrets=SECRETS) as owner:
        await passes(1)
        await upstream.tell({"type": "disconnect", "reason": "too_many_websockets"})
        await passes(58)
        assert not owner.is_streaming
        await passes(5)
        assert owner.is_streaming


@in_time
async def test_a_link_that_was_disabled_and_a_token_that_is_wrong_are_final() -> None:
    async with Slack() as upstream:
        async with Streaming(example("slack", upstream), secrets=SECRETS) as owner:
            await passes(1)
            await upstream.tell({"type": "disconnect", "reason": "link_disabled"})
            assert (await owner.ended()).outcome == "fatal"
        wrong = {"secretsmanager:streamlease/slack#app_token": "xapp-of-nobody-0123"}
        async with Streaming(example("slack", upstream), secrets=wrong) as owner:
            assert (await owner.ended()).outcome == "fatal"
            assert owner.reasons(StatusState.FAILED)
            assert "nobody" not in str(owner.states)
        assert len(upstream.calls) == 2
