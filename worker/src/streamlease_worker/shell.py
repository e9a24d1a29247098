"""The supervisor's shell: steps it on the event loop, and hands each command to who carries it out."""

import asyncio
from collections.abc import Callable

from streamlease.errors import Fault
from streamlease.timing import Instant
from streamlease_worker import supervisor_events as events
from streamlease_worker.jobs import Jobs
from streamlease_worker.keeper_events import (
    Acquired,
    Changed,
    DrainBegun,
    Fence,
    LoadReported,
    LoopTicked,
    ReleaseRequested,
    Settled,
    StatusChanged,
    StopWanted,
    VersionSeen,
)
from streamlease_worker.keeper_thread import KeeperThread
from streamlease_worker.log import Log
from streamlease_worker.runs import Runs
from streamlease_worker.supervisor import Supervisor
from streamlease_worker.supervisor_events import (
    DrainsItself,
    Exit,
    InboxRead,
    Listed,
    LookAgain,
    ReleaseUnknown,
    Start,
    Stop,
    Tick,
)


class Shell:
    """For one event loop. `happened` may be called on it only."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        keeper: KeeperThread,
        jobs: Jobs,
        runs: Runs,
        now: Callable[[], Instant],
        log: Log,
    ) -> None:
        self.exited: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._supervisor = supervisor
        self._keeper = keeper
        self._jobs = jobs
        self._runs = runs
        self._now = now
        self._log = log
        self._late_s = 0.0

    @property
    def owned(self) -> int:
        return self._supervisor.owned

    async def tick(self) -> None:
        """Until it is cancelled. The keeper renews nothing that this has not ticked for."""
        while True:
            self._keeper.post(LoopTicked(self._now().mono_s))
            self.happened(Tick())
            due_s = self._now().mono_s + self._supervisor.tick_s
            await asyncio.sleep(self._supervisor.tick_s)
            self._late_s = max(self._late_s, self._now().mono_s - due_s)

    def lag_ms(self) -> int:
        """By how much a tick was late at worst since this was asked last."""
        worst_s, self._late_s = self._late_s, 0.0
        return max(0, round(worst_s * 1000))

    def happened(self, event: events.Event) -> None:
        self._say(event)
        for command in self._supervisor.handle(event, self._now()):
            self._carry_out(command)

    def _carry_out(self, command: events.Command) -> None:
        match command:
            case Start():
                self._runs.start(command)
            case Stop():
                self._runs.stop(command)
            case Acquired(claimed):
                self._keeper.watch(self._runs.fence(claimed.lease.connection_id, claimed.lease.epoch))
                self._keeper.post(command)
            case VersionSeen() | StatusChanged() | LoadReported() | ReleaseRequested() | DrainBegun():
                self._keeper.post(command)
            case Exit():
                if not self.exited.done():
                    self.exited.set_result(command)
            case DrainsItself(reason):
                self._log.warning("draining", reason=reason)
                self._jobs.begin(command)
            case ReleaseUnknown(connection_id):
                self._log.warning("audit", connection_id=connection_id, found="unknown")
                self._jobs.begin(command)
            case LookAgain(connection_id):
                self._log.info("looks_again", connection_id=connection_id)
                self._jobs.begin(command)
            case _:
                self._jobs.begin(command)

    def _say(self, event: events.Event) -> None:
        match event:
            case Fence(connection_id, epoch, reason):
                self._log.warning("fenced", connection_id=connection_id, epoch=epoch, reason=reason)
            case Settled(connection_id, epoch, landed):
                self._runs.forget(connection_id, epoch)
                self._log.info("released", connection_id=connection_id, epoch=epoch, landed=landed)
            case Changed(connection, epoch):
                self._log.info(
                    "changed", connection_id=connection.connection_id, epoch=epoch, spec_version=connection.spec_version
                )
            case StopWanted(connection_id, epoch):
                self._log.info("stop_wanted", connection_id=connection_id, epoch=epoch)
            case Listed(items) if not isinstance(items, Fault):
                self._log.info("audited", listed=len(items), owned=self._supervisor.owned)
            case InboxRead(entries) if entries and not isinstance(entries, Fault):
                self._log.info("inbox_read", entries=len(entries))
            case _:
                pass
