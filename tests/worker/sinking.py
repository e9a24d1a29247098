"""A sink that remembers, and fails as told; and a fence that is open until told otherwise."""

import asyncio

from streamlease_worker.fence import Fence
from streamlease_worker.sinks.base import Batch, Limits


class OpenFence(Fence):
    """Open for an hour of anybody's clock."""

    def __init__(self, connection_id: str = "a", epoch: int = 7) -> None:
        super().__init__(connection_id, epoch, now_s=lambda: 0.0)
        self.extend(3_600.0)


class MemorySink:
    """`lines` is what it holds durably, in order. Each of `faults` meets one attempt."""

    def __init__(self, *, limits: Limits | None = None) -> None:
        self.limits = limits or Limits(most_lines=3, most_bytes=10_000)
        self.lines: list[bytes] = []
        self.faults: list[Exception] = []
        self.attempts = 0
        self.open = asyncio.Event()
        """Cleared, attempts hang until it is set."""
        self.open.set()
        self.closed = False

    async def check(self) -> None:
        return None

    async def deliver(self, batch: Batch) -> None:
        batch.fence.check()
        self.attempts += 1
        await self.open.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.lines += batch.lines

    async def close(self) -> None:
        self.closed = True
