"""The life of a connection's lease: each transition as one conditional write, and its answer as a value (design §3).

Every function is pure. The condition is documented where it is built; `streamlease.write.holds` and `apply` say what it
means, so that a simulator and DynamoDB judge the same request. Losing a race is a value, never an exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from streamlease import items
from streamlease.errors import Malformed
from streamlease.model import (
    SCHEMA,
    Connection,
    DesiredState,
    LastEvent,
    Lease,
    LeaseMode,
    Position,
    Saved,
    Seek,
    Status,
    StatusState,
)
from streamlease.timing import Instant, Timing
from streamlease.write import (
    Absent,
    Answer,
    Applied,
    Condition,
    Delete,
    Equals,
    Greater,
    Item,
    Less,
    Not,
    Present,
    Put,
    Refused,
    Table,
    Update,
    Value,
    all_of,
    any_of,
)

FIRST_POSTPONEMENT_MS = 5_000
LONGEST_POSTPONEMENT_MS = 15 * 60_000
CRASHES_BEFORE_POSTPONEMENT = 2
WORD = 0
NO_EPOCH = 1 << 62
"""Above every epoch there can be. Less than this is any number: one added to no number would begin anew."""

# --- outcomes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claimed:
    """The lease is ours. `connection` is the whole item after the claim."""

    connection: Connection
    lease: Lease
    deadline_s: float
    """Monotonic: no delivery begins after it. In worker mode the member's own deadline stands beside it."""


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else's lease, or one not to be taken before `until_ms` (None: no time is known)."""

    owner: str | None
    until_ms: int | None


@dataclass(frozen=True, slots=True)
class Unproven:
    """The lease ran out before its owner had written one checkpoint: it counts as a crash; see `claim_after_crash`."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class Stopped:
    """Nobody wants it open. `connection` is None where the item is gone."""

    connection: Connection | None


@dataclass(frozen=True, slots=True)
class Changed:
    """Still ours, but the spec or desired state moved on; renew again with the version in `connection`."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class Renewed:
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Outrun:
    """Still ours, but a later renewal or checkpoint had landed first; `connection` says what to go above."""

    connection: Connection


@dataclass(frozen=True, slots=True)
class Lost:
    """Ours no longer. `reason` is for logs and people; `owner` is who has it now, if anybody."""

    reason: Literal["stolen", "released", "deleted", "malformed"]
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Checkpointed:
    checkpoint_no: int


@dataclass(frozen=True, slots=True)
class Released:
    """The lease is given up: by this write, or it was already (`landed` False)."""

    landed: bool


@dataclass(frozen=True, slots=True)
class Done:
    connection: Connection | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """A connection of that id is there already."""


@dataclass(frozen=True, slots=True)
class Absentee:
    """There is no connection of that id."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Not to be deleted yet: started, or still owned until `until_ms`."""

    reason: Literal["started", "owned"]
    until_ms: int | None = None


type ClaimOutcome = Claimed | Held | Unproven | Stopped
type RenewOutcome = Renewed | Changed | Stopped | Outrun | Lost
type CheckpointOutcome = Checkpointed | Outrun | Lost
type ControlOutcome = Done | Changed | Absentee
type DeleteOutcome = Done | Busy | Absentee


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What an owner has to say of a connection. `number` orders writes, so that a position may be opaque. Number 0: it
    is a word only, the status of a feed that has proven nothing yet, so that its owner's death counts as its doing."""

    number: int
    position: Position | None = None
    status: Status | None = None
    position_version: int | None = None
    """Of the spec that the position was made by. Nobody goes on from it where a later one asked to forget what was."""


# --- conditions with a name ------------------------------------------------------------------------------------------


def _key(connection_id: str) -> Mapping[str, str]:
    return {"connection_id": connection_id}


def _ours(lease: Lease) -> tuple[Condition, Condition]:
    return Equals("lease_owner", lease.worker_id), Equals("lease_epoch", lease.epoch)


