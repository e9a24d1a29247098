"""The demonstration in small: every act of it, and a report that adds up. Its times are for a benchmark to judge."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.running import WITHIN_S, copy_of_the_checkout, descendants, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.emulator,
    pytest.mark.xdist_group("e2e"),
    pytest.mark.timeout(900),
]
CONNECTIONS = 12
SMALL = ["--seconds", "20", "--workers", "2", "--connections", str(CONNECTIONS), "--rate", "20"]
QUICK = ["--heartbeat", "2s", "--lease", "6s"]


def demo(checkout: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "streamlease_cli.local.demo", "--checkout", str(checkout), *arguments]
    return subprocess.Popen(command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603


def test_it_loses_a_worker_and_drains_another_and_no_record_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    with demo(copy_of_the_checkout(tmp_path / "checkout"), *SMALL, *QUICK, "--report", str(file)) as process:
        until(lambda: descendants(process.pid), "it starts something")
        said, progress = process.communicate(timeout=600)
    report = json.loads(file.read_text())
    assert list(report)[:7] == ["connections", "workers", "kill", "drain", "records", "moves", "overlaps"]
    assert (report["connections"], report["workers"]) == (CONNECTIONS, 2)
    for move in (report["kill"], report["drain"]):
        assert move["affected"] > 0
        assert move["unrecovered"] == 0
    records = report["records"]
    assert records["published"] >= 150
    assert records["delivered"] == records["published"]
    assert (records["missing"], records["unexplained"], records["gap_records"], report["overlaps"]) == (0, 0, 0, 0)
    assert report["moves"]["max_per_connection"] >= 2
    assert process.returncode == (1 if report["unmet"] else 0)
    assert "notes-" not in said
    assert "0 missing" in said
    assert "worker-1 was killed (SIGKILL)" in progress


def test_a_report_that_could_not_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with demo(copy_of_the_checkout(tmp_path / "checkout"), "--report", str(tmp_path / "nowhere" / "r.json")) as process:
        _, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 2
    assert said == f"Error: --report: there is no folder {tmp_path / 'nowhere'}: make it, or choose another\n"
    assert not (tmp_path / "checkout" / ".local" / "run").exists()
