"""Binance spot: streams by subscription, five messages a second from the client, pings and pongs counted, a socket's
life of 24 hours, announced shortly before its end.
"""

import asyncio

from websockets.frames import Frame, Opcode
from websockets.http11 import Request

from tests.protocols.upstream import Json, Line, Upstream, Window, wall_ms

MESSAGES_A_SECOND = 5
MOST_STREAMS = 1_024
LIFE_S = 24 * 3_600.0
WARNING_S = 600.0
KINDS = ("trade", "depth")


class Binance(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.ping_every_s = 20.0
        self.died = 0
        """Sockets that lived until the upstream closed them."""
        self.most_open = 0
        self._streams: dict[Line, set[str]] = {}
        self._inbound: dict[Line, Window] = {}
        self._connects = Window(300, 300.0)

    def judge(self, request: Request) -> tuple[int, str] | None:
        if not self._connects.takes():
            self.breaks("more than 300 connects in 5 minutes")
            return 429, ""
        return None

    def sees(self, line: Line, frame: Frame) -> None:
        window = self._inbound.setdefault(line, Window(MESSAGES_A_SECOND, 1.0))
        if frame.opcode is not Opcode.CLOSE and not window.takes():
            self.breaks("more than 5 messages in a second, pings and pongs counted")

    async def talk(self, line: Line) -> None:
        self._streams[line] = set()
        self.most_open = max(self.most_open, len(self.lines))
        try:
            await self.converse(
                line,
                self.pings(line, self.ping_every_s, 60.0),
                self._life(line),
                heard=lambda message: self._heard(line, message),
            )
        finally:
            del self._streams[line]

    async def _heard(self, line: Line, message: Json) -> None:
        names, streams = message["params"], self._streams[line]
        if message["method"] != "SUBSCRIBE" or any(name.partition("@")[2] not in KINDS for name in names):
            await line.say({"error": {"code": 2, "msg": "Invalid request"}, "id": message["id"]})
            return
        streams.update(names)
        if len(streams) > MOST_STREAMS:
            self.breaks("more than 1024 streams")
        await line.say({"result": None, "id": message["id"]})

    async def _life(self, line: Line) -> None:
        await asyncio.sleep(LIFE_S - WARNING_S)
        await self.shut_down_soon(line)
        await asyncio.sleep(WARNING_S)
        self.died += 1
        await line.close(1008, "24 hours are over")

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def shut_down_soon(self, line: Line) -> None:
        await line.say({"stream": "!serverShutdown", "data": {"e": "serverShutdown", "E": wall_ms()}})

    async def trades(self, *numbers: int, symbol: str = "btcusdt") -> None:
        for number in numbers:
            data = {
                "e": "trade",
                "E": wall_ms(),
                "s": symbol.upper(),
                "t": number,
                "p": "1.5",
                "q": "2",
                "T": wall_ms(),
            }
            await self._publish(f"{symbol}@trade", data)

    async def depth(self, first: int, last: int, symbol: str = "btcusdt") -> None:
        data = {"e": "depthUpdate", "E": wall_ms(), "s": symbol.upper(), "U": first, "u": last, "b": [], "a": []}
        await self._publish(f"{symbol}@depth", data)

    async def _publish(self, stream: str, data: Json) -> None:
        for line, streams in list(self._streams.items()):
            if stream in streams:
                await line.say({"stream": stream, "data": data})
