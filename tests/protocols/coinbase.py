"""Coinbase Advanced Trade: a subscription within five seconds, one channel a message, each with a token of its own; all
that a socket is told is numbered from 0; a channel without news closes unless there are heartbeats.
"""

import asyncio
from datetime import UTC, datetime

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.http11 import Request

from tests.protocols.upstream import Json, Line, Upstream, Window, wall_ms

NAME = "organizations/o/apiKeys/k-0123456789"
SUBSCRIBE_WITHIN_S = 5.0
SPARSE_S = 75.0
TOKEN_S = 120


class Coinbase(Upstream):
    def __init__(self) -> None:
        super().__init__()
        key = ec.generate_private_key(ec.SECP256R1())
        self.key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        self._public = key.public_key()
        self._nonces: set[str] = set()
        self._channels: dict[Line, dict[str, Json]] = {}
        self._numbers: dict[Line, int] = {}
        self._news_ms: dict[Line, int] = {}
        self._connects = Window(8, 1.0)
        self.last: list[Json] = []
        """The trades of a snapshot."""

    def judge(self, request: Request) -> tuple[int, str] | None:
        if self._connects.takes():
            return None
        self.breaks("more than 8 connects in a second")
        return 429, ""

    async def talk(self, line: Line) -> None:
        self._channels[line], self._numbers[line], self._news_ms[line] = {}, 0, wall_ms()
        try:
            await self.converse(line, self._watch(line), self._beats(line), heard=lambda m: self._heard(line, m))
        finally:
            for kept in (self._channels, self._numbers, self._news_ms):
                kept.pop(line)

    async def _heard(self, line: Line, message: Json) -> None:
        problem = self._problem(message.get("jwt", ""))
        if problem is not None:
            await line.say({"type": "error", "message": f"authentication failure: {problem}"})
            await line.close(1008, "authentication failure")
            return
        if message["type"] != "subscribe" or not isinstance(message.get("channel"), str):
            self.breaks(f"one channel a message, not {message['type']} {message.get('channel')}")
            return
        channels, channel = self._channels[line], message["channel"]
        channels[channel] = message.get("product_ids", [])
        if channel == "market_trades" and self.last:
            await self._say(line, channel, [{"type": "snapshot", "trades": self.last}])
        await self._say(line, "subscriptions", [{"subscriptions": channels}])

    def _problem(self, token: str) -> str | None:
        """Of a token; the clock is the fixture's."""
        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(token, self._public, ["ES256"], options={"verify_exp": False, "verify_nbf": False})
        except jwt.PyJWTError as error:
            return str(error)
        now_s = wall_ms() // 1_000
        if header.get("kid") != NAME or claims["sub"] != NAME or claims["iss"] != "cdp":
            return "it is somebody else's"
        if not claims["nbf"] <= now_s < claims["exp"] <= claims["nbf"] + TOKEN_S:
            return "it is not good now, or for too long"
        if header["nonce"] in self._nonces:
            self.breaks("a token was used twice")
        self._nonces.add(header["nonce"])
        return None

    async def _watch(self, line: Line) -> None:
        await asyncio.sleep(SUBSCRIBE_WITHIN_S)
        if not self._channels[line]:
            self.breaks("no subscription within 5 s")
            await line.close(1008, "no subscribe")
        while True:
            await asyncio.sleep(SPARSE_S + 0.1 - (wall_ms() - self._news_ms[line]) / 1_000)
            if wall_ms() - self._news_ms[line] > SPARSE_S * 1_000:
                self.breaks("a channel without news, and no heartbeats")
                await line.close(1000, "idle")

    async def _beats(self, line: Line) -> None:
        counter = 0
        while True:
            await asyncio.sleep(1.0)
            if "heartbeats" in self._channels[line]:
                counter += 1
                await self._say(line, "heartbeats", [{"heartbeat_counter": counter}])

    async def _say(self, line: Line, channel: str, events: list[Json]) -> None:
        number, self._numbers[line] = self._numbers[line], self._numbers[line] + 1
        self._news_ms[line] = wall_ms()
        await line.say({"channel": channel, "timestamp": iso(), "sequence_num": number, "events": events})

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def trades(self, *numbers: int, product: str = "BTC-USD") -> None:
        trades = [trade(number, product) for number in numbers]
        self.last = [*trades, *self.last][:3]
        for line, channels in list(self._channels.items()):
            if product in channels.get("market_trades", []):
                await self._say(line, "market_trades", [{"type": "update", "trades": trades}])

    def lose_one(self) -> None:
        """A message to everybody that never arrives."""
        for line in self._numbers:
            self._numbers[line] += 1


def trade(number: int, product: str = "BTC-USD") -> Json:
    return {"trade_id": str(number), "product_id": product, "price": "1.5", "size": "2", "side": "BUY", "time": iso()}


def iso() -> str:
    return datetime.fromtimestamp(wall_ms() / 1_000, UTC).isoformat().replace("+00:00", "Z")