def _expired(now_ms: int, timing: Timing) -> Condition:
    return Less("lease_expires_at_ms", timing.expired_before_ms(now_ms))


def _due(now_ms: int) -> Condition:
    return any_of(Absent("not_before_ms"), Less("not_before_ms", now_ms))


# --- create, control, delete: written by people ----------------------------------------------------------------------


def create(
    connection_id: str,
    *,
    upstream_url: str,
    spec: Mapping[str, Value],
    labels: Mapping[str, str],
    desired_state: DesiredState,
    shard: str,
    now_ms: int,
    updated_by: str,
) -> Put:
    """Condition: no such item. The epoch begins at Unix milliseconds, so that a recreated id never repeats one; the
    expiry is 0 from the start, so that a lost event still leaves the item in the expiry index."""
    item: dict[str, Value] = {
        "schema": SCHEMA,
        "connection_id": connection_id,
        "desired_state": desired_state.value,
        "upstream_url": upstream_url,
        "spec": spec,
        "spec_version": 1,
        "labels": dict(labels),
        "lease_epoch": now_ms,
        "lease_expires_at_ms": 0,
        "checkpoint_no": 0,
        "crashes": 0,
        "last_event": LastEvent.CONTROL.value,
        "created_at_ms": now_ms,
        "updated_at_ms": now_ms,
        "updated_by": updated_by,
    }
    if desired_state is DesiredState.STARTED:
        item["desired_state_shard"] = shard
    return Put(Table.CONNECTIONS, item, Absent("connection_id"))


def created(answer: Answer) -> Done | Exists:
    return Done() if isinstance(answer, Applied) else Exists()


@dataclass(frozen=True, slots=True)
class Change:
    """What a person wants different; None leaves it as it is."""

    desired_state: DesiredState | None = None
    upstream_url: str | None = None
    spec: Mapping[str, Value] | None = None
    labels: Mapping[str, str] | None = None
    forget_position: bool = False
    seek: Seek | None = None
    """Forget the position, and go on from there instead."""
    again: bool = False
    """Try it again, now: what was given up for good, or put off."""


def control(seen: Connection, change: Change, *, shard: str, now_ms: int, updated_by: str) -> Update:
    """Condition: spec_version = seen, and put off or not as seen; of what no sweep lists, that nobody owns it either,
    for it is made free at once. Touches no attribute of the owner's, unless told to forget the position."""
    desired_state = change.desired_state or seen.desired_state
    attributes: dict[str, Value] = {
        "desired_state": desired_state.value,
        "spec_version": seen.spec_version + 1,
        "last_event": LastEvent.CONTROL.value,
        "updated_at_ms": now_ms,
        "updated_by": updated_by,
        "crashes": 0,
    }
    remove = ["not_before_ms"]
    if desired_state is DesiredState.STARTED:
        attributes["desired_state_shard"] = shard
    else:
        remove.append("desired_state_shard")
    if change.upstream_url is not None:
        attributes["upstream_url"] = change.upstream_url
    if change.spec is not None:
        attributes["spec"] = change.spec
    if change.labels is not None:
        attributes["labels"] = dict(change.labels)
    if change.seek is None and change.forget_position:
        remove.append("seek")
    if change.seek is not None:
        last = None if seen.position is None else seen.position.sequence
        attributes["seek"] = items.seek_attribute(replace(change.seek, from_sequence=last))
    if change.forget_position or change.seek is not None:
        attributes["positions_since_version"] = seen.spec_version + 1
        remove += ["position", "last_sequence"]
    until_ms = seen.not_before_ms
    # A release that puts off changes no version: what came between would be due now, and yet listed by no sweep.
    as_put_off = Absent("not_before_ms") if until_ms is None else Equals("not_before_ms", until_ms)
    condition = all_of(Equals("spec_version", seen.spec_version), as_put_off)
    if hidden(seen):
        attributes["lease_expires_at_ms"] = 0
        condition = all_of(condition, Absent("lease_owner"))
    return Update(
        Table.CONNECTIONS,
        _key(seen.connection_id),
        condition,
        set=attributes,
        remove=tuple(remove),
    )


