"""Slack's Socket Mode: a call gives a URL for each connection; envelopes come again until they are acknowledged, on any
connection of the app, of which there are ten at most; goodbyes say why.
"""

import asyncio
from urllib.parse import parse_qs, urlsplit

from websockets.http11 import Request

from tests.protocols.upstream import Call, Json, Line, Upstream, Window

APP_TOKEN = "xapp-slack-0123456789"
ACKNOWLEDGE_WITHIN_S = 3.0
MOST_SOCKETS = 10


class Slack(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: list[str] = []
        self.redelivered: list[str] = []
        self._waiting: dict[str, asyncio.Event] = {}
        self._tickets: set[str] = set()
        self._given = 0
        self._opens = Window(50, 60.0)
        self._turn = 0

    async def answer(self, call: Call) -> tuple[int, Json]:
        if (call.method, call.target) != ("POST", "/api/apps.connections.open"):
            return 404, {}
        if not self._opens.takes():
            self.breaks("more than 50 calls in a minute")
            return 429, {"ok": False, "error": "ratelimited"}
        if call.headers.get("authorization") != f"Bearer {APP_TOKEN}":
            return 200, {"ok": False, "error": "invalid_auth"}
        self._given += 1
        self._tickets.add(f"t{self._given}")
        return 200, {"ok": True, "url": f"{self.origin}/link/?ticket=t{self._given}&app_id=a"}

    def judge(self, request: Request) -> tuple[int, str] | None:
        ticket = parse_qs(urlsplit(request.path).query).get("ticket", [""])[0]
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            return None
        self.breaks("dialled with a ticket that was used, or is none")
        return 404, ""

    async def talk(self, line: Line) -> None:
        if len(self.lines) > MOST_SOCKETS:
            await line.say({"type": "disconnect", "reason": "too_many_websockets"})
            return
        await line.say({"type": "hello", "num_connections": len(self.lines), "connection_info": {"app_id": "a"}})
        await self.converse(line, self.pings(line, 30.0, 10.0), heard=self._heard)

    async def _heard(self, message: Json) -> None:
        if set(message) - {"envelope_id", "payload"}:
            self.breaks(f"sent {message}")
        self.acknowledged.append(message["envelope_id"])
        if (waiting := self._waiting.pop(message["envelope_id"], None)) is not None:
            waiting.set()

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def event(self, envelope_id: str, text: str = "hello") -> None:
        """To one of the connections, in turn; again where it is not acknowledged in time."""
        done = self._waiting[envelope_id] = asyncio.Event()
        payload = {"type": "event_callback", "event": {"type": "message", "text": text}}
        for attempt in range(20):
            if self.lines:
                self._turn += 1
                why = {"retry_attempt": attempt, "retry_reason": "timeout"} if attempt else {"retry_attempt": 0}
                envelope = {"type": "events_api", "envelope_id": envelope_id, "payload": payload, **why}
                await self.lines[self._turn % len(self.lines)].say({**envelope, "accepts_response_payload": False})
                if attempt:
                    self.redelivered.append(envelope_id)
            try:
                await asyncio.wait_for(done.wait(), ACKNOWLEDGE_WITHIN_S)
                return
            except TimeoutError:
                continue
        self.breaks(f"{envelope_id} was never acknowledged")

    async def goodbye(self, reason: str) -> None:
        """To all; what stays is closed ten seconds later."""
        old = list(self.lines)
        for line in old:
            await line.say({"type": "disconnect", "reason": reason, "debug_info": {}})
        await asyncio.sleep(10)
        for line in old:
            await line.close(1000)
