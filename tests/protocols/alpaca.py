"""Alpaca's stock data: lists of messages, authentication within ten seconds, one connection an account."""

import asyncio
import json

from tests.protocols.upstream import Json, Line, Upstream, wall_ms

KEY, SECRET = "alpaca-key-0123456789", "alpaca-secret-0123456789"
AUTHENTICATE_WITHIN_S = 10.0


class Alpaca(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.most_open = 0
        self._streams: dict[Line, set[str]] = {}

    async def talk(self, line: Line) -> None:
        self.most_open = max(self.most_open, len(self.lines))
        await line.say([{"T": "success", "msg": "connected"}])
        try:
            message = await line.hear(AUTHENTICATE_WITHIN_S)
        except TimeoutError:
            self.breaks("no authentication within 10 s")
            await self._error(line, 404, "auth timeout")
            return
        if (message["action"], message["key"], message["secret"]) != ("auth", KEY, SECRET):
            await self._error(line, 402, "auth failed")
            return
        if self._streams:
            await self._error(line, 406, "connection limit exceeded")
            return
        self._streams[line] = set()
        try:
            await line.say([{"T": "success", "msg": "authenticated"}])
            await self.converse(line, heard=lambda message: self._heard(line, message))
        finally:
            await line.wait_closed()
            del self._streams[line]

    async def _heard(self, line: Line, message: Json) -> None:
        if message["action"] != "subscribe":
            await self._error(line, 400, "invalid syntax")
        elif "PAID" in message["trades"]:
            await self._error(line, 409, "insufficient subscription")
        else:
            self._streams[line].update(message["trades"])
            await line.say([{"T": "subscription", "trades": sorted(self._streams[line]), "quotes": [], "bars": []}])

    async def _error(self, line: Line, code: int, text: str) -> None:
        await line.say([{"T": "error", "code": code, "msg": text}])
        await asyncio.sleep(0.1)

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def trades(self, *numbers: int, symbol: str = "AAPL") -> None:
        time = f"2027-01-15T08:00:{wall_ms() % 60_000 / 1_000:06.3f}456Z"
        trades = [{"T": "t", "S": symbol, "i": each, "x": "V", "p": 1.5, "s": 2, "t": time} for each in numbers]
        for line, symbols in list(self._streams.items()):
            if symbol in symbols:
                await line.say(json.dumps(trades))

    async def too_slow(self) -> None:
        for line in list(self._streams):
            await self._error(line, 407, "slow client")
            await line.close(1008, "slow client")
