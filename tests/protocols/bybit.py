"""Bybit, version 5: a ping in JSON at least every 20 seconds or so, a signed login that is good for some seconds, books
whose number 1 begins anew.
"""

import asyncio
import hashlib
import hmac
from urllib.parse import parse_qs, urlsplit

from websockets.http11 import Request

from tests.protocols.upstream import Json, Line, Upstream, Window, wall_ms

KEY, SECRET = "bybit-key-0123456789", "bybit-secret-0123456789"
PING_WITHIN_S = 30.0


class Bybit(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.pongs = True
        self._topics: dict[Line, set[str]] = {}
        self._pinged_ms: dict[Line, int] = {}
        self._known: set[Line] = set()
        self._signatures: set[str] = set()
        self._connects = Window(500, 300.0)

    def judge(self, request: Request) -> tuple[int, str] | None:
        if not self._connects.takes():
            self.breaks("more than 500 connects in 5 minutes")
            return 403, ""
        parts = urlsplit(request.path)
        active = parse_qs(parts.query).get("max_active_time", ["180s"])[0]
        if not active.endswith("s") or not 30 <= int(active[:-1]) <= 600:
            self.breaks(f"max_active_time is {active}")
        return None if parts.path in ("/v5/public/spot", "/v5/private") else (404, "")

    async def talk(self, line: Line) -> None:
        self._topics[line], self._pinged_ms[line] = set(), wall_ms()
        try:
            await self.converse(line, self._watch(line), heard=lambda message: self._heard(line, message))
        finally:
            del self._topics[line]

    async def _heard(self, line: Line, message: Json) -> None:
        is_private, echo = "/private" in line.target, {"req_id": message["req_id"], "conn_id": "c"}
        match message["op"]:
            case "ping":
                self._pinged_ms[line] = wall_ms()
                public = {"success": True, "ret_msg": "pong", "op": "ping"}
                if self.pongs:
                    await line.say({**echo, **({"op": "pong", "args": [str(wall_ms())]} if is_private else public)})
            case "auth":
                problem = self._problem(*message["args"])
                await line.say({**echo, "op": "auth", "success": problem is None, "ret_msg": problem or ""})
                if problem is None:
                    self._known.add(line)
            case "subscribe":
                good = is_private == (line in self._known) and not any("NONE" in each for each in message["args"])
                await line.say(
                    {**echo, "op": "subscribe", "success": good, "ret_msg": "" if good else "error:not found"}
                )
                if good:
                    self._topics[line].update(message["args"])

    def _problem(self, key: str, expires: object, signature: str) -> str | None:
        if not isinstance(expires, int) or expires <= wall_ms():
            return "Params Error: expired"
        expected = hmac.new(SECRET.encode(), f"GET/realtime{expires}".encode(), hashlib.sha256).hexdigest()
        if signature in self._signatures:
            self.breaks("a signature was used twice")
        self._signatures.add(signature)
        return None if (key, signature) == (KEY, expected) else "Your api key is invalid."

    async def _watch(self, line: Line) -> None:
        while True:
            await asyncio.sleep(PING_WITHIN_S + 0.1 - (wall_ms() - self._pinged_ms[line]) / 1_000)
            if wall_ms() - self._pinged_ms[line] > PING_WITHIN_S * 1_000:
                self.breaks("no ping for 30 s")
                await line.close(1000, "idle")

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def publish(self, topic: str, data: Json, kind: str = "snapshot") -> None:
        for line, topics in list(self._topics.items()):
            if topic in topics:
                await line.say({"topic": topic, "type": kind, "ts": wall_ms(), "data": data})

    async def trades(self, *ids: str, symbol: str = "BTCUSDT") -> None:
        data = [{"T": wall_ms(), "s": symbol, "S": "Buy", "v": "2", "p": "1.5", "i": each, "BT": False} for each in ids]
        await self.publish(f"publicTrade.{symbol}", data)

    async def book(self, number: int, kind: str = "delta", symbol: str = "BTCUSDT") -> None:
        await self.publish(f"orderbook.50.{symbol}", {"s": symbol, "b": [], "a": [], "u": number}, kind)
