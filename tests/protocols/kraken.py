"""Kraken, version 2: a heartbeat each second in which nothing else is said, pings in JSON, snapshots at a subscription,
numbers by symbol; and one's own orders, for a token that a signed call gives.
"""

import asyncio
import base64
import hashlib
import hmac
from collections import defaultdict
from datetime import UTC, datetime
from urllib.parse import parse_qs

from websockets.http11 import Request

from tests.protocols.upstream import Call, Json, Line, Upstream, Window, wall_ms

KEY, SECRET = "kraken-key-0123456789", base64.b64encode(b"kraken-secret-0123456789").decode()
TOKEN_PATH = "/0/private/GetWebSocketsToken"
TOKEN_LIVES_MS = 15 * 60_000


class Kraken(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.last: dict[str, list[Json]] = defaultdict(list)
        self.beats = True
        self.pongs = True
        self._subscribed: dict[Line, set[tuple[str, str]]] = {}
        self._said_ms: dict[Line, int] = {}
        self._connects = Window(150, 600.0)
        self._tokens: dict[str, int] = {}
        self.nonce = 0
        self._numbers: dict[Line, int] = {}

    def judge(self, request: Request) -> tuple[int, str] | None:
        if not self._connects.takes():
            self.breaks("more than 150 connects in 10 minutes")
            return 429, ""
        return None

    async def answer(self, call: Call) -> tuple[int, Json]:
        nonce = parse_qs(call.body).get("nonce", ["0"])[0]
        digest = hashlib.sha256((nonce + call.body).encode()).digest()
        expected = hmac.new(base64.b64decode(SECRET), TOKEN_PATH.encode() + digest, hashlib.sha512).digest()
        if call.target != TOKEN_PATH or call.method != "POST" or call.headers.get("api-key") != KEY:
            return 200, {"error": ["EAPI:Invalid key"], "result": {}}
        if call.headers.get("api-sign") != base64.b64encode(expected).decode():
            return 200, {"error": ["EAPI:Invalid signature"], "result": {}}
        if int(nonce) <= self.nonce:
            return 200, {"error": ["EAPI:Invalid nonce"], "result": {}}
        self.nonce = int(nonce)
        token = f"ticket-{nonce}"
        self._tokens[token] = wall_ms() + TOKEN_LIVES_MS
        return 200, {"error": [], "result": {"token": token, "expires": 900}}

    async def talk(self, line: Line) -> None:
        self._subscribed[line], self._numbers[line] = set(), 0
        try:
            status = {"system": "online", "api_version": "v2"}
            await self._say(line, {"channel": "status", "type": "update", "data": [status]})
            await self.converse(line, self._beat(line), heard=lambda message: self._heard(line, message))
        finally:
            del self._subscribed[line]

    async def _heard(self, line: Line, message: Json) -> None:
        if message["method"] == "ping":
            if self.pongs:
                await self._say(line, {"method": "pong", "req_id": message["req_id"]})
            return
        params, echo = message["params"], {"method": message["method"], "req_id": message["req_id"]}
        channel = params["channel"]
        if channel == "executions" and self._tokens.pop(params.get("token", ""), 0) < wall_ms():
            self.breaks("a subscription without a token that is good")
            await self._say(line, {**echo, "success": False, "error": "EAPI:Invalid token"})
            return
        for symbol in params.get("symbol", [""]):
            if symbol == "NO/NE":
                await self._say(line, {**echo, "success": False, "error": "Currency pair not supported NO/NE"})
                continue
            await self._say(line, {**echo, "success": True, "result": {"channel": channel, "symbol": symbol}})
            self._subscribed[line].add((channel, symbol))
            if channel == "trade" and params.get("snapshot", True) and self.last[symbol]:
                await self._say(line, {"channel": channel, "type": "snapshot", "data": self.last[symbol][-50:]})

    async def _beat(self, line: Line) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self.beats and self._subscribed[line] and wall_ms() - self._said_ms[line] >= 1_000:
                await self._say(line, {"channel": "heartbeat"})

    async def _say(self, line: Line, message: Json) -> None:
        self._said_ms[line] = wall_ms()
        await line.say(message)

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def trades(self, *numbers: int, symbol: str = "BTC/USD") -> None:
        trades = [
            {"symbol": symbol, "trade_id": number, "price": 1.5, "qty": 2, "timestamp": iso()} for number in numbers
        ]
        self.last[symbol] += trades
        await self._publish("trade", symbol, {"channel": "trade", "type": "update", "data": trades})

    async def book(self, symbol: str = "BTC/USD") -> None:
        data = {"symbol": symbol, "bids": [], "asks": [], "checksum": 1, "timestamp": iso()}
        await self._publish("book", symbol, {"channel": "book", "type": "update", "data": [data]})

    async def executions(self, *ids: str, lost: int = 0) -> None:
        for line, subscribed in list(self._subscribed.items()):
            if ("executions", "") in subscribed:
                self._numbers[line] += 1 + lost
                data = [{"exec_id": each, "order_id": "o", "timestamp": iso()} for each in ids]
                message = {"channel": "executions", "type": "update", "sequence": self._numbers[line], "data": data}
                await self._say(line, message)

    async def _publish(self, channel: str, symbol: str, message: Json) -> None:
        for line, subscribed in list(self._subscribed.items()):
            if (channel, symbol) in subscribed:
                await self._say(line, message)


def iso() -> str:
    return datetime.fromtimestamp(wall_ms() / 1_000, UTC).isoformat().replace("+00:00", "Z")
