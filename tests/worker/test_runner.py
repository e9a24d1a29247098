"""One connection's runner in virtual time: the machine's commands carried out, and every way to an end."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from streamlease.envelope import decode
from streamlease.feed.decoding import one_json
from streamlease.feed.events import Closed, Record
from streamlease.feed.feed import Feed, Keepalive, RecordShape, Resume, Retry, Rule
from streamlease.feed.secrets import missing
from streamlease.model import Position, StatusState
from streamlease.write import Value
from streamlease_worker import pending as pending_module
from streamlease_worker.log import Log
from streamlease_worker.runner import Ended, Runner, Surroundings
from streamlease_worker.sinks.base import SinkFault
from streamlease_worker.turns import Turns
from tests.fakes.loop import VirtualLoop, run
from tests.worker.sinking import MemorySink, OpenFence
from tests.worker.sockets import Answer, FakeSocket, FakeTransport
from tests.worker.turning import turns as make_turns


def _sequence(value: Value) -> Value:
    return value.get("seq") if isinstance(value, Mapping) else None


FEED = Feed(
    connection_id="a",
    url="wss://upstream.example/stream",
    record=RecordShape(sequence=_sequence),
    resume=Resume(query={"cursor": "{sequence}"}),
    retry=Retry(first_s=1.0, longest_s=60.0),
    keepalive=Keepalive(ping_every_s=20.0, pong_within_s=20.0),
)


def message(sequence: int) -> str:
    return json.dumps({"seq": sequence})


class Bench:
    def __init__(
        self,
        *answers: Answer,
        feed: Feed = FEED,
        position: Position | None = None,
        secrets: Mapping[str, str] | None = None,
        suspect: bool = False,
        turns: Turns | None = None,
    ) -> None:
        self.transport = FakeTransport(*answers)
        self.sink = MemorySink()
        self.turns = turns or make_turns()
        self.fence = OpenFence()
        self.positions: list[Position] = []
        self.states: list[tuple[StatusState, str | None]] = []
        self.counts: Counter[str] = Counter()
        self.around = Surroundings(
            transport=self.transport,
            sink=self.sink,
            turns=self.turns,
            secrets=self._secrets,
            wall_ms=lambda: 1_800_000_000_000,
            draw=lambda: 0.5,
            counts=self.counts,
        )
        self._known = secrets or {}
        self.runner = Runner(
            feed,
            position,
            suspect=suspect,
            fence=self.fence,
            around=self.around,
            advanced=self.positions.append,
            reported=lambda state, reason: self.states.append((state, reason)),
            log=Log(),
        )
        self.running = asyncio.create_task(self.runner.run())

    async def _secrets(self, references: Iterable[str], *, fresh: bool = False) -> dict[str, str]:
        for reference in references:
            if reference not in self._known:
                raise missing(reference)
        return dict(self._known)

    @property
    def socket(self) -> FakeSocket:
        return self.transport.sockets[-1]

    async def opened(self) -> FakeSocket:
        await asyncio.sleep(0.1)
        return self.socket

    async def stop(self, *, flush: bool = True) -> Ended:
        self.runner.stop("it was stopped", flush=flush)
        return await self.running

    def sequences(self) -> list[object]:
        deliveries = [decode(line).delivery for line in self.sink.lines]
        return [each.sequence for each in deliveries if isinstance(each, Record)]


def in_time(scenario: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    def test() -> None:
        run(scenario())

    test.__name__ = scenario.__name__
    return test


# --- the way of a record ---------------------------------------------------------------------------------------------


@in_time
async def test_records_reach_the_sink_in_order_and_the_position_follows_the_sink() -> None:
    bench = Bench()
    socket = await bench.opened()
    bench.sink.open.clear()
    socket.say(*(message(number) for number in range(1, 8)))
    await asyncio.sleep(1)
    assert [position.sequence for position in bench.positions] == [None]
    bench.sink.open.set()
    await asyncio.sleep(1)
    assert bench.sequences() == [1, 2, 3, 4, 5, 6, 7]
    assert bench.positions[-1].sequence == 7
    assert (await bench.stop()).position == bench.positions[-1]


@in_time
async def test_the_envelope_names_the_connection_and_the_epoch() -> None:
    bench = Bench()
    (await bench.opened()).say(message(1))
    await asyncio.sleep(0.1)
    await bench.stop()
    found = decode(bench.sink.lines[0])
    assert (found.connection_id, found.epoch) == ("a", 7)


@in_time
async def test_it_dials_from_the_position_it_was_given() -> None:
    bench = Bench(position=Position(41, "upstream.example"))
    await bench.opened()
    assert bench.transport.dials[0].url == "wss://upstream.example/stream?cursor=41"
    await bench.stop()


@in_time
async def test_secrets_are_filled_in_for_the_socket_alone() -> None:
    feed = replace(FEED, headers={"Authorization": "Bearer {env:TOKEN}"}, open_messages=({"key": "{env:TOKEN}"},))
    bench = Bench(feed=feed, secrets={"env:TOKEN": "s3cr3t"})
    socket = await bench.opened()
    assert bench.transport.dials[0].headers == {"Authorization": "Bearer s3cr3t"}
    assert socket.sent == ['{"key":"s3cr3t"}']
    socket.end(Closed("you said s3cr3t, and that is wrong", code=1008))
    await asyncio.sleep(0.1)
    assert bench.states[-1] == (StatusState.BACKOFF, "you said ***, and that is wrong")
    await bench.stop()


@in_time
async def test_a_missing_secret_is_a_sentence_and_is_looked_for_again() -> None:
    feed = replace(FEED, headers={"Authorization": "Bearer {env:TOKEN}"})
    bench = Bench(feed=feed)
    await asyncio.sleep(30)
    assert bench.transport.dials == []
    reasons = [reason for state, reason in bench.states if state is StatusState.BACKOFF]
    assert len(reasons) >= 3
    assert all(reason is not None and reason.startswith("secret env:TOKEN is not there") for reason in reasons)
    await bench.stop()


# --- back-pressure ---------------------------------------------------------------------------------------------------


@in_time
async def test_when_the_sink_is_full_reading_stops_nothing_is_lost_and_pings_go_on() -> None:
    bench = Bench()
    socket = await bench.opened()
    bench.sink.open.clear()
    socket.say(*(message(number) for number in range(1, 12_001)))
    await asyncio.sleep(100)
    assert socket.reads == pending_module.MOST_LINES
    assert not bench.running.done()
    bench.sink.open.set()
    await asyncio.sleep(100)
    assert bench.sequences() == list(range(1, 12_001))
    assert len(bench.transport.sockets) == 1
    await bench.stop()


@in_time
async def test_a_stop_reaches_a_connection_whose_sink_is_full() -> None:
    bench = Bench()
    socket = await bench.opened()
    bench.sink.open.clear()
    socket.say(*(message(number) for number in range(1, 6_001)))
    await asyncio.sleep(10)
    bench.runner.stop("it was stopped", flush=True)
    await asyncio.sleep(10)
    assert socket.closed_with == 1000
    bench.sink.open.set()
    assert (await bench.running).outcome == "stopped"
    assert bench.sequences() == list(range(1, pending_module.MOST_LINES + 1))


@in_time
async def test_a_flood_on_one_connection_lets_the_others_live() -> None:
    bench = Bench()
    socket = await bench.opened()
    socket.say(*(message(number) for number in range(1, 1_001)))
    turns = 0
    while len(bench.sequences()) < 1_000:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10
    await bench.stop()


@in_time
async def test_w37_messages_that_take_long_together_let_the_others_live() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    read: list[float] = []

    def slow(data: str | bytes) -> Sequence[Value]:
        loop.busy(0.001)
        read.append(loop.time())
        return one_json(data)

    bench = Bench(feed=replace(FEED, decode=slow))
    socket = await bench.opened()
    socket.have(*(message(number) for number in range(1, 61)))
    at_once = [0]
    while len(read) < 60:
        before = len(read)
        await asyncio.sleep(0)
        at_once.append(len(read) - before)
    assert 1 < max(at_once) <= 6
    await bench.stop()


# --- ends ------------------------------------------------------------------------------------------------------------


@in_time
async def test_a_stop_closes_the_socket_and_flushes_before_it_ends() -> None:
    bench = Bench()
    socket = await bench.opened()
    bench.sink.open.clear()
    socket.say(message(1), message(2))
    await asyncio.sleep(1)
    bench.runner.stop("it was stopped", flush=True)
    await asyncio.sleep(5)
    assert socket.closed_with == 1000
    assert not bench.running.done()
    bench.sink.open.set()
    ended = await bench.running
    assert (ended.outcome, ended.reason) == ("stopped", "it was stopped")
    assert ended.position is not None
    assert ended.position.sequence == 2
    assert bench.positions[-1] == ended.position


@in_time
async def test_a_stop_without_flush_waits_for_the_attempt_under_way_alone() -> None:
    bench = Bench()
    bench.sink.open.clear()
    (await bench.opened()).say(*(message(number) for number in range(1, 10)))
    await asyncio.sleep(1)
    bench.runner.stop("its lease is lost", flush=False)
    await asyncio.sleep(5)
    assert not bench.running.done()
    bench.sink.open.set()
    ended = await bench.running
    assert bench.sink.attempts == 1
    assert len(bench.sequences()) < 9
    assert ended.position is not None
    assert ended.position.sequence == bench.sequences()[-1]


@in_time
async def test_a_stop_may_be_asked_for_twice_the_second_time_in_a_hurry() -> None:
    bench = Bench()
    bench.sink.faults = [SinkFault("the sink is down", retryable=True)] * 1_000
    (await bench.opened()).say(message(1))
    await asyncio.sleep(0.1)
    bench.runner.stop("it was stopped", flush=True)
    await asyncio.sleep(100)
    assert not bench.running.done()
    assert (await bench.stop(flush=False)).outcome == "stopped"
    assert bench.sink.lines == []


@in_time
async def test_a_fenced_sink_ends_the_runner_and_closes_the_socket() -> None:
    bench = Bench()
    socket = await bench.opened()
    bench.fence.close("stolen")
    socket.say(message(1))
    ended = await bench.running
    assert ended.outcome == "fenced"
    assert "stolen" in ended.reason
    assert socket.closed_with == 1000
    assert bench.sink.lines == []


@in_time
async def test_a_fence_met_while_flushing_is_the_end_that_is_told() -> None:
    bench = Bench()
    bench.sink.faults = [SinkFault("the sink is down", retryable=True)] * 5
    (await bench.opened()).say(message(1))
    await asyncio.sleep(0.1)
    bench.runner.stop("it was stopped", flush=True)
    bench.fence.close("stolen")
    assert (await bench.running).outcome == "fenced"


@in_time
async def test_a_sink_that_refuses_for_good_gives_the_connection_up_with_its_sentence() -> None:
    bench = Bench()
    bench.sink.faults = [SinkFault("a record of 9 bytes is more than fits", retryable=False)]
    (await bench.opened()).say(message(1))
    ended = await bench.running
    assert (ended.outcome, ended.reason) == ("fatal", "a record of 9 bytes is more than fits")


@in_time
async def test_a_bug_in_a_sink_ends_this_connection_alone() -> None:
    bench = Bench()
    bench.sink.faults = [KeyError("oops")]
    socket = await bench.opened()
    socket.say(message(1))
    ended = await bench.running
    assert (ended.outcome, ended.reason) == ("crashed", "a fault in the sink (KeyError)")
    assert socket.closed_with == 1000


@in_time
async def test_a_bug_in_an_adapter_ends_this_connection_alone() -> None:
    def broken(value: Value) -> Value:
        if isinstance(value, Mapping) and value.get("seq") == 2:
            raise ZeroDivisionError
        return _sequence(value)

    bench = Bench(feed=replace(FEED, record=RecordShape(sequence=broken)))
    socket = await bench.opened()
    socket.say(message(1))
    await asyncio.sleep(1)
    socket.say(message(2), message(3))
    ended = await bench.running
    assert ended.outcome == "crashed"
    assert "ZeroDivisionError" in ended.reason
    assert socket.aborted
    assert bench.sequences() == [1]
    assert ended.position == bench.positions[-1]


@in_time
async def test_w12_a_lost_socket_and_then_a_bug_leave_the_others_streaming() -> None:
    def broken(value: Value) -> Value:
        if isinstance(value, Mapping) and value.get("seq") == 2:
            raise ZeroDivisionError
        return _sequence(value)

    one, other = Bench(feed=replace(FEED, record=RecordShape(sequence=broken))), Bench()
    socket, untouched = await one.opened(), await other.opened()
    socket.say(message(1))
    await asyncio.sleep(1)
    socket.end(Closed("the socket was lost without a close frame", code=1006))
    await asyncio.sleep(10)
    one.socket.say(message(2))
    assert (await one.running).outcome == "crashed"
    untouched.say(message(1), message(2), message(3))
    await asyncio.sleep(1)
    assert other.sequences() == [1, 2, 3]
    assert other.transport.sockets == [untouched]
    await other.stop()


@in_time
async def test_a_bug_in_a_transport_ends_this_connection_alone() -> None:
    bench = Bench(KeyError("oops"))
    ended = await bench.running
    assert (ended.outcome, ended.reason) == ("crashed", "a fault in this connection's socket (KeyError)")


@in_time
async def test_a_final_refusal_of_the_upstream_is_fatal() -> None:
    bench = Bench(Closed("the upstream refused the handshake with HTTP 403", http_status=403))
    ended = await bench.running
    assert ended.outcome == "fatal"
    assert "403" in ended.reason
    assert bench.states[-1][0] is StatusState.FAILED


@in_time
async def test_a_stop_gives_up_a_dial_under_way() -> None:
    bench = Bench()
    bench.transport.hangs = True
    await asyncio.sleep(1)
    assert (await bench.stop()).outcome == "stopped"


@in_time
async def test_a_stop_in_the_very_turn_of_the_dial_opens_no_socket() -> None:
    bench = Bench()
    await asyncio.sleep(0)
    began_s = asyncio.get_running_loop().time()
    assert (await bench.stop()).outcome == "stopped"
    assert bench.transport.dials == []
    assert asyncio.get_running_loop().time() == began_s


@in_time
async def test_a_stop_in_the_very_turn_in_which_a_socket_opens_drops_it() -> None:
    bench = Bench()
    opened = asyncio.Event()
    bench.transport.answers = [lambda _: opened.set()]
    await opened.wait()
    assert (await bench.stop()).outcome == "stopped"
    assert bench.socket.aborted or bench.socket.closed_with == 1000


@in_time
async def test_an_upstream_that_never_answers_the_close_is_dropped() -> None:
    bench = Bench(lambda socket: setattr(socket, "answers_close", False))
    socket = await bench.opened()
    began_s = asyncio.get_running_loop().time()
    assert (await bench.stop()).outcome == "stopped"
    assert socket.aborted
    assert asyncio.get_running_loop().time() - began_s <= 3


# --- the upstream's moods --------------------------------------------------------------------------------------------


@in_time
async def test_accepted_then_closed_it_dials_again_later_and_later_and_never_storms() -> None:
    bench = Bench(lambda socket: socket.end(Closed("the upstream closed with 1013", code=1013)))
    await asyncio.sleep(600)
    assert 8 <= len(bench.transport.dials) <= 40
    await bench.stop()


@in_time
async def test_after_a_loss_it_resumes_from_what_is_durable() -> None:
    bench = Bench()
    socket = await bench.opened()
    socket.say(message(5), message(6))
    await asyncio.sleep(1)
    socket.end(Closed("the socket was lost without a close frame", code=1006))
    await asyncio.sleep(10)
    assert bench.transport.dials[-1].url.endswith("cursor=6")
    await bench.stop()


@in_time
async def test_w39_an_upstream_without_a_sign_of_life_is_given_up_and_dialled_again() -> None:
    bench = Bench(lambda socket: setattr(socket, "answers_pings", False))
    await asyncio.sleep(50)
    assert len(bench.transport.sockets) == 2
    assert bench.counts["late_pong"] == 1
    await bench.stop()


@in_time
async def test_what_is_no_json_is_delivered_as_it_is_and_counted() -> None:
    bench = Bench()
    (await bench.opened()).say("no json", b"\xff\xfe", message(1), '{"other": 1}')
    await asyncio.sleep(1)
    deliveries = [decode(line).delivery for line in bench.sink.lines]
    payloads = [each.payload for each in deliveries if isinstance(each, Record)]
    assert payloads == ["no json", b"\xff\xfe", {"seq": 1}, {"other": 1}]
    assert bench.counts == {"not_json": 2, "unreadable_sequence": 1}
    await bench.stop()


@in_time
async def test_a_secret_that_vanishes_between_dial_and_message_closes_with_its_sentence() -> None:
    feed = replace(FEED, open_messages=({"key": "{env:TOKEN}"},))
    bench = Bench(feed=feed, secrets={"env:TOKEN": "s3cr3t"})
    bench._known = {"env:OTHER": "x"}
    bench.around.counts.clear()
    await asyncio.sleep(1)
    assert bench.states[-1][1] is not None
    assert bench.states[-1][1].startswith("secret env:TOKEN is not there")
    await bench.stop()


def test_a_scenario_that_waits_for_nobody_is_told_so() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="nobody will do"):
        run(main())


# --- what the status says, and silence --------------------------------------------------------------------------------


@in_time
async def test_while_the_sink_refuses_the_status_says_so_and_no_longer() -> None:
    bench = Bench()
    bench.sink.faults = [SinkFault("the stream throttles", retryable=True)] * 1_000
    socket = await bench.opened()
    socket.say(message(1))
    await asyncio.sleep(40)
    blocked = (StatusState.BLOCKED, "the sink takes nothing: the stream throttles")
    assert bench.states == [(StatusState.CONNECTING, None), (StatusState.STREAMING, None), blocked]
    assert bench.runner.connected
    bench.sink.faults.clear()
    await asyncio.sleep(10)
    assert bench.states[-1] == (StatusState.STREAMING, None)
    await bench.stop()


@in_time
async def test_a_socket_that_comes_back_while_the_sink_refuses_is_blocked_not_streaming() -> None:
    bench = Bench()
    bench.sink.faults = [SinkFault("the stream throttles", retryable=True)] * 1_000
    socket = await bench.opened()
    socket.say(message(1))
    await asyncio.sleep(40)
    socket.end(Closed("gone", code=1006))
    await asyncio.sleep(5)
    states = [state for state, _ in bench.states]
    assert states[3:] == [StatusState.BACKOFF, StatusState.CONNECTING, StatusState.BLOCKED]
    await bench.stop(flush=False)


@in_time
async def test_w14_a_stream_that_stops_while_its_socket_lives_is_found_by_itself_and_given_to_another() -> None:
    silent = replace(FEED, keepalive=Keepalive(ping_every_s=20.0, pong_within_s=20.0, stale_after_s=60.0))
    bench, other = Bench(feed=silent), Bench(feed=silent)
    (await bench.opened()).say(message(1))
    for number in range(4):
        other.socket.say(message(number))
        await asyncio.sleep(50)
    ended = await bench.running
    assert ended.outcome == "yielded"
    assert ended.reason == "no message for 60 s, time and again: another worker is to try"
    assert len(bench.transport.dials) == 2
    assert other.states[-1][0] is StatusState.STREAMING, "each by its own clock"
    assert len(other.transport.dials) == 1
    await other.stop()


@in_time
async def test_a_stream_that_was_silent_elsewhere_too_is_put_off() -> None:
    silent = replace(FEED, keepalive=Keepalive(ping_every_s=None, stale_after_s=60.0))
    bench = Bench(feed=silent, suspect=True)
    await asyncio.sleep(70)
    assert (await bench.running).outcome == "quarantined"
    assert bench.states[-1][0] is StatusState.QUARANTINED
    assert len(bench.transport.dials) == 1


@in_time
async def test_w23_where_one_session_too_many_is_refused_the_second_asks_slowly_and_the_first_is_left_alone() -> None:
    """Both hold their leases all the while: neither runner ends."""

    def too_many(socket: FakeSocket) -> None:
        socket.say(json.dumps({"T": "error", "code": 406, "msg": "connection limit exceeded"}))

    def is_refusal(value: Value) -> Value:
        return isinstance(value, Mapping) and value.get("code") == 406

    feed = replace(FEED, rules=(Rule(message=is_refusal, action="retry", after_s=60.0, name="rules[0]"),))
    first, second = Bench(feed=feed), Bench(too_many, feed=feed)
    (await first.opened()).say(message(1))
    for _ in range(10):
        await asyncio.sleep(60)
        first.socket.say(message(2))
    assert len(first.transport.dials) == 1
    assert first.states[-1][0] is StatusState.STREAMING
    assert 3 <= len(second.transport.dials) <= 11
    assert not first.running.done()
    assert not second.running.done()
    assert (StatusState.BACKOFF, "the upstream sent what rules[0] is for") in second.states
    await first.stop()
    await second.stop()
