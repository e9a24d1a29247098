"""Hostile upstreams on loopback, in virtual time: bounded memory and time, a sentence, a count; and never a loop."""

import asyncio
import itertools
import json
import resource
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest
from websockets.asyncio.server import ServerConnection

from streamlease.feed.events import Closed, Dial, Route
from streamlease.feed.feed import Feed, Keepalive, RecordShape, Retry, Rule
from streamlease.model import StatusState
from streamlease.write import Value
from streamlease_worker import endings, transport
from streamlease_worker.log import Log
from streamlease_worker.routes import HANDSHAKES_A_HOST
from streamlease_worker.runner import Ended, Runner, Surroundings
from streamlease_worker.sinks.base import Limits
from streamlease_worker.transport import WebSockets
from tests.protocols.loopback import in_time, passes, routes, run, thinks
from tests.worker import hostile
from tests.worker.sinking import MemorySink, OpenFence
from tests.worker.test_transport import end_of, refused
from tests.worker.test_transport import upstream as serving
from tests.worker.turning import turns


def sequence(value: Value) -> Value:
    return value.get("seq") if isinstance(value, Mapping) else None


class Running:
    """One connection's runner on a real socket, and what it said of itself."""

    def __init__(self, url: str, *, keepalive: Keepalive | None = None, sink: MemorySink | None = None) -> None:
        self.feed = Feed(
            connection_id="a",
            url=url,
            record=RecordShape(sequence=sequence),
            keepalive=keepalive or Keepalive(ping_every_s=None),
            retry=Retry(first_s=0.05, longest_s=60.0),
            open_timeout_s=0.5,
            close_within_s=0.1,
        )
        self.sink = sink or MemorySink(limits=Limits(most_lines=1_000, most_bytes=1 << 20))
        self.counts: Counter[str] = Counter()
        self.states: list[tuple[StatusState, str | None]] = []
        self.changed = asyncio.Event()

    def start(self, feed: Feed | None = None) -> None:
        self.around = Surroundings(
            transport=WebSockets(routes()),
            sink=self.sink,
            turns=turns(),
            secrets=_no_secrets,
            wall_ms=itertools.count(1_800_000_000_000).__next__,
            draw=lambda: 0.5,
            counts=self.counts,
        )
        self.runner = Runner(
            feed or self.feed,
            None,
            fence=OpenFence(),
            around=self.around,
            advanced=lambda _: self.changed.set(),
            reported=self._reported,
            log=Log(),
        )
        self.running = asyncio.create_task(self.runner.run())

    def _reported(self, state: StatusState, reason: str | None) -> None:
        self.states.append((state, reason))
        self.changed.set()

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(15):
            while not true():
                self.changed.clear()
                await self.changed.wait()

    def reasons(self) -> list[str]:
        return [reason for state, reason in self.states if state is not StatusState.STREAMING and reason is not None]

    async def stop(self) -> Ended:
        self.runner.stop("the test is over", flush=True)
        return await self.running


async def _no_secrets(references: Iterable[str], *, fresh: bool = False) -> Mapping[str, str]:
    return {}


def most_resident_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# --- silence ----------------------------------------------------------------------------------------------------------


@in_time
async def test_w1_a_peer_that_drops_all_is_left_within_ping_and_close_timeout_with_the_cause() -> None:
    async with hostile.upstream(hostile.deaf) as url:
        running = Running(url, keepalive=Keepalive(ping_every_s=0.2, pong_within_s=0.2))
        began_s = asyncio.get_running_loop().time()
        running.start()
        await running.until(lambda: bool(running.reasons()))
        assert asyncio.get_running_loop().time() - began_s < 0.6
        assert running.reasons()[0].startswith("no sign of life within 0.2 s of a ping")
        assert running.counts["late_pong"] == 1
        await running.stop()


