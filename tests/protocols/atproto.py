"""atproto's subscribeRepos: two CBOR items a frame, a cursor that is exclusive, errors in frames of their own."""

from urllib.parse import parse_qs, urlsplit

import cbor2

from tests.protocols.upstream import Json, Line, Log, Upstream

PING_EVERY_S, PONG_WITHIN_S = 30.0, 30.0
CID = bytes.fromhex("00017112200000000000000000000000000000000000000000000000000000000000000000")


def frame(header: Json, body: Json) -> bytes:
    return cbor2.dumps(header) + cbor2.dumps(body)


def commit(seq: int) -> bytes:
    body = {"seq": seq, "repo": "did:plc:a", "commit": cbor2.CBORTag(42, CID), "blocks": b"\x00\x01"}
    return frame({"op": 1, "t": "#commit"}, {**body, "time": "2027-01-15T08:00:00.000Z"})


class Repos(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.log: Log[tuple[int, bytes]] = Log()
        self.oldest = 0
        """What is numbered lower is there no more."""

    def commits(self, *numbers: int) -> None:
        """They need not be without holes."""
        self.log.add(*((number, commit(number)) for number in numbers))

    @property
    def cursors(self) -> list[int | None]:
        return [_cursor(request.path) for request in self.dialled]

    async def talk(self, line: Line) -> None:
        cursor, entries = _cursor(line.target), self.log.entries
        newest = entries[-1][0] if entries else 0
        if cursor is not None and cursor > newest:
            await line.say(frame({"op": -1}, {"error": "FutureCursor", "message": "cursor in the future"}))
            await line.close(1008, "FutureCursor")
            return
        start = len(entries)
        if cursor is not None:
            start = next((index for index, (seq, _) in enumerate(entries) if seq > max(cursor, self.oldest - 1)), start)
            if cursor + 1 < self.oldest:
                await line.say(frame({"op": 1, "t": "#info"}, {"name": "OutdatedCursor"}))
        await self.converse(line, self._stream(line, start), self.pings(line, PING_EVERY_S, PONG_WITHIN_S))

    async def _stream(self, line: Line, start: int) -> None:
        async for _, data in self.log.follow(start):
            await line.send(data)


def _cursor(target: str) -> int | None:
    found = parse_qs(urlsplit(target).query).get("cursor")
    return None if found is None else int(found[0])
