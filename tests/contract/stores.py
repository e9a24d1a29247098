"""The stores that the contract holds for, each with its own tables: memory, the emulator, dynalite, an endpoint."""

import contextlib
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from streamlease.dynamodb.clients import Clients, Purpose, clients
from streamlease.dynamodb.executor import Executor
from streamlease.flow import Flow, Request, run
from streamlease.write import (
    Always,
    Answer,
    Applied,
    Delete,
    Item,
    Page,
    Put,
    Query,
    Read,
    Refused,
    Scan,
    Table,
    Update,
    Write,
)
from streamlease_cli.local.checkout import Checkout, clean_environment, find_checkout
from streamlease_cli.local.emulator import start_emulator
from streamlease_cli.local.process import Command, Process, free_port, is_open
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore
from tests.fakes.tables import create_table_requests

type Perform = Callable[[Request], object]

INDEX_READS = 300
"""An index that has not shown a change after so many reads never will. The reads themselves are the waiting."""
READY_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Store:
    """What the contract is held against."""

    name: str
    perform: Perform
    clock: SetClock
    executor: Executor | None = None
    """None for the store in memory."""
    batches: bool = True
    """Whether it speaks PartiQL."""
    queue: bool = True
    """Whether there is a queue for offers."""

    def put(self, table: Table, item: Item) -> None:
        """Arrange `item`, whatever is there."""
        assert isinstance(self.write(Put(table, item, Always())), Applied)

    def write(self, write: Write) -> Answer:
        answer = self.perform(write)
        assert isinstance(answer, Applied | Refused)
        return answer

    def read(self, table: Table, **key: str) -> Item | None:
        item = self.perform(Read(table, key))
        assert item is None or isinstance(item, Mapping)
        return item

    def page(self, request: Query | Scan) -> Page:
        page = self.perform(request)
        assert isinstance(page, Page)
        return page

    def run[T](self, flow: Flow[T]) -> T:
        return run(flow, self.perform)

    def eventually(self, request: Query | Scan, shows: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
        """The connection ids of all pages of an index, once `shows` is true of them."""
        found: tuple[str, ...] = ()
        for _ in range(INDEX_READS):
            found = tuple(str(item["connection_id"]) for item in all_pages(self.perform, request))
            if shows(found):
                break
        return found


def all_pages(perform: Perform, request: Query | Scan) -> list[Mapping[str, object]]:
    """Every item of every page, in order."""
    found: list[Mapping[str, object]] = []
    cursor = None
    while True:
        page = perform(replace(request, cursor=cursor))
        assert isinstance(page, Page)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found


def in_memory() -> Store:
    clock = SetClock()
    return Store("memory", MemoryStore(clock).perform, clock)


@contextlib.contextmanager
def emulator(log: Path) -> Iterator[Store]:
    with start_emulator(find_checkout(), log) as running, on_endpoint("emulator", running.endpoint) as store:
        yield store


def has_dynalite(checkout: Checkout) -> bool:
    return _dynalite(checkout).exists() and shutil.which("node") is not None


@contextlib.contextmanager
def dynalite(log: Path) -> Iterator[Store]:
    checkout, port = find_checkout(), free_port()
    options = ("--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0", "--deleteTableMs", "0")
    node = shutil.which("node")
    assert node is not None
    command = Command(
        "dynalite", [node, str(_dynalite(checkout)), *options], clean_environment({}), checkout.local, log
    )
    with Process(command) as process:
        process.wait_until(lambda: is_open(port), READY_WITHIN_S)
        with on_endpoint("dynalite", f"http://127.0.0.1:{port}") as store:
            assert store.executor is not None
            yield replace(store, perform=_ReadsBack(store.executor).perform, batches=False)


@contextlib.contextmanager
def on_endpoint(name: str, endpoint: str) -> Iterator[Store]:
    """Makes tables, and a queue where there are queues; removes them in the end. The region is the environment's."""
    clock = SetClock()
    made = clients(None, endpoint, purpose=Purpose.PEOPLE)
    prefix = f"streamlease-contract-{uuid.uuid4().hex[:12]}-"
    with _tables(made, prefix) as tables, _queue(made, prefix) as queue_url:
        executor = Executor(made, tables, queue_url or "http://127.0.0.1/no-queue-here", clock)
        yield Store(name, executor.perform, clock, executor, queue=queue_url is not None)


@contextlib.contextmanager
def _tables(made: Clients, prefix: str) -> Iterator[Mapping[Table, str]]:
    requests = create_table_requests(prefix)
    names = {table: str(request["TableName"]) for table, request in requests.items()}
    try:
        for request in requests.values():
            made.writes.create_table(**request)
        for name in names.values():
            while made.reads.describe_table(TableName=name)["Table"].get("TableStatus") != "ACTIVE":
                pass  # each question takes a while
        yield names
    finally:
        for name in names.values():
            with contextlib.suppress(made.writes.exceptions.ResourceNotFoundException):
                made.writes.delete_table(TableName=name)


@contextlib.contextmanager
def _queue(made: Clients, prefix: str) -> Iterator[str | None]:
    try:
        url = made.queue.create_queue(QueueName=f"{prefix}offers")["QueueUrl"]
    except made.queue.exceptions.ClientError:  # a DynamoDB alone
        yield None
        return
    try:
        yield url
    finally:
        made.queue.delete_queue(QueueUrl=url)


@dataclass(frozen=True, slots=True)
class _ReadsBack:
    """dynalite does not know ReturnValuesOnConditionCheckFailure, so what stood in the way is read after a refusal.

    As good as the real thing only while nobody else writes: the race does not go by it.
    """

    executor: Executor

    def perform(self, request: Request) -> object:
        answer = self.executor.perform(request)
        if isinstance(answer, Refused) and isinstance(request, Put | Update | Delete):
            item = self.executor.perform(Read(request.table, request.key))
            assert item is None or isinstance(item, Mapping)
            return Refused(item)
        return answer


def _dynalite(checkout: Checkout) -> Path:
    return checkout.local / "dynalite" / "node_modules" / "dynalite" / "cli.js"
