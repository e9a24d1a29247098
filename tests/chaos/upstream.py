"""An upstream that numbers its records and can send any of them again, so that what is missing can be counted.

`/feed/NAME?cursor=N` sends record N of that feed and everything after it; without a cursor a live-only feed sends what
is new, any other everything from the first. A record is what its number says, so none is kept.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from streamlease.dynamodb import clock

HOST = "127.0.0.1"
_PER_TURN = 500
"""So many records in a row, then others get their turn."""
_CLOSE_WITHIN_S = 1.0
"""A worker that stands still answers no close."""


def record_id(feed: str, number: int) -> str:
    return f"{feed}/{number}"


@dataclass(frozen=True, slots=True)
class Visit:
    """One socket of a feed, as the upstream saw it: opened, and closed (None: it is open). On the leases' clock."""

    feed: str
    opened_s: float
    closed_s: float | None = None


@dataclass(slots=True, eq=False)
class _Socket:
    connection: ServerConnection
    feed: str
    opened_s: float


@dataclass(slots=True)
class _Feed:
    last: int = 0
    live_only: bool = False
    published_s: list[float] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)


class Upstream:
    """Its methods are for the event loop that opened it."""

    def __init__(self, every_s: float) -> None:
        """A record of each feed comes every so many seconds, of one feed after the other."""
        self.visits: list[Visit] = []
        """Of sockets that are closed, in the order of their ends."""
        self._every_s = every_s
        self._feeds: dict[str, _Feed] = {}
        self._sockets: set[_Socket] = set()
        self._refuses = False
        self._server: Server | None = None
        self._publishing: asyncio.Task[None] | None = None

    async def open(self) -> Self:
        self._server = await serve(
            self._serve, HOST, 0, process_request=self._admit, compression=None, close_timeout=_CLOSE_WITHIN_S
        )
        return self

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"ws://{HOST}:{next(iter(self._server.sockets)).getsockname()[1]}/feed"

    async def close(self) -> None:
        await self.stop_publishing()
        assert self._server is not None
        await self.abort()
        self._server.close()
        await self._server.wait_closed()

    # --- what it has ---

    async def add(self, name: str, *, live_only: bool = False) -> None:
        self._feeds[name] = _Feed(live_only=live_only)

    async def publish(self) -> None:
        """Begin to."""
        self._publishing = asyncio.create_task(self._publish())

    async def stop_publishing(self) -> None:
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)
            self._publishing = None

    async def burst(self, name: str, count: int) -> None:
        """So many records of a feed at once."""
        for _ in range(count):
            self._one_more(self._feeds[name])

    async def published(self) -> dict[str, int]:
        """The number of each feed's last record."""
        return {name: feed.last for name, feed in self._feeds.items()}

    async def published_at_s(self, name: str, number: int) -> float:
        return self._feeds[name].published_s[number - 1]

    async def connected(self) -> set[str]:
        """The feeds somebody is connected to."""
        return {socket.feed for socket in self._sockets}

    async def all_visits(self) -> list[Visit]:
        """Also those that last."""
        return [*self.visits, *(Visit(socket.feed, socket.opened_s) for socket in self._sockets)]

    # --- how it misbehaves ---

    async def abort(self, feeds: Iterable[str] | None = None) -> int:
        """Reset the sockets of these feeds (None: of all). How many there were."""
        sockets = self._chosen(feeds)
        for socket in sockets:
            socket.connection.transport.abort()
        return len(sockets)

    async def hang_up(self, feeds: Iterable[str], code: int) -> int:
        """Close the sockets of these feeds as a server does that is restarted. How many there were."""
        sockets = self._chosen(feeds)
        await asyncio.gather(*(socket.connection.close(code) for socket in sockets), return_exceptions=True)
        return len(sockets)

    async def refuse(self, refuses: bool) -> None:
        """Whether new sockets get 503."""
        self._refuses = refuses

    # --- how it works ---

    def _chosen(self, feeds: Iterable[str] | None) -> list[_Socket]:
        names = None if feeds is None else frozenset(feeds)
        return [socket for socket in self._sockets if names is None or socket.feed in names]

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if self._refuses:
            return connection.respond(503, "not now\n")
        if urlsplit(request.path).path.rpartition("/")[2] not in self._feeds:
            return connection.respond(404, "no such feed\n")
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        url = urlsplit(connection.request.path)
        name = url.path.rpartition("/")[2]
        cursor = parse_qs(url.query).get("cursor")
        socket = _Socket(connection, name, clock.monotonic_s())
        self._sockets.add(socket)
        sending = asyncio.create_task(self._send(connection, self._feeds[name], cursor))
        try:
            await connection.wait_closed()
        finally:
            self._sockets.discard(socket)
            self.visits.append(Visit(name, socket.opened_s, clock.monotonic_s()))
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, connection: ServerConnection, feed: _Feed, cursor: list[str] | None) -> None:
        name = urlsplit(connection.request.path if connection.request else "").path.rpartition("/")[2]
        number = max(1, int(cursor[0])) if cursor else feed.last + 1 if feed.live_only else 1
        with contextlib.suppress(ConnectionClosed):
            while True:
                for _ in range(_PER_TURN):
                    if number > feed.last:
                        break
                    await connection.send(_message(name, number))
                    number += 1
                else:
                    await asyncio.sleep(0)
                    continue
                feed.more.clear()
                await feed.more.wait()

    async def _publish(self) -> None:
        began_s, turns = time.monotonic(), 0
        while True:
            for index, feed in enumerate(self._feeds.values()):
                if index % 10 == turns % 10:
                    self._one_more(feed)
            turns += 1
            await asyncio.sleep(max(0.0, began_s + turns * self._every_s / 10 - time.monotonic()))

    def _one_more(self, feed: _Feed) -> None:
        feed.last += 1
        feed.published_s.append(clock.monotonic_s())
        feed.more.set()


def _message(feed: str, number: int) -> str:
    return json.dumps({"seq": number, "id": record_id(feed, number)})