def hidden(seen: Connection) -> bool:
    """Whether nobody owns it, and no sweep lists it yet: its expiry is the time before which nobody may."""
    return seen.lease_owner is None and seen.lease_expires_at_ms != 0


def controlled(answer: Answer) -> ControlOutcome:
    """Raises Malformed where the item in the way cannot be read."""
    if isinstance(answer, Applied):
        return Done(items.connection(answer.item) if answer.item else None)
    return Absentee() if answer.item is None else Changed(items.connection(answer.item))


def delete(connection_id: str, *, now_ms: int, timing: Timing) -> Delete:
    """Condition: STOPPED, and nobody holds it."""
    return Delete(
        Table.CONNECTIONS,
        _key(connection_id),
        all_of(
            Equals("desired_state", DesiredState.STOPPED.value),
            any_of(Absent("lease_owner"), _expired(now_ms, timing)),
        ),
    )


def deleted(answer: Answer) -> DeleteOutcome:
    if isinstance(answer, Applied):
        return Done()
    if answer.item is None:
        return Absentee()
    found = items.connection(answer.item)
    if found.desired_state is DesiredState.STARTED:
        return Busy("started")
    return Busy("owned", found.lease_expires_at_ms)


# --- claim -----------------------------------------------------------------------------------------------------------


def claim(connection_id: str, *, worker_id: str, nonce: str, sent: Instant, timing: Timing, mode: LeaseMode) -> Update:
    """Condition: STARTED; nobody's, or expired with at least one checkpoint written by its last owner; due; and as
    readable as a condition can tell.

    An expired lease without a checkpoint is left to `claim_after_crash` or `postpone`, which count it. `sent` is read
    just before the request goes out.
    """
    proven = all_of(_expired(sent.wall_ms, timing), Not(Equals("checkpoint_no", 0)), Present("checkpoint_no"))
    return _claim(
        connection_id,
        all_of(any_of(Absent("lease_owner"), proven), _readable()),
        worker_id=worker_id,
        nonce=nonce,
        sent=sent,
        timing=timing,
        mode=mode,
    )


def claim_after_crash(
    seen: Connection, *, worker_id: str, nonce: str, sent: Instant, timing: Timing, mode: LeaseMode
) -> Update:
    """The claim of an expired lease that never wrote a checkpoint. Condition beside that: the epoch is the one seen."""
    return _claim(
        seen.connection_id,
        all_of(_expired(sent.wall_ms, timing), Equals("lease_epoch", seen.lease_epoch)),
        worker_id=worker_id,
        nonce=nonce,
        sent=sent,
        timing=timing,
        mode=mode,
        crashes=seen.crashes + 1,
    )


def _readable() -> Condition:
    """Of what `items.connection` refuses, what a condition can tell: so that most of what was written by hand is
    reported and left as it is, and not taken first."""
    return all_of(
        Less("lease_epoch", NO_EPOCH),
        Less("spec_version", NO_EPOCH),
        Present("spec"),
        Present("upstream_url"),
        any_of(Equals("lease_expires_at_ms", 0), Not(Less("lease_expires_at_ms", items.LATEST_SECONDS))),
    )


def _claim(
    connection_id: str,
    free: Condition,
    *,
    worker_id: str,
    nonce: str,
    sent: Instant,
    timing: Timing,
    mode: LeaseMode,
    crashes: int | None = None,
) -> Update:
    attributes: dict[str, Value] = {
        "lease_owner": worker_id,
        "lease_nonce": nonce,
        "checkpoint_no": 0,
        "last_event": LastEvent.CLAIMED.value,
    }
    remove = ["not_before_ms"]
    if mode is LeaseMode.CONNECTION:
        attributes["lease_expires_at_ms"] = timing.expires_at_ms(sent)
    else:
        remove.append("lease_expires_at_ms")
    if crashes is not None:
        attributes["crashes"] = crashes
    return Update(
        Table.CONNECTIONS,
        _key(connection_id),
        all_of(Equals("desired_state", DesiredState.STARTED.value), free, _due(sent.wall_ms)),
        set=attributes,
        remove=tuple(remove),
        add={"lease_epoch": 1},
    )


