"""The fleet as processes, with a stand-in for the worker that tells its id and drains as told."""

import os
import signal
import sys
from pathlib import Path

import pytest

from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.fleet import Fleet

WORKER = """
import json, os, signal, sys
def drain(*_):
    print(json.dumps({"event": "drained"}), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
print("not json", flush=True)
health = os.environ["STREAMLEASE_HEALTH_FILE"]
print(json.dumps({"event": "started", "worker_id": f"w-{os.getpid()}", "health": health}), flush=True)
while True:
    signal.pause()
"""
DEAF = WORKER.replace("sys.exit(0)", "pass")


def fleet(folder: Path, script: str = WORKER) -> Fleet:
    return Fleet(folder, dict(os.environ), [sys.executable, "-c", script])


def test_each_worker_has_a_name_an_id_and_a_log_of_its_own(tmp_path: Path) -> None:
    with fleet(tmp_path) as workers:
        started = workers.start(2) + workers.start(1)
        assert [worker.name for worker in workers.workers] == ["worker-1", "worker-2", "worker-3"]
        assert workers.workers == started == workers.running
        assert [worker.worker_id for worker in started] == [f"w-{worker.process.pid}" for worker in started]
        assert workers.logs == [tmp_path / f"worker-{number}.log" for number in (1, 2, 3)]
        assert str(tmp_path / "worker-3.health") in workers.logs[2].read_text()
    assert workers.running == []


def test_the_run_s_folder_has_the_pid_of_a_worker_as_long_as_it_runs(tmp_path: Path) -> None:
    with fleet(tmp_path) as workers:
        first, second = workers.start(2)
        pids = [int((tmp_path / f"worker-{number}.pid").read_text()) for number in (1, 2)]
        assert pids == [first.process.pid, second.process.pid]
        os.kill(pids[0], signal.SIGKILL)
        assert first.process.wait(60) == -signal.SIGKILL
        assert [path.name for path in tmp_path.glob("*.pid")] == ["worker-2.pid"]
    assert not list(tmp_path.glob("*.pid"))


def test_a_terminated_worker_drains_and_a_killed_one_does_not(tmp_path: Path) -> None:
    with fleet(tmp_path) as workers:
        first, second, third = workers.start(3)
        killed, drained = workers.kill(first), workers.terminate(second)
        assert (killed.worker_id, drained.worker_id) == (first.worker_id, second.worker_id)
        assert first.process.wait(60) == -signal.SIGKILL
        assert second.process.wait(60) == 0
        assert "drained" in second.process.log.read_text()
        assert workers.running == [third]
        workers.check(gone=[first, second])
    assert killed.at_ms <= drained.at_ms


def test_a_worker_that_ends_by_itself_is_noticed(tmp_path: Path) -> None:
    with fleet(tmp_path) as workers:
        [worker] = workers.start(1)
        os.kill(worker.process.pid, signal.SIGSEGV)
        worker.process.wait(60)
        with pytest.raises(LocalFault, match=r"worker-1 ended with -11 by itself: .*started"):
            workers.check()


def test_one_that_cannot_start_says_why_and_the_others_are_stopped(tmp_path: Path) -> None:
    refuse = "if os.environ['STREAMLEASE_HEALTH_FILE'].endswith('2.health'): sys.exit('no table')\n"
    workers = fleet(tmp_path, WORKER.replace("def drain", refuse + "def drain"))
    with (
        pytest.raises(LocalFault, match="worker-2 ended with 1 before it could start: no table"),
        workers,
    ):
        workers.start(3)
    codes = workers.stop()
    assert codes.keys() == {"worker-1", "worker-2", "worker-3"}
    assert codes["worker-2"] == 1


def test_after_a_failure_nobody_waits_for_a_drain(tmp_path: Path) -> None:
    workers = fleet(tmp_path, DEAF)
    [worker] = workers.start(1)
    os.kill(workers.start(1)[0].process.pid, signal.SIGSEGV)
    workers.workers[1].process.wait(60)
    with pytest.raises(LocalFault, match="worker-2 ended"), workers:
        workers.check()
    assert worker.process.poll() == -signal.SIGKILL
    assert "drained" not in worker.process.log.read_text()


def test_a_worker_is_told_to_drain_only_once(tmp_path: Path) -> None:
    with fleet(
        tmp_path,
        WORKER.replace(
            "sys.exit(0)",
            "signal.signal(signal.SIGALRM, lambda *_: sys.exit(0)); signal.setitimer(signal.ITIMER_REAL, 0.2)",
        ),
    ) as workers:
        workers.start(1)
        assert workers.stop() == {"worker-1": 0}
    assert workers.logs[0].read_text().count("drained") == 1


def test_stopping_gives_every_exit_code(tmp_path: Path) -> None:
    with fleet(tmp_path) as workers:
        first, *_ = workers.start(3)
        workers.kill(first)
        assert workers.stop() == {"worker-1": -signal.SIGKILL, "worker-2": 0, "worker-3": 0}


def test_workers_that_do_not_drain_in_time_are_killed_side_by_side(tmp_path: Path) -> None:
    with fleet(tmp_path, DEAF) as workers:
        workers.start(2)
        assert set(workers.stop(within_s=0.1).values()) == {-signal.SIGKILL}
