"""One side of the receive bench: reads the flood by one library, and prints its CPU seconds a record as JSON.

    python -m bench.receive_side SIDE URL RECORDS

`bare`: messages are received and dropped. `streamlease`: the worker's own runner, from the socket to the null sink.
`websockets`, `aiohttp`, `picows`: a plain loop that does the same work with each message: decode it, take its sequence,
write its envelope, hand batches of them on. `+uvloop` after a name: on that event loop.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable

from bench.holding import EPOCH, Held, feed_of
from streamlease import envelope
from streamlease.feed.decoding import json_value
from streamlease.feed.events import Record
from streamlease.feed.feed import Feed
from streamlease_worker.sinks.base import Batch, Limits
from streamlease_worker.sinks.null import NullSink

BATCH = 500


class Meter:
    """Begins at the first record, so that connecting counts for nobody."""

    def __init__(self, records: int) -> None:
        self._left = records
        self._records = records
        self._began_s = 0.0
        self.done = asyncio.Event()
        self.per_cpu_s = 0.0

    def count(self, records: int = 1) -> None:
        if self._left == self._records:
            self._began_s = time.process_time()
        self._left -= records
        if self._left <= 0 and not self.done.is_set():
            self.per_cpu_s = (self._records - self._left) / (time.process_time() - self._began_s)
            self.done.set()


def feed_at(url: str) -> Feed:
    return feed_of("flood", url, record={"sequence": "time_us"}, resume={"query": {"cursor": "{sequence}"}})


class Same:
    """The work that the worker does with a message, without what makes it safe."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._sequence = feed_at("ws://127.0.0.1/").record.sequence
        self._lines: list[bytes] = []
        self._number = 0

    def take(self, data: str | bytes) -> None:
        value = json_value(data)
        assert self._sequence is not None  # noqa: S101 - what the feed says
        sequence = self._sequence(value)
        assert isinstance(sequence, int)  # noqa: S101 - as above
        self._number += 1
        record = Record(self._number, sequence, None, None, time.time_ns() // 1_000_000, value)
        self._lines.append(envelope.encode("flood", EPOCH, record))
        if len(self._lines) >= BATCH:
            self._lines = []
        self._meter.count()


async def bare(url: str, meter: Meter) -> None:
    await _websockets(url, lambda _: meter.count())


async def websockets(url: str, meter: Meter) -> None:
    await _websockets(url, Same(meter).take)


async def _websockets(url: str, take: Callable[[str | bytes], None]) -> None:
    from websockets.asyncio.client import connect

    async with connect(url, compression=None, ping_interval=None, proxy=None) as connection:
        async for message in connection:
            take(message)


async def aiohttp(url: str, meter: Meter) -> None:
    import aiohttp  # type: ignore[import-not-found]  # in the benches' environment alone

    take = Same(meter).take
    async with aiohttp.ClientSession() as session, session.ws_connect(url, compress=0) as connection:
        async for message in connection:
            take(message.data)


async def picows(url: str, meter: Meter) -> None:
    from picows import WSFrame, WSListener, WSTransport, ws_connect  # type: ignore[import-not-found]  # as above

    take = Same(meter).take

    class Listener(WSListener):  # type: ignore[misc]
        def on_ws_frame(self, _transport: WSTransport, frame: WSFrame) -> None:
            take(frame.get_payload_as_utf8_text())

    transport, _ = await ws_connect(Listener, url)
    await transport.wait_disconnected()


class Metered:
    """The null sink, counted."""

    def __init__(self, meter: Meter) -> None:
        self._sink = NullSink()
        self._meter = meter

    @property
    def limits(self) -> Limits:
        return self._sink.limits

    async def check(self) -> None:
        await self._sink.check()

    async def deliver(self, batch: Batch) -> None:
        await self._sink.deliver(batch)
        self._meter.count(len(batch.lines))

    async def close(self) -> None:
        await self._sink.close()


async def streamlease(url: str, meter: Meter) -> None:
    held = Held(sink=Metered(meter))
    held.start("flood", feed_at(url))
    await asyncio.Event().wait()


SIDES = {"bare": bare, "streamlease": streamlease, "websockets": websockets, "aiohttp": aiohttp, "picows": picows}


async def main(side: str, url: str, records: int) -> float:
    meter = Meter(records)
    reading = asyncio.create_task(SIDES[side](url, meter))
    done = asyncio.create_task(meter.done.wait())
    await asyncio.wait({reading, done}, return_when=asyncio.FIRST_COMPLETED)
    if not meter.done.is_set():
        reading.result()
        raise SystemExit(f"{side} ended before it had read {records} records")
    reading.cancel()
    return meter.per_cpu_s


if __name__ == "__main__":
    _, side, url, records = sys.argv
    name, _, loop = side.partition("+")
    if loop == "uvloop":
        import uvloop  # type: ignore[import-not-found]  # as above

        per_cpu_s = uvloop.run(main(name, url, int(records)))
    else:
        per_cpu_s = asyncio.run(main(name, url, int(records)))
    print(json.dumps({"side": side, "per_cpu_s": round(per_cpu_s)}))
