"""What a chaos run runs in: the local system, an upstream that can replay, fleets whose every way can be disturbed."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from streamlease.dynamodb import clock
from streamlease.flows import audit, control
from streamlease.lease import Busy
from streamlease.model import DesiredState, LeaseMode
from streamlease.timing import Timing
from streamlease_cli import bulk, procedures
from streamlease_cli.local.checkout import find_checkout
from streamlease_cli.local.emulator import DIRECT
from streamlease_cli.local.progress import Progress
from streamlease_cli.local.system import Leases, System, deployed
from streamlease_cli.session import Session
from streamlease_cli.wanted import Wanted
from tests.chaos.attempts import Journals
from tests.chaos.history import MemberWritten, Written, connections_written, members_written
from tests.chaos.link import Link
from tests.chaos.place import Place
from tests.chaos.upstream import Upstream

if TYPE_CHECKING:
    from types_boto3_dynamodbstreams import DynamoDBStreamsClient

TIMING = Timing(heartbeat_ms=1_000, lease_ms=3_000)
"""As short as the template allows, so that many faults fit into little time."""
RECORD_EVERY_S = 0.5
STOP_TIMEOUT_S = 8
CAPACITY = 500
_PARALLEL = 8
_POLL_S = 0.1
REMOVED_WITHIN_S = 20.0
_HEAD_START_BYTES = 256 << 10
"""Empty lines that the records begin with, which readers pass over: a limit at the size of the records then is beyond
every other file of the worker's."""


class LoopThread:
    """An event loop on a thread of its own: for the links and the upstream."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop", daemon=True)

    def call[T](self, coroutine: Coroutine[Any, Any, T], within_s: float = 30.0) -> T:
        """Its result, from any other thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(within_s)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers of one mode, their upstream and their sink."""

    name: str
    mode: LeaseMode
    places: Sequence[Place]
    upstream: Upstream
    records: Path
    journals: Journals


@dataclass(frozen=True, slots=True)
class Arena:
    """A deployed system."""

    system: System
    session: Session
    loop: LoopThread
    folder: Path

    @contextmanager
    def fleet(self, name: str, mode: LeaseMode, count: int) -> Iterator[Fleet]:
        """`count` places, with a worker that has joined in each. Leaving it kills what is left of them."""
        folder = self.folder / name
        folder.mkdir()
        records = folder / "records.jsonl"
        records.write_bytes(b"\n" * _HEAD_START_BYTES)
        environment = {
            **self.system.worker_environment(sink=f"chaos:{records}", capacity=CAPACITY),
            "STREAMLEASE_LEASE_MODE": mode.value,
            "STREAMLEASE_HEARTBEAT_MS": str(TIMING.heartbeat_ms),
            "STREAMLEASE_LEASE_MS": str(TIMING.lease_ms),
            "STREAMLEASE_STOP_TIMEOUT_S": str(STOP_TIMEOUT_S),
        }
        with ExitStack() as stack:
            upstream = self.loop.call(Upstream(RECORD_EVERY_S).open())
            stack.callback(lambda: self.loop.call(upstream.close()))
            places = []
            for number in range(count):
                links = {service: self._link(stack) for service in ("dynamodb", "sqs")}
                place = Place(f"worker-{number}", folder, environment, links)
                stack.callback(place.fleet.stop, 0.0)
                places.append(place)
                place.launch()
            for place in places:
                assert place.settle(), f"{place.name} did not start: {place.worker.process.last_words()}"
            yield Fleet(name, mode, places, upstream, records, Journals(folder))

    def add(self, fleet: Fleet, names: Sequence[str], *, live_only: bool = False, **spec: Any) -> None:
        """Connections to feeds of these names, which are made first. `spec` stands over what they usually have."""
        for name in names:
            self.loop.call(fleet.upstream.add(name, live_only=live_only))
        resume: dict[str, Any] = {} if live_only else {"resume": RESUME}
        wanted = [Wanted(name, f"{fleet.upstream.url}/{name}", {**SPEC, **resume, **spec}) for name in names]
        operator = self.session.operator()
        tried = bulk.each(
            wanted,
            lambda one: self.session.run(procedures.settle(one, operator)),
            parallel=_PARALLEL,
            sleep=time.sleep,
        )
        for one in tried:
            assert one.problem is None, one.problem

    def switch(self, name: str, wanted: DesiredState) -> None:
        switched = self.session.run(procedures.switch(name, wanted, self.session.operator()))
        assert switched is not None, name

    def remove(self, names: Iterable[str]) -> None:
        """Stop them, and delete each once nobody owns it."""
        left = set(names)
        for name in left:
            self.switch(name, DesiredState.STOPPED)

        def all_deleted() -> bool:
            left.difference_update([name for name in left if self._deleted(name)])
            return not left

        until(all_deleted, REMOVED_WITHIN_S, "the connections are deleted")

    def now_s(self) -> float:
        """The leases' clock."""
        return clock.monotonic_s()

    def owned(self, place: Place) -> int:
        """How many connections the table says its worker owns."""
        worker_id = place.worker_id if place.is_there() else None
        return len(self.session.run(audit.listed(worker_id))) if worker_id is not None else 0

    def connections_written(self) -> list[Written]:
        return connections_written(self._streams(), self.system.stack.outputs["ConnectionsTable"])

    def members_written(self) -> list[MemberWritten]:
        return members_written(self._streams(), self.system.stack.outputs["MembersTable"])

    def _deleted(self, name: str) -> bool:
        return not isinstance(self.session.run(control.delete(name, operator=self.session.operator())), Busy)

    def _link(self, stack: ExitStack) -> Link:
        link = self.loop.call(Link(self.system.emulator.port).open())
        stack.callback(lambda: self.loop.call(link.close()))
        return link

    def _streams(self) -> "DynamoDBStreamsClient":
        emulator = self.system.emulator
        made: DynamoDBStreamsClient = emulator.session().client(
            "dynamodbstreams", endpoint_url=emulator.endpoint, config=DIRECT
        )
        return made


SPEC: dict[str, Any] = {
    "record": {"sequence": "seq", "id": "id"},
    "retry": {"first": "200ms", "longest": "1s"},
    "open_within": "2s",
    "close_within": "500ms",
}
RESUME = {"query": {"cursor": "{sequence}"}, "inclusive": True, "without_cursor": "all"}


@contextmanager
def arena(folder: Path, shown: Progress) -> Iterator[Arena]:
    """The system, with a stream of the members table, so that its history can be read too. Raises LocalFault."""
    leases = Leases(LeaseMode.CONNECTION, TIMING)  # the workers' mode is in their environment; functions have none
    with LoopThread() as loop, deployed(find_checkout(), folder, leases, shown) as system:
        emulator = system.emulator
        dynamodb = emulator.session().client("dynamodb", endpoint_url=emulator.endpoint, config=DIRECT)
        dynamodb.update_table(
            TableName=system.stack.outputs["MembersTable"],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        )
        session = system.session()
        session.operator()
        yield Arena(system, session, loop, folder)


def until(found: Callable[[], object], within_s: float, what: str) -> None:
    """Returns once `found()` is true. Raises AssertionError after `within_s`."""
    deadline_s = time.monotonic() + within_s
    while not found():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what}"
        time.sleep(_POLL_S)
