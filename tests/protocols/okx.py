"""OKX: closes what was silent for 30 seconds, both ways, unless a text ping was sent; three connects a second; a signed
login; a notice half a minute before it closes for an upgrade.
"""

import asyncio
import base64
import hashlib
import hmac
import json

from websockets.frames import Frame
from websockets.http11 import Request

from tests.protocols.upstream import Json, Line, Upstream, Window, is_data, wall_ms

KEY, SECRET, PASSPHRASE = "okx-key-0123456789", "okx-secret-0123456789", "okx-passphrase-0123"
SILENT_S = 30.0
UPGRADE_S = 30.0
PRIVATE = frozenset({"orders"})


class Okx(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.pongs = True
        self.cut_off = 0
        """Connections that lived until the upstream's upgrade closed them."""
        self._subscribed: dict[Line, list[Json]] = {}
        self._active_ms: dict[Line, int] = {}
        self._asked: dict[Line, Window] = {}
        self._connects = Window(3, 1.0)

    def judge(self, request: Request) -> tuple[int, str] | None:
        if not self._connects.takes():
            self.breaks("more than 3 connects in a second")
            return 429, ""
        return None

    def sees(self, line: Line, frame: Frame) -> None:
        self._active_ms[line] = wall_ms()
        if is_data(frame) and len(frame.data) > 64 << 10:
            self.breaks("a message over 64 KB")

    async def talk(self, line: Line) -> None:
        self._subscribed[line], self._active_ms[line], self._asked[line] = [], wall_ms(), Window(480, 3_600.0)
        try:
            await self.converse(line, self._watch(line), heard=lambda message: self._heard(line, message))
        finally:
            del self._subscribed[line]

    async def _heard(self, line: Line, message: Json) -> None:
        if message == "ping":
            if self.pongs:
                await line.say("pong")
            return
        if not self._asked[line].takes():
            self.breaks("more than 480 subscriptions in an hour")
        if message["op"] == "login":
            await self._login(line, message["args"][0])
            return
        for arg in message["args"]:
            if arg["channel"] in PRIVATE and not line.target.endswith("/private"):
                await self._error(line, "60018", "Wrong URL or channel")
            elif arg["channel"] in PRIVATE and {"login": True} not in self._subscribed[line]:
                await self._error(line, "60011", "Please log in")
            else:
                self._subscribed[line].append(arg)
                await line.say({"event": "subscribe", "arg": arg, "connId": "c"})

    async def _login(self, line: Line, arg: Json) -> None:
        text = f"{arg['timestamp']}GET/users/self/verify"
        signature = base64.b64encode(hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).digest()).decode()
        if abs(int(arg["timestamp"]) * 1_000 - wall_ms()) > 30_000:
            await self._error(line, "60006", "Timestamp request expired")
        elif arg["apiKey"] != KEY:
            await self._error(line, "60005", "Invalid apiKey")
        elif arg["sign"] != signature:
            await self._error(line, "60007", "Invalid sign")
        elif arg["passphrase"] != PASSPHRASE:
            await self._error(line, "60024", "Wrong passphrase")
        else:
            self._subscribed[line].append({"login": True})
            await line.say({"event": "login", "code": "0", "msg": "", "connId": "c"})

    async def _error(self, line: Line, code: str, text: str) -> None:
        await line.say({"event": "error", "code": code, "msg": text, "connId": "c"})

    async def _watch(self, line: Line) -> None:
        while True:
            await asyncio.sleep(SILENT_S + 0.1 - (wall_ms() - self._active_ms[line]) / 1_000)
            if wall_ms() - self._active_ms[line] > SILENT_S * 1_000:
                self.breaks("silent for 30 s, without a ping")
                await line.close(4004, "No data received in 30s")

    # --- for tests ----------------------------------------------------------------------------------------------------

    async def upgrade(self) -> None:
        """Tell everybody, and close them half a minute later."""
        old = list(self.lines)
        text = "The connection will soon be closed for a service upgrade. Please reconnect."
        for line in old:
            await line.say({"event": "notice", "code": "64008", "msg": text, "connId": "c"})
        await asyncio.sleep(UPGRADE_S)
        for line in old:
            if line in self.lines:
                self.cut_off += 1
                await line.close(1001, "upgrade")

    async def publish(self, channel: str, inst_id: str, *data: Json, action: str | None = None) -> None:
        for line, subscribed in list(self._subscribed.items()):
            for arg in subscribed:
                if arg.get("channel") == channel and arg.get("instId", inst_id) == inst_id:
                    self._active_ms[line] = wall_ms()
                    extra = {} if action is None else {"action": action}
                    await line.say(json.dumps({"arg": arg, **extra, "data": list(data)}))

    async def trades(self, *numbers: int, inst_id: str = "BTC-USDT") -> None:
        data = [
            {"instId": inst_id, "tradeId": str(each), "px": "1.5", "sz": "2", "ts": str(wall_ms())} for each in numbers
        ]
        await self.publish("trades", inst_id, *data)

    async def book(self, previous: int, number: int) -> None:
        update = {"bids": [], "asks": [], "ts": str(wall_ms()), "prevSeqId": previous, "seqId": number}
        await self.publish("books", "BTC-USDT", update, action="snapshot" if previous < 0 else "update")