@in_time
async def test_w7_a_failed_heartbeat_ends_in_an_error_that_says_so_and_w39_it_is_dialled_again() -> None:
    async with hostile.upstream(hostile.deaf) as url:
        running = Running(url, keepalive=Keepalive(ping_every_s=0.1, pong_within_s=0.1))
        running.start()
        await running.until(lambda: running.counts["late_pong"] >= 2)
        assert {"no sign of life within 0.1 s of a ping"} == set(running.reasons())
        await running.stop()


@in_time
async def test_w1_a_stop_is_not_held_up_by_a_peer_that_reads_nothing_of_what_it_is_sent() -> None:
    async with hostile.upstream(hostile.deaf) as url:
        running = Running(url)
        running.start(replace(running.feed, open_messages=("x" * 30_000_000,)))
        await running.until(lambda: (StatusState.STREAMING, None) in running.states)
        began_s = asyncio.get_running_loop().time()
        assert (await running.stop()).outcome == "stopped"
        assert asyncio.get_running_loop().time() - began_s < 0.2


@in_time
async def test_a_handshake_that_drips_is_left_in_time_and_counted() -> None:
    answer = b"HTTP/1.1 101 Switching Protocols\r\nX-Slow: " + b"x" * 5_000
    async with hostile.upstream(hostile.drips(answer, 0.02)) as url:
        began_s = asyncio.get_running_loop().time()
        running = Running(url)
        running.start()
        await running.until(lambda: bool(running.reasons()))
        assert asyncio.get_running_loop().time() - began_s < 0.6
        assert running.reasons() == ["127.0.0.1 did not complete the handshake within 0.5 s"]
        assert running.counts["dial_timeout"] == 1
        await running.stop()


# --- too much ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nX-Long: " + b"x" * 1_000_000 + b"\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 5_000) for n in range(200)),
        b"HTTP/1.1 101 " + b"x" * 1_000_000,
        b"HTTP/1.1 503 Busy\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 2_000_000,
    ],
    ids=["one header", "many headers", "status line", "body"],
)
def test_an_answer_of_a_megabyte_is_not_read_to_its_end(answer: bytes) -> None:
    async def main() -> None:
        async with hostile.upstream(hostile.answers(answer)) as url:
            running = Running(url)
            running.start()
            await running.until(lambda: bool(running.reasons()))
            assert "more than is read of it" in running.reasons()[0]
            assert running.counts["oversized_handshake"] == 1
            await running.stop()

    run(main())


@in_time
async def test_w37_a_deflate_bomb_is_bounded_before_it_is_in_memory_and_counted() -> None:
    bomb = hostile.bomb(512 << 20)
    before_kib = most_resident_kib()
    async with hostile.upstream(hostile.says(bomb, deflate=True, stays=True)) as url:
        running = Running(url)
        running.start(replace(running.feed, compression=True))
        await running.until(lambda: bool(running.reasons()))
        assert "more than 1,048,576 bytes" in running.reasons()[0]
        assert running.counts["oversized"] == 1
        await running.stop()
    assert most_resident_kib() - before_kib < 64 << 10


@in_time
async def test_w37_a_bomb_at_the_same_cursor_is_no_redial_loop() -> None:
    dials = 0
    spoil = hostile.says(hostile.frame(b'{"seq":1}'), hostile.bomb(16 << 20), deflate=True)

    async def deed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dials
        dials += 1
        await spoil(reader, writer)

    async with hostile.upstream(deed) as url:
        running = Running(url)
        running.start(replace(running.feed, compression=True, retry=Retry(first_s=0.2, longest_s=60.0)))
        async with asyncio.timeout(5):
            ended = await running.running
        assert ended.outcome == "quarantined"
        assert "retrying 1009 was followed 2 times in a row" in ended.reason
        assert dials == 3


@in_time
async def test_a_length_nobody_can_send_is_refused_at_its_head() -> None:
    head = struct.pack("!BBQ", 0x81, 127, 1 << 62)
    async with hostile.upstream(hostile.says(head)) as url:
        closed = await end_of(await WebSockets(routes()).dial(Dial(url)))
    assert closed.code == 1009


