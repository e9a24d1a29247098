"""A whole worker in one process: store, queue and upstream in memory, its own threads and loop, in real time.

Heartbeats are short, so that tests are; leases are long: a machine that stands still for seconds loses none.
"""

import asyncio
import json
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from streamlease import membership
from streamlease.dynamodb import clock
from streamlease.envelope import decode
from streamlease.errors import Denied, Unreachable
from streamlease.feed.events import Record
from streamlease.flow import Request, SendOffers, run
from streamlease.flows import control
from streamlease.lease import Change
from streamlease.model import DesiredState, Offer
from streamlease.settings import Settings, settings
from streamlease.timing import Timing
from streamlease.write import Always, Item, Put, Table, Update
from streamlease_worker import run as run_module
from streamlease_worker.addresses import allowed
from streamlease_worker.clock_reader import WatchedClock
from streamlease_worker.configuration import Configuration
from streamlease_worker.equipment import Equipment
from streamlease_worker.health import complaint
from streamlease_worker.identity import Place
from streamlease_worker.run import Signals, work
from streamlease_worker.secrets import Secrets
from streamlease_worker.supervisor_events import Exit, Received
from tests.fakes.memory import MemoryStore
from tests.worker.sinking import MemorySink
from tests.worker.sockets import FakeTransport
from tests.worker.test_configuration import ENVIRONMENT

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

WITHIN_S = 60.0
SPEC: Item = {"record": {"sequence": "seq"}}


class MemoryQueue:
    """The offers queue, between the store's offers and the worker."""

    def __init__(self, memory: MemoryStore) -> None:
        self.memory = memory
        self.fault: Exception | None = None
        self._ready = threading.Event()

    def check(self) -> None:
        if self.fault is not None:
            raise self.fault

    def receive(self, most: int) -> tuple[Received, ...]:
        self._ready.wait(0.05)
        given, self.memory.offers[:] = self.memory.offers[:most], self.memory.offers[most:]
        return tuple(Received(offer, offer.connection_id) for offer in given)

    def delete(self, receipts: Sequence[str]) -> None:
        return None

    def give_back(self, receipts: Sequence[str]) -> None:
        self.memory.offers += [Offer(receipt, "released", clock.now().wall_ms) for receipt in receipts]


class Bench:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, *, mode: str = "connection") -> None:
        self.memory = MemoryStore(clock.now)
        self.queue = MemoryQueue(self.memory)
        self.transport = FakeTransport(lambda socket: socket.say(*(json.dumps({"seq": n}) for n in range(1, 6))))
        self.health_file = folder / "health"
        self.settings: Settings = settings({**ENVIRONMENT, "STREAMLEASE_SHARDS": "2", "STREAMLEASE_LEASE_MODE": mode})
        self.timing = Timing(heartbeat_ms=300, lease_ms=60_000, skew_ms=0, margin_ms=50)
        self.operator = control.Operator("somebody", 2, self.timing)
        self.meets: Callable[[Request], None] = lambda _: None
        monkeypatch.setattr(run_module, "OffersQueue", lambda *_: self.queue)

    def perform(self, request: Request) -> object:
        self.meets(request)
        return self.memory.perform(request)

    def equipment(self, sink: MemorySink) -> Equipment:
        object.__setattr__(self.settings, "timing", self.timing)
        return Equipment(
            configuration=Configuration(
                self.settings, 10, 0, 10, "null", allowed("loopback"), str(self.health_file), "INFO"
            ),
            place=Place("host", ""),
            renewals=self.perform,
            work=self.perform,
            queue=cast("SQSClient", None),
            clock=WatchedClock(self.timing, None),
            sink=sink,
            transport=self.transport,
            secrets=Secrets({}),
            threads=ThreadPoolExecutor(8),
        )

    def create(self, name: str, **spec: object) -> None:
        run(
            control.create(
                name,
                upstream_url="wss://upstream.example/",
                spec={**SPEC, **spec},  # type: ignore[dict-item]
                labels={},
                desired_state=DesiredState.STARTED,
                operator=self.operator,
            ),
            self.memory.perform,
        )
        self.memory.perform(SendOffers((Offer(name, "control", clock.now().wall_ms),)))

    def item(self, name: str) -> Item:
        item = self.memory.item(Table.CONNECTIONS, name)
        assert item is not None
        return item

    def status(self, name: str) -> object:
        status = self.item(name).get("status")
        return status.get("state") if isinstance(status, dict) else None


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench(monkeypatch, tmp_path)


