"""What happens to a supervisor (events in) and what it asks for (commands out). Values only.

The keeper's notices are events here; `Acquired`, `VersionSeen`, `StatusChanged`, `LoadReported`, `ReleaseRequested`
and `DrainBegun` are commands here and the keeper's events.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from streamlease.errors import Fault, Malformed
from streamlease.flows.claim import Outcome
from streamlease.flows.sweep import Sweep
from streamlease.inbox import Entry
from streamlease.model import Connection, FleetSummary, Member, Offer, OfferReason, Position
from streamlease.write import Item
from streamlease_worker import keeper_events as keeper

type TakeReason = OfferReason
"""Why a connection was claimed: by an offer's reason, or by what a sweep saw."""
type StartReason = OfferReason | Literal["changed", "again"]

# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed; sent every `Supervisor.tick_s` seconds or sooner."""


@dataclass(frozen=True, slots=True)
class Received:
    """An offer as it came from the queue; `receipt` deletes or returns it."""

    offer: Offer
    receipt: str


@dataclass(frozen=True, slots=True)
class OffersReceived:
    """What became of a `Receive`: what was there, nothing, or a fault."""

    offers: tuple[Received, ...] | Fault


@dataclass(frozen=True, slots=True)
class ClaimAnswered:
    """What became of a `Claim`. A fault: it may have landed, or may land yet."""

    connection_id: str
    outcome: Outcome | Fault | Malformed


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of a `SweepNow`."""

    sweep: Sweep | Fault


@dataclass(frozen=True, slots=True)
class Buried:
    """What became of a `Bury`: done, or a fault that the next sweep makes up for."""


@dataclass(frozen=True, slots=True)
class FleetRead:
    """What became of a `ReadFleet`."""

    fleet: FleetSummary | Fault | None


@dataclass(frozen=True, slots=True)
class Listed:
    """What became of a `ListOwned`."""

    items: tuple[Item, ...] | Fault


@dataclass(frozen=True, slots=True)
class InboxRead:
    """What became of a `ReadInbox`."""

    entries: tuple[Entry, ...] | Fault


@dataclass(frozen=True, slots=True)
class UnknownSettled:
    """What became of a `ReleaseUnknown` or `SettleNotice`: done, or a fault that the next audit makes up for."""

    connection_id: str
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class LookedAgain:
    """What became of a `LookAgain`: the item where it had news, None where not."""

    connection: Connection | Fault | None


@dataclass(frozen=True, slots=True)
class RunnerEnded:
    """A runner is done: its socket is closed, every sink attempt of it has ended, its positions have been told.

    `stopped`: as asked. `fatal`: not to be tried again until the spec changes. `crashed`: by a fault of our own.
    `fenced`: it found its deadline passed before the keeper said so. `yielded`: for another worker to try.
    `quarantined`: for nobody to try for a while.
    """

    connection_id: str
    epoch: int
    run: int
    outcome: Literal["stopped", "fatal", "yielded", "quarantined", "crashed", "fenced"]
    reason: str
    position: Position | None


@dataclass(frozen=True, slots=True)
class Measured:
    """How this worker does, told every few seconds."""

    records_per_s: Mapping[str, float]
    """Of each connection that delivers any, since the last time."""
    loop_lag_ms: int
    """By how much the event loop was late at worst, since the last time."""
    unfit: str | None = None
    """Why it can serve no connection, if so: a clock that may not claim, a sink that takes nothing."""


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """SIGTERM or the like. Asked for a second time: in a hurry."""

    reason: str


@dataclass(frozen=True, slots=True)
class Left:
    """What became of a `Leave`: done, or a fault (the member then expires by itself)."""


type Event = (
    Tick
    | OffersReceived
    | ClaimAnswered
    | Swept
    | Buried
    | FleetRead
    | Listed
    | InboxRead
    | UnknownSettled
    | LookedAgain
    | RunnerEnded
    | Measured
    | DrainRequested
    | Left
    | keeper.Notice
)

# --- commands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait a little for offers, `most` at most. Answer with `OffersReceived`, always."""

    most: int


