"""How a running system is doing, from what it writes anyway: the workers' logs and the sink's file. Nothing is asked of
anybody, so that looking changes nothing."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from streamlease_cli.local.evidence import Happened, WorkerEvent, read_log
from streamlease_cli.local.fleet import Worker
from streamlease_cli.local.progress import WorkerRow

_AT_ONCE_BYTES = 1 << 20


class Tail:
    """What has been added to a file since the last look, in whole lines. The file need not be there yet, and may be
    emptied, moved away or removed: what comes after that is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._inode = 0
        self._rest = b""

    def chunks(self) -> Iterable[bytes]:
        """Each ends with an end of line."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_size < self._offset or found.st_ino != self._inode:
                self._offset, self._inode, self._rest = 0, found.st_ino, b""
            file.seek(self._offset)
            while chunk := file.read(_AT_ONCE_BYTES):
                self._offset += len(chunk)
                whole, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
                if newline:
                    yield whole + newline

    def lines(self) -> Iterable[str]:
        for chunk in self.chunks():
            yield from chunk.decode(errors="replace").splitlines()


class Standing:
    """What one worker's log says it holds now."""

    def __init__(self) -> None:
        self.owned: set[str] = set()
        self.streaming: set[str] = set()

    def learn(self, event: WorkerEvent) -> None:
        match event.happened:
            case Happened.CLAIMED:
                self.owned.add(event.connection_id)
            case Happened.READY:
                self.streaming.add(event.connection_id)
            case Happened.CLOSED:
                self.streaming.discard(event.connection_id)
            case Happened.RELEASED:
                self.owned.discard(event.connection_id)
                self.streaming.discard(event.connection_id)


class Watch:
    """Follows a fleet. What it knows is of the last `look`."""

    def __init__(self, sink: Path | None, say: Callable[[str], None]) -> None:
        """`sink` is the file that the workers deliver to, None where they deliver elsewhere. `say` is told, once of
        each log, that something in it cannot be read."""
        self.delivered = 0
        """Lines at the sink: records, the same one counted as often as it was delivered, and gap records."""
        self.draining: set[str] = set()
        """Names of workers that were told to go, for the rows."""
        self._say = say
        self._unreadable: set[Path] = set()
        self._sink = None if sink is None else Tail(sink)
        self._logs: dict[Path, Tail] = {}
        self._standings: dict[Path, Standing] = defaultdict(Standing)

    def look(self, workers: Iterable[Worker]) -> None:
        for worker in workers:
            log = worker.process.log
            for event in self.events(log, self._logs.setdefault(log, Tail(log)).lines()):
                self._standings[log].learn(event)
        if self._sink is not None:
            # An empty line is the mend of a torn one (decision 052), and no record.
            self.delivered += sum(1 for chunk in self._sink.chunks() for line in chunk.split(b"\n") if line.strip())

    def events(self, log: Path, lines: Iterable[str]) -> Iterator[WorkerEvent]:
        """Those that the lines of a log tell of. What cannot be read is passed over, and said once."""

        def unread(what: str) -> None:
            if log not in self._unreadable:
                self._unreadable.add(log)
                self._say(f"passed over what cannot be read in {log}: {what}, and anything like it")

        return read_log(lines, unread)

    def streaming(self, workers: Iterable[Worker]) -> int:
        """How many connections stream at those of the workers that run."""
        return sum(len(self._standings[worker.process.log].streaming) for worker in workers if worker.is_running)

    def owned(self, worker: Worker) -> frozenset[str]:
        """Ids of what its log says it holds: of one that has ended, what it did not release."""
        return frozenset(self._standings[worker.process.log].owned)

    def row(self, worker: Worker) -> WorkerRow:
        code = worker.process.poll()
        if code is not None:
            return WorkerRow(worker.name, "ended" if code == 0 else "killed", 0, 0)
        standing = self._standings[worker.process.log]
        state = "draining" if worker.name in self.draining else "running" if worker.has_started() else "starting"
        return WorkerRow(worker.name, state, len(standing.owned), len(standing.streaming))
