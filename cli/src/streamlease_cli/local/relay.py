"""The demo's upstream: nostr-relay, a third party's WebSocket server, with SQLite and one process.

How it behaves, as seen with 1.14: a subscription (`REQ`) is answered with the stored events that match, newest first
and cut short at `max_limit` without a word, then `EOSE`, then events as they get stored. `since` is inclusive, in whole
seconds. A subscription counts from before its query runs, so an event can come twice, and before `EOSE`. A new event is
matched against every subscription: with 200 of them, 40 events a second cost 12 % of a core, and 340 are the most.
"""

import http.client
import json
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from streamlease_cli.local.checkout import Checkout, clean_environment
from streamlease_cli.local.process import Command, Process, free_port

_READY_WITHIN_S = 60.0
_HOST = "127.0.0.1"
_STORED_AT_MOST = 1_000_000  # in one answer; its default of 6,000 would cut a long replay short


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as the relay keeps it. `created_at_s` is the author's clock."""

    event_id: str
    author: str
    created_at_s: int


@dataclass(frozen=True, slots=True)
class Relay:
    """A running relay. A context manager: leaving it ends it and removes its database."""

    process: Process
    port: int
    database: Path

    @property
    def url(self) -> str:
        return f"ws://{_HOST}:{self.port}/"

    def stored(self) -> list[StoredEvent]:
        """Every event in its own database, oldest first: what a subscriber must get. Only while it runs."""
        # Read only: nothing here can change what is measured.
        with closing(sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True)) as database:
            rows = database.execute("SELECT lower(hex(id)), lower(hex(pubkey)), created_at FROM events ORDER BY 3, 1")
            return [StoredEvent(*row) for row in rows]

    def when_ready(self) -> Self:
        """Returns once it answers (about two seconds after its launch). Raises LocalFault if it does not come up."""
        self.process.wait_until(lambda: _answers(self.port), _READY_WITHIN_S)
        return self

    def stop(self) -> None:
        self.process.stop(within_s=5.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_relay(checkout: Checkout, log: Path) -> Relay:
    """Starts it with an empty database, and returns once it answers. Raises LocalFault if it does not come up."""
    relay = launch_relay(checkout, log)
    try:
        return relay.when_ready()
    except BaseException:
        relay.stop()
        raise


def launch_relay(checkout: Checkout, log: Path) -> Relay:
    """Starts it with an empty database, and does not wait for it. Raises LocalFault if it cannot be started at all."""
    program = checkout.tool("relay", "nostr-relay")
    folder = Path(tempfile.mkdtemp(prefix="streamlease-relay-"))
    port = free_port()
    database = folder / "events.sqlite3"
    configuration = folder / "config.yaml"
    configuration.write_text(json.dumps(_configuration(port, database)))  # JSON is YAML
    # One process: gunicorn and its own server would each add a second.
    arguments = [str(program), "--config", str(configuration), "serve", "--use-uvicorn"]
    environment = clean_environment({})
    process = Process(Command("the relay", arguments, environment, folder, log, remove=[folder]))
    return Relay(process, port, database.resolve())


def _configuration(port: int, database: Path) -> dict[str, object]:
    return {
        "relay_name": "upstream of the demo",
        "storage": {
            "sqlalchemy.url": f"sqlite+aiosqlite:///{database}",
            "num_concurrent_reqs": 10,
            "num_concurrent_adds": 2,
            "validators": [f"nostr_relay.validators.{name}" for name in ("is_not_too_large", "is_signed", "is_recent")],
        },
        "gunicorn": {"bind": f"{_HOST}:{port}", "workers": 1, "loglevel": "warning"},  # uvicorn reads it too
        "authentication": {"enabled": False},
        "max_limit": _STORED_AT_MOST,
        "message_timeout": 86_400,  # a subscriber that only listens stays
        "logging": {
            "version": 1,
            "handlers": {"console": {"class": "logging.StreamHandler", "level": "WARNING"}},
            "root": {"level": "WARNING", "handlers": ["console"]},
        },
    }


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(_HOST, port, timeout=2)
    try:
        connection.request("GET", "/", headers={"Accept": "application/nostr+json"})
        return "supported_nips" in json.load(connection.getresponse())
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()
