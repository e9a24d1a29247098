"""A worker's place in a chaos run: one process at a time, each with its own way to each service."""

import contextlib
import json
import os
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.fleet import Fleet, Worker
from tests.chaos.link import Link

JOINED_WITHIN_S = 60.0
INSIDE = Path(__file__).with_name("inside")
"""What goes into the workers: `streamlease_chaos` and its entry point."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process of a place ended by itself."""

    log: Path
    code: int


class Place:
    """`links` are by service: `dynamodb`, `sqs`."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], links: Mapping[str, Link]) -> None:
        self.name = name
        self.links = links
        self.folder = folder / name
        self.folder.mkdir()
        self._journals = folder
        own = {f"AWS_ENDPOINT_URL_{service.upper()}": link.endpoint for service, link in links.items()}
        inside = {"PYTHONPATH": str(INSIDE), "CHAOS_FOLDER": str(folder)}
        self.fleet = Fleet(self.folder, {**environment, **own, **inside})
        self._records = Path(environment["STREAMLEASE_SINK"].partition(":")[2])

    @property
    def worker(self) -> Worker:
        """The newest process of it."""
        return self.fleet.workers[-1]

    @property
    def pid(self) -> int:
        return self.worker.process.pid

    @property
    def worker_id(self) -> str | None:
        """Of its present life. None: it has not joined yet."""
        joined = [str(line["worker_id"]) for line in said(self.worker) if line.get("event") == "joined"]
        return joined[-1] if joined else None

    def is_there(self) -> bool:
        return bool(self.fleet.workers) and self.worker.is_running

    def launch(self) -> None:
        """A new process, if there is none."""
        if not self.is_there():
            self.fleet.launch()

    def settle(self) -> bool:
        """Once a process is there and has joined. False: it has ended instead, or is late."""
        self.launch()
        with contextlib.suppress(LocalFault):
            self.worker.process.wait_until(self.worker.has_started, JOINED_WITHIN_S)
            return True
        return False

    def send(self, number: Signals) -> None:
        """To the process itself; nothing if it has ended."""
        if self.is_there():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def order(self, number: Signals, text: str) -> None:
        """A signal that `streamlease_chaos` answers to, and what it is to do."""
        (self._journals / f"orders-{self.pid}").write_text(text)
        self.send(number)

    @contextlib.contextmanager
    def full_disk(self, room_bytes: int) -> Iterator[None]:
        """No file of the process grows beyond what the records are now, and a little."""
        pid = self.pid
        with contextlib.suppress(ProcessLookupError):
            _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (self._records.stat().st_size + room_bytes, most))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))

    def workers_by_pid(self) -> dict[int, frozenset[str]]:
        """The ids that each of its processes went by."""
        return {
            worker.process.pid: frozenset(str(line["worker_id"]) for line in said(worker) if "worker_id" in line)
            for worker in self.fleet.workers
        }

    def exit_codes(self) -> list[int | None]:
        return [worker.process.poll() for worker in self.fleet.workers]


def said(worker: Worker) -> list[dict[str, object]]:
    """What a worker has logged so far, as far as it is whole."""
    found = []
    with worker.process.log.open(errors="replace") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                if isinstance(one := json.loads(line), dict):
                    found.append(one)
    return found
