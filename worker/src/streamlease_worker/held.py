"""One lease in the keeper's hands: what is known of it, what was sent for it, when it is due again. Part of the keeper.

Checkpoint numbers are never used twice, also where an answer was lost: a write that lands late is then below any later
one. The first checkpoint waits until the feed has been seen alive through a whole renewal, because a lease that runs
out without any counts as a crash of its owner (`streamlease.lease.claim`).
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from streamlease.lease import WORD, Checkpoint, Claimed
from streamlease.model import Connection, DesiredState, Lease, Position, Saved, Status, StatusState
from streamlease_worker.keeper_events import FenceReason, Renewal, Saving

ALIVE = frozenset({StatusState.STREAMING, StatusState.BLOCKED, StatusState.BACKOFF, StatusState.FAILED})
"""States whose report shows that the feed ran and ended nobody."""


class Phase(Enum):
    HELD = auto()
    FENCED = auto()
    """May deliver no more; waits for its release to be requested."""
    RELEASING = auto()
    GONE = auto()


@dataclass(slots=True)
class Held:
    """Mutable, owned by one `Keeper`. Seconds are monotonic."""

    lease: Lease
    deadline_s: float
    due_s: float
    sent_s: float
    wanted: DesiredState
    position: Position | None
    position_version: int
    """Of the spec that the position was made by."""
    phase: Phase = Phase.HELD
    in_flight: bool = False
    number: int = 0
    """The highest checkpoint number used or seen."""
    every_s: float | None = None
    """How often its positions are to be stored, where it has a wish."""
    status: Status | None = None
    stop_told: bool = False
    least_version: int = 0
    """Positions of feeds of an older spec are not to be kept: a person asked for a start from nowhere."""
    failures: int = 0
    blame: FenceReason = "expired"
    release_unanswered: bool = False
    parting_status: Status | None = None
    """What the release is to leave as the status."""
    _revision: int = 0
    """Counts news of either kind; the next four are such counts."""
    _position_revision: int = 0
    _status_revision: int = 0
    _stored_revision: int = 0
    _paged_revision: int = 0
    _alive_since_s: float | None = None
    _proven: bool = field(default=False)

    @property
    def key(self) -> tuple[str, int]:
        return self.lease.connection_id, self.lease.epoch

    @property
    def is_put_off(self) -> bool:
        """Whether nobody may have it at once, so that nobody is to be offered it."""
        return self.parting_status is not None and self.parting_status.until_ms is not None

    @property
    def streaming(self) -> bool:
        return self.status is not None and self.status.state is StatusState.STREAMING

    @property
    def unsaved(self) -> bool:
        """Whether there is news to store, of a feed that has proven itself."""
        return (self._proven or self._has_word) and self._revision > self._stored_revision

    @property
    def status_unsaved(self) -> bool:
        """Worker mode: whether there is news for the item, where positions alone are none."""
        return (self._proven or self._has_word) and self._status_revision > self._stored_revision

    @property
    def _has_word(self) -> bool:
        """Whether people are to know what it waits for, though it has proven nothing and has no checkpoint yet."""
        return (
            not self._position_revision
            and self.status is not None
            and self.status.state is StatusState.CONNECTING
            and self.status.reason is not None
        )

    @property
    def position_unsaved(self) -> bool:
        """Worker mode: whether there is news for a page."""
        newest_saved = max(self._stored_revision, self._paged_revision)
        return self._proven and self.position is not None and self._position_revision > newest_saved

    def advance(self, position: Position, spec_version: int, every_s: float | None = None) -> None:
        if spec_version >= self.least_version:
            self.every_s = every_s
        if spec_version >= self.least_version and position != self.position:
            self.position = position
            self.position_version = spec_version
            self._revision += 1
            self._position_revision = self._revision

    def report(self, status: Status, now_s: float) -> None:
        self.status = status
        self._revision += 1
        self._status_revision = self._revision
        if self._alive_since_s is None and status.state in ALIVE:
            self._alive_since_s = now_s

    def lived_through(self, sent_s: float) -> bool:
        """A renewal (or heartbeat) that went out at `sent_s` has been answered, and the feed has ended nobody. Returns
        whether that proves it for the first time."""
        if self._proven or self._alive_since_s is None or sent_s < self._alive_since_s:
            return False
        self._proven = True
        return True

    def renewal(self) -> tuple[Renewal, int]:
        """What to send, and the revision that it stores."""
        if not self.unsaved:
            return Renewal(self.lease, None), self._stored_revision
        saving, revision = self.saving()
        return Renewal(saving.lease, saving.checkpoint), revision

    def saving(self) -> tuple[Saving, int]:
        if not self._proven:
            return Saving(self.lease, Checkpoint(WORD, None, self.status)), self._revision
        self.number += 1
        return Saving(self.lease, self._checkpoint(self.status)), self._revision

    def parting(self) -> Saving:
        """The release's own checkpoint: newest position; its status says that it was released, if nothing else."""
        self.number += 1
        return Saving(self.lease, self._checkpoint(self.parting_status))

    def _checkpoint(self, status: Status | None) -> Checkpoint:
        version = None if self.position is None else self.position_version
        return Checkpoint(self.number, self.position, status, version)

    def entry(self) -> Saved:
        """Worker mode: how it would stand in a page, by the number used last."""
        return Saved(*self.key, self.number, self.position_version, self.position or Position())

    def turning(self) -> tuple[Saved, int]:
        """Worker mode: what to write into a page, and the revision that it stores."""
        self.number += 1
        return self.entry(), self._revision

    def stored(self, revision: int) -> None:
        self._stored_revision = max(self._stored_revision, revision)

    def paged(self, revision: int) -> None:
        self._paged_revision = max(self._paged_revision, revision)

    def saw(self, found: Connection) -> bool:
        """Take over what a reading of our item says. Returns whether somebody asked for a start from nowhere."""
        self.number = max(self.number, found.checkpoint_no)
        self.wanted = found.desired_state
        if found.spec_version == self.lease.spec_version:
            return False
        forgotten = found.positions_since_version > self.lease.spec_version
        self.lease = Lease(
            connection_id=found.connection_id,
            worker_id=self.lease.worker_id,
            epoch=self.lease.epoch,
            spec_version=found.spec_version,
            expires_at_ms=self.lease.expires_at_ms,
        )
        if forgotten:
            self.position = None
            self.least_version = found.positions_since_version
        return forgotten


def take(claimed: Claimed, *, deadline_s: float, due_s: float, sent_s: float) -> Held:
    """A lease just claimed by a request that went out at `sent_s`."""
    connection = claimed.connection
    return Held(
        lease=claimed.lease,
        deadline_s=deadline_s,
        due_s=due_s,
        sent_s=sent_s,
        wanted=connection.desired_state,
        position=connection.position,
        position_version=connection.spec_version,
        number=connection.checkpoint_no,
    )