@dataclass(frozen=True, slots=True)
class DeleteOffer:
    receipt: str


@dataclass(frozen=True, slots=True)
class ReturnOffer:
    """Let another worker see this offer at once."""

    receipt: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Run `flows.claim` with a fresh nonce. Answer with `ClaimAnswered`, always."""

    connection_id: str
    reason: TakeReason


@dataclass(frozen=True, slots=True)
class SweepNow:
    """Run `flows.sweep`. Answer with `Swept`, always."""

    enough: int
    turn: int


@dataclass(frozen=True, slots=True)
class Recount:
    """Run `flows.sweep.recount`. Answer with `Swept`, always."""


@dataclass(frozen=True, slots=True)
class Bury:
    """Run `flows.bury` over these, the expired or those that were buried lately. Answer with `Buried`, always."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class ReadFleet:
    """Read the fleet summary. Answer with `FleetRead`, always."""


@dataclass(frozen=True, slots=True)
class ListOwned:
    """Run `flows.audit.listed`. Answer with `Listed`, always."""


@dataclass(frozen=True, slots=True)
class ReleaseUnknown:
    """Run `flows.audit.release_unknown`. Answer with `UnknownSettled`, always."""

    connection_id: str


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Run `flows.audit.look_again`. Answer with `LookedAgain`, always."""

    connection_id: str
    known_version: int


@dataclass(frozen=True, slots=True)
class ReadInbox:
    """Worker mode: run `flows.inbox.read_inbox`. Answer with `InboxRead`, always."""


@dataclass(frozen=True, slots=True)
class SettleNotice:
    """An inbox entry about what does not run here: run `flows.inbox.settle`. Answer with `UnknownSettled`, always."""

    connection_id: str
    spec_version: int


@dataclass(frozen=True, slots=True)
class ForgetNotice:
    """An inbox entry that was acted on: run `flows.inbox.forget`. Nobody waits for its answer."""

    connection_id: str
    spec_version: int


@dataclass(frozen=True, slots=True)
class Start:
    """Run this connection in this epoch from its position on. `RunnerEnded` follows, sooner or later."""

    run: int
    connection: Connection
    epoch: int
    reason: StartReason


@dataclass(frozen=True, slots=True)
class Stop:
    """Read no more, close the socket; with `flush`, wait for the sink to take what is pending. `RunnerEnded` follows.
    May come again without `flush`."""

    run: int
    connection_id: str
    reason: str
    flush: bool


@dataclass(frozen=True, slots=True)
class DrainsItself:
    """The drain begins without the platform's asking: keep the platform from ending this process meanwhile."""

    reason: str
    within_s: float


@dataclass(frozen=True, slots=True)
class Leave:
    """End the membership cleanly. Answer with `Left`, always."""


@dataclass(frozen=True, slots=True)
class Exit:
    """Nothing follows. `drained`: nothing is owned. `lost`: begin again under a new worker id. `unfinished`: time ran
    out with something still owned; its leases run out by themselves."""

    outcome: Literal["drained", "lost", "unfinished"]
    reason: str


type ToKeeper = (
    keeper.Acquired
    | keeper.VersionSeen
    | keeper.StatusChanged
    | keeper.LoadReported
    | keeper.ReleaseRequested
    | keeper.DrainBegun
)
type Command = (
    Receive
    | DeleteOffer
    | ReturnOffer
    | Claim
    | SweepNow
    | Recount
    | Bury
    | ReadFleet
    | ListOwned
    | ReleaseUnknown
    | LookAgain
    | ReadInbox
    | SettleNotice
    | ForgetNotice
    | Start
    | Stop
    | DrainsItself
    | Leave
    | Exit
    | ToKeeper
)
