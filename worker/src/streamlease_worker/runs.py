"""The runners of one worker: each a task of its own, made from an item and told to the keeper."""

import asyncio
from collections.abc import Callable

from streamlease.errors import StreamleaseError
from streamlease.feed.feed import Feed
from streamlease.model import Connection, Position, Status, StatusState
from streamlease_worker.fence import Fence
from streamlease_worker.keeper_events import StatusChanged
from streamlease_worker.keeper_thread import KeeperThread
from streamlease_worker.log import Log
from streamlease_worker.runner import Ended, Runner, Surroundings
from streamlease_worker.supervisor_events import RunnerEnded, Start, Stop

SAID = {
    StatusState.STREAMING: "ready",
    StatusState.BLOCKED: "blocked",
    StatusState.BACKOFF: "backoff",
    StatusState.FAILED: "failed",
    StatusState.YIELDED: "yielded",
    StatusState.QUARANTINED: "quarantined",
}
GIVEN_UP = frozenset({StatusState.YIELDED, StatusState.QUARANTINED})


class Runs:
    """For one event loop. `ended` is called on it, once for every start."""

    def __init__(
        self,
        around: Surroundings,
        keeper: KeeperThread,
        *,
        feed_of: Callable[[Connection], Feed],
        ended: Callable[[RunnerEnded], None],
        log: Log,
    ) -> None:
        self._around = around
        self._keeper = keeper
        self._feed_of = feed_of
        self._ended = ended
        self._log = log
        self._fences: dict[tuple[str, int], Fence] = {}
        self._runners: dict[int, Runner] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """Connections that are to be open."""
        return len(self._runners)

    @property
    def connected(self) -> int:
        return sum(runner.connected for runner in self._runners.values())

    def fence(self, connection_id: str, epoch: int) -> Fence:
        """The fence of a lease just acquired."""
        made = self._fences[connection_id, epoch] = Fence(connection_id, epoch)
        return made

    def forget(self, connection_id: str, epoch: int) -> None:
        """The lease is over."""
        self._fences.pop((connection_id, epoch), None)

    def start(self, command: Start) -> None:
        """The runner is made at once, so that a stop that follows finds it."""
        connection_id, epoch = command.connection.connection_id, command.epoch
        log = self._log.about(connection_id=connection_id, epoch=epoch)
        try:
            runner = self._runner(command, log)
        except StreamleaseError as unfit:
            log.warning("failed", reason=str(unfit))
            ended = Ended("fatal", str(unfit), command.connection.position)
        except Exception as error:  # noqa: BLE001  # one bad spec or adapter never disturbs another connection
            log.crashed("runner_crashed", error)
            reason = f"a fault in the code that reads its spec ({type(error).__name__})"
            ended = Ended("crashed", reason, command.connection.position)
        else:
            self._runners[command.run] = runner
            task = asyncio.create_task(self._follow(command, runner, log))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        asyncio.get_running_loop().call_soon(self._tell, command, ended)

    def stop(self, command: Stop) -> None:
        runner = self._runners.get(command.run)
        if runner is not None:
            runner.stop(command.reason, flush=command.flush)

    def _runner(self, command: Start, log: Log) -> Runner:
        connection, epoch = command.connection, command.epoch
        connection_id, version = connection.connection_id, connection.spec_version

        feed = self._feed_of(connection)
        suspect = connection.status is not None and connection.status.state in GIVEN_UP

        def advanced(position: Position) -> None:
            self._keeper.advance(connection_id, epoch, version, position, feed.checkpoint_every_s)

        def reported(state: StatusState, reason: str | None) -> None:
            self._keeper.post(StatusChanged(connection_id, epoch, Status(state, self._around.wall_ms(), reason)))
            if said := SAID.get(state):
                log.info(said, **({"reason": reason} if reason is not None else {}))
            elif reason is not None:
                log.info("waiting", reason=reason)

        return Runner(
            feed,
            connection.position,
            seek=connection.seek,
            suspect=suspect,
            fence=self._fences[connection_id, epoch],
            around=self._around,
            advanced=advanced,
            reported=reported,
            log=log,
        )

    async def _follow(self, command: Start, runner: Runner, log: Log) -> None:
        try:
            ended = await runner.run()
        except Exception as error:  # noqa: BLE001  # as above
            log.crashed("runner_crashed", error)
            reason = f"a fault in this worker's own code ({type(error).__name__})"
            ended = Ended("crashed", reason, command.connection.position)
        self._tell(command, ended)

    def _tell(self, command: Start, ended: Ended) -> None:
        self._runners.pop(command.run, None)
        connection_id = command.connection.connection_id
        self._ended(RunnerEnded(connection_id, command.epoch, command.run, ended.outcome, ended.reason, ended.position))
