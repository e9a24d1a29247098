"""The worker's side of the redial bench; prints what it saw as JSON.

    python -m bench.redial_side PORT SECONDS CONNECTIONS BUDGET

`closing`: connections to an upstream that accepts and closes, for SECONDS. `peer`: the library's own reconnecting
iterator at the same, for three seconds. `dropped`: CONNECTIONS are held and dropped at once; when each of them streams
again, with ten times BUDGET dials in ten seconds for the fleet. `unbudgeted`: the same without that.
"""

import asyncio
import contextlib
import resource
import sys
import time
from bisect import bisect_left
from itertools import pairwise

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from bench.holding import Held, feed_of, say
from streamlease.dynamodb import clock
from streamlease.model import StatusState
from tests.fakes.memory import MemoryStore

CLOSING = 20
PEER_S = 3.0
WITHIN_S = 120.0
PER_S = 10


async def closing(url: str, seconds: float) -> dict[str, object]:
    """Dials a second of one connection, on average: overall, in the first ten seconds, and by quarters of the time."""
    held = Held()
    began_s = time.monotonic()
    for number in range(CLOSING):
        held.start(f"closing-{number}", feed_of(f"closing-{number}", f"{url}close"))
    await asyncio.sleep(seconds)
    at_s = [when_s - began_s for when_s, _, state, _ in held.changes if state is StatusState.CONNECTING]
    await held.stop()
    edges = [seconds * quarter / 4 for quarter in range(5)]
    quarters = [
        round(sum(low <= each < high for each in at_s) / CLOSING / (high - low), 3) for low, high in pairwise(edges)
    ]
    first_s = min(10.0, seconds)
    return {
        "redials_per_s": round((len(at_s) - CLOSING) / CLOSING / seconds, 3),
        "first_10_s": round(sum(each < first_s for each in at_s) / CLOSING / first_s, 3),
        "by_quarter": quarters,
    }


async def peer(url: str) -> float:
    dials = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PEER_S):
            async for connection in connect(f"{url}close", proxy=None):
                dials += 1
                with contextlib.suppress(ConnectionClosed):
                    async for _ in connection:
                        pass
    return round(dials / PEER_S, 1)


async def dropped(url: str, connections: int, budget: int) -> dict[str, object]:
    """When each streams again after the drop: counted by the second, and the most in a tenth of one; and the most that
    opened in any ten seconds, the first opening included. A budget of 0: none but the worker's own pace."""
    held = Held(perform=MemoryStore(clock.now).perform)
    limits = {"dial": [{"limit": PER_S * budget, "per": f"{PER_S}s"}]} if budget else {}
    for number in range(connections):
        held.start(f"held-{number}", feed_of(f"held-{number}", f"{url}hold", **limits))
    if not await held.until_streaming(connections, WITHIN_S):
        raise SystemExit(f"only {held.streaming} of {connections} opened")
    await asyncio.sleep(2.0)
    opened_s = [when_s for when_s, _, state, _ in held.changes if state is StatusState.STREAMING]
    held.changes.clear()
    began_s = time.monotonic()
    await (await connect(f"{url}drop", proxy=None)).close()
    deadline_s = began_s + WITHIN_S
    back: dict[str, float] = {}
    while len(back) < connections and time.monotonic() < deadline_s:
        await asyncio.sleep(0.2)
        for when_s, name, state, _ in held.changes:
            if state is StatusState.STREAMING:
                back.setdefault(name, when_s - began_s)
    await held.stop()
    by_second = [0] * (int(max(back.values(), default=0.0)) + 1)
    tenths: dict[int, int] = {}
    for each in back.values():
        by_second[int(each)] += 1
        tenths[int(each * 10)] = tenths.get(int(each * 10), 0) + 1
    at_s = sorted([*(each - began_s for each in opened_s), *back.values()])
    return {
        "back": len(back),
        "by_second": by_second,
        "most_in_a_tenth": max(tenths.values(), default=0),
        "most_in_ten_s": max((bisect_left(at_s, each + PER_S) - index for index, each in enumerate(at_s)), default=0),
    }


async def main(url: str, seconds: float, connections: int, budget: int) -> None:
    say(
        closing=await closing(url, seconds),
        peer_redials_per_s=await peer(url),
        dropped=await dropped(url, connections, budget),
        unbudgeted=await dropped(url, connections, 0),
    )


if __name__ == "__main__":
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    _, port, seconds, connections, budget = sys.argv
    asyncio.run(main(f"ws://127.0.0.1:{port}/", float(seconds), int(connections), int(budget)))
