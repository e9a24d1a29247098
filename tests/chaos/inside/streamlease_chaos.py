"""What a chaos run puts into a worker process, on its PYTHONPATH: a sink that is the product's own JSON-lines sink and
tells when each attempt began, and two signals.

`STREAMLEASE_SINK=chaos:FILE`, with `CHAOS_FOLDER` set. SIGUSR1 blocks the event loop, SIGUSR2 strikes the keeper's
thread, each as the file `orders-PID` in the folder says. Nothing of the product is patched: sinks are its plugins, and
a Python signal handler runs on the event loop's thread.

Attempts are told in memory that is mapped from a file, so that telling costs no system call, takes no room that a full
disk would refuse, and survives SIGKILL.
"""

import ctypes
import json
import mmap
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import override

from streamlease.dynamodb import clock
from streamlease.timing import Instant
from streamlease_worker.fence import Fence
from streamlease_worker.sinks.base import Batch, Limits, Sink, SinkFault
from streamlease_worker.sinks.choose import SinkContext
from streamlease_worker.sinks.jsonl import open_file

ROOM_BYTES = 64 << 20
"""Of a sparse file; what is never written costs nothing."""
HANGS_S = 600.0


class Journal:
    """Lines in a mapped file, one after the other, from any thread. A zero byte is the end."""

    def __init__(self, path: Path) -> None:
        with path.open("w+b") as file:
            file.truncate(ROOM_BYTES)
            self._map = mmap.mmap(file.fileno(), ROOM_BYTES)
        self._end = 0
        self._lock = threading.Lock()

    def tell(self, *fields: object) -> None:
        line = (json.dumps(fields, separators=(",", ":")) + "\n").encode()
        with self._lock:
            self._map[self._end : self._end + len(line)] = line
            self._end += len(line)


class WatchedFence(Fence):
    """Asks the real fence, and tells when it was passed: read before the check, so never later than the check itself,
    and after it, so never earlier."""

    __slots__ = ("_batch", "_journal", "_real")

    def __init__(self, batch: Batch, journal: Journal) -> None:
        super().__init__(batch.connection_id, batch.epoch)
        self._real = batch.fence
        self._batch = batch
        self._journal = journal

    @override
    def check(self) -> None:
        before = clock.now()
        self._real.check()
        told(self._journal, "began", before, self._batch)


class ChaosSink:
    """The JSON-lines sink, with its attempts told."""

    def __init__(self, real: Sink, journal: Journal) -> None:
        self._real = real
        self._journal = journal

    @property
    def limits(self) -> Limits:
        return self._real.limits

    async def check(self) -> None:
        await self._real.check()

    async def deliver(self, batch: Batch) -> None:
        watched = replace(batch, fence=WatchedFence(batch, self._journal))
        try:
            await self._real.deliver(watched)
        except SinkFault:
            told(self._journal, "refused", clock.now(), batch)
            raise
        told(self._journal, "durable", clock.now(), batch)

    async def close(self) -> None:
        await self._real.close()


def told(journal: Journal, what: str, at: Instant, batch: Batch) -> None:
    first, last = (json.loads(line).get("sequence") for line in (batch.lines[0], batch.lines[-1]))
    journal.tell(what, at.mono_s, at.wall_ms, clock.monotonic_s(), batch.connection_id, batch.epoch, first, last)


def open_sink(argument: str, context: SinkContext) -> Sink:
    """The entry point. Called on the process's main thread, before its event loop is there."""
    folder = Path(os.environ["CHAOS_FOLDER"])
    orders = folder / f"orders-{os.getpid()}"

    def block(number: int, frame: FrameType | None) -> None:
        time.sleep(float(orders.read_text()))

    def strike(number: int, frame: FrameType | None) -> None:
        error = {"crash": Struck, "end": SystemExit, "hang": Hanging}[orders.read_text()]
        (keeper,) = (thread for thread in threading.enumerate() if thread.name == "keeper")
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(keeper.ident or 0), ctypes.py_object(error))

    signal.signal(signal.SIGUSR1, block)
    signal.signal(signal.SIGUSR2, strike)
    return ChaosSink(open_file(Path(argument)), Journal(folder / f"attempts-{os.getpid()}"))


class Struck(Exception):
    """Raised in the keeper's thread, wherever that is."""


class Hanging(Exception):
    """Made in the thread that it is to be raised in, which so stands still."""

    def __init__(self) -> None:
        time.sleep(HANGS_S)
