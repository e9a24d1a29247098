"""The process's edge: arguments, environment, sentences and exit codes."""

import runpy
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from streamlease.errors import Unreachable
from streamlease_worker import health
from streamlease_worker import main as main_module
from streamlease_worker.health import Health
from streamlease_worker.main import main
from streamlease_worker.supervisor_events import Exit
from tests.worker.test_configuration import ENVIRONMENT


@pytest.fixture
def aws() -> Iterator[None]:
    with mock_aws():
        yield


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said: one sentence on standard error, and nothing else."""
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    prefix, _, sentence = line.partition(": ")
    assert prefix == "streamlease-worker"
    return sentence


def test_without_its_tables_it_says_which_variable_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {}) == 2
    assert complaint(capsys).startswith("STREAMLEASE_CONNECTIONS_TABLE is not set")


def test_a_sink_that_cannot_be_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {**ENVIRONMENT, "STREAMLEASE_SINK": "kafka"}) == 2
    assert complaint(capsys).startswith("STREAMLEASE_SINK is 'kafka'")


def test_an_argument_nobody_knows_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--verbose"], {})
    assert ended.value.code == 2
    assert "--verbose" in capsys.readouterr().err


def test_without_a_region_it_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert main([], {**ENVIRONMENT, "STREAMLEASE_SINK": "null"}) == 2
    assert "set AWS_REGION" in complaint(capsys)


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [("AWS_PROFILE", "nobody", "nobody"), ("AWS_ENDPOINT_URL", "not a url", "AWS_ENDPOINT_URL must be like")],
)
def test_a_profile_or_an_endpoint_that_cannot_be_is_bad_input_as_it_is_to_the_command_line(
    variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert main([], {**ENVIRONMENT, "STREAMLEASE_SINK": "null"}) == 2
    assert says in complaint(capsys)


def test_a_table_that_is_not_there_is_named_and_nothing_is_left_half_done(
    aws: None, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([], {**ENVIRONMENT, "STREAMLEASE_SINK": "null"}) == 1
    said = capfd.readouterr()
    assert said.err == (
        "streamlease-worker: there is no table 'members' in eu-west-1: check STREAMLEASE_MEMBERS_TABLE and AWS_REGION,"
        " or deploy the stack there\n"
    )
    assert said.out == ""
    assert boto3.client("dynamodb").list_tables()["TableNames"] == []


@pytest.mark.parametrize(("ended", "code"), [("drained", 0), ("unfinished", 1)])
def test_how_it_ended_is_the_exit_code(
    ended: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work(_: object) -> Exit:
        return Exit(ended, "SIGTERM; 3 connections could not be given up within 118 s")  # type: ignore[arg-type]

    monkeypatch.setattr(main_module, "work", work)
    assert main([], {**ENVIRONMENT, "STREAMLEASE_SINK": "null"}) == code
    assert (capsys.readouterr().err == "") == (code == 0)


def test_a_fault_that_ended_it_is_its_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work(_: object) -> Exit:
        raise Unreachable("GetItem on table 'members' got no answer")

    monkeypatch.setattr(main_module, "work", work)
    assert main([], {**ENVIRONMENT, "STREAMLEASE_SINK": "stdout"}) == 1
    assert complaint(capsys) == "GetItem on table 'members' got no answer"


# --- health -----------------------------------------------------------------------------------------------------------


def test_a_well_worker_is_healthy_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "health"
    health.write(file, Health(time.time_ns() // 1_000_000, "w", 0, 0.1, 5.0, 0, 0, 0, 0.0))
    assert main(["--health"], {"STREAMLEASE_HEALTH_FILE": str(file)}) == 0
    assert capsys.readouterr() == ("", "")


def test_an_unwell_worker_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--health"], {"STREAMLEASE_HEALTH_FILE": str(tmp_path / "health")}) == 1
    assert complaint(capsys).startswith("there is no health file")


def test_health_without_a_file_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--health"], {}) == 2
    assert complaint(capsys).startswith("STREAMLEASE_HEALTH_FILE is not set")


def test_the_package_runs_as_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["streamlease_worker", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("streamlease_worker", run_name="__main__")
    assert ended.value.code == 0
