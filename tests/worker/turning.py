"""Turns to dial, on a loop of virtual time, with a ledger in memory."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from streamlease.flow import Request
from streamlease.timing import Instant
from streamlease_worker.log import Log, Problems
from streamlease_worker.turns import Turns
from tests.fakes.memory import MemoryStore

START_MS = 1_800_000_000_000


class Inline(Executor):
    """Does at once what it is given."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # as any executor does
            done.set_exception(error)
        return done


def now() -> Instant:
    """The loop's time, on both clocks."""
    now_s = asyncio.get_running_loop().time()
    return Instant(now_s, START_MS + round(now_s * 1000))


def turns(perform: Callable[[Request], object] | None = None, *, worker_id: str = "worker-1") -> Turns:
    return Turns(
        worker_id,
        egress_group="eu",
        perform=perform or MemoryStore(now).perform,
        threads=Inline(),
        now=now,
        log=Log(),
        problems=Problems(Log()),
    )
