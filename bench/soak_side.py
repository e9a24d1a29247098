"""The worker's side of the soak: connections that talk, fall silent, are dropped and rotate; samples as JSON lines.

    python -m bench.soak_side PORT SECONDS CONNECTIONS EVERY_S

Each line holds memory, tasks and descriptors of this process, and what was counted since the one before.
"""

import asyncio
import json
import os
import sys
import time
from collections import Counter

from bench.holding import Held, feed_of, resident_kib
from streamlease.feed.feed import Feed
from streamlease.model import StatusState
from streamlease_worker.sinks.base import Batch
from streamlease_worker.sinks.null import NullSink


class Counting(NullSink):
    def __init__(self) -> None:
        super().__init__()
        self.records = 0

    async def deliver(self, batch: Batch) -> None:
        await super().deliver(batch)
        self.records += len(batch.lines)


def churning(connection_id: str, url: str) -> Feed:
    """Rotates about every 45 seconds, the new socket before the old one goes, and takes 20 s of silence for the end."""
    return feed_of(
        connection_id,
        url,
        record={"sequence": "seq"},
        keepalive={"stale_after": "20s"},
        rotate={"after": "60s", "jitter": "30s", "order": "make_before_break"},
    )


async def main(url: str, seconds: float, connections: int, every_s: float) -> None:
    sink = Counting()
    held = Held(sink=sink)
    began_s = time.monotonic()
    for number in range(connections):
        held.start(f"soak-{number}", churning(f"soak-{number}", url))
    before: Counter[str] = Counter()
    records = 0
    while (at_s := time.monotonic() - began_s) < seconds:
        await asyncio.sleep(min(every_s, max(0.0, seconds - at_s)))
        states = Counter(state for _, _, state, _ in held.changes)
        held.changes.clear()
        counts = Counter(held.counts)
        sample = {
            "at_s": round(time.monotonic() - began_s, 1),
            "resident_kib": resident_kib(),
            "tasks": len(asyncio.all_tasks()),
            "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - a count of this process's own
            "streaming": held.streaming,
            "records": sink.records - records,
            "losses": states[StatusState.BACKOFF],
            "readiness": states[StatusState.STREAMING],
            "taken_over": held.take_over(),
            "cpu_s": round(time.process_time(), 2),
            "counts": dict(counts - before),
        }
        before, records = counts, sink.records
        print(json.dumps(sample), flush=True)
    await held.stop()
    left = len(asyncio.all_tasks()) - 1
    print(json.dumps({"left_tasks": left, "left_kib": resident_kib()}), flush=True)


if __name__ == "__main__":
    from streamlease_worker import tls

    tls.lighten()
    _, port, seconds, connections, every_s = sys.argv
    asyncio.run(main(f"ws://127.0.0.1:{port}/churn", float(seconds), int(connections), float(every_s)))
