"""What happens to a keeper (events in) and what it asks for (commands out). Values only.

Some of the keeper's commands are the supervisor's events, and the other way round: see `supervisor_events`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamlease import lease, membership
from streamlease.errors import Fault
from streamlease.flow import Flow
from streamlease.flows import pages
from streamlease.flows.pages import PageWrite
from streamlease.lease import Checkpoint, Claimed
from streamlease.model import Connection, Lease, MemberState, Position, Status
from streamlease.timing import Instant, Timing
from streamlease.write import Answer, Update, Value

# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquired:
    """A claim landed. Answered at once by `Accepted`, or by `Fence` where its deadline has passed meanwhile."""

    claimed: Claimed


@dataclass(frozen=True, slots=True)
class PositionAdvanced:
    """The sink holds durably all below `position`. `spec_version` is the version its feed was made of. `every_s`: how
    often it asks for its positions to be stored, in worker mode; None leaves it to the keeper."""

    connection_id: str
    epoch: int
    spec_version: int
    position: Position
    every_s: float | None = None


@dataclass(frozen=True, slots=True)
class StatusChanged:
    connection_id: str
    epoch: int
    status: Status


@dataclass(frozen=True, slots=True)
class VersionSeen:
    """Somebody read the item of a connection that is ours: the audit, or the inbox."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed; sent every `Keeper.tick_s` seconds or sooner."""


@dataclass(frozen=True, slots=True)
class LoopTicked:
    """The event loop was alive at `at_s`, by the monotonic clock: without it nothing is renewed. What lay in the queue
    while the whole process stood still says nothing of the time after. None: it is told at once."""

    at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a `Renew`, `Save` or `Release`. `sent` was read just before it went out; one answer or fault per
    attempt, in order (a fault of the whole call stands for each)."""

    batch: int
    sent: Instant
    answers: tuple[Answer | Fault, ...]


@dataclass(frozen=True, slots=True)
class PagesAnswered:
    """What became of a `SavePages`: one answer or fault per page, in order (a fault of the whole stands for each)."""

    batch: int
    answers: tuple[Answer | Fault, ...]


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """What became of a `Heartbeat`. `sent` was read just before it went out."""

    sent: Instant
    answer: Answer | Fault


@dataclass(frozen=True, slots=True)
class OffersAnswered:
    """What became of a `SendOffers`: nothing is done about those not taken, offers are hints."""


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """Give the lease up: every sink attempt of this epoch has ended, and its positions were told before this. `status`:
    what the item is to say from then on, where that is not only that it was released."""

    connection_id: str
    epoch: int
    status: Status | None = None


@dataclass(frozen=True, slots=True)
class ReleasesRequested:
    """Several that came at once, to go out together."""

    requests: tuple[ReleaseRequested, ...]


@dataclass(frozen=True, slots=True)
class LoadReported:
    """What the next heartbeats are to say of this worker's load."""

    load: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class DrainBegun:
    """Tell the fleet at once that this worker takes nothing more."""


type Event = (
    Acquired
    | PositionAdvanced
    | StatusChanged
    | VersionSeen
    | Tick
    | LoopTicked
    | Answered
    | PagesAnswered
    | HeartbeatAnswered
    | OffersAnswered
    | ReleaseRequested
    | ReleasesRequested
    | LoadReported
    | DrainBegun
)

# --- commands to the shell -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Renewal:
    """A lease to renew, and the checkpoint that rides along, if any."""

    lease: Lease
    checkpoint: Checkpoint | None


@dataclass(frozen=True, slots=True)
class Saving:
    """A lease with the checkpoint to write: alone, or with its release."""

    lease: Lease
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Renew:
    """Connection mode: renew these leases in one call. Answer with `Answered`, always."""

    batch: int
    attempts: tuple[Renewal, ...]


@dataclass(frozen=True, slots=True)
class Save:
    """Worker mode: write these checkpoints into their items in one call. Answer with `Answered`, always."""

    batch: int
    attempts: tuple[Saving, ...]