@in_time
async def test_a_message_in_endless_fragments_is_bounded() -> None:
    crumbs = hostile.frame(b"x", fin=False) + hostile.frame(b"", opcode=0x0, fin=False) * 20_000
    async with hostile.upstream(hostile.says(crumbs)) as url:
        closed = await end_of(await WebSockets(routes()).dial(Dial(url)))
    assert closed == Closed("the upstream sent a message in too many fragments", code=1009)


@in_time
async def test_an_upstream_that_pings_and_reads_no_pong_is_dropped_with_bounded_memory() -> None:
    before_kib = most_resident_kib()
    async with hostile.upstream(hostile.pings_and_never_reads) as url:
        running = Running(url)
        running.start()
        await running.until(lambda: bool(running.reasons()))
        assert running.reasons()[0] == "the socket was dropped: it reads nothing of what is sent to it"
        assert running.counts["unread"] == 1
        await running.stop()
    assert most_resident_kib() - before_kib < 64 << 10
    assert transport.MOST_UNREAD_BYTES <= 1 << 20


@in_time
async def test_an_upstream_that_asks_for_answers_and_reads_none_is_dropped_with_bounded_memory() -> None:
    before_kib = most_resident_kib()
    async with hostile.upstream(hostile.asks_and_never_reads) as url:
        running = Running(url)
        answer = Rule(message=lambda _: True, capture={"id": sequence}, sends=("x" * 4_000 + "{id}",))
        running.start(replace(running.feed, rules=(answer,), record=RecordShape(when=lambda _: False)))
        await running.until(lambda: bool(running.reasons()))
        assert running.reasons()[0] == "the socket was dropped: it reads nothing of what is sent to it"
        assert running.counts["unread"] == 1
        await running.stop()
    assert most_resident_kib() - before_kib < 64 << 10


@in_time
async def test_a_burst_of_answers_to_an_upstream_that_reads_them_goes_out_in_order() -> None:
    heard: list[str] = []

    async def asks(connection: ServerConnection) -> None:
        for number in range(2_000):
            await connection.send(json.dumps({"seq": number}))
        async for message in connection:
            heard.append(str(message))
            running.changed.set()

    async with serving(asks, max_queue=None) as url:
        running = Running(url)
        answer = Rule(message=lambda _: True, capture={"id": sequence}, sends=("{id}",))
        running.start(replace(running.feed, rules=(answer,), record=RecordShape(when=lambda _: False)))
        await running.until(lambda: len(heard) == 2_000)
        assert heard == [str(number) for number in range(2_000)]
        assert running.reasons() == []
        await running.stop()


@in_time
async def test_a_few_messages_that_take_long_let_the_others_live_between_them() -> None:
    seen = 0
    looked: list[int] = []

    def slow(_: Value) -> Value:
        nonlocal seen
        thinks(0.02)  # as about a message that unfolds to a megabyte
        seen += 1
        return False

    async def looks() -> None:
        while seen < 10:
            looked.append(seen)
            await asyncio.sleep(0)
        running.changed.set()

    async with hostile.upstream(hostile.says(hostile.frame(b"{}") * 10, stays=True)) as url:
        running = Running(url)
        running.start(replace(running.feed, record=RecordShape(when=slow)))
        looking = asyncio.create_task(looks())
        await running.until(looking.done)
        assert sorted(set(looked)) == list(range(10))
        await running.stop()


