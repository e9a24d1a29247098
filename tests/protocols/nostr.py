"""A Nostr relay: stored events newest first and no more than its limit, then EOSE, then what is new. Its NIP-11
document says what it takes.
"""

import asyncio
import hashlib
import json

from tests.protocols.upstream import Call, Json, Line, Log, Upstream, wall_ms

MOST_STORED = 500
MOST_MESSAGE = 64 << 10


class Relay(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.log: Log[Json] = Log()
        self.wants_authentication = False
        self.since: list[int | None] = []
        self.cut_after: int | None = None
        """The next replay is lost after so many events."""

    async def answer(self, call: Call) -> tuple[int, Json]:
        """NIP-11."""
        return 200, {"limitation": {"max_limit": MOST_STORED, "max_message_length": MOST_MESSAGE}}

    async def talk(self, line: Line) -> None:
        if self.wants_authentication:
            await line.say(["AUTH", "challenge"])
        request = await line.hear(30.0)
        if not isinstance(request, list) or request[0] != "REQ":
            self.breaks(f"sent {request!r}")
            return
        _, name, wanted = request
        if self.wants_authentication:
            await line.say(["CLOSED", name, "auth-required: we only serve members"])
            await self.converse(line)
            return
        self.since.append(wanted.get("since"))
        end = len(self.log.entries)
        found = [each for each in self.log.entries if _fits(each, wanted)]
        found.sort(key=lambda each: -each["created_at"])
        cut_after, self.cut_after = self.cut_after, None
        for event in found[: min(wanted.get("limit", MOST_STORED), MOST_STORED)][:cut_after]:
            await line.send(json.dumps(["EVENT", name, event]))
        if cut_after is not None:
            await asyncio.sleep(1)
            line.transport.abort()
            return
        await line.send(json.dumps(["EOSE", name]))
        await self.converse(line, self._stream(line, name, wanted, end))

    async def _stream(self, line: Line, name: str, wanted: Json, start: int) -> None:
        async for event in self.log.follow(start):
            if _fits(event, wanted):
                await line.send(json.dumps(["EVENT", name, event]))

    # --- for tests ----------------------------------------------------------------------------------------------------

    def notes(self, *texts: str, topic: str = "bitcoin", at_s: int | None = None) -> None:
        """Dated now, unless their author says something else."""
        for text in texts:
            created_at = wall_ms() // 1_000 if at_s is None else at_s
            event_id = hashlib.sha256(f"{text} {created_at}".encode()).hexdigest()
            note = {"id": event_id, "kind": 1, "created_at": created_at, "content": text, "tags": [["t", topic]]}
            self.log.add(note)


def _fits(event: Json, wanted: Json) -> bool:
    topics = {tag[1] for tag in event["tags"] if tag[0] == "t"}
    return (
        event["kind"] in wanted["kinds"]
        and not topics.isdisjoint(wanted["#t"])
        and event["created_at"] >= (wanted.get("since") or 0)
    )
