"""A service on loopback that answers as it is told: errors, silence, resets, nonsense. Speaks HTTP, as AWS does."""

import contextlib
import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Reply:
    body: Mapping[str, object] | bytes = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def error(code: str, status: int = 400, **more: object) -> Reply:
    """An error as DynamoDB's and SQS's JSON protocols have it."""
    return Reply({"__type": f"com.amazonaws.any#{code}", "message": "no", **more}, status)


@dataclass(frozen=True, slots=True)
class Silence:
    """The request is taken and never answered."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is torn down where the answer was due."""


@dataclass(slots=True)
class Service:
    """What it answers next, and then for ever `otherwise`; `asked` is which operations came, with their parameters."""

    endpoint: str
    otherwise: Reply | Silence | Reset = field(default_factory=Reply)
    next: deque[Reply | Silence | Reset] = field(default_factory=deque)
    asked: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)

    def reset(self) -> None:
        """As new."""
        self.otherwise = Reply()
        self.next.clear()
        self.asked.clear()

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.asked]


@contextlib.contextmanager
def service() -> Iterator[Service]:
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.asked.append((self.headers["X-Amz-Target"].rpartition(".")[2], json.loads(body)))
            reply = told.next.popleft() if told.next else told.otherwise
            match reply:
                case Silence():
                    over.wait()
                    self.close_connection = True
                case Reset():
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                case Reply():
                    self._reply(reply)

        def _reply(self, reply: Reply) -> None:
            payload = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response_only(reply.status)
            for name, value in {"Content-Type": "application/x-amz-json-1.0", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base's name
            """Nothing: what was asked is kept."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        told = Service(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield told
        finally:
            over.set()
            server.shutdown()
            thread.join()
