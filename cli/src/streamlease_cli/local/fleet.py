"""Worker processes on this machine, as ECS would run tasks: started, drained with SIGTERM, killed."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from streamlease_cli.local.evidence import Departure
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.process import Command, Process

_STARTED_WITHIN_S = 60.0
WORKER = (sys.executable, "-m", "streamlease_worker")


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker process."""

    name: str
    process: Process

    @property
    def worker_id(self) -> str:
        """The name it gave itself first. Raises LocalFault if it has told none yet."""
        told = worker_id_in(self.process.log)
        if told is None:
            raise LocalFault(f"{self.name} has not told its id yet: {self.process.last_words()}")
        return told

    def has_started(self) -> bool:
        """True once it has told its id, which it does when it has joined the fleet."""
        return worker_id_in(self.process.log) is not None

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None


class Fleet:
    """Workers of one run, each with a log of its own in `folder`.

    A context manager: leaving it drains them all; leaving it by an exception kills them, since what they would drain to
    may be what has failed.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str], command: Sequence[str] = WORKER) -> None:
        self.workers: list[Worker] = []
        """All that were started, in that order, the ended ones too."""
        self._folder = folder
        self._environment = environment
        self._command = command

    @property
    def running(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.is_running]

    @property
    def logs(self) -> list[Path]:
        return [worker.process.log for worker in self.workers]

    def launch(self) -> Worker:
        """Starts one more, and does not wait for it."""
        name = f"worker-{len(self.workers) + 1}"
        environment = {**self._environment, "STREAMLEASE_HEALTH_FILE": str(self._folder / f"{name}.health")}
        log = self._folder / f"{name}.log"
        pid_file = self._folder / f"{name}.pid"
        command = Command(name, self._command, environment, self._folder, log, remove=[pid_file], grace_s=10.0)
        worker = Worker(name, Process(command))
        self.workers.append(worker)
        pid_file.write_text(f"{worker.process.pid}\n")
        if not worker.is_running:  # it ended first, and its guard found nothing to remove
            pid_file.unlink(missing_ok=True)
        return worker

    def start(self, count: int) -> list[Worker]:
        """Starts so many more, side by side, and returns once each has told its id.

        Raises LocalFault, with its last words, if one ends before that; what was started stays the fleet's.
        """
        started = [self.launch() for _ in range(count)]
        for worker in started:
            worker.process.wait_until(worker.has_started, _STARTED_WITHIN_S, "start")
        return started

    def kill(self, worker: Worker) -> Departure:
        """SIGKILL: it ends without a word. Returns at once."""
        departure = Departure(worker.worker_id, time.time_ns() // 1_000_000)
        worker.process.kill()
        return departure

    def terminate(self, worker: Worker) -> Departure:
        """SIGTERM: it drains and ends by itself. Returns at once."""
        departure = Departure(worker.worker_id, time.time_ns() // 1_000_000)
        worker.process.terminate()
        return departure

    def check(self, gone: Sequence[Worker] = ()) -> None:
        """Raises LocalFault if a worker has ended that is not among `gone`."""
        for worker in self.workers:
            code = worker.process.poll()
            if code is not None and worker not in gone:
                raise LocalFault(f"{worker.name} ended with {code} by itself: {worker.process.last_words()}")

    def stop(self, within_s: float = 20.0) -> dict[str, int]:
        """SIGTERM to all at once, SIGKILL to what has not ended in time. Exit codes by name, of all ever started."""
        processes = [worker.process for worker in self.workers]
        deadline_s = time.monotonic() + within_s
        for process in processes:
            process.terminate()  # once: a second one tells a worker to hurry
        return {process.name: process.wait_or_kill(max(0.0, deadline_s - time.monotonic())) for process in processes}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for worker in self.workers:
                worker.process.kill()
        self.stop()


def worker_id_in(log: Path) -> str | None:
    """The id in a worker's log, None before it has told it."""
    with log.open(errors="replace") as lines:
        for line in lines:  # one of the first: the rest of a long log is not read
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            worker_id = said.get("worker_id") if isinstance(said, dict) else None
            if worker_id:
                return str(worker_id)
    return None