@dataclass(frozen=True, slots=True)
class SavePages:
    """Worker mode: run `page_flow` over these position pages. Answer with `PagesAnswered`, always."""

    batch: int
    worker_id: str
    pages: tuple[PageWrite, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Give these leases up in one call. Answer with `Answered`, always."""

    batch: int
    attempts: tuple[Saving, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Write the member item. Answer with `HeartbeatAnswered`, always."""

    worker_id: str
    seen: int
    state: MemberState
    owned: int
    streaming: int
    more_load: Mapping[str, Value] = field(default_factory=dict)

    def load(self) -> dict[str, Value]:
        return {**self.more_load, "streaming": self.streaming}


@dataclass(frozen=True, slots=True)
class SendOffers:
    """Offer these released connections to the fleet. Answer with `OffersAnswered`, always."""

    connection_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extended:
    """Deliveries of this epoch may begin until `deadline_s`, which only grows."""

    connection_id: str
    epoch: int
    deadline_s: float


@dataclass(frozen=True, slots=True)
class EndProcess:
    """End the process now, by whatever means: its leases have run out and its event loop is not there to stop."""

    reason: str


# --- commands to the supervisor --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accepted:
    """The lease is kept; its connection may be started."""

    connection_id: str
    epoch: int


type FenceReason = Literal[
    "stolen",
    "released",
    "deleted",
    "malformed",
    "expired",
    "unreachable",
    "throttled",
    "conflict",
    "denied",
    "loop_blocked",
    "clock",
    "buried",
]


@dataclass(frozen=True, slots=True)
class Fence:
    """This epoch may deliver no more, ever. The lease stays in the keeper's hands until its release is requested.

    `stolen`, `released`, `deleted`, `malformed`: the item says so. `buried`: the fleet took this worker for dead. All
    others: the deadline came for want of a renewal, and this is what became of the last one. `expired`: it was not
    answered; `clock`: this machine's clock is not to be trusted, or is behind the stored expiry; `loop_blocked`: none
    was allowed, as the event loop stood still.
    """

    connection_id: str
    epoch: int
    reason: FenceReason


@dataclass(frozen=True, slots=True)
class Changed:
    """Still ours, with another spec or version. `forget_position`: somebody asked for a start from nowhere."""

    connection: Connection
    epoch: int
    forget_position: bool


@dataclass(frozen=True, slots=True)
class StopWanted:
    """Still ours, but nobody wants it open."""

    connection_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Settled:
    """The release has its answer: the table no longer names this epoch. `landed`: by our own doing."""

    connection_id: str
    epoch: int
    landed: bool


@dataclass(frozen=True, slots=True)
class MemberAlive:
    """The member lease runs until `deadline_s`. `drain_requested`: who asked this worker to drain, if somebody did.
    `draining`: the fleet has been told that it does."""

    deadline_s: float
    drain_requested: str | None = None
    draining: bool = False


@dataclass(frozen=True, slots=True)
class MemberLost:
    """This worker id is over: the fleet took it for dead, or its own clock was ahead for a while, and what it wrote
    then cannot be renewed. In worker mode every epoch has been fenced before this. `drain_requested`: who had asked it
    to drain before that, which its process is to do then."""

    drain_requested: str | None = None


type Notice = Accepted | Fence | Changed | StopWanted | Settled | MemberAlive | MemberLost
type Command = Renew | Save | SavePages | Release | Heartbeat | SendOffers | Extended | EndProcess | Notice

# --- what a command writes -------------------------------------------------------------------------------------------


def writes(command: Renew | Save | Release, *, sent: Instant, timing: Timing) -> tuple[Update, ...]:
    """The conditional writes of a command, when `sent` is an instant read just before they go out."""
    match command:
        case Renew(attempts=renewals):
            return tuple(lease.renew(r.lease, sent=sent, timing=timing, checkpoint=r.checkpoint) for r in renewals)
        case Save(attempts=savings):
            return tuple(lease.checkpoint(s.lease, s.checkpoint) for s in savings)
        case Release(attempts=savings):
            return tuple(lease.release(s.lease, checkpoint=s.checkpoint, now_ms=sent.wall_ms) for s in savings)


def page_flow(command: SavePages) -> Flow[tuple[Answer | Fault, ...]]:
    """Raises Fault, of the whole."""
    return pages.save(command.worker_id, command.pages)


def heartbeat_write(command: Heartbeat, *, sent: Instant, timing: Timing) -> Update:
    """The heartbeat of a command, when `sent` is an instant read just before it goes out."""
    return membership.heartbeat(
        command.worker_id,
        seen=command.seen,
        state=command.state,
        owned=command.owned,
        load=command.load(),
        sent=sent,
        timing=timing,
    )
