"""`streamlease check`."""

import json
from pathlib import Path

import pytest

from tests.cli.system import System

WITH_SECRET = 'id: a\nurl: wss://a.example/\nheaders: {Authorization: "Bearer {env:FEED_TOKEN}"}\n'


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "a.yaml"
    file.write_text(WITH_SECRET)
    return file


def test_a_sound_file_is_explained_and_no_system_is_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("id: a\nurl: wss://a.example/x\n")
    system = System()
    result = system.run("check", str(file))
    assert result.exit_code == 0
    assert result.stdout.startswith(f"a ({file})\n  dials wss://a.example/x")
    assert result.stderr == "1 connection, nothing wrong\n"
    assert system.run("check", str(file), "--quiet").stdout == ""
    assert system.targets == []


def test_a_secret_that_is_not_set_is_a_warning_or_an_error_as_asked(
    secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = "connection 'a': secret env:FEED_TOKEN is not there; set this environment variable for the worker"
    monkeypatch.delenv("FEED_TOKEN", raising=False)
    warned = System().run("check", str(secret))
    assert warned.exit_code == 0
    assert f"warning: {secret}: {sentence}" in warned.stderr
    refused = System().run("check", str(secret), "--secrets", "error")
    assert refused.exit_code == 2
    assert f"{secret}: {sentence}" in refused.stderr
    assert "FEED_TOKEN is not there" not in System().run("check", str(secret), "--secrets", "ignore").stderr


def test_a_secret_s_value_is_never_printed(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TOKEN", "hunter2")
    for options in ((), ("--json",)):
        result = System().run("check", str(secret), *options)
        assert result.exit_code == 0
        assert "hunter2" not in result.output


def test_the_json_has_the_documented_keys(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TOKEN", "hunter2")
    document = System().json("check", str(secret))[0]
    assert set(document) == {"ok", "problems", "warnings", "connections"}
    (one,) = document["connections"]
    assert set(one) == {
        "connection_id", "source", "upstream_url", "labels", "desired_state", "secrets", "explained",
    }  # fmt: skip
    assert one["secrets"] == ["env:FEED_TOKEN"]
    assert one["desired_state"] is None


def test_everything_wrong_is_listed_and_the_exit_code_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps([{"id": "a", "url": "http://a.example/"}, {"id": "b"}]))
    result = System().run("check", str(file))
    assert result.exit_code == 2
    assert "must begin with ws:// or wss://" in result.stderr
    assert "url is missing" in result.stderr
    document = json.loads(System().run("check", str(file), "--json").stdout)
    assert (document["ok"], len(document["problems"]), document["connections"]) == (False, 2, [])


def test_standard_input_is_read(tmp_path: Path) -> None:
    assert System().run("check", "-", typed="id: a\nurl: wss://a.example/\n").exit_code == 0
