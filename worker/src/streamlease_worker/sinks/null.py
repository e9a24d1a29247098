"""Takes everything and keeps nothing: for measuring what lies before a sink."""

from streamlease_worker.sinks.base import Batch, Limits


class NullSink:
    def __init__(self) -> None:
        self.limits = Limits(most_lines=1_000, most_bytes=1 << 20)
        self.lines = 0

    async def check(self) -> None:
        return None

    async def deliver(self, batch: Batch) -> None:
        batch.fence.check()
        self.lines += len(batch.lines)

    async def close(self) -> None:
        return None