def claimed(answer: Answer, *, worker_id: str, nonce: str, sent: Instant, timing: Timing) -> ClaimOutcome:
    """Raises Malformed where the item cannot be read: it is reported and left alone.

    A refusal that shows our own nonce is a claim that had landed before: the same claim, sent again.
    """
    if answer.item is None:
        if isinstance(answer, Applied):
            raise Malformed("claim", "the store returned no item")
        return Stopped(None)
    found = items.connection(answer.item)
    ours = found.lease_owner == worker_id and found.lease_nonce == nonce
    if isinstance(answer, Refused) and not ours:
        return _not_claimed(found, sent, timing)
    return Claimed(found, lease_of(found, worker_id), timing.deadline_s(sent))


def settled(item: Item | None, *, worker_id: str, nonce: str, sent: Instant, timing: Timing) -> Claimed | None:
    """What a consistent read says of a claim whose answer was lost. None: it has not landed (and still may)."""
    if item is None or item.get("lease_owner") != worker_id or item.get("lease_nonce") != nonce:
        return None
    found = items.connection(item)
    return Claimed(found, lease_of(found, worker_id), timing.deadline_s(sent))


def lease_of(connection: Connection, worker_id: str) -> Lease:
    return Lease(
        connection_id=connection.connection_id,
        worker_id=worker_id,
        epoch=connection.lease_epoch,
        spec_version=connection.spec_version,
        expires_at_ms=connection.lease_expires_at_ms,
    )


def _not_claimed(found: Connection, sent: Instant, timing: Timing) -> Held | Unproven | Stopped:
    if found.desired_state is DesiredState.STOPPED:
        return Stopped(found)
    if found.not_before_ms is not None and found.not_before_ms >= sent.wall_ms:
        return Held(None, found.not_before_ms)
    expires_at_ms = found.lease_expires_at_ms
    if (
        found.lease_owner is not None
        and expires_at_ms is not None
        and expires_at_ms < timing.expired_before_ms(sent.wall_ms)
        and found.checkpoint_no == 0
    ):
        return Unproven(found)
    return Held(found.lease_owner, None if expires_at_ms is None else expires_at_ms + timing.skew_ms)


def postponed_until_ms(crashes: int, now_ms: int) -> int:
    """When a connection that has cost `crashes` owners may be tried again: doubling from 5 s to 15 minutes."""
    delay_ms = FIRST_POSTPONEMENT_MS << max(0, min(crashes - CRASHES_BEFORE_POSTPONEMENT, 10))
    return now_ms + min(delay_ms, LONGEST_POSTPONEMENT_MS)


def _freed(crashes: int, now_ms: int) -> Item:
    """What frees a dead owner's connection. Its status says so: the last that the owner said would stand for ever, and
    nothing would tell since when nobody streams."""
    reason = "its worker died" if crashes == 0 else f"its worker died without a checkpoint, {crashes} in a row"
    return {
        "lease_expires_at_ms": 0,
        "crashes": crashes,
        "last_event": LastEvent.ORPHANED.value,
        **items.status_attributes(Status(StatusState.RELEASED, now_ms, reason)),
    }


def postpone(seen: Connection, *, now_ms: int, timing: Timing) -> Update:
    """Put down an expired lease that has cost too many owners, not to be taken for a while: a connection that kills its
    owners must not kill the fleet. Condition: still expired, of the epoch seen."""
    crashes = seen.crashes + 1
    return Update(
        Table.CONNECTIONS,
        _key(seen.connection_id),
        all_of(_expired(now_ms, timing), Equals("lease_epoch", seen.lease_epoch), Present("lease_owner")),
        set={
            **_freed(crashes, now_ms),
            "not_before_ms": postponed_until_ms(crashes, now_ms),
        },
        remove=("lease_owner", "lease_nonce"),
    )


