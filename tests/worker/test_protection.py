"""ECS task scale-in protection, against an agent's endpoint played by a thread."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import override

import pytest

from streamlease.errors import Unreachable
from streamlease_worker import protection
from streamlease_worker.protection import AGENT_VARIABLE, protector, unprotected


@dataclass(slots=True)
class Agent:
    url: str = ""
    answer: bytes = b'{"protection": {"ProtectionEnabled": true}}'
    status: int = 200
    asked: list[tuple[str, str, object]] = field(default_factory=list)


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setattr(protection, "WITHIN_S", 60.0)  # its answer is to be heard however slow this machine is
    played = Agent()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            played.asked.append((self.command, self.path, body))
            self.send_response(played.status)
            self.end_headers()
            self.wfile.write(played.answer)

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    played.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield played
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_task_is_protected_for_as_long_as_its_drain_may_take(agent: Agent) -> None:
    protector({AGENT_VARIABLE: agent.url})(118.0)
    wanted = {"ProtectionEnabled": True, "ExpiresInMinutes": 2}
    assert agent.asked == [("PUT", "/task-protection/v1/state", wanted)]


@pytest.mark.parametrize("environment", [{}, {AGENT_VARIABLE: ""}, {AGENT_VARIABLE: "file:///etc/passwd"}])
def test_outside_of_ecs_nobody_is_asked_and_nothing_is_wrong(environment: dict[str, str]) -> None:
    assert protector(environment) is unprotected
    protector(environment)(60.0)


@pytest.mark.parametrize(
    ("status", "answer", "sentence"),
    [
        (200, b'{"failure": {"Reason": "DEPLOYMENT_BLOCKED"}}', "DEPLOYMENT_BLOCKED"),
        (200, b'{"error": {"Message": "no ecs:UpdateTaskProtection"}}', "no ecs:UpdateTaskProtection"),
        (500, b"", "HTTP Error 500"),
        (200, b"<html>", "was not asked"),
        (200, b"[]", "was not asked"),
    ],
)
def test_what_an_agent_says_against_it_is_told_in_a_sentence(
    agent: Agent, status: int, answer: bytes, sentence: str
) -> None:
    agent.status, agent.answer = status, answer
    with pytest.raises(Unreachable, match=sentence):
        protector({AGENT_VARIABLE: agent.url})(60.0)


def test_an_agent_that_is_not_there_is_told_in_a_sentence() -> None:
    with pytest.raises(Unreachable, match="was not asked to protect this task"):
        protector({AGENT_VARIABLE: "http://127.0.0.1:9"})(60.0)
