"""From what is pending to the sink: order, retries, fences, ends."""

import asyncio
from collections.abc import Callable, Coroutine

from streamlease_worker.fence import Fenced
from streamlease_worker.log import Log
from streamlease_worker.pending import Budget, Pending
from streamlease_worker.pump import LONGEST_RETRY_S, Pump
from streamlease_worker.sinks.base import Limits, SinkFault
from tests.fakes.loop import run
from tests.worker.sinking import MemorySink, OpenFence

DOWN = SinkFault("the sink is down", retryable=True)


class Bench:
    def __init__(self, limits: Limits | None = None) -> None:
        self.pending = Pending(Budget())
        self.sink = MemorySink(limits=limits)
        self.fence = OpenFence()
        self.acknowledged: list[int] = []
        self.refused: list[str | None] = []
        self.pump = Pump(
            self.pending,
            self.sink,
            self.fence,
            acknowledged=self.acknowledged.append,
            refused=self.refused.append,
            log=Log(),
        )
        self.running = asyncio.create_task(self.pump.run())

    def put(self, count: int) -> None:
        for number in range(1, count + 1):
            self.pending.put(number, b"x%d" % number, 0)


def in_time(scenario: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    def test() -> None:
        run(scenario())

    test.__name__ = scenario.__name__
    return test


@in_time
async def test_everything_is_delivered_in_order_and_acknowledged_batch_by_batch() -> None:
    bench = Bench()
    bench.put(7)
    bench.pump.close()
    assert await bench.running is None
    assert bench.sink.lines == [b"x%d" % number for number in range(1, 8)]
    assert bench.acknowledged == [3, 6, 7]


@in_time
async def test_a_batch_that_fails_is_tried_again_before_anything_else_and_later_and_later() -> None:
    bench = Bench()
    bench.sink.faults = [DOWN] * 12
    began_s = asyncio.get_running_loop().time()
    bench.put(4)
    bench.pump.close()
    assert await bench.running is None
    assert bench.sink.lines == [b"x1", b"x2", b"x3", b"x4"]
    assert bench.sink.attempts == 14
    spent_s = asyncio.get_running_loop().time() - began_s
    assert 12 < spent_s < 12 * LONGEST_RETRY_S


@in_time
async def test_one_batch_is_at_the_sink_at_a_time() -> None:
    bench = Bench()
    bench.sink.open.clear()
    bench.put(9)
    await asyncio.sleep(10)
    assert bench.sink.attempts == 1
    bench.sink.open.set()
    bench.pump.close()
    await bench.running


@in_time
async def test_a_fenced_epoch_ends_the_pump_and_nothing_is_acknowledged() -> None:
    bench = Bench()
    bench.fence.close("stolen")
    bench.put(1)
    assert isinstance(await bench.running, Fenced)
    assert bench.sink.attempts == 0
    assert bench.acknowledged == []
    assert len(bench.pending) == 0


@in_time
async def test_a_fault_that_is_final_ends_the_pump_with_its_sentence() -> None:
    bench = Bench()
    bench.sink.faults = [SinkFault("too large", retryable=False)]
    bench.put(1)
    refusal = await bench.running
    assert isinstance(refusal, SinkFault)
    assert str(refusal) == "too large"


@in_time
async def test_abandoned_it_waits_for_the_attempt_under_way_which_counts_and_begins_no_other() -> None:
    bench = Bench()
    bench.sink.open.clear()
    bench.put(9)
    await asyncio.sleep(1)
    bench.pump.abandon()
    await asyncio.sleep(100)
    assert not bench.running.done()
    bench.sink.open.set()
    assert await bench.running is None
    assert bench.acknowledged == [3]
    assert bench.sink.attempts == 1


@in_time
async def test_abandoned_between_two_tries_it_ends_at_once() -> None:
    bench = Bench()
    bench.sink.faults = [DOWN] * 1_000
    bench.put(1)
    await asyncio.sleep(60)
    bench.pump.abandon()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert bench.running.done()
    assert bench.acknowledged == []


@in_time
async def test_closed_it_goes_on_trying_at_the_same_pace() -> None:
    bench = Bench()
    bench.sink.faults = [DOWN] * 1_000
    bench.put(1)
    bench.pump.close()
    await asyncio.sleep(60)
    assert 12 < bench.sink.attempts < 40
    bench.pump.abandon()
    await bench.running


@in_time
async def test_it_lingers_for_fuller_batches_where_the_sink_asks_for_it_but_not_once_closed() -> None:
    bench = Bench(Limits(most_lines=100, most_bytes=10_000, linger_s=0.5))
    for number in range(1, 11):
        bench.pending.put(number, b"x", 0)
        await asyncio.sleep(0.1)
    assert bench.sink.attempts <= 3
    bench.pending.put(11, b"x", 0)
    at_s = asyncio.get_running_loop().time()
    bench.pump.close()
    await bench.running
    assert asyncio.get_running_loop().time() == at_s
    assert bench.acknowledged[-1] == 11


@in_time
async def test_a_sink_that_takes_nothing_for_a_while_is_told_of_once_and_again_when_it_takes() -> None:
    bench = Bench()
    bench.sink.faults = [DOWN] * 3
    bench.put(1)
    await asyncio.sleep(5)
    assert bench.refused == [], "a throttled moment is nothing to tell"
    bench.sink.faults = [DOWN] * 200
    bench.put(1)
    await asyncio.sleep(30)
    assert bench.refused == ["the sink is down"]
    bench.sink.faults.clear()
    await asyncio.sleep(6)
    assert bench.refused == ["the sink is down", None]
    bench.pump.abandon()
    await bench.running


@in_time
async def test_a_sink_that_throttles_for_an_hour_is_told_of_no_more_than_once_a_minute() -> None:
    bench = Bench()
    for number in range(60):
        bench.sink.faults = [DOWN] * 12
        bench.pending.put(number + 1, b"x", 0)
        await asyncio.sleep(60)
    assert len([reason for reason in bench.refused if reason]) <= 60
    assert bench.refused[-1] is None
    bench.pump.abandon()
    await bench.running
