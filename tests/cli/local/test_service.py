"""A fleet kept at its number, with a stand-in for the worker and a clock that only the test moves."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.fleet import Fleet
from streamlease_cli.local.service import Service

WORKER = """
import json, os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3))
print(json.dumps({"event": "joined", "worker_id": f"w-{os.getpid()}"}), flush=True)
while True:
    signal.pause()
"""


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path, dict(os.environ), [sys.executable, "-c", WORKER]) as fleet:
        yield fleet


def end(service: Service, number: int, how: signal.Signals = signal.SIGKILL) -> None:
    process = service.workers[number].process
    process.wait_until(service.workers[number].has_started, 60)
    os.kill(process.pid, how)
    process.wait(60)


def test_while_all_run_nothing_is_done(fleet: Fleet) -> None:
    service = Service(fleet, 2, Clock())
    assert service.tend() == []
    assert [worker.name for worker in service.workers] == ["worker-1", "worker-2"]


def test_a_worker_that_lived_long_is_followed_at_once_by_a_new_process(fleet: Fleet) -> None:
    clock = Clock()
    service = Service(fleet, 2, clock)
    clock.now_s = 100
    end(service, 0)
    log = fleet.logs[0]
    assert service.tend() == [
        f"worker-1 was killed by signal 9; a new one starts now (its log: {log})",
        "worker-3 starts",
    ]
    assert [worker.name for worker in service.workers] == ["worker-2", "worker-3"]


def test_workers_that_end_soon_are_followed_after_longer_and_longer_waits(fleet: Fleet) -> None:
    clock = Clock()
    service = Service(fleet, 1, clock)
    for wait_s in (1, 2, 4):
        end(service, 0, signal.SIGUSR1)
        assert f"ended with 3; a new one starts in {wait_s} s" in service.tend()[0]
        clock.now_s += wait_s - 0.1
        assert service.tend() == []
        clock.now_s += 0.1
        assert len(service.tend()) == 1
        assert len(service.workers) == 1


def test_a_steady_life_lets_the_waits_start_over(fleet: Fleet) -> None:
    clock = Clock()
    service = Service(fleet, 1, clock)
    end(service, 0)
    service.tend()
    clock.now_s += 1
    service.tend()
    clock.now_s += 60
    end(service, 0)
    assert "a new one starts now" in service.tend()[0]


def test_a_worker_that_cannot_even_start_at_first_is_a_fault(tmp_path: Path) -> None:
    with (
        Fleet(tmp_path, dict(os.environ), [sys.executable, "-c", "import sys; sys.exit('no table')"]) as fleet,
        pytest.raises(LocalFault, match="ended with 1 before it could start: no table"),
    ):
        Service(fleet, 1)
