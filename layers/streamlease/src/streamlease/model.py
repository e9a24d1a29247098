"""The nouns of Streamlease as frozen values (design §1, §2). Nothing here reads a clock or a service."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from streamlease.write import Value

SCHEMA = 1
"""Written into every item. A release reads N-1 and N."""
FLEET_ID = "#fleet"
"""The members table's key of the fleet summary. No worker id begins with `#`."""
RECONCILE_ID = "#reconcile"
"""The members table's key of the place where an unfinished reconciliation goes on."""


class DesiredState(StrEnum):
    STARTED = "STARTED"
    STOPPED = "STOPPED"


class LeaseMode(StrEnum):
    """How ownership is renewed: an expiry per connection, or one per worker (design §3)."""

    CONNECTION = "connection"
    WORKER = "worker"


class LastEvent(StrEnum):
    """What wrote a connection item last; the stream's filter goes by it."""

    CONTROL = "CONTROL"
    RELEASED = "RELEASED"
    CLAIMED = "CLAIMED"
    RENEWED = "RENEWED"
    CHECKPOINT = "CHECKPOINT"
    ORPHANED = "ORPHANED"


class MemberState(StrEnum):
    LIVE = "LIVE"
    DRAINING = "DRAINING"
    DEAD = "DEAD"
    GONE = "GONE"


class StatusState(StrEnum):
    """What the owner says of a connection."""

    CONNECTING = "CONNECTING"
    STREAMING = "STREAMING"
    BACKOFF = "BACKOFF"
    FAILED = "FAILED"
    """Given up for good until the spec changes; the reason says why. The lease is kept, so that no one else tries."""
    BLOCKED = "BLOCKED"
    """Connected, but the sink takes nothing; the reason says why."""
    YIELDED = "YIELDED"
    """Given up because nothing came, for another worker to try."""
    QUARANTINED = "QUARANTINED"
    """Put off: on more than one worker nothing came, or it does harm. Nobody owns it before `until_ms`."""
    RELEASED = "RELEASED"


type Sequence = int | float | str


@dataclass(frozen=True, slots=True)
class Position:
    """What resuming needs: the sequence below which every record is durable, and the upstream it belongs to."""

    sequence: Sequence | None = None
    instance: str | None = None
    """The upstream instance (the dialled host, say) that numbers this sequence."""
    resume_url: str | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Seek:
    """Where somebody asked a connection to go on. It holds while no position was made since; its owner says so in a gap
    record."""

    to: Literal["live", "beginning", "position"]
    sequence: Sequence | None = None
    """Of `position`: as if all up to this were durable."""
    from_sequence: Sequence | None = None
    """Where it stood when it was asked for, as far as the item said."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint as a position page holds it (worker mode)."""

    connection_id: str
    epoch: int
    checkpoint_no: int
    spec_version: int
    """Of the spec that the position was made by."""
    position: Position


@dataclass(frozen=True, slots=True)
class Status:
    state: StatusState
    since_ms: int
    reason: str | None = None
    until_ms: int | None = None
    """QUARANTINED: not to be tried again before this."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One upstream WebSocket somebody wants open, as its item said at one moment."""

    connection_id: str
    desired_state: DesiredState
    upstream_url: str
    spec: Mapping[str, Value]
    spec_version: int
    lease_epoch: int
    lease_owner: str | None = None
    lease_expires_at_ms: int | None = None
    lease_nonce: str | None = None
    position: Position | None = None
    positions_since_version: int = 0
    """Positions made by an older version of the spec are not to be kept: somebody asked for a start from nowhere."""
    seek: Seek | None = None
    checkpoint_no: int = 0
    crashes: int = 0
    not_before_ms: int | None = None
    status: Status | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    created_at_ms: int = 0
    updated_at_ms: int = 0
    updated_by: str = ""


@dataclass(frozen=True, slots=True)
class Lease:
    """What an owner holds: enough to renew, checkpoint and release, and to stamp every side effect."""

    connection_id: str
    worker_id: str
    epoch: int
    spec_version: int
    expires_at_ms: int | None
    """None in worker mode: the member's own lease stands for it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A worker's own item: presence, share, load; in worker mode, its lease."""

    worker_id: str
    state: MemberState
    heartbeat: int
    lease_expires_at_ms: int
    generation: int
    capacity: int
    owned: int
    started_at_ms: int
    zone: str = ""
    load: Mapping[str, Value] = field(default_factory=dict)
    buried_at_ms: int | None = None
    lease_ms: int = 0
    """How long its leases last; 0: a worker of an earlier release, which did not say."""
    drain_requested: str | None = None
    """Who asked it to drain, if somebody did."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How much each worker is to have, and whether anything is to move for that (`streamlease.shares`)."""

    generation: int
    """Workers of an older one take nothing."""
    level: int
    """What each is to weigh at least."""
    one_more_below: int
    """Workers of a lower rank than this have one more."""
    whole: int
    """All that is shared among those who count."""
    total: int
    """All that is started, as far as it is known: a count is off by what is moving."""
    total_at_ms: int
    """When so much was counted last."""
    more_since_ms: int
    """Since when more was counted; 0: it was not."""
    grew_at_ms: int
    """When the total grew by much last."""
    stubborn: int
    """So many of the unowned nobody can take."""
    least_unowned: int
    least_since_ms: int
    movable: bool
    """Nobody comes by a deployment, or goes: moves for balance are not in the way of others."""
    all_unwell: bool
    lacking: int = 0
    """What some have less than they are to have, beside what is unowned."""
    short: bool = False
    """Somebody has less than the level."""
    extra: int = 0
    """The part of the total that is measured: what connections weigh beyond their number."""
    extra_at_ms: int = 0
    """When about so much was measured last. (Earlier releases do not say these two.)"""


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """Who sweeps writes it; the rest read it instead of scanning. Numbers are of the sweep's moment, and may lag."""

    at_ms: int
    live: int
    owned: int
    unowned: int
    shards: int
    """The most shards ever written; sweeps cover them all. Only grows."""
    shares: Shares | None = None
    """None: nobody is there to share, or a release that knows no shares wrote it."""


type OfferReason = Literal["control", "released", "orphaned", "expired"]


@dataclass(frozen=True, slots=True)
class Offer:
    """A hint that a connection may need an owner. Lost, late or doubled offers are harmless."""

    connection_id: str
    reason: OfferReason
    offered_at_ms: int
