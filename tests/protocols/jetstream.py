"""Bluesky's Jetstream, both endpoints over one log. A cursor from 1e15 on is a time in microseconds, a lower one is
this host's number. Where a cursor is too old, the older endpoint begins later without a word; the newer one refuses it.
"""

import bisect
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from websockets.http11 import Request

from tests.protocols.upstream import Json, Line, Log, Upstream, wall_ms

REACHES_BACK_US = 36 * 3_600 * 1_000_000
PING_EVERY_S, PONG_WITHIN_S = 30.0, 30.0
OLDER, NEWER = "/subscribe", "/xrpc/network.bsky.jetstream.subscribeEvents"


@dataclass(frozen=True, slots=True)
class Event:
    seq: int
    time_us: int
    collection: str = "app.bsky.feed.post"

    def older(self) -> Json:
        commit = {"rev": f"r{self.seq}", "operation": "create", "collection": self.collection, "rkey": f"k{self.seq}"}
        return {"did": "did:plc:a", "time_us": self.time_us, "cursor": self.seq, "kind": "commit", "commit": commit}

    def newer(self) -> Json:
        time = datetime.fromtimestamp(self.time_us / 1e6, UTC).isoformat().replace("+00:00", "Z")
        payload = {"$type": "network.bsky.jetstream.subscribeEvents#commit", "seq": self.seq, "did": "did:plc:a"}
        return {"$type": "message", "payload": {**payload, "collection": self.collection, "time": time}}


class Jetstream(Upstream):
    subprotocols = ("xrpc.v1.json",)

    def __init__(self) -> None:
        super().__init__()
        self.log: Log[Event] = Log()

    def happen(self, count: int = 1, *, ago_us: int = 10_000) -> None:
        """So many events, `ago_us` before now, one microsecond apart."""
        first = len(self.log.entries) + 1
        time_us = wall_ms() * 1_000 - ago_us
        self.log.add(*(Event(first + index, time_us + index) for index in range(count)))

    @property
    def cursors(self) -> list[int | None]:
        """What each dial asked for."""
        return [_cursor(request.path) for request in self.dialled]

    def judge(self, request: Request) -> tuple[int, str] | None:
        path = urlsplit(request.path).path
        if path == OLDER:
            return None
        if path != NEWER:
            return 404, "{}"
        query = parse_qs(urlsplit(request.path).query)
        if "xrpc.v1.json" not in request.headers.get("Sec-WebSocket-Protocol", ""):
            return 400, _error("InvalidRequest", "unknown subprotocol")
        if len(query.get("collections", [])) > 100 or len(query.get("dids", [])) > 10_000:
            return 400, _error("InvalidRequest", "too many")
        cursor = _cursor(request.path)
        if cursor is not None and self._time_us(cursor) < wall_ms() * 1_000 - REACHES_BACK_US:
            return 400, _error("CursorTooOld", "the cursor is older than 36 h")
        return None

    async def talk(self, line: Line) -> None:
        is_older = urlsplit(line.target).path == OLDER
        await self.converse(line, self._stream(line, older=is_older), self.pings(line, PING_EVERY_S, PONG_WITHIN_S))

    async def _stream(self, line: Line, *, older: bool) -> None:
        query = parse_qs(urlsplit(line.target).query)
        wanted = query.get("wantedCollections" if older else "collections", [])
        async for event in self.log.follow(self._start(_cursor(line.target))):
            if not wanted or event.collection in wanted:
                await line.send(json.dumps(event.older() if older else event.newer()))

    def _start(self, cursor: int | None) -> int:
        """Inclusive; a cursor from the future is one of now."""
        entries = self.log.entries
        if cursor is None:
            return len(entries)
        oldest = bisect.bisect_left([each.time_us for each in entries], wall_ms() * 1_000 - REACHES_BACK_US)
        key = [each.time_us if cursor >= 10**15 else each.seq for each in entries]
        return max(oldest, bisect.bisect_left(key, cursor))

    def _time_us(self, cursor: int) -> int:
        if cursor >= 10**15:
            return cursor
        return next((each.time_us for each in self.log.entries if each.seq >= cursor), wall_ms() * 1_000)


def _cursor(target: str) -> int | None:
    found = parse_qs(urlsplit(target).query).get("cursor")
    return None if found is None else int(found[0])


def _error(name: str, message: str) -> str:
    return json.dumps({"error": name, "message": message})
