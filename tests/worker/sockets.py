"""An upstream in memory: sockets that the test feeds and ends, for a runner in virtual time."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from streamlease.feed.events import Closed, Dial, Fetch, Fetched
from streamlease_worker.fetch import Unfetched
from streamlease_worker.transport import Socket, SocketEnded


class FakeSocket:
    """`sent` is what the worker sent; `closed_with` the close code it chose."""

    def __init__(self, dial: Dial) -> None:
        self.dialled = dial
        self.sent: list[str] = []
        self.pings = 0
        self.reads = 0
        self.closed_with: int | None = None
        self.aborted = False
        self.answers_pings = True
        self.answers_close = True
        self._incoming: asyncio.Queue[str | bytes | Closed] = asyncio.Queue()
        self._over: Closed | None = None
        self._at_hand: deque[str | bytes] = deque()

    # --- what the test does ---

    def say(self, *messages: str | bytes) -> None:
        for message in messages:
            self._incoming.put_nowait(message)

    def have(self, *messages: str | bytes) -> None:
        """They are there, all at once, when it is read from next."""
        self._at_hand.extend(messages[1:])
        self.say(messages[0])

    def end(self, closed: Closed) -> None:
        self._incoming.put_nowait(closed)

    # --- what the runner does ---

    def ready(self) -> str | bytes | None:
        return self._at_hand.popleft() if self._at_hand else None

    async def recv(self) -> str | bytes:
        if self._over is None:
            said = await self._incoming.get()
            if not isinstance(said, Closed):
                self.reads += 1
                return said
            self._over = said
        raise SocketEnded(self._over)

    async def send(self, text: str | bytes) -> None:
        self.sent.append(str(text))

    async def ping(self, ponged: Callable[[], None]) -> None:
        self.pings += 1
        if self.answers_pings:
            asyncio.get_running_loop().call_later(0.01, ponged)

    async def close(self, code: int, reason: str) -> None:
        self.closed_with = code
        if self.answers_close:
            await asyncio.sleep(0.01)
            self.end(Closed(f"closed with {code}", code=code))

    def abort(self) -> None:
        self.aborted = True
        self.end(Closed("the socket was lost without a close frame", code=1006))


type Answer = Closed | Exception | Callable[[FakeSocket], None] | None
"""What a dial meets: a refusal, a bug, a script that feeds the socket, or nothing but silence."""


class FakeTransport:
    """Dials are answered in turn by `answers`, the last of them for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sockets: list[FakeSocket] = []
        self.dials: list[Dial] = []
        self.hangs = False
        self.calls: list[Fetch] = []
        self.fetched: list[Fetched | Unfetched] = []
        """What calls meet in turn, the last of them for ever; nothing but silence where there is none."""

    async def fetch(self, call: Fetch) -> Fetched:
        self.calls.append(call)
        if not self.fetched:
            await asyncio.Event().wait()
        answer = self.fetched.pop(0) if len(self.fetched) > 1 else self.fetched[0]
        if isinstance(answer, Unfetched):
            raise answer
        return replace(answer, socket=call.socket)

    async def dial(self, dial: Dial) -> Socket:
        self.dials.append(dial)
        if self.hangs:
            await asyncio.Event().wait()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0] if self.answers else None
        if isinstance(answer, Closed):
            raise SocketEnded(answer)
        if isinstance(answer, Exception):
            raise answer
        socket = FakeSocket(dial)
        self.sockets.append(socket)
        if answer is not None:
            answer(socket)
        return socket
