"""The worker's side of the idle bench: holds connections that are silent but for pings, and prints what they weigh.

    python -m bench.idle_side URLS CONNECTIONS HOLD_S [CERTIFICATE]

URLS are separated by commas. On one core.
"""

import asyncio
import os
import resource
import sys
import time
from pathlib import Path

from bench.holding import Held, feed_of, resident_kib, say

AT_ONCE = 250
"""Connections taken on before the next are, as a worker's claims come in rounds."""
TICK_S = 0.5


async def main(urls: list[str], connections: int, hold_s: float, certificate: Path | None) -> None:
    held = Held(certificate=certificate)
    held.start("warm", feed_of("warm", urls[0]))
    if not await held.until_streaming(1, 30):
        raise SystemExit(f"the first connection did not open: {held.changes}")
    before_kib = resident_kib()
    began_s = time.monotonic()
    for first in range(0, connections, AT_ONCE):
        last = min(first + AT_ONCE, connections)
        for number in range(first, last):
            held.start(f"idle-{number}", feed_of(f"idle-{number}", urls[number % len(urls)]))
        await held.until_streaming(last + 1, 60)
    opened_s = time.monotonic() - began_s
    worst_late_s, cpu_s, since_s = 0.0, time.process_time(), time.monotonic()
    changes = len(held.changes)
    while (now_s := time.monotonic()) < since_s + hold_s:
        await asyncio.sleep(TICK_S)
        worst_late_s = max(worst_late_s, time.monotonic() - now_s - TICK_S)
    say(
        connections=held.streaming - 1,
        kib=round((resident_kib() - before_kib) / connections, 1),
        opened_s=round(opened_s, 1),
        cpu_share=round((time.process_time() - cpu_s) / (time.monotonic() - since_s), 3),
        worst_tick_late_ms=round(worst_late_s * 1000),
        late_pongs=held.counts["late_pong"],
        lost=len(held.changes) - changes,
    )


if __name__ == "__main__":
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from streamlease_worker import tls

    tls.lighten()
    _, urls, connections, hold_s, *certificate = sys.argv
    asyncio.run(main(urls.split(","), int(connections), float(hold_s), Path(certificate[0]) if certificate else None))
