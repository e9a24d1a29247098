"""Publishes signed notes to a relay at a steady rate, as many authors in turn.

    python -I publish.py --url URL --feeds N --rate PER_SECOND

Stand-alone: it runs in the relay's environment, whose client library signs. The authors' keys are made here and go
nowhere; their public halves are the feeds. Standard output is JSON lines, each with the numbers so far:
`{"event": "feeds", "feeds": [...]}` once connected, `{"event": "progress", ...}` twice a second,
`{"event": "stopped", ...}` after SIGTERM, once the relay has answered for every note (or a minute has passed).
"""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from dataclasses import dataclass, field

from aionostr.event import Event  # type: ignore[import-not-found]
from aionostr.key import PrivateKey  # type: ignore[import-not-found]
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

_ANSWERS_WITHIN_S = 60.0
_TELL_EVERY_S = 0.5


@dataclass(slots=True)
class Tally:
    """Notes by what the relay said. It answers in order; what it has not answered is neither stored nor refused."""

    sent: int = 0
    published: int = 0
    refused: int = 0
    all_answered: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self) -> None:
        self.sent += 1
        self.all_answered.clear()

    def answer(self, *, stored: bool) -> None:
        if stored:
            self.published += 1
        else:
            self.refused += 1
        if self.published + self.refused == self.sent:
            self.all_answered.set()

    def tell(self, event: str, **more: object) -> None:
        unanswered = self.sent - self.published - self.refused
        numbers = {"published": self.published, "refused": self.refused, "unanswered": unanswered}
        sys.stdout.write(json.dumps({"event": event, **numbers, **more}) + "\n")
        sys.stdout.flush()


async def run(url: str, feeds: int, rate: float) -> int:
    """0 after SIGTERM; 1 if the relay went away."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    keys = [PrivateKey() for _ in range(feeds)]
    tally = Tally()
    helpers: list[asyncio.Task[None]] = []
    try:
        async with connect(url, compression=None, proxy=None) as relay:
            tally.tell("feeds", feeds=[key.public_key.hex() for key in keys])
            helpers += [asyncio.create_task(count(relay, tally)), asyncio.create_task(tell(tally))]
            await publish(relay, keys, rate, tally, stop)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(tally.all_answered.wait(), _ANSWERS_WITHIN_S)
    except (OSError, WebSocketException) as error:
        sys.stderr.write(f"the publisher lost {url}: {error}\n")
        return 1
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
    tally.tell("stopped")
    return 0


async def publish(
    relay: ClientConnection, keys: list[PrivateKey], rate: float, tally: Tally, stop: asyncio.Event
) -> None:
    """One note every 1/rate seconds, by the clock, each by the next author, until `stop`.

    All on one connection, so that a relay stores each author's notes in the order of their times.
    """
    began_s = time.monotonic()
    number = 0
    while not stop.is_set():
        key = keys[number % len(keys)]
        text = f"note {number} at {time.time():.3f}"
        note = Event(content=text, pubkey=key.public_key.hex(), kind=1, tags=[["t", "streamlease"]])
        note.sign(key.hex())
        tally.send()
        await relay.send(json.dumps(["EVENT", note.to_json_object()]))
        number += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, began_s + number / rate - time.monotonic())):
                await stop.wait()


async def count(relay: ClientConnection, tally: Tally) -> None:
    """Reads the relay's answers. Only what it says it has stored counts as published."""
    async for message in relay:
        answer = json.loads(message)
        if answer[0] == "OK":
            tally.answer(stored=answer[2])
            if not answer[2]:
                sys.stderr.write(f"refused: {answer[3]}\n")


async def tell(tally: Tally) -> None:
    while True:
        await asyncio.sleep(_TELL_EVERY_S)
        tally.tell("progress")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="publish")
    parser.add_argument("--url", required=True)
    parser.add_argument("--feeds", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, metavar="PER_SECOND")
    options = parser.parse_args()
    sys.exit(asyncio.run(run(options.url, options.feeds, options.rate)))
