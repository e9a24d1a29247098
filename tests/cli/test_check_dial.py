"""`streamlease check --dial`: one dial from here, what it showed, and no secret in it."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tests.cli.system import System

SECRET = "hunter2-hunter2"


def _handler(connection: ServerConnection) -> None:
    heard = connection.recv() if "talks" in (connection.request.path if connection.request else "") else ""
    connection.send(json.dumps({"you_said": heard, "seq": 1}))
    with contextlib.suppress(Exception):
        connection.recv()


def _judge(connection: ServerConnection, request: Request) -> Response | None:
    if "refuse" in request.path:
        return Response(403, "Forbidden", Headers({"Set-Cookie": "a=session", "X-Said": request.path}), b"no")
    return None


def _mark(connection: ServerConnection, request: Request, response: Response) -> None:
    response.headers["X-Said"] = request.path
    response.headers["Set-Cookie"] = "a=session"


@pytest.fixture
def upstream() -> Iterator[str]:
    with serve(_handler, "127.0.0.1", 0, process_request=_judge, process_response=_mark) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()
        thread.join()


def spec(folder: Path, url: str, more: str = "") -> str:
    file = folder / "feed.yaml"
    file.write_text(f"id: a\nurl: {url}\n{more}")
    return str(file)


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TOKEN", SECRET)
    monkeypatch.delenv("STREAMLEASE_ALLOW_ADDRESSES", raising=False)


def test_it_shows_the_handshake_the_first_message_and_how_long_it_took(tmp_path: Path, upstream: str) -> None:
    result = System().run("check", spec(tmp_path, f"{upstream}/x"), "--dial", "--wait", "60")
    assert result.exit_code == 0, result.output
    assert "HTTP 101" in result.stdout
    assert '{"you_said": "", "seq": 1}' in result.stdout
    assert "ready after" in result.stdout
    assert "Set-Cookie: ***" in result.stdout
    assert result.stderr.endswith("1 connection, all ready\n")


def test_a_secret_is_sent_and_not_shown_even_if_it_comes_back(tmp_path: Path, upstream: str) -> None:
    file = spec(tmp_path, f"{upstream}/talks?t={{env:FEED_TOKEN}}", 'open: ["say {env:FEED_TOKEN}"]\n')
    for options in ((), ("--json",)):
        result = System().run("check", file, "--dial", "--wait", "60", *options)
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output
        assert "say ***" in result.output


def test_a_refusal_is_a_failure_with_its_status_and_its_words(tmp_path: Path, upstream: str) -> None:
    file = spec(tmp_path, f"{upstream}/refuse?t={{env:FEED_TOKEN}}")
    result = System().run("check", file, "--dial")
    assert result.exit_code == 1
    assert "failed: the upstream refused the handshake with HTTP 403" in result.stdout
    assert SECRET not in result.output
    assert result.stderr.endswith("1 of 1 connection could not be opened\n")


def test_the_json_says_it_all(tmp_path: Path, upstream: str) -> None:
    document = json.loads(
        System().run("check", spec(tmp_path, f"{upstream}/x"), "--dial", "--wait", "60", "--json").stdout
    )
    assert document["ok"] is True
    (one,) = document["dialled"]
    assert (one["connection_id"], one["streaming"], one["status"], one["messages"]) == ("a", True, 101, 1)
    assert one["first_message"] == '{"you_said": "", "seq": 1}'
    assert one["headers"]["X-Said"] == "/x"
    assert one["private"] is True
    assert 0 <= one["opened_ms"] <= one["ready_ms"] <= one["first_message_ms"]


def test_an_address_that_workers_do_not_dial_is_a_warning(tmp_path: Path, upstream: str) -> None:
    result = System().run("check", spec(tmp_path, f"{upstream}/x"), "--dial")
    assert "127.0.0.1 is no public address: workers dial it only where STREAMLEASE_ALLOW_ADDRESSES" in result.stderr


def test_where_the_environment_says_what_is_allowed_it_is_kept_to(
    tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMLEASE_ALLOW_ADDRESSES", "private")
    result = System().run("check", spec(tmp_path, f"{upstream}/x"), "--dial")
    assert result.exit_code == 1
    assert "127.0.0.1 is a loopback address, which is not dialled" in result.stdout


def test_a_metadata_address_is_dialled_from_nowhere(tmp_path: Path) -> None:
    result = System().run("check", spec(tmp_path, "ws://169.254.169.254/"), "--dial")
    assert result.exit_code == 1
    assert "a link-local or metadata address" in result.stdout


def test_an_upstream_with_nothing_to_say_is_ready_all_the_same(tmp_path: Path, upstream: str) -> None:
    result = System().run("check", spec(tmp_path, f"{upstream}/talks"), "--dial", "--wait", "0.1")
    assert result.exit_code == 0
    assert "no message yet" in result.stdout


def test_a_file_with_a_problem_is_not_dialled(tmp_path: Path, upstream: str) -> None:
    result = System().run("check", spec(tmp_path, f"{upstream}/x", "colour: red\n"), "--dial")
    assert result.exit_code == 2
    assert "HTTP" not in result.output


def test_more_than_a_handful_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text("\n---\n".join(f"id: a{number}\nurl: wss://a.example/" for number in range(21)))
    result = System().run("check", str(file), "--dial")
    assert result.exit_code == 2
    assert "these are 21 connections, and --dial tries 20 at most" in result.stderr
