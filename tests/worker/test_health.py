"""The health file and what a probe makes of it; who a worker is; what it says."""

from pathlib import Path

import pytest

from streamlease_worker import health
from streamlease_worker.health import Health, complaint

NOW_MS = 1_800_000_000_000


def report(**more: object) -> Health:
    values: dict[str, object] = {
        "at_ms": NOW_MS,
        "worker_id": "worker-1",
        "owned": 3,
        "keeper_silent_s": 0.1,
        "member_left_s": 20.0,
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
