"""Discord's gateway: Hello names the heartbeat's interval, a session is resumed at its own URL with its last number, a
beat without its answer is a dead socket, 1000 and 1001 end the session, identifying is limited by the day.
"""

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from websockets.frames import Frame
from websockets.http11 import Request

from tests.protocols.upstream import Call, Json, Line, Log, Upstream, Window, is_data, wall_ms

TOKEN = "discord-token-0123456789"  # nobody's
INTERVAL_MS = 45_000
IDENTIFY_WITHIN_S = 60.0


@dataclass(slots=True)
class Session:
    """Dispatches are numbered from 1."""

    dispatches: Log[Json] = field(default_factory=Log)
    alive: bool = True


class Discord(Upstream):
    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Session] = {}
        self.answers = True
        """Whether beats are."""
        self.beats: list[Json] = []
        """What they said they had."""
        self.drops_resumes = False
        self.identified: list[int] = []
        self.resumed: list[Json] = []
        self._of_line: dict[Line, str] = {}
        self._starts: dict[Line, int] = {}
        self._sent: dict[Line, Window] = {}
        self._identifies = Window(1_000, 86_400.0)

    async def answer(self, call: Call) -> tuple[int, Json]:
        return (200, {"url": self.origin}) if call.target == "/api/v10/gateway" else (404, {})

    def judge(self, request: Request) -> tuple[int, str] | None:
        query = parse_qs(urlsplit(request.path).query)
        if (query.get("v"), query.get("encoding")) != (["10"], ["json"]):
            self.breaks(f"dialled {request.path}, without version or encoding")
        return None

    def sees(self, line: Line, frame: Frame) -> None:
        if is_data(frame) and (len(frame.data) > 4_096 or not self._sent.setdefault(line, Window(120, 60.0)).takes()):
            self.breaks("a message over 4,096 bytes, or more than 120 in a minute")

    async def talk(self, line: Line) -> None:
        await line.say({"op": 10, "d": {"heartbeat_interval": INTERVAL_MS}})
        beaten_ms, streaming = wall_ms(), asyncio.Event()

        async def heard(message: Json) -> None:
            nonlocal beaten_ms
            match message["op"]:
                case 1:
                    beaten_ms = wall_ms()
                    self.beats.append(message["d"])
                    if self.answers:
                        await line.say({"op": 11})
                case 2:
                    await self._identify(line, message["d"])
                    streaming.set()
                case 6:
                    await self._resume(line, message["d"])
                    streaming.set()
                case op:
                    self.breaks(f"sent op {op}")

        async def stream() -> None:
            async with asyncio.timeout(IDENTIFY_WITHIN_S):
                await streaming.wait()
            start = self._starts.pop(line, None)
            if start is None:
                return
            async for dispatch in self.sessions[self._of_line[line]].dispatches.follow(start):
                await line.send(json.dumps(dispatch))

        async def watch() -> None:
            while True:
                await asyncio.sleep((INTERVAL_MS * 1.25 - (wall_ms() - beaten_ms)) / 1_000 + 0.1)
                if wall_ms() - beaten_ms > INTERVAL_MS * 1.25:
                    self.breaks("no heartbeat in time")
                    await line.close(4009, "Session timed out")

        try:
            await self.converse(line, stream(), watch(), heard=heard)
        finally:
            received, session_id = line.protocol.close_rcvd, self._of_line.pop(line, None)
            if received is not None and received.code in (1000, 1001) and session_id is not None:
                self.sessions[session_id].alive = False

    async def _identify(self, line: Line, d: Json) -> None:
        if d["token"] != TOKEN:
            await line.close(4004, "Authentication failed.")
            return
        if not isinstance(d.get("intents"), int):
            await line.close(4013, "Invalid intent(s).")
            return
        if not self._identifies.takes():
            self.breaks("identified more than 1,000 times in a day")
        self.identified.append(wall_ms())
        session_id = secrets.token_hex(8)
        session = self.sessions[session_id] = Session()
        self._of_line[line], self._starts[line] = session_id, 0
        self.dispatch("READY", {"session_id": session_id, "resume_gateway_url": f"{self.origin}/resume"}, session)

    async def _resume(self, line: Line, d: Json) -> None:
        if urlsplit(line.target).path != "/resume":
            self.breaks("resumed at another URL than the session's own")
        if d["token"] != TOKEN:
            await line.close(4004, "Authentication failed.")
            return
        self.resumed.append(d["seq"])
        if self.drops_resumes:
            line.transport.abort()
            return
        session = self.sessions.get(d["session_id"])
        if session is None or not session.alive:
            await line.say({"op": 9, "d": False})
            return
        if not 0 <= d["seq"] <= len(session.dispatches.entries):
            await line.close(4007, "Invalid seq.")
            return
        self._of_line[line], self._starts[line] = d["session_id"], d["seq"]
        self.dispatch("RESUMED", {}, session)

    # --- for tests ----------------------------------------------------------------------------------------------------

    def dispatch(self, kind: str, data: Json, session: Session | None = None) -> None:
        """To one session, or to all that live, whether or not somebody listens."""
        for each in [session] if session else [each for each in self.sessions.values() if each.alive]:
            each.dispatches.add({"op": 0, "t": kind, "s": len(each.dispatches.entries) + 1, "d": data})

    def messages(self, *texts: str) -> None:
        for text in texts:
            self.dispatch("MESSAGE_CREATE", {"content": text})

    def end_sessions(self) -> None:
        for session in self.sessions.values():
            session.alive = False