# --- renew, checkpoint, release: written by the owner ----------------------------------------------------------------


def checkpoint_attributes(checkpoint: Checkpoint) -> Item:
    """A checkpoint also clears the crash count: its owner has lived to tell of the connection."""
    if checkpoint.number == WORD:
        return {} if checkpoint.status is None else items.status_attributes(checkpoint.status)
    attributes: dict[str, Value] = {"checkpoint_no": checkpoint.number, "crashes": 0}
    if checkpoint.position is not None:
        attributes.update(items.position_attributes(checkpoint.position, checkpoint.position_version))
    if checkpoint.status is not None:
        attributes.update(items.status_attributes(checkpoint.status))
    return attributes


def _newer(checkpoint: Checkpoint) -> Condition:
    if checkpoint.number == WORD:
        return Equals("checkpoint_no", 0)
    return Less("checkpoint_no", checkpoint.number)


def renew(lease: Lease, *, sent: Instant, timing: Timing, checkpoint: Checkpoint | None = None) -> Update:
    """Condition: ours, of the version seen, and the stored expiry is below the new one (a renewal that lands late
    must not shorten a later one); with a checkpoint, its number is above the stored one, or there is none where it is a
    word. Connection mode only."""
    expires_at_ms = timing.expires_at_ms(sent)
    terms: list[Condition] = [
        *_ours(lease),
        Equals("spec_version", lease.spec_version),
        Less("lease_expires_at_ms", expires_at_ms),
    ]
    attributes: dict[str, Value] = {
        "lease_expires_at_ms": expires_at_ms,
        "last_event": LastEvent.RENEWED.value,
    }
    if checkpoint is not None:
        terms.append(_newer(checkpoint))
        attributes.update(checkpoint_attributes(checkpoint))
    return Update(Table.CONNECTIONS, _key(lease.connection_id), all_of(*terms), set=attributes)


def renewed(answer: Answer, *, lease: Lease, expires_at_ms: int) -> RenewOutcome:
    """`expires_at_ms` is what the renewal wrote. A malformed item in the way is Lost: it is nobody's to reason with."""
    if isinstance(answer, Applied):
        return Renewed(expires_at_ms)
    found = _still_ours(answer.item, lease)
    if isinstance(found, Lost):
        return found
    if found.desired_state is DesiredState.STOPPED:
        return Stopped(found)
    if found.spec_version != lease.spec_version:
        return Changed(found)
    return Outrun(found)


def checkpoint(lease: Lease, checkpoint: Checkpoint) -> Update:
    """Condition: ours, and the number is above the stored one; of a word, that none is stored. Touches no index."""
    return Update(
        Table.CONNECTIONS,
        _key(lease.connection_id),
        all_of(*_ours(lease), _newer(checkpoint)),
        set={**checkpoint_attributes(checkpoint), "last_event": LastEvent.CHECKPOINT.value},
    )


def checkpointed(answer: Answer, *, lease: Lease, checkpoint: Checkpoint) -> CheckpointOutcome:
    if isinstance(answer, Applied):
        return Checkpointed(checkpoint.number)
    found = _still_ours(answer.item, lease)
    return found if isinstance(found, Lost) else Outrun(found)


def release(lease: Lease, *, checkpoint: Checkpoint, now_ms: int) -> Update:
    """Condition: ours. Sent only once every sink attempt has ended; once sent, this epoch never delivers again.

    With a status that says until when it is put off, nobody may claim it before that: nor do sweeps list it among what
    is free, where many of them would stand before what has to move at once.
    """
    status = checkpoint.status or Status(StatusState.RELEASED, now_ms)
    until: dict[str, Value] = {"lease_expires_at_ms": 0}
    if status.until_ms is not None:
        until = {"lease_expires_at_ms": status.until_ms, "not_before_ms": status.until_ms}
    attributes = checkpoint_attributes(replace(checkpoint, status=status))
    return Update(
        Table.CONNECTIONS,
        _key(lease.connection_id),
        all_of(*_ours(lease)),
        set={**attributes, **until, "last_event": LastEvent.RELEASED.value},
        remove=("lease_owner", "lease_nonce"),
    )


