"""What a tally says of the sink that it is around."""

import asyncio

import pytest

from streamlease_worker.fence import Fence
from streamlease_worker.sinks.base import Batch, SinkFault
from streamlease_worker.tally import Tally
from tests.fakes.clock import SetClock
from tests.worker.sinking import MemorySink


def batch(name: str, lines: int) -> Batch:
    fence = Fence(name, 1, now_s=lambda: 0.0)
    fence.extend(10.0)
    return Batch(name, 1, (b"{}",) * lines, fence)


class Failing(MemorySink):
    fault: SinkFault | None = None

    async def deliver(self, batch: Batch) -> None:
        if self.fault is not None:
            raise self.fault
        await super().deliver(batch)


def test_rates_are_of_what_was_delivered_since_they_were_asked_for() -> None:
    clock, sink = SetClock(), MemorySink()
    tally = Tally(sink, now_s=lambda: clock.mono_s)
    assert tally.limits == sink.limits
    asyncio.run(tally.deliver(batch("a", 30)))
    asyncio.run(tally.deliver(batch("b", 5)))
    clock.advance(10_000)
    assert tally.rates() == {"a": 3.0, "b": 0.5}
    clock.advance(10_000)
    assert tally.rates() == {}


def test_a_sink_refuses_from_the_first_fault_to_the_next_success_of_anybody() -> None:
    clock, sink = SetClock(), Failing()
    tally = Tally(sink, now_s=lambda: clock.mono_s)
    sink.fault = SinkFault("down", retryable=True)
    for _ in range(2):
        with pytest.raises(SinkFault):
            asyncio.run(tally.deliver(batch("a", 1)))
        clock.advance(5_000)
    assert tally.refuses_for_s == 10.0
    sink.fault = None
    asyncio.run(tally.deliver(batch("b", 1)))
    assert tally.refuses_for_s == 0.0


def test_a_record_that_fits_nowhere_says_nothing_of_the_sink() -> None:
    clock, sink = SetClock(), Failing()
    tally = Tally(sink, now_s=lambda: clock.mono_s)
    sink.fault = SinkFault("too large", retryable=False)
    with pytest.raises(SinkFault):
        asyncio.run(tally.deliver(batch("a", 1)))
    assert tally.refuses_for_s == 0.0