class Told:
    """In place of the process's signals."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self._drain: Callable[[str], None] | None = None

    def drain_with(self, drain: Callable[[str], None]) -> None:
        self._drain = drain
        if self.came.is_set():
            drain("SIGTERM")

    def end(self) -> None:
        self._drain = None

    def tell(self) -> None:
        self.came.set()
        if self._drain is not None:
            self._drain("SIGTERM")


def live(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[MemorySink], Coroutine[object, object, None]],
) -> Exit:
    """Run a worker, `scenario` beside it, then drain it. Returns its exit."""

    async def main() -> Exit:
        told = Told()
        monkeypatch.setattr(run_module, "Signals", lambda: told)
        sink = MemorySink()
        async with asyncio.timeout(WITHIN_S):
            working = asyncio.create_task(work(bench.equipment(sink)))
            playing = asyncio.create_task(scenario(sink))
            await asyncio.wait({working, playing}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                playing.cancel()
                return await working
            told.tell()
            playing.result()
            ended = await working
            assert sink.closed
            return ended

    return asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    """Give the worker time until it is so; the run's own limit ends a wait in vain."""
    loop = asyncio.get_running_loop()
    while not condition():
        turn = loop.create_future()
        loop.call_later(0.01, turn.set_result, None)
        await turn


def sequences(sink: MemorySink, name: str) -> list[object]:
    found = [decode(line) for line in sink.lines]
    return [
        each.delivery.sequence for each in found if each.connection_id == name and isinstance(each.delivery, Record)
    ]


@pytest.mark.parametrize("mode", ["connection", "worker"])
def test_connections_are_taken_run_checkpointed_and_given_up(
    mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench = Bench(monkeypatch, tmp_path, mode=mode)
    names = ["a", "b", "c"]
    for name in names:
        bench.create(name)

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: all(len(sequences(sink, name)) == 5 for name in names))
        await until(lambda: all(bench.status(name) == "STREAMING" for name in names))
        await until(bench.health_file.exists)

    assert live(bench, monkeypatch, scenario).outcome == "drained"
    for name in names:
        item = bench.item(name)
        assert "lease_owner" not in item
        assert item["last_sequence"] == "5"
        assert bench.status(name) == "RELEASED"
    states = {item["state"] for item in bench.memory.items(Table.MEMBERS) if "state" in item}
    assert states == {"DEAD"}
    assert sorted(offer.connection_id for offer in bench.memory.offers) == names
    assert all(socket.closed_with == 1000 for socket in bench.transport.sockets)


def test_a_stop_an_edit_and_a_start_reach_the_running_connection(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.create("a")

    def change(**wanted: object) -> None:
        run(control.change("a", Change(**wanted), operator=bench.operator), bench.memory.perform)  # type: ignore[arg-type]

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: len(sequences(sink, "a")) == 5)
        epoch = bench.item("a")["lease_epoch"]
        change(upstream_url="wss://other.example/")
        await until(lambda: bench.transport.dials[-1].url.startswith("wss://other.example/"))
        assert bench.item("a")["lease_epoch"] == epoch
        change(desired_state=DesiredState.STOPPED)
        await until(lambda: "lease_owner" not in bench.item("a"))
        assert bench.transport.sockets[-1].closed_with == 1000

    assert live(bench, monkeypatch, scenario).outcome == "drained"


def test_a_bad_spec_fails_its_own_connection_and_disturbs_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.create("bad", record="nonsense")
    bench.create("elsewhere", sink="archive")
    bench.create("good")

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: len(sequences(sink, "good")) == 5)
        await until(lambda: bench.status("bad") == "FAILED" and bench.status("elsewhere") == "FAILED")
        status = bench.item("elsewhere")["status"]
        assert isinstance(status, dict)
        assert "has only the sink 'default'" in str(status["reason"])
        assert "lease_owner" in bench.item("bad")

    assert live(bench, monkeypatch, scenario).outcome == "drained"


def test_what_was_counted_since_the_last_line_is_said_at_the_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.transport = FakeTransport(lambda socket: socket.say('{"seq": 1}', "no JSON"))
    bench.create("a")

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: sequences(sink, "a") == [1, None])

    with caplog.at_level(logging.INFO):
        live(bench, monkeypatch, scenario)
    (said,) = (record for record in caplog.records if record.message == "counts")
    assert getattr(said, "fields")["not_json"] == 1  # noqa: B009  # the type of a record does not know it


def test_a_lease_taken_away_is_fenced_and_its_socket_closed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.create("a")

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: len(sequences(sink, "a")) == 5)
        taken = Update(
            Table.CONNECTIONS,
            {"connection_id": "a"},
            Always(),
            set={"lease_owner": "other", "lease_expires_at_ms": clock.now().wall_ms + 60_000},
            add={"lease_epoch": 1},
        )
        bench.memory.perform(taken)
        socket = bench.transport.sockets[-1]
        await until(lambda: socket.closed_with is not None)

    assert live(bench, monkeypatch, scenario).outcome == "drained"
    assert bench.item("a")["lease_owner"] == "other"