@in_time
async def test_w2_w24_a_flood_over_a_full_sink_closes_no_socket_loses_nothing_and_says_its_lag() -> None:
    messages = 12_000

    async def flood(connection: ServerConnection) -> None:
        for number in range(1, messages + 1):
            await connection.send(json.dumps({"seq": number, "pad": "x" * 500}))
        await connection.wait_closed()

    async with serving(flood, ping_interval=None) as url:
        running = Running(url, keepalive=Keepalive(ping_every_s=0.1, pong_within_s=0.2))
        running.sink.open.clear()
        running.start()
        await running.until(lambda: (StatusState.STREAMING, None) in running.states)
        budget = running.around.budget
        async with asyncio.timeout(10):
            while not budget.stalled:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        await passes(1)  # many pings' time, behind what is not read
        assert budget.used_bytes < 8 << 20
        assert budget.lag_ms(running.around.wall_ms()) > 0
        assert running.reasons() == []
        running.sink.open.set()
        await running.until(lambda: len(running.sink.lines) >= messages)
        assert budget.lag_ms(running.around.wall_ms()) == 0
        await running.stop()
    assert [json.loads(line)["sequence"] for line in running.sink.lines] == list(range(1, messages + 1))
    assert running.counts["late_pong"] == 0


@in_time
async def test_w1_who_breaks_the_protocol_and_keeps_the_connection_is_cut_off() -> None:
    async with hostile.upstream(hostile.says(hostile.frame(b"x", opcode=0x3), stays=True)) as url:
        socket = await WebSockets(routes()).dial(Dial(url))
        async with asyncio.timeout(transport.CLOSE_TIMEOUT_S + 3):
            assert (await end_of(socket)).code == 1002


# --- nonsense ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([hostile.frame(b"x", opcode=0x0)], 1002),
        ([hostile.frame(b"x", fin=False), hostile.frame(b"x")], 1002),
        ([hostile.frame(b"x", masked=True)], 1002),
        ([hostile.frame(b"x", opcode=0x3)], 1002),
        ([hostile.frame(b"x", reserved=0x40)], 1002),
        ([hostile.frame(b"x", opcode=0x9, fin=False)], 1002),
        ([hostile.frame(b"x" * 126, opcode=0x9)], 1002),
        ([hostile.frame(b"x", opcode=0x8)], 1002),
        ([hostile.frame(struct.pack("!H", 1005), opcode=0x8)], 1002),
        ([hostile.frame(b"\xff\xfe")], 1007),
        ([hostile.frame(b"\xe2\x82", fin=False), hostile.frame(b"x", opcode=0x0)], 1007),
        ([hostile.frame(struct.pack("!H", 1000) + b"\xff", opcode=0x8)], 1007),
    ],
    ids=[
        "a continuation of nothing",
        "a message within a message",
        "a masked frame",
        "an unknown opcode",
        "a reserved bit",
        "a ping in fragments",
        "a long ping",
        "half a close code",
        "a close code that is none",
        "text that is not UTF-8",
        "half a character",
        "a reason that is not UTF-8",
    ],
)
def test_frames_that_break_the_protocol_are_named(frames: list[bytes], code: int) -> None:
    async def main() -> None:
        async with hostile.upstream(hostile.says(hostile.frame(b"good"), *frames)) as url:
            socket = await WebSockets(routes()).dial(Dial(url))
            assert (socket.ready() or await socket.recv()) == "good"
            closed = await end_of(socket)
            assert closed.code == code
            assert closed.error.startswith("the upstream")

    run(main())


