"""docs/examples/discord.yaml against the gateway's rules."""

from typing import Any

import pytest

from streamlease.feed.events import Gap
from streamlease.model import StatusState
from tests.protocols.discord import TOKEN, Discord
from tests.protocols.loopback import in_time, passes
from tests.protocols.streaming import Streaming, example

SECRETS = {"secretsmanager:streamlease/discord#token": TOKEN}


def contents(owner: Streaming) -> list[str]:
    """Of the messages among what it delivered."""
    payloads: list[Any] = [record.payload for record in owner.records]
    return [payload["d"]["content"] for payload in payloads if payload["t"] == "MESSAGE_CREATE"]


@in_time
async def test_after_a_drop_the_session_is_resumed_at_its_own_url_and_nothing_is_missing() -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS) as owner:
        await passes(1)
        upstream.messages("a", "b")
        await passes(2)
        upstream.drop()
        upstream.messages("c")
        await passes(2)
        upstream.messages("d")
        await passes(1)
        assert contents(owner) == ["a", "b", "c", "d"]
        assert owner.gaps == []
        assert (len(upstream.identified), upstream.resumed, len(upstream.calls)) == (1, [3], 1)


@in_time
async def test_an_hour_of_beats_says_the_last_number_and_is_answered() -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS) as owner:
        await passes(60)
        upstream.messages("a")
        await passes(3_600)
        assert owner.is_streaming
        assert len(upstream.dialled) == 1
        assert upstream.beats[:2] == [1, 1]
        assert upstream.beats[-1] == 2


@in_time
async def test_the_first_beat_comes_after_a_random_part_of_the_interval_and_says_null_before_any_number() -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS, draw=0.0):
        await passes(1)
        assert upstream.beats == [None]


@in_time
async def test_a_beat_without_an_answer_is_a_dead_socket_that_is_left_without_ending_the_session() -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS) as owner:
        await passes(1)
        upstream.messages("a")
        upstream.answers = False
        await passes(60)
        upstream.answers = True
        upstream.messages("b")
        await passes(5)
        assert contents(owner) == ["a", "b"]
        assert owner.gaps == []
        assert upstream.closed_with == [4000]
        assert len(upstream.identified) == 1


@in_time
async def test_a_reconnect_that_it_asks_for_resumes() -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS) as owner:
        await passes(1)
        upstream.messages("a")
        await passes(40)
        await upstream.tell({"op": 7, "d": None})
        upstream.messages("b")
        await passes(3)
        assert contents(owner) == ["a", "b"]
        assert (owner.gaps, len(upstream.identified), upstream.closed_with) == ([], 1, [4000])


@in_time
async def test_a_heartbeat_that_it_asks_for_is_sent_at_once() -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS):
        await passes(1)
        upstream.messages("a")
        await passes(1)
        await upstream.tell({"op": 1, "d": None})
        await passes(1)
        assert upstream.beats == [2]


@in_time
async def test_a_move_to_another_owner_keeps_the_session() -> None:
    async with Discord() as upstream:
        async with Streaming(example("discord", upstream), secrets=SECRETS) as first:
            await passes(1)
            upstream.messages("a")
            await passes(1)
            ended = await first.stop()
        upstream.messages("b")
        async with Streaming(example("discord", upstream), secrets=SECRETS, position=ended.position) as second:
            await passes(1)
            assert contents(second) == ["b"]
            assert (second.gaps, len(upstream.identified), upstream.closed_with) == ([], 1, [4000])


@in_time
async def test_a_session_that_is_over_is_followed_by_a_new_one_and_a_gap() -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS) as owner:
        await passes(1)
        upstream.messages("a")
        await passes(2)
        upstream.end_sessions()
        upstream.drop()
        await passes(6)
        upstream.messages("b")
        await passes(1)
        assert contents(owner) == ["a", "b"]
        assert len(owner.gaps) == 1
        assert len(upstream.identified) == 2
        assert owner.sequences == [1, 2, 1, 2]
        assert len(set(owner.ids)) == 4, "a number of another session is another record"


@in_time
async def test_w29_a_session_whose_resumption_is_always_dropped_is_given_up_for_a_new_one() -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS) as owner:
        await passes(1)
        upstream.messages("a")
        await passes(2)
        upstream.drops_resumes = True
        upstream.drop()
        await passes(60)
        upstream.messages("b")
        await passes(1)
        assert owner.is_streaming
        assert (contents(owner), len(upstream.identified), len(owner.gaps)) == (["a", "b"], 2, 1)
        assert 5 <= len(upstream.resumed) <= 6


@pytest.mark.parametrize("code", [4007, 4009])
@in_time
async def test_codes_that_end_a_session_begin_a_new_one(code: int) -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS) as owner:
        await passes(1)
        upstream.messages("a")
        await passes(2)
        await upstream.hang_up(code)
        await passes(5)
        upstream.messages("b")
        await passes(1)
        assert (contents(owner)[-1], len(upstream.identified), upstream.resumed) == ("b", 2, [])
        assert any(isinstance(each, Gap) for each in owner.delivered)


@pytest.mark.parametrize("code", [4004, 4010, 4011, 4012, 4013, 4014])
@in_time
async def test_codes_that_no_retry_mends_are_final(code: int) -> None:
    async with Discord() as upstream, Streaming(example("discord", upstream), secrets=SECRETS) as owner:
        await passes(1)
        await upstream.hang_up(code, "no")
        ended = await owner.ended()
        assert (ended.outcome, len(upstream.dialled)) == ("fatal", 1)


@in_time
async def test_a_token_that_is_wrong_is_final_and_is_not_said() -> None:
    async with Discord() as upstream:
        wrong = {"secretsmanager:streamlease/discord#token": "discord-of-nobody-0123"}
        async with Streaming(example("discord", upstream), secrets=wrong) as owner:
            assert (await owner.ended()).outcome == "fatal"
            assert "nobody" not in str(owner.states)
            assert owner.reasons(StatusState.FAILED)