def test_a_worker_taken_for_dead_begins_again_under_a_new_id(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.create("a")

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: len(sequences(sink, "a")) == 5)
        first = str(bench.item("a")["lease_owner"])
        bench.memory.perform(Update(Table.MEMBERS, {"worker_id": first}, Always(), set={"state": "DEAD"}))
        await until(lambda: bench.item("a").get("lease_owner") not in (first, None))

    assert live(bench, monkeypatch, scenario).outcome == "drained"
    members = [item for item in bench.memory.items(Table.MEMBERS) if "state" in item]
    assert len(members) == 2


def test_l29_a_worker_that_is_asked_to_drain_gives_all_up_asks_for_protection_and_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.create("a")
    protected: list[float] = []
    equipment = bench.equipment
    monkeypatch.setattr(bench, "equipment", lambda sink: replace(equipment(sink), protect=protected.append))

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: len(sequences(sink, "a")) == 5)
        (worker_id,) = [str(item["worker_id"]) for item in bench.memory.items(Table.MEMBERS) if "state" in item]
        bench.memory.perform(membership.request_drain(worker_id, asked_by="arn:somebody"))
        await asyncio.Event().wait()

    ended = live(bench, monkeypatch, scenario)
    assert ended == Exit("drained", "arn:somebody asked for it")
    assert "lease_owner" not in bench.item("a")
    assert protected == [9.5]


def test_a_store_that_denies_is_said_at_once_and_nothing_is_left_behind(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.queue.fault = Denied("there is no queue 'offers'")

    async def scenario(sink: MemorySink) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Denied, match="there is no queue 'offers'"):
        live(bench, monkeypatch, scenario)
    assert bench.memory.items(Table.MEMBERS) == ()


def test_a_store_that_does_not_answer_yet_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [2]

    def meet(request: Request) -> None:
        if isinstance(request, Put) and failures[0] > 0:
            failures[0] -= 1
            raise Unreachable("no answer")

    bench.meets = meet

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: any("state" in item for item in bench.memory.items(Table.MEMBERS)))

    assert live(bench, monkeypatch, scenario).outcome == "drained"


def test_a_store_that_never_answers_ends_the_beginning_in_its_fault(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "BEGIN_WITHIN_S", 0.0)
    bench.queue.fault = Unreachable("no answer")

    async def scenario(sink: MemorySink) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Unreachable):
        live(bench, monkeypatch, scenario)


def test_a_signal_before_it_has_joined_ends_it_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.queue.fault = Unreachable("no answer")

    async def scenario(sink: MemorySink) -> None:
        return None

    assert live(bench, monkeypatch, scenario) == Exit("drained", "it was stopped before it had joined")


def test_a_dial_waits_for_the_fleets_budget_and_the_worker_is_well_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "b", "c"]
    for name in names:
        bench.create(name, dial=[{"limit": 2, "per": "1h"}])

    def report() -> dict[str, object]:
        found: dict[str, object] = json.loads(bench.health_file.read_text())
        return found

    def reason(name: str) -> str:
        status = bench.item(name).get("status")
        return str(status.get("reason")) if isinstance(status, dict) else ""

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: bench.health_file.exists() and report()["connected"] == 2)
        await until(lambda: any("waiting for the dial budget" in reason(name) for name in names))
        await until(lambda: {"running": 3, "waiting": 1, "unconnected_s": 0.0}.items() <= report().items())
        await until(lambda: complaint(bench.health_file, clock.now().wall_ms) is None)

    assert live(bench, monkeypatch, scenario).outcome == "drained"
    (ledger,) = [item for item in bench.memory.items(Table.WORKER_ITEMS) if item["worker_id"] == "#dials"]
    assert str(ledger["item"]).startswith("host#upstream.example#default#")


def test_a_health_file_that_cannot_be_written_disturbs_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.health_file = bench.health_file / "no" / "such" / "folder"
    bench.create("a")

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: len(sequences(sink, "a")) == 5)

    assert live(bench, monkeypatch, scenario).outcome == "drained"


def test_signals_are_told_to_whoever_drains_also_those_that_came_before() -> None:
    async def main() -> list[str]:
        signals = Signals()
        told: list[str] = []
        signal.raise_signal(signal.SIGTERM)
        await signals.came.wait()
        signals.drain_with(told.append)
        signal.raise_signal(signal.SIGINT)
        await until(lambda: len(told) == 2)
        return told

    assert asyncio.run(main()) == ["SIGTERM", "SIGINT"]


def test_a_signal_after_the_drain_does_not_change_how_the_process_ends() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    async def main() -> None:
        Signals().end()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)

    try:
        asyncio.run(main())
        signal.raise_signal(signal.SIGTERM)  # the loop's end has not brought it back
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