@in_time
async def test_redirects_without_end_are_not_followed_once() -> None:
    dials = 0

    async def around(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dials
        dials += 1
        await hostile.request(reader)
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: ws://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with hostile.upstream(around) as url:
        closed = await refused(url)
        assert closed.http_status == 302
        assert dials == 1
        running = Running(url)
        running.start()
        await running.until(lambda: running.counts["redirect"] >= 1)
        await running.stop()


@pytest.mark.parametrize("private", [False, True])
def test_an_upstream_leads_to_a_private_address_only_where_the_spec_asks_for_such(private: bool) -> None:
    async def main() -> None:
        dialled = asyncio.Event()

        async def inner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            dialled.set()

        async with hostile.upstream(inner) as inside:
            word = hostile.frame(json.dumps({"url": inside.replace("127.0.0.1", "127.0.0.2")}).encode())
            async with hostile.upstream(hostile.says(word, stays=True)) as url:
                running = Running(url)
                rule = Rule(message=lambda _: True, action="rotate", url=lambda value: value["url"])  # type: ignore[index, call-overload]
                running.start(replace(running.feed, rules=(rule,), route=Route(private_addresses=private)))
                await running.until(lambda: any("127.0.0.2" in reason for reason in running.reasons()))
                assert any("is a loopback address, where no upstream leads" in r for r in running.reasons()) != private
                await running.stop()

    run(main())


@in_time
async def test_w28_accepted_and_closed_at_once_it_is_dialled_later_and_later() -> None:
    at_s: list[float] = []

    async def deed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at_s.append(asyncio.get_running_loop().time())
        await hostile.closes_at_once(reader, writer)

    async with hostile.upstream(deed) as url:
        running = Running(url)
        running.start(replace(running.feed, retry=Retry(first_s=0.1, longest_s=60.0)))
        await running.until(lambda: len(at_s) >= 6)
        await running.stop()
    waits_s = [later - earlier for earlier, later in itertools.pairwise(at_s)]
    assert waits_s[-1] > 8 * waits_s[0]


# --- cancellation and crowds ------------------------------------------------------------------------------------------


@in_time
async def test_w5_giving_up_a_wait_at_the_very_arrival_ten_thousand_times_loses_nothing() -> None:
    messages = 10_000

    async def count(connection: ServerConnection) -> None:
        for number in range(messages):
            await connection.send(str(number))
            if number % 3 == 0:
                await asyncio.sleep(0)
        await connection.wait_closed()

    async with serving(count) as url:
        socket = await WebSockets(routes()).dial(Dial(url))
        got: list[str | bytes] = []
        turns = 0
        while len(got) < messages:
            wait = asyncio.ensure_future(socket.recv())
            for _ in range(turns % 4):
                await asyncio.sleep(0)
            turns += 1
            wait.cancel()
            await asyncio.wait({wait})
            if not wait.cancelled():
                got.append(wait.result())
            elif turns % 2 and (here := socket.ready()) is not None:
                got.append(here)
        socket.abort()
    assert got == [str(number) for number in range(messages)]
    assert turns >= messages


@in_time
async def test_w36_of_a_thousand_dials_at_once_so_many_handshakes_are_under_way_with_a_host() -> None:
    under_way, most = 0, 0

    async def deed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        await hostile.says()(reader, writer)

    async with hostile.upstream(deed) as url:
        sockets = WebSockets(routes())
        opened = await asyncio.gather(*(sockets.dial(Dial(url, open_timeout_s=19)) for _ in range(1_000)))
        for socket in opened:
            socket.abort()
    assert most <= HANDSHAKES_A_HOST
    assert len(opened) == 1_000


@in_time
async def test_a_host_that_answers_no_handshake_keeps_no_other_host_waiting() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with hostile.upstream(silent) as hanging, hostile.upstream(hostile.says(), "127.0.0.2") as good:
        sockets = WebSockets(routes())
        crowd = [asyncio.ensure_future(sockets.dial(Dial(hanging, open_timeout_s=3))) for _ in range(100)]
        await asyncio.sleep(0)
        async with asyncio.timeout(2):
            (await sockets.dial(Dial(good))).abort()
        ends = await asyncio.gather(*crowd, return_exceptions=True)
    sentences = Counter(str(end) for end in ends)
    assert sentences["127.0.0.1 did not complete the handshake within 3 s"] == HANDSHAKES_A_HOST
    assert sentences["127.0.0.1 was waited for by 32 other dials within 3 s"] == 100 - HANDSHAKES_A_HOST


def test_every_count_of_a_dial_is_explained() -> None:
    assert all(sentence and not sentence.endswith(".") for sentence in endings.COUNTED.values())