def released(answer: Answer) -> Released:
    """A refusal means that the epoch is over already: an earlier send landed, or another took it. Both are final."""
    return Released(landed=isinstance(answer, Applied))


def _still_ours(item: Item | None, lease: Lease) -> Connection | Lost:
    if item is None:
        return Lost("deleted")
    try:
        found = items.connection(item)
    except Malformed:
        return Lost("malformed")
    if found.lease_owner == lease.worker_id and found.lease_epoch == lease.epoch:
        return found
    return Lost("stolen" if found.lease_owner else "released", found.lease_owner)


# --- orphan: written by whoever buried the owner ---------------------------------------------------------------------


def orphan_unread(connection_id: str, *, dead_worker_id: str, now_ms: int, saved: Saved | None) -> Update:
    """The orphaning of a connection that nobody has read: right as it is for one that has a checkpoint of its epoch,
    and refused for any other, which shows the item to `orphan` it by. `saved`: what the dead worker's pages, sealed
    before, say last of it.

    Condition: owned by the dead worker, without an expiry of its own, of a readable epoch, and a checkpoint is in the
    item. With `saved`: of that epoch and version, and its number is above the item's.
    """
    ours = (Equals("lease_owner", dead_worker_id), Absent("lease_expires_at_ms"))
    attributes: dict[str, Value] = {**_freed(0, now_ms)}
    if saved is None:
        condition = all_of(*ours, Less("lease_epoch", NO_EPOCH), Greater("checkpoint_no", 0))
    else:
        condition = all_of(
            *ours,
            Equals("lease_epoch", saved.epoch),
            Equals("spec_version", saved.spec_version),
            Less("checkpoint_no", saved.checkpoint_no),
        )
        position = items.position_attributes(saved.position, saved.spec_version)
        attributes |= {"checkpoint_no": saved.checkpoint_no, **position}
    return Update(
        Table.CONNECTIONS,
        _key(connection_id),
        condition,
        set=attributes,
        remove=("lease_owner", "lease_nonce"),
    )


def orphan(seen: Connection, *, dead_worker_id: str, now_ms: int, saved: Saved | None = None) -> Update:
    """Condition: owned by the dead worker in the epoch seen, and without an expiry of its own (a connection-mode lease
    stands on that), and no checkpoint written since. Counts a crash where the epoch had written no checkpoint, neither
    in the item nor in a page.

    The position of `saved` rides along where it is of the epoch seen and of a higher number, unless somebody has asked
    for a start from nowhere since; then no change may come between either.
    """
    newer = saved is not None and saved.epoch == seen.lease_epoch and saved.checkpoint_no > seen.checkpoint_no
    crashes = seen.crashes + 1 if seen.checkpoint_no == 0 and not newer else 0
    attributes: dict[str, Value] = {**_freed(crashes, now_ms)}
    if crashes >= CRASHES_BEFORE_POSTPONEMENT:
        attributes["not_before_ms"] = postponed_until_ms(crashes, now_ms)
    terms: list[Condition] = [
        Equals("lease_owner", dead_worker_id),
        Equals("lease_epoch", seen.lease_epoch),
        Equals("checkpoint_no", seen.checkpoint_no),
        Absent("lease_expires_at_ms"),
    ]
    if saved is not None and newer:
        attributes["checkpoint_no"] = saved.checkpoint_no
        if saved.spec_version >= seen.positions_since_version:
            attributes.update(items.position_attributes(saved.position, saved.spec_version))
            terms.append(Equals("spec_version", seen.spec_version))
    return Update(
        Table.CONNECTIONS,
        _key(seen.connection_id),
        all_of(*terms),
        set=attributes,
        remove=("lease_owner", "lease_nonce"),
    )
