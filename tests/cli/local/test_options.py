"""What `up` and the demonstration make of their command lines."""

import sys
from pathlib import Path

import pytest

from streamlease.model import LeaseMode
from streamlease.timing import Timing
from streamlease_cli.errors import BadInput
from streamlease_cli.local import demo, options, up
from streamlease_cli.local.options import intervals


@pytest.mark.parametrize(
    ("mode", "heartbeat_ms", "lease_ms", "expected"),
    [
        (LeaseMode.CONNECTION, None, None, (3_000, 9_000)),
        (LeaseMode.WORKER, None, None, (2_000, 6_000)),
        (LeaseMode.CONNECTION, 5_000, None, (5_000, 15_000)),
        (LeaseMode.CONNECTION, 1_000, None, (1_000, 9_000)),
        (LeaseMode.CONNECTION, None, 6_000, (2_000, 6_000)),
        (LeaseMode.CONNECTION, None, 30_000, (3_000, 30_000)),
        (LeaseMode.WORKER, 1_000, 3_000, (1_000, 3_000)),
    ],
)
def test_what_is_not_said_of_the_leases_follows_from_what_is(
    mode: LeaseMode, heartbeat_ms: int | None, lease_ms: int | None, expected: tuple[int, int]
) -> None:
    timing = intervals(mode, heartbeat_ms, lease_ms).timing
    assert timing == Timing(heartbeat_ms=expected[0], lease_ms=expected[1])


@pytest.mark.parametrize(
    ("heartbeat_ms", "lease_ms", "sentence"),
    [
        (500, None, "--heartbeat is 500 ms, less than the template allows"),
        (4_000, 9_000, "--heartbeat and --lease do not go together: a heartbeat of 4000 ms needs a lease of at least"),
        (None, 2_000, "--heartbeat and --lease do not go together"),
    ],
)
def test_leases_that_cannot_be_are_refused(heartbeat_ms: int | None, lease_ms: int | None, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        intervals(LeaseMode.CONNECTION, heartbeat_ms, lease_ms)


def test_the_parameters_of_the_template_say_the_same() -> None:
    assert intervals(LeaseMode.WORKER, None, None).parameters() == {
        "LeaseMode": "worker",
        "HeartbeatMs": "2000",
        "LeaseMs": "6000",
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--heartbeat", "3"], "is '3'; it must be a duration such as 60s"),
        (["--heartbeat", "4s", "--lease", "9s"], "do not go together"),
        (["--mode", "both"], "'both' is not one of 'connection', 'worker'"),
        (["--workers", "0"], "0 is not in the range"),
        (["--port", "99999"], "99999 is not in the range"),
        (["--sink", "stdout"], "--sink is 'stdout': say jsonl:PATH for a file, or kinesis"),
        (["--sink", "jsonl:"], "say jsonl:PATH"),
        (["--sink", "jsonl:/nowhere/at/all.jsonl"], "there is no folder /nowhere/at"),
        (["--checkout", "/nowhere"], "does not exist"),
        (["--nonsense"], "No such option"),
        (["more"], "unexpected extra argument"),
    ],
)
def test_bad_input_is_a_sentence_and_nothing_is_started(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert up.main(arguments) == 2
    assert sentence in capsys.readouterr().err


def test_a_folder_that_is_no_checkout_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert up.main(["--checkout", str(tmp_path)]) == 2
    assert f"{tmp_path} has no template.yaml, so it is no checkout" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_checkout_without_its_environments_says_how_to_make_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "template.yaml").touch()
    assert up.main(["--checkout", str(tmp_path)]) == 1
    assert f"run `make setup` in {tmp_path}" in capsys.readouterr().err
    assert not (tmp_path / ".local" / "run" / "current.json").exists()


@pytest.mark.parametrize("arguments", [["--seconds", "1"], ["--workers", "1"], ["--rate", "0"], ["--report", "/"]])
def test_a_demonstration_that_would_show_nothing_is_refused(arguments: list[str]) -> None:
    assert demo.main(arguments) == 2


@pytest.mark.parametrize("main", [up.main, demo.main])
def test_help_shows_an_example(main: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(main)
    assert main(["--help"]) == 0
    assert "Examples:" in capsys.readouterr().out


def test_a_command_is_named_as_it_is_typed_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.chdir(tmp_path)
    assert options.our_command() == ".venv/bin/streamlease"
    (tmp_path / "streamlease").touch(mode=0o755)
    assert options.our_command() == "streamlease"
