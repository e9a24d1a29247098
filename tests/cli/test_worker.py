"""`streamlease worker`: what it hands to the worker."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamlease_cli.configuration import LOCAL_FILE
from tests.cli.system import System


class Started:
    """Stands where the worker's own main is, and keeps what it was started with."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.arguments: list[list[str]] = []
        self.environment: dict[str, str] = {}

    def main(self, arguments: Sequence[str]) -> int:
        self.arguments.append(list(arguments))
        self.environment = dict(os.environ)
        return self.code


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Started:
    found = Started()
    monkeypatch.setattr("streamlease_worker.main.main", found.main)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.chdir(tmp_path)
    return found


def test_a_container_s_environment_is_handed_over_as_it_is(started: Started) -> None:
    os.environ["STREAMLEASE_CONNECTIONS_TABLE"] = "connections"
    before = dict(os.environ)
    result = System().run("worker")
    assert (result.exit_code, result.stderr) == (0, ""), "it joins what it was told to"
    assert started.arguments == [[]]
    assert started.environment == before


def test_the_worker_s_exit_code_is_the_command_s(started: Started) -> None:
    os.environ["STREAMLEASE_CONNECTIONS_TABLE"] = "connections"
    started.code = 1
    assert System().run("worker").exit_code == 1


def test_health_asks_nothing_but_the_worker(started: Started) -> None:
    os.environ["STREAMLEASE_HEALTH_FILE"] = "nowhere"
    asked = System().run("worker", "--health")
    assert asked.exit_code == 1
    assert started.arguments == []


def test_beside_the_local_system_it_works_with_that_and_no_account(started: Started, tmp_path: Path) -> None:
    file = tmp_path / LOCAL_FILE
    file.parent.mkdir(parents=True)
    outputs = {"ConnectionsTable": "c", "MembersTable": "m", "LeaseMs": "9000"}
    fields = {"endpoint_url": "http://127.0.0.1:4566", "region": "eu-west-1", "stack": "local", "outputs": outputs}
    file.write_text(json.dumps(fields))
    os.environ["STREAMLEASE_SINK"] = "stdout"
    result = System().run("worker")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"this worker joins the local system that runs in {tmp_path}: --stack NAME, or")
    found = started.environment
    assert (found["STREAMLEASE_CONNECTIONS_TABLE"], found["STREAMLEASE_LEASE_MS"]) == ("c", "9000")
    assert (found["AWS_ENDPOINT_URL"], found["AWS_REGION"]) == ("http://127.0.0.1:4566", "eu-west-1")
    assert (found["AWS_ACCESS_KEY_ID"], found["AWS_CONFIG_FILE"]) == ("local", os.devnull)
    assert found["STREAMLEASE_SINK"] == "stdout"


def test_a_worker_that_is_told_nothing_says_what_to_set(started: Started) -> None:
    result = System().run("worker")
    assert result.exit_code == 2
    assert "STREAMLEASE_CONNECTIONS_TABLE" in result.stderr
    assert started.arguments == []
