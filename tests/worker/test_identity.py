"""What a worker is called, and where it stands."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from streamlease_worker.identity import Place, new_worker_id, place


@contextmanager
def metadata(answer: bytes) -> Iterator[dict[str, str]]:
    """A task metadata endpoint that gives this; the environment that names it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/v4/abc/task" else 404)
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
