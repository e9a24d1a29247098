"""One life of a worker: a worker id from its join to its end, with everything that acts in its name."""

import asyncio
import contextlib
import random
from pathlib import Path
from typing import Any

from streamlease.dynamodb import clock
from streamlease.flows.sweep import Sweep
from streamlease.membership import Joined
from streamlease.model import FleetSummary
from streamlease_worker import health
from streamlease_worker.equipment import Equipment
from streamlease_worker.feeds import feed_of
from streamlease_worker.health import Connectedness, Health
from streamlease_worker.jobs import Jobs, Offers
from streamlease_worker.keeper import Keeper
from streamlease_worker.keeper_events import MemberAlive, Notice
from streamlease_worker.keeper_thread import KeeperThread
from streamlease_worker.log import Log, Problems
from streamlease_worker.runner import Surroundings
from streamlease_worker.runs import Runs
from streamlease_worker.shell import Shell
from streamlease_worker.supervisor import Supervisor
from streamlease_worker.supervisor_events import DrainRequested, Event, Exit, FleetRead, Measured, Swept
from streamlease_worker.tally import Tally
from streamlease_worker.turns import Turns

COUNT_EVERY_S = 60.0
MEASURE_EVERY_S = 5.0
REFUSES_FOR_S = 30.0
"""A sink that has taken nothing for so long is perhaps out of this worker's reach alone."""


class Life:
    """For one event loop."""

    def __init__(
        self, worker_id: str, equipment: Equipment, *, joined: Joined, offers: Offers, log: Log, problems: Problems
    ) -> None:
        configuration, settings = equipment.configuration, equipment.configuration.settings
        self._worker_id = worker_id
        self._health_file = Path(configuration.health_file) if configuration.health_file else None
        self._member_until_s = joined.deadline_s
        self._connectedness = Connectedness()
        self._loop = asyncio.get_running_loop()
        self._log = log
        self._problems = problems
        self._clock = equipment.clock
        self._tally = Tally(equipment.sink, now_s=lambda: clock.now().mono_s)
        self._turns = Turns(
            worker_id,
            egress_group=settings.egress_group,
            perform=equipment.work,
            threads=equipment.threads,
            now=clock.now,
            log=log,
            problems=problems,
        )
        self._around = Surroundings(
            transport=equipment.transport,
            sink=self._tally,
            turns=self._turns,
            secrets=equipment.secrets.values,
            wall_ms=lambda: clock.now().wall_ms,
            draw=random.random,
        )
        self._keeper = KeeperThread(
            Keeper(worker_id, timing=settings.timing, mode=settings.mode, joined=joined),
            perform=equipment.renewals,
            timing=settings.timing,
            now=clock.now,
            notify=self._notify,
            log=log,
            judge=equipment.clock.judge,
        )
        self._runs = Runs(
            self._around,
            self._keeper,
            feed_of=lambda connection: feed_of(connection, problems),
            ended=self._happened,
            log=log,
        )
        self._shell = Shell(
            Supervisor(
                worker_id,
                capacity=configuration.capacity,
                generation=equipment.generation,
                timing=settings.timing,
                joined=joined,
                now=clock.now(),
                stop_timeout_s=configuration.stop_timeout_s,
                mode=settings.mode,
            ),
            keeper=self._keeper,
            jobs=Jobs(
                worker_id,
                settings,
                perform=equipment.work,
                offers=offers,
                threads=equipment.threads,
                happened=self._happened,
                log=log,
                problems=problems,
                protect=equipment.protect,
            ),
            runs=self._runs,
            now=clock.now,
            log=log,
        )

    async def run(self) -> Exit:
        """Until the supervisor has ended it."""
        self._keeper.start()
        work = (self._shell.tick(), self._report_health(), self._measure(), self._count())
        duties = [asyncio.create_task(duty) for duty in work]
        try:
            waits: set[asyncio.Future[Any]] = {self._shell.exited, *duties}
            first, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for ended in first:
                ended.result()  # raises where it is a duty, which never ends but by a bug
            return self._shell.exited.result()
        finally:
            for duty in duties:
                duty.cancel()
            await asyncio.to_thread(self._keeper.stop)
            self._say_counts()

    def drain(self, reason: str) -> None:
        """Give everything up and end; said a second time, in a hurry."""
        self._log.info("draining", reason=reason)
        self._happened(DrainRequested(reason))

    def _happened(self, event: Event) -> None:
        match event:
            case Swept(Sweep(fleet=FleetSummary(live=live))) | FleetRead(FleetSummary(live=live)):
                self._turns.fleet(live)
            case _:
                pass
        self._shell.happened(event)

    def _notify(self, notice: Notice) -> None:
        """On the keeper's thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._told, notice)

    def _told(self, notice: Notice) -> None:
        if isinstance(notice, MemberAlive):
            self._member_until_s = notice.deadline_s
        self._happened(notice)

    async def _report_health(self) -> None:
        while True:
            now = clock.now()
            running, connected, waiting = self._runs.running, self._runs.connected, self._turns.waiting
            report = Health(
                at_ms=now.wall_ms,
                worker_id=self._worker_id,
                owned=self._shell.owned,
                keeper_silent_s=now.mono_s - self._keeper.ticked_s,
                member_left_s=self._member_until_s - now.mono_s,
                running=running,
                connected=connected,
                waiting=waiting,
                unconnected_s=self._connectedness.unconnected_s(
                    now.mono_s, running=running, connected=connected, waiting=waiting
                ),
            )
            if self._health_file is not None:
                try:
                    health.write(self._health_file, report)
                except OSError as error:
                    self._problems.say("health_file_unwritable", f"{self._health_file} ({error.strerror})")
            await asyncio.sleep(health.WRITE_EVERY_S)

    async def _measure(self) -> None:
        """What the fleet's shares go by, beside how many connections there are."""
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            verdict = self._clock.judge(clock.now())
            unfit = None if verdict.may_claim else verdict.reason
            refuses_for_s = self._tally.refuses_for_s
            if unfit is None and refuses_for_s >= REFUSES_FOR_S:
                unfit = f"its sink has taken nothing for {refuses_for_s:.0f} s"
            self._happened(Measured(self._tally.rates(), self._shell.lag_ms(), unfit))

    async def _count(self) -> None:
        """What was counted since the last line, and what stands."""
        while True:
            await asyncio.sleep(COUNT_EVERY_S)
            self._say_counts()

    def _say_counts(self) -> None:
        counts = dict(self._around.counts)
        self._around.counts.clear()
        budget = self._around.budget
        stands = {
            "pending_bytes": budget.used_bytes,
            "lag_ms": budget.lag_ms(self._around.wall_ms()),
            "stalled": budget.stalled,
        }
        self._log.info("counts", owned=self._shell.owned, **stands, **counts)
