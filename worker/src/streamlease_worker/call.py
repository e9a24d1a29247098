"""One HTTP call before a dial: from looking its secrets up to its one `Fetched`. Part of the runner.

It takes the dial's turn, and leaves it to the dial.
"""

import asyncio
from collections.abc import Awaitable, Callable

from streamlease.feed.computed import Moment
from streamlease.feed.events import Fetch, Fetched
from streamlease.feed.secrets import NotSent, SecretError, resolved
from streamlease_worker.fence import Fence, Fenced
from streamlease_worker.fetch import Unfetched
from streamlease_worker.secrets import Lookup, made_of_secrets, redact
from streamlease_worker.turns import NextTurn, Turn


class Call:
    def __init__(
        self,
        command: Fetch,
        *,
        turn: NextTurn,
        keep: Callable[[Turn], None],
        fence: Fence,
        fetch: Callable[[Fetch], Awaitable[Fetched]],
        secrets: Lookup,
        moment: Callable[[], Moment],
    ) -> None:
        self.counted: str | None = None
        """What of `endings.COUNTED` its failure was, where it is worth counting."""
        self._command = command
        self._turn = turn
        self._keep = keep
        self._fence = fence
        self._fetch = fetch
        self._secrets = secrets
        self._moment = moment
        self._given_up = False
        self._asking: asyncio.Task[Fetched] | None = None

    async def run(self) -> Fetched:
        """Raises only what is a bug."""
        number = self._command.socket
        if self._given_up:
            return Fetched(number, error="the call was given up")
        self._asking = asyncio.create_task(self._ask())
        await asyncio.wait({self._asking})
        try:
            return self._asking.result()
        except asyncio.CancelledError:
            return Fetched(number, error="the call was given up")

    def close(self) -> None:
        self._given_up = True
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self) -> Fetched:
        while True:
            turn = await self._turn()
            answer = None
            try:
                answer = await self._ask_in(turn)
            finally:
                if answer is None or answer.status is None:
                    turn.over()
                else:
                    self._keep(turn)
            if answer is not None:
                return answer

    async def _ask_in(self, turn: Turn) -> Fetched | None:
        """None: the turn's time had passed before the call could begin."""
        command = self._command
        try:
            values = await self._secrets(fresh=command.fresh_secrets)
            filled = resolved(command, values, self._moment() if command.computed else None)
            if turn.lapsed:
                return None
            self._fence.check()
        except (NotSent, SecretError, Fenced) as unasked:
            return Fetched(command.socket, error=str(unasked))
        try:
            return await self._fetch(filled)
        except Unfetched as error:
            self.counted = error.counted
            made = made_of_secrets(command.headers, filled.headers)
            return Fetched(command.socket, error=redact(str(error), (*values.values(), *made)))
