"""A seek comes from the item to the dial: through the supervisor, a runner and its machine."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from streamlease.model import Position, Seek, Status
from streamlease_worker.feeds import feed_of
from streamlease_worker.keeper_events import Changed
from streamlease_worker.keeper_thread import KeeperThread
from streamlease_worker.log import Log, Problems
from streamlease_worker.runner import Surroundings
from streamlease_worker.runs import Runs
from streamlease_worker.supervisor_events import RunnerEnded, Start, Stop
from tests.fakes.loop import run
from tests.worker.sinking import MemorySink
from tests.worker.sockets import FakeTransport
from tests.worker.supervising import EPOCH, Bench, connection
from tests.worker.turning import turns

RESUMES = {"record": {"sequence": "seq"}, "resume": {"query": {"cursor": "{sequence}"}}}


def test_the_supervisor_starts_anew_without_a_position_and_with_the_seek() -> None:
    bench = Bench()
    start = bench.run("a", position=Position(5, "upstream.example"))
    sought = replace(connection("a", version=2), seek=Seek("position", 3, 5))
    (stop,) = bench.do(Changed(sought, EPOCH, forget_position=True))
    assert isinstance(stop, Stop)
    (again,) = bench.end(start, position=Position(9, "upstream.example"))
    assert isinstance(again, Start)
    assert (again.connection.position, again.connection.seek) == (None, Seek("position", 3, 5))


def test_the_runner_dials_where_the_seek_says_and_keeps_it_as_its_position() -> None:
    advanced: list[Position] = []

    class Keeper:
        def advance(self, _: str, __: int, ___: int, position: Position, *____: object) -> None:
            advanced.append(position)

        def post(self, said: Status) -> None:
            pass

    async def main() -> FakeTransport:
        ends: asyncio.Queue[RunnerEnded] = asyncio.Queue()
        transport = FakeTransport()
        around = Surroundings(transport, MemorySink(), turns(), _no_secrets, lambda: 0, lambda: 0.5)
        runs = Runs(
            around,
            cast("KeeperThread", Keeper()),
            feed_of=lambda found: feed_of(found, Problems(Log())),
            ended=ends.put_nowait,
            log=Log(),
        )
        runs.fence("a", EPOCH).extend(float("inf"))
        sought = replace(connection("a", spec=RESUMES), seek=Seek("position", 3, 5))
        runs.start(Start(1, sought, EPOCH, "control"))
        await asyncio.sleep(1)
        runs.stop(Stop(1, "a", "it was stopped", flush=True))
        await ends.get()
        return transport

    transport = run(main())
    assert transport.dials[0].url.endswith("cursor=3")
    assert [position.sequence for position in advanced] == [3]


async def _no_secrets(references: Iterable[str], *, fresh: bool = False) -> dict[str, str]:
    assert not list(references)
    return {}
