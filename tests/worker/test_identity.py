"""What a worker is called, and where it stands."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamlease_worker import identity
from streamlease_worker.identity import Place, new_worker_id, place


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What answers is to be heard however slow this machine is."""
    monkeypatch.setattr(identity, "WITHIN_S", 60.0)


@contextmanager
def metadata(answer: bytes, failures: int = 0) -> Iterator[dict[str, str]]:
    """A task metadata endpoint that gives this, after so many failures; the environment that names it."""
    left = iter(range(failures))

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fails = next(left, None) is not None
            self.send_response(500 if fails else 200 if self.path == "/v4/abc/task" else 404)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            return

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {"ECS_CONTAINER_METADATA_URI_V4": f"http://127.0.0.1:{server.server_port}/v4/abc"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_task_is_called_by_its_id_and_knows_its_zone() -> None:
    task = {"TaskARN": "arn:aws:ecs:eu-west-1:123:task/cluster/0123abcd", "AvailabilityZone": "eu-west-1b"}
    with metadata(json.dumps(task).encode()) as environment:
        assert place(environment) == Place("0123abcd", "eu-west-1b")


@pytest.mark.parametrize(
    ("revision", "told"),
    [("17", 17), (17, 17), ("", 0), (None, 0), ("-1", 0), ("x", 0), ("9" * 40, 0), ("²", 0)],
)
def test_a_deployment_is_told_by_the_revision_of_its_task_definition(revision: object, told: int) -> None:
    with metadata(json.dumps({"TaskARN": "a/b", "Revision": revision}).encode()) as environment:
        assert place(environment) == Place("b", "", told)


def test_metadata_that_fails_for_a_moment_is_asked_again() -> None:
    with metadata(json.dumps({"TaskARN": "a/b", "Revision": "3"}).encode(), failures=2) as environment:
        assert place(environment).revision == 3


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"\xff"])
def test_metadata_that_makes_no_sense_leaves_the_machines_name(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "host-1.example")
    with metadata(answer) as environment:
        assert place(environment) == Place("host-1.example", "")


@pytest.mark.parametrize(
    ("host", "name"), [("#fleet", "fleet"), ("", "worker"), ("...", "worker"), ("ü" * 9, "worker")]
)
def test_no_name_looks_like_something_else(host: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert place({"ECS_CONTAINER_METADATA_URI_V4": "file:///etc/passwd"}) == Place(name, "")


def test_a_worker_id_is_never_used_twice() -> None:
    assert len({new_worker_id("host") for _ in range(1_000)}) == 1_000
