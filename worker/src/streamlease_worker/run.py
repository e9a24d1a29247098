"""One worker process: it begins, lives once or more often, and ends."""

import asyncio
import signal
from collections.abc import Callable

from streamlease.errors import Fault
from streamlease.flow import Flow, run
from streamlease.membership import Joined
from streamlease_worker import tls
from streamlease_worker.equipment import Equipment
from streamlease_worker.identity import new_worker_id
from streamlease_worker.jitter import backoff_s
from streamlease_worker.joining import Applicant, join, look_around
from streamlease_worker.life import Life
from streamlease_worker.log import Log, Problems
from streamlease_worker.offers_queue import OffersQueue
from streamlease_worker.supervisor_events import Exit

BEGIN_WITHIN_S = 60.0

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """SIGTERM and SIGINT, also those that come before there is anything to drain, and those that come after."""

    def __init__(self) -> None:
        self.came = asyncio.Event()
        self._drain: Callable[[str], None] | None = None
        self._first = ""
        loop = asyncio.get_running_loop()
        for number in _NUMBERS:
            loop.add_signal_handler(number, self._arrived, number.name)

    def drain_with(self, drain: Callable[[str], None]) -> None:
        """Who drains from now on. What has come already is told at once."""
        self._drain = drain
        if self.came.is_set():
            drain(self._first)

    def end(self) -> None:
        """From now on they change nothing: the process ends anyhow, and its exit code is of how it drained."""
        loop = asyncio.get_running_loop()
        for number in _NUMBERS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    def _arrived(self, name: str) -> None:
        self._first = self._first or name
        self.came.set()
        if self._drain is not None:
            self._drain(name)


async def work(equipment: Equipment) -> Exit:
    """Until it is drained; under a new id where the fleet took the last one for dead. Raises Fault where it cannot even
    begin."""
    tls.lighten()
    signals = Signals()
    equipment.clock.start()
    try:
        while True:
            exit_ = await _live(equipment, signals)
            if exit_.outcome != "lost":
                return exit_
    finally:
        signals.end()
        equipment.threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(equipment.clock.close)
        await equipment.sink.close()


async def _live(equipment: Equipment, signals: Signals) -> Exit:
    worker_id = new_worker_id(equipment.place.name)
    log = Log(worker_id=worker_id)
    problems = Problems(log)
    configuration = equipment.configuration
    offers = OffersQueue(equipment.queue, configuration.settings.offers_queue_url, log)
    beginning = asyncio.create_task(_begin(equipment, worker_id, offers, problems))
    stopped = asyncio.create_task(signals.came.wait())
    await asyncio.wait({beginning, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not beginning.done():
        beginning.cancel()
        return Exit("drained", "it was stopped before it had joined")
    joined = beginning.result()
    log.info(
        "joined",
        generation=equipment.generation,
        capacity=configuration.capacity,
        mode=configuration.settings.mode.value,
        zone=equipment.place.zone,
    )
    life = Life(worker_id, equipment, joined=joined, offers=offers, log=log, problems=problems)
    signals.drain_with(life.drain)
    exit_ = await life.run()
    log.info(exit_.outcome, reason=exit_.reason)
    return exit_


async def _begin(equipment: Equipment, worker_id: str, offers: OffersQueue, problems: Problems) -> Joined:
    """Look at everything once, then join. Raises Fault: at once for what will not mend itself, else after a while."""
    configuration = equipment.configuration
    applicant = Applicant(
        worker_id,
        generation=equipment.generation,
        capacity=configuration.capacity,
        zone=equipment.place.zone,
        timing=configuration.settings.timing,
    )
    loop = asyncio.get_running_loop()
    give_up_at_s = loop.time() + BEGIN_WITHIN_S
    failures = 0

    def carry_out[T](flow: Flow[T]) -> asyncio.Future[T]:
        return loop.run_in_executor(equipment.threads, run, flow, equipment.work)

    while True:
        try:
            await carry_out(look_around(worker_id))
            await loop.run_in_executor(equipment.threads, offers.check)
            await equipment.sink.check()
            return await carry_out(join(applicant))
        except Fault as fault:
            failures += 1
            wait_s = backoff_s(failures, 0.5, 5.0, worker_id)
            if not fault.retryable or loop.time() + wait_s > give_up_at_s:
                raise
            problems.say("not_joined_yet", str(fault))
        await asyncio.sleep(wait_s)
