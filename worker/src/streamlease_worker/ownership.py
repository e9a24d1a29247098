"""One connection in the supervisor's hands: from a claim that landed to its lease's end. Part of the supervisor.

    ACCEPTING → RUNNING ⇄ RESTING → STOPPING → RELEASING → gone

Each function changes its `Ownership` and returns the commands that follow.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from streamlease.lease import Claimed
from streamlease.model import Connection, Position, Status, StatusState
from streamlease.timing import Instant
from streamlease_worker.jitter import backoff_s, draw
from streamlease_worker.keeper_events import Acquired, Changed, ReleaseRequested, StatusChanged
from streamlease_worker.supervisor_events import Command, RunnerEnded, Start, StartReason, Stop, TakeReason

FIRST_RESTART_S = 1.0
LONGEST_RESTART_S = 60.0
FIRST_QUARANTINE_S = 300.0
LONGEST_QUARANTINE_S = 3_600.0
"""Whatever becomes well again meanwhile is missed for no longer; and a dial an hour harms nobody."""
PROVEN_S = 300.0
"""A runner that lived this long before it crashed starts over as quickly as one that never did."""


class Phase(Enum):
    ACCEPTING = auto()
    """Claimed; the keeper has not said yet that it keeps the lease."""
    RUNNING = auto()
    RESTING = auto()
    """Ours without a runner: given up until the spec changes, or waiting to be started again."""
    STOPPING = auto()
    RELEASING = auto()


@dataclass(slots=True)
class Ownership:
    """Mutable, owned by one `Supervisor`."""

    connection: Connection
    """As last heard of, but with the newest position that is known here."""
    epoch: int
    reason: TakeReason
    phase: Phase = Phase.ACCEPTING
    run: int = 0
    """The number of the last runner, of all in this process."""
    restart: bool = False
    """While STOPPING: start again afterwards, instead of giving the lease up."""
    forget_position: bool = False
    restart_at_s: float | None = None
    started_s: float = 0.0
    crashes: int = 0

    @property
    def connection_id(self) -> str:
        return self.connection.connection_id

    @property
    def leaving(self) -> bool:
        """Whether the lease is being given up."""
        return self.phase is Phase.RELEASING or (self.phase is Phase.STOPPING and not self.restart)


def take(claimed: Claimed, reason: TakeReason) -> tuple[Ownership, list[Command]]:
    return Ownership(_begun(claimed.connection), claimed.lease.epoch, reason), [Acquired(claimed)]


def _begun(found: Connection) -> Connection:
    """An owner that dies before its first checkpoint leaves no position, only an epoch: who comes after it takes the
    stream for one that had begun, so that a gap is said where there is nothing to go on from (decision 040). A seek
    holds until a position is made (decision 130), and says its own gap."""
    if found.position is None and found.seek is None and 0 < found.created_at_ms < found.lease_epoch - 1:
        return replace(found, position=Position())
    return found


def start(ours: Ownership, run: int, now: Instant, reason: StartReason) -> list[Command]:
    ours.phase = Phase.RUNNING
    ours.run = run
    ours.restart_at_s = None
    ours.started_s = now.mono_s
    return [Start(run, ours.connection, ours.epoch, reason)]


def stop(ours: Ownership, reason: str, *, flush: bool) -> list[Command]:
    """Give the lease up, by way of the runner's end where there is one."""
    ours.restart = False
    match ours.phase:
        case Phase.RUNNING:
            ours.phase = Phase.STOPPING
            return [Stop(ours.run, ours.connection_id, reason, flush)]
        case Phase.STOPPING:
            return [] if flush else [Stop(ours.run, ours.connection_id, reason, flush)]
        case Phase.ACCEPTING | Phase.RESTING:
            return release(ours)
        case _:
            return []


def release(ours: Ownership, status: Status | None = None) -> list[Command]:
    ours.phase = Phase.RELEASING
    return [ReleaseRequested(ours.connection_id, ours.epoch, status)]


def changed(ours: Ownership, change: Changed, run: int, now: Instant) -> list[Command]:
    """Go on with the new version. Only what the feed is made of asks for a new runner."""
    before, after = ours.connection, change.connection
    same = before.spec == after.spec and before.upstream_url == after.upstream_url
    ours.forget_position |= change.forget_position
    position = None if ours.forget_position else before.position
    ours.connection = replace(after, position=position)
    match ours.phase:
        case Phase.RUNNING if not same or change.forget_position:
            ours.phase = Phase.STOPPING
            ours.restart = True
            return [Stop(ours.run, ours.connection_id, "its spec has changed", flush=True)]
        case Phase.RESTING:
            ours.forget_position = False
            ours.crashes = 0
            return start(ours, run, now, "changed")
        case _:
            return []


def ended(ours: Ownership, event: RunnerEnded, run: int, now: Instant) -> list[Command]:
    """The runner of now is done."""
    position = None if ours.forget_position else event.position
    ours.connection = replace(ours.connection, position=position)
    ours.forget_position = False
    if ours.phase is Phase.STOPPING:
        return start(ours, run, now, "changed") if ours.restart else release(ours)
    match event.outcome:
        case "fenced":
            return release(ours)
        case "yielded":
            return release(ours, Status(StatusState.YIELDED, now.wall_ms, event.reason))
        case "quarantined":
            return release(ours, quarantined(ours, event.reason, now))
        case _:
            pass
    ours.phase = Phase.RESTING
    if event.outcome == "fatal":
        return [_status(ours, StatusState.FAILED, event.reason, now)]
    if now.mono_s - ours.started_s >= PROVEN_S:
        ours.crashes = 0
        ours.connection = replace(ours.connection, status=None)  # what another worker gave it up for is long ago
    ours.crashes += 1
    wait_s = backoff_s(ours.crashes, FIRST_RESTART_S, LONGEST_RESTART_S, ours.connection_id)
    ours.restart_at_s = now.mono_s + wait_s
    return [_status(ours, StatusState.BACKOFF, event.reason, now)]


def quarantined(ours: Ownership, reason: str, now: Instant) -> Status:
    """Put off for longer each time: what came of the last was seen by a claim, or has been of use for as long."""
    before = ours.connection.status
    wait_s = FIRST_QUARANTINE_S
    if before is not None and before.state is StatusState.QUARANTINED and before.until_ms is not None:
        last_s = (before.until_ms - before.since_ms) / 1000
        if now.mono_s - ours.started_s < last_s:
            wait_s = min(2 * last_s, LONGEST_QUARANTINE_S)
    jittered_s = wait_s * (1 - draw(ours.connection_id, ours.epoch) / 10)
    return Status(StatusState.QUARANTINED, now.wall_ms, reason, now.wall_ms + round(jittered_s * 1000))


def _status(ours: Ownership, state: StatusState, reason: str, now: Instant) -> StatusChanged:
    return StatusChanged(ours.connection_id, ours.epoch, Status(state, now.wall_ms, reason))
