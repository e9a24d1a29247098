"""JSON lines appended to a file, or written to standard output, by one thread for all connections.

Several workers may append to one file on one machine: each write is whole lines in one call, which the system keeps
apart from others'. Durable means handed to the operating system: it survives the process, and with `fsync` the machine.
A blocked pipe blocks the writer; what is read meanwhile is bounded, and leases run on. A file that was removed or moved
away (as a rotation of logs does) is left, and its path opened anew: what goes into a removed file is lost, not durable.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import queue
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

from streamlease_worker.fence import Fenced
from streamlease_worker.sinks.base import Batch, Limits, SinkFault

MOST_AT_ONCE_BYTES = 1 << 20
CLOSE_WITHIN_S = 5.0
"""A pipe that nobody reads must not hold up the end of the process."""


@dataclass(frozen=True, slots=True)
class _Order:
    batch: Batch
    done: "asyncio.Future[None]"


class JsonlSink:
    """Owns its file descriptor and its thread."""

    def __init__(
        self, descriptor: int, *, name: str, appends: bool, fsync: bool = False, path: Path | None = None
    ) -> None:
        """`name` is what faults call it. `appends`: a regular file open for reading and appending. `path`: where that
        file was opened, and is opened again once another or none is there."""
        self.limits = Limits(most_lines=1_000, most_bytes=256 << 10)
        self._descriptor = descriptor
        self._name = name
        self._appends = appends
        self._fsync = fsync
        self._path = path
        self._torn = False
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_all, name="jsonl-sink", daemon=True)
        self._thread.start()

    async def check(self) -> None:
        return None

    async def deliver(self, batch: Batch) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._orders.put(_Order(batch, done))
        await done

    async def close(self) -> None:
        self._orders.put(None)
        await asyncio.to_thread(self._thread.join, CLOSE_WITHIN_S)
        if not self._thread.is_alive():
            os.close(self._descriptor)

    # --- the writer's thread --------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while True:
            order = self._orders.get()
            if order is None:
                return
            orders, size = [order], 0
            while size < MOST_AT_ONCE_BYTES and not self._orders.empty():
                following = self._orders.get()
                if following is None:
                    self._write_some(orders)
                    return
                orders.append(following)
                size += sum(map(len, following.batch.lines))
            self._write_some(orders)

    def _write_some(self, orders: list[_Order]) -> None:
        """One write for all whose fence is open; each is told what became of it."""
        datas = [order.batch.data() for order in orders]
        outcomes: list[Exception | None] = [None for _ in orders]
        try:
            self._follow()
            outcomes = [_fenced(order.batch) for order in orders]
            self._append(b"".join(data for data, fenced in zip(datas, outcomes, strict=True) if fenced is None))
        except OSError as error:
            fault = SinkFault(
                f"{self._name} could not be written ({error.strerror or error}): make room or mend its place; what was"
                " read is kept and written then",
                retryable=True,
            )
            outcomes = [fenced or fault for fenced in outcomes]
        except Exception as error:  # noqa: BLE001  # without this thread every delivery would wait for ever, in silence
            outcomes = [fenced or error for fenced in outcomes]
        for order, outcome in zip(orders, outcomes, strict=True):
            _tell(order.done, outcome)

    def _append(self, data: bytes) -> None:
        """All of it in one write, or as little as can be: a torn line is taken back, or at least ended before more."""
        if not data:
            return
        start = os.fstat(self._descriptor).st_size if self._appends else 0
        rest = memoryview(b"\n" + data if self._is_torn(start) else data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
                self._torn = bool(rest)
        except OSError:
            if self._torn and self._appends:
                self._take_back(start)
            raise
        if self._fsync:
            os.fsync(self._descriptor)
        if self._path is not None and os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "it was removed meanwhile")

    def _follow(self) -> None:
        """Open the path anew if it names another file by now, or none. Raises OSError."""
        if self._path is None:
            return
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
                return
        opened = _open(self._path)
        os.close(self._descriptor)
        self._descriptor = opened
        _share(opened)

    def _is_torn(self, size: int) -> bool:
        """Whether the beginning of a line stands before the next write, ours or that of somebody killed within it."""
        if not self._appends:
            return self._torn
        return size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"

    def _take_back(self, size: int) -> None:
        """Cut the file to `size`, if no other sink has it open: only then is what stands beyond surely ours."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        try:
            os.ftruncate(self._descriptor, size)
            self._torn = False
        finally:
            _share(self._descriptor)


def open_file(path: Path, *, fsync: bool = False) -> JsonlSink:
    """Appends to `path`, made if absent. Raises OSError."""
    descriptor = _open(path)
    regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
    if regular:
        _share(descriptor)
    return JsonlSink(
        descriptor, name=f"file {str(path)!r}", appends=regular, fsync=fsync and regular, path=path if regular else None
    )


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def open_stdout() -> JsonlSink:
    return JsonlSink(os.dup(1), name="standard output", appends=False)


def _share(descriptor: int) -> None:
    """Every sink of a file holds its lock with the others, for as long as it is open. Nobody waits for it to write."""
    with contextlib.suppress(OSError):  # a file system without locks: nobody is ever alone there
        fcntl.flock(descriptor, fcntl.LOCK_SH)


def _fenced(batch: Batch) -> Fenced | None:
    try:
        batch.fence.check()
    except Fenced as fenced:
        return fenced
    return None


def _tell(done: "asyncio.Future[None]", outcome: Exception | None) -> None:
    def settle() -> None:
        if done.done():
            return
        if outcome is None:
            done.set_result(None)
        else:
            done.set_exception(outcome)

    with contextlib.suppress(RuntimeError):  # the event loop is closed: nobody waits any more
        done.get_loop().call_soon_threadsafe(settle)
