"""A sink with a tally: what each connection delivers through it, and whether it takes anything at all."""

from collections import Counter
from collections.abc import Callable, Mapping

from streamlease_worker.sinks.base import Batch, Limits, Sink, SinkFault


class Tally:
    """A `Sink` around another, for one event loop."""

    def __init__(self, sink: Sink, *, now_s: Callable[[], float]) -> None:
        self._sink = sink
        self._now_s = now_s
        self._counts: Counter[str] = Counter()
        self._since_s = now_s()
        self._refuses_since_s: float | None = None

    @property
    def limits(self) -> Limits:
        return self._sink.limits

    async def check(self) -> None:
        await self._sink.check()

    async def deliver(self, batch: Batch) -> None:
        try:
            await self._sink.deliver(batch)
        except SinkFault as fault:
            if fault.retryable and self._refuses_since_s is None:
                self._refuses_since_s = self._now_s()
            raise
        self._refuses_since_s = None
        self._counts[batch.connection_id] += len(batch.lines)

    async def close(self) -> None:
        await self._sink.close()

    def rates(self) -> Mapping[str, float]:
        """Records a second of each connection that has delivered any, since this was asked last."""
        now_s = self._now_s()
        elapsed_s = max(now_s - self._since_s, 1e-3)
        counts, self._counts, self._since_s = self._counts, Counter(), now_s
        return {name: count / elapsed_s for name, count in counts.items()}

    @property
    def refuses_for_s(self) -> float:
        """How long it has taken nothing of what it was offered."""
        return 0.0 if self._refuses_since_s is None else self._now_s() - self._refuses_since_s
