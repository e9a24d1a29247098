"""The health file and what a probe makes of it; who a worker is; what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from streamlease_worker import health
from streamlease_worker.health import NOTHING_CONNECTED_S, Connectedness, Health, complaint

NOW_MS = 1_800_000_000_000


def report(**more: object) -> Health:
    values: dict[str, object] = {
        "at_ms": NOW_MS,
        "worker_id": "worker-1",
        "owned": 3,
        "keeper_silent_s": 0.1,
        "member_left_s": 20.0,
        "running": 3,
        "connected": 3,
        "waiting": 0,
        "unconnected_s": 0.0,
        **more,
    }
    return Health(**values)  # type: ignore[arg-type]


def test_a_fresh_report_is_healthy(tmp_path: Path) -> None:
    file = tmp_path / "health"
    health.write(file, report())
    assert complaint(file, NOW_MS + 10_000) is None
    assert [path.name for path in tmp_path.iterdir()] == ["health"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"at_ms": NOW_MS - 60_000}, "event loop has said nothing for 60 s"),
        ({"keeper_silent_s": 9.0}, "keeper has said nothing for 9 s: no lease is being renewed"),
        ({"member_left_s": -4.0}, "membership ran out 4 s ago"),
        ({"connected": 0, "unconnected_s": 301.0}, "none of the worker's 3 connections has been connected for 301 s"),
        (
            {"connected": 0, "waiting": 2, "unconnected_s": 400.0},
            "none of the worker's 3 connections, 2 of which wait for their turn to dial, has been connected for 400 s",
        ),
    ],
)
def test_whatever_stands_still_is_named(tmp_path: Path, more: dict[str, object], sentence: str) -> None:
    file = tmp_path / "health"
    health.write(file, report(**more))
    found = complaint(file, NOW_MS)
    assert found is not None
    assert sentence in found


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"at_ms": "soon"}'])
def test_a_file_that_is_no_report_is_a_complaint(tmp_path: Path, content: str) -> None:
    file = tmp_path / "health"
    file.write_text(content)
    found = complaint(file, NOW_MS)
    assert found is not None
    assert "cannot be read" in found


def test_no_file_is_a_complaint(tmp_path: Path) -> None:
    found = complaint(tmp_path / "health", NOW_MS)
    assert found is not None
    assert "has not started yet" in found


def test_w9_a_worker_that_holds_connections_and_reaches_none_of_them_is_unwell_after_a_while(tmp_path: Path) -> None:
    seen = Connectedness()
    assert seen.unconnected_s(10, running=3, connected=0, waiting=0) == 0
    assert seen.unconnected_s(100, running=3, connected=0, waiting=0) == 90
    for_s = seen.unconnected_s(10 + NOTHING_CONNECTED_S + 1, running=3, connected=0, waiting=0)
    file = tmp_path / "health"
    health.write(file, report(connected=0, unconnected_s=for_s))
    assert complaint(file, NOW_MS) is not None
    assert seen.unconnected_s(400, running=3, connected=1, waiting=0) == 0
    assert seen.unconnected_s(500, running=3, connected=0, waiting=0) == 0, "it begins anew"


def test_a_worker_all_of_whose_connections_wait_for_their_turn_is_well() -> None:
    seen = Connectedness()
    assert seen.unconnected_s(10, running=3, connected=0, waiting=3) == 0
    assert seen.unconnected_s(900, running=3, connected=0, waiting=3) == 0
    assert seen.unconnected_s(901, running=3, connected=0, waiting=2) == 0
    assert seen.unconnected_s(961, running=3, connected=0, waiting=2) == 60, "one of them has had its turn"
    assert seen.unconnected_s(970, running=0, connected=0, waiting=0) == 0, "a worker without connections is well"


def test_the_probe_costs_next_to_nothing_beside_the_worker(tmp_path: Path) -> None:
    file = tmp_path / "health"
    health.write(file, report())
    code = (
        "import sys, streamlease_worker.health as h; print(h.main({'STREAMLEASE_HEALTH_FILE': sys.argv[1]}),"
        " *(set(sys.modules) & {'boto3', 'botocore', 'asyncio', 'pydantic', 'dataclasses', 'argparse', 'click'}))"
    )
    asked = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True)  # noqa: S603
    assert asked.stdout == "1\n", "the report is of another time, and nothing heavy was imported"
    assert "event loop has said nothing" in asked.stderr


@pytest.mark.parametrize("module", [["-m", "streamlease_worker.health"], ["-m", "streamlease_worker", "--health"]])
def test_the_probe_runs_as_a_program(tmp_path: Path, module: list[str]) -> None:
    environment = {"STREAMLEASE_HEALTH_FILE": str(tmp_path / "none"), "PYTHONPATH": ":".join(sys.path)}
    asked = subprocess.run([sys.executable, *module], capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    assert asked.returncode == 1
    assert asked.stderr.startswith("streamlease-worker: there is no health file")
