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


def test_a_file_that_cannot_be_read_hides_no_other_s_problems(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"id: \xff")
    (tmp_path / "wrong.yaml").write_text("id: a\n")
    missing = tmp_path / "missing.yaml"
    result = System().run("check", str(missing), str(tmp_path))
    assert result.exit_code == 2
    for told in (f"there is no file or folder {missing}", "binary.yaml is not UTF-8 text (byte 4)", "wrong.yaml"):
        assert told in result.stderr
    [document] = System().json("check", str(missing), str(tmp_path))
    assert document["ok"] is False
    assert len(document["problems"]) == 3


@pytest.mark.parametrize("command", ["check", "apply"])
def test_a_sink_that_no_worker_has_is_refused_with_those_there_are(tmp_path: Path, command: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("id: a\nurl: wss://a.example/x\nsink: kafka\n")
    result = System().run(command, str(file))
    assert result.exit_code == 2
    assert "connection 'a': sink is 'kafka', and workers have only default" in result.stderr
    file.write_text("id: a\nurl: wss://a.example/x\nsink: default\n")
    assert System().run(command, str(file)).exit_code == 0


def test_a_reference_without_braces_in_a_url_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("id: a\nurl: wss://a.example/?q=env:FOO&n=environment\n")
    result = System().run("check", str(file))
    assert result.exit_code == 0
    assert result.stderr.count("warning") == 1
    assert "its url sends 'env:FOO' as it stands: for the secret of that name write {env:FOO}" in result.stderr
    file.write_text("id: a\nurl: 'wss://a.example/?q={env:FOO}'\n")
    assert "as it stands" not in System().run("check", str(file)).stderr
