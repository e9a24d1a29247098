"""From what is pending to the sink, one batch at a time. Part of the runner."""

import asyncio
import contextlib
from collections.abc import Callable

from streamlease_worker.fence import Fence, Fenced
from streamlease_worker.gate import Gate
from streamlease_worker.jitter import backoff_s
from streamlease_worker.log import Log
from streamlease_worker.pending import Pending
from streamlease_worker.sinks.base import Batch, Sink, SinkFault

FIRST_RETRY_S = 0.1
LONGEST_RETRY_S = 5.0
BLOCKED_AFTER_S = 10.0
"""A sink that takes nothing for so long is told of."""
BLOCKED_AGAIN_S = 60.0
"""But no more often than this: every word is a write to the connection's item, and a sink may throttle for hours."""


class Pump:
    """`acknowledged` is called with a delivery number once everything up to it is durable; `refused` with a reason once
    the sink has taken nothing for a while, and with None once it has."""

    def __init__(
        self,
        pending: Pending,
        sink: Sink,
        fence: Fence,
        *,
        acknowledged: Callable[[int], None],
        refused: Callable[[str | None], None],
        log: Log,
    ) -> None:
        self._pending = pending
        self._sink = sink
        self._fence = fence
        self._acknowledged = acknowledged
        self._refused = refused
        self._told_s = float("-inf")
        self._blocked = False
        self._log = log
        self._closed = Gate()
        self._abandoned = Gate()

    async def run(self) -> Fenced | SinkFault | None:
        """None: all is durable that was put before the pending was closed, or what is left was abandoned. Otherwise why
        nothing more will be."""
        limits = self._sink.limits
        try:
            while lines := await self._pending.some(limits.most_lines, limits.most_bytes):
                if not await self._deliver(Batch(self._fence.connection_id, self._fence.epoch, lines, self._fence)):
                    break
                self._acknowledged(self._pending.done())
                if self._abandoned.is_set():
                    break
                if limits.linger_s:
                    await _wait(limits.linger_s, unless=self._closed)
        except (Fenced, SinkFault) as refusal:
            return refusal
        finally:
            self._pending.abandon()
        return None

    def close(self) -> None:
        """Nothing more will be put: end when all is durable, without lingering."""
        self._pending.close()
        self._closed.set()

    def abandon(self) -> None:
        """Begin no further attempt. The one under way is waited for, and counts."""
        self._abandoned.set()
        self.close()

    async def _deliver(self, batch: Batch) -> bool:
        """Try until it is taken. False: abandoned before that. Raises Fenced, or a SinkFault that is final."""
        failures = 0
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        while not self._abandoned.is_set():
            try:
                await self._sink.deliver(batch)
                if self._blocked:
                    self._blocked = False
                    self._refused(None)
                return True
            except SinkFault as fault:
                if not fault.retryable:
                    raise
                failures += 1
                if failures == 1 or failures % 10 == 0:
                    self._log.warning("sink_refused", reason=str(fault), failures=failures)
                if now_s() - began_s >= BLOCKED_AFTER_S and now_s() - self._told_s >= BLOCKED_AGAIN_S:
                    self._told_s, self._blocked = now_s(), True
                    self._refused(str(fault))
            wait_s = backoff_s(failures, FIRST_RETRY_S, LONGEST_RETRY_S, batch.connection_id)
            await _wait(wait_s, unless=self._abandoned)
        return False


async def _wait(wait_s: float, *, unless: Gate) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(unless.wait(), wait_s)
