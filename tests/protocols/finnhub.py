"""Finnhub: a token in the URL, one socket a key, subscriptions by symbol, a ping in JSON when nobody trades."""

import asyncio
from urllib.parse import parse_qs, urlsplit

from websockets.http11 import Request

from tests.protocols.upstream import Json, Line, Upstream, wall_ms

TOKEN = "finnhub-token-0123456789"
MOST_SYMBOLS = 50
PING_EVERY_S = 60.0


def trade(symbol: str, price: float, *, at_ms: int | None = None) -> dict[str, Json]:
    return {"s": symbol, "p": price, "t": wall_ms() if at_ms is None else at_ms, "v": 1.0, "c": ["1"]}


class Finnhub(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.symbols: dict[Line, set[str]] = {}

    def judge(self, request: Request) -> tuple[int, str] | None:
        if parse_qs(urlsplit(request.path).query).get("token") != [TOKEN]:
            return 401, "Invalid API key"
        return (429, "Too many connections") if self.lines else None

    async def talk(self, line: Line) -> None:
        symbols = self.symbols[line] = set()
        try:
            await self.converse(line, self._pings(line), heard=lambda message: self._heard(line, symbols, message))
        finally:
            del self.symbols[line]

    async def _heard(self, line: Line, symbols: set[str], message: Json) -> None:
        if not isinstance(message, dict) or message.get("type") not in ("subscribe", "unsubscribe"):
            self.breaks(f"finnhub got {message!r}")
        elif message["symbol"] == "" or len(symbols) >= MOST_SYMBOLS:
            await line.say({"type": "error", "msg": "Subscribing to too many symbols"})
        else:
            symbols.add(message["symbol"])

    async def _pings(self, line: Line) -> None:
        while True:
            await asyncio.sleep(PING_EVERY_S)
            await line.say({"type": "ping"})

    async def trades(self, *trades: dict[str, Json]) -> None:
        for line, symbols in list(self.symbols.items()):
            wanted = [each for each in trades if each["s"] in symbols]
            if wanted:
                await line.say({"type": "trade", "data": wanted})
