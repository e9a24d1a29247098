"""An upstream with moods, by the path that is asked for: it closes at once, drops everybody, or talks and tires.

    python -m bench.churn_upstream

- `/close`: the handshake, then a close frame with 1000.
- `/hold`: nothing but pongs.
- `/drop`: every other connection is dropped at once, without a close frame.
- `/churn`: a numbered record a second; each connection is dropped after a minute or so, or falls silent for good.

Prints its port, and ends with its standard input.
"""

import asyncio
import json
import random
import resource
import struct
import sys

from bench.idle_upstream import Upstream

DROP_AFTER_S = 60.0
"""On average."""
STALLS = 0.2
"""Of the connections, instead of being dropped."""
EVERYBODY: set["Moody"] = set()


class Moody(Upstream):
    __slots__ = ("__weakref__", "_number", "_timer")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        self._number = 0
        EVERYBODY.add(self)

    def opened(self, request: bytes) -> None:
        path = request.split(b" ", 2)[1].partition(b"?")[0]
        if path == b"/close":
            self._transport.write(b"\x88\x02" + struct.pack("!H", 1000))
            self._transport.close()
        elif path == b"/drop":
            for each in list(EVERYBODY - {self}):
                each.drop()
        elif path == b"/churn":
            loop = asyncio.get_running_loop()
            loop.call_later(random.expovariate(1 / DROP_AFTER_S), self._tire)
            self._timer = loop.call_later(random.random(), self._talk)

    def drop(self) -> None:
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        EVERYBODY.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def _talk(self) -> None:
        self._number += 1
        text = json.dumps({"seq": self._number, "pad": "x" * 200}).encode()
        self._transport.write(b"\x81\x7e" + struct.pack("!H", len(text)) + text)
        self._timer = asyncio.get_running_loop().call_later(1.0, self._talk)

    def _tire(self) -> None:
        if random.random() < STALLS and self._timer is not None:
            self._timer.cancel()
        else:
            self._transport.abort()


async def main() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    server = await asyncio.get_running_loop().create_server(Moody, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
