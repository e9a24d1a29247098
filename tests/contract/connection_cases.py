"""Every transition of a connection item, with every clause of its condition violated one at a time (design §3)."""

from collections.abc import Mapping
from functools import partial

from streamlease import lease
from streamlease.errors import Malformed
from streamlease.lease import (
    Absentee,
    Busy,
    Change,
    Changed,
    Checkpoint,
    Checkpointed,
    Claimed,
    Done,
    Exists,
    Held,
    Lost,
    Outrun,
    Released,
    Renewed,
    Stopped,
    Unproven,
)
from streamlease.model import Connection, DesiredState, Lease, LeaseMode, Position, Saved, Status, StatusState
from streamlease.timing import Instant, Timing
from streamlease.write import Answer, Value, Write
from tests.contract.cases import WITHOUT, Case, Of, Without, changed, landed, nothing

TIMING = Timing()
NOW = 1_800_000_000_000
SENT = Instant(1_000.0, NOW)
EXPIRED = NOW - TIMING.skew_ms - 1
"""The latest expiry that has run out on every clock."""
EPOCH = 1_700_000_000_007
ME, RIVAL, NONCE = "worker-me", "worker-rival", "nonce-mine"
RENEWED_TO = TIMING.expires_at_ms(SENT)


def free(connection_id: str, **attributes: Value | Without) -> dict[str, Value]:
    """A started connection that nobody has."""
    item: dict[str, Value] = {
        "schema": 1,
        "connection_id": connection_id,
        "desired_state": "STARTED",
        "desired_state_shard": "STARTED#cases",
        "upstream_url": "wss://upstream.example/feed",
        "spec": {"record": {"sequence": "time_us"}, "headers": [{"x": None}], "rewind": 0.5},
        "spec_version": 4,
        "labels": {"team": "Ω"},
        "lease_epoch": EPOCH,
        "lease_expires_at_ms": 0,
        "checkpoint_no": 0,
        "crashes": 0,
        "last_event": "CONTROL",
        "created_at_ms": 1_600_000_000_000,
        "updated_at_ms": 1_600_000_000_000,
        "updated_by": "arn:aws:iam::1:user/ä",
    }
    return changed(item, **attributes)


def owned(connection_id: str, owner: str = ME, **attributes: Value | Without) -> dict[str, Value]:
    """One that `owner` renewed a heartbeat ago, and has checkpointed."""
    item = free(
        connection_id,
        lease_owner=owner,
        lease_nonce=f"nonce-of-{owner}",
        lease_expires_at_ms=RENEWED_TO - TIMING.heartbeat_ms,
        checkpoint_no=3,
    )
    return changed(item, **attributes)


def stopped(connection_id: str, **attributes: Value | Without) -> dict[str, Value]:
    return free(connection_id, **{"desired_state": "STOPPED", "desired_state_shard": WITHOUT, **attributes})


def seen(connection_id: str, **different: int) -> Connection:
    """What a reader had seen of `expired_unproven`, or of one that differs from it."""
    return Connection(
        connection_id=connection_id,
        desired_state=DesiredState.STARTED,
        upstream_url="wss://upstream.example/feed",
        spec={},
        spec_version=different.get("spec_version", 4),
        lease_epoch=different.get("lease_epoch", EPOCH),
        lease_owner=RIVAL,
        checkpoint_no=different.get("checkpoint_no", 0),
        crashes=different.get("crashes", 0),
    )


def expired_unproven(connection_id: str, **attributes: Value | Without) -> dict[str, Value]:
    item = owned(connection_id, RIVAL, lease_expires_at_ms=EXPIRED, checkpoint_no=0)
    return changed(item, **attributes)


def held(connection_id: str, epoch: int = EPOCH, spec_version: int = 4) -> Lease:
    return Lease(connection_id, ME, epoch, spec_version, None)


CHECKPOINT = Checkpoint(4, Position(7, "host-1", None, "tok\u00e9n"), Status(StatusState.STREAMING, NOW, "open"))

_claimed = partial(lease.claimed, worker_id=ME, nonce=NONCE, sent=SENT, timing=TIMING)


def _claims(mode: LeaseMode) -> Of:
    def write(connection_id: str) -> Write:
        return lease.claim(connection_id, worker_id=ME, nonce=NONCE, sent=SENT, timing=TIMING, mode=mode)

    return (
        Of(f"claim ({mode} mode)", write, _claimed)
        .applies("nobody's", free, Claimed)
        .applies("nobody's, whatever expiry was left", partial(free, lease_expires_at_ms=RENEWED_TO), Claimed)
        .applies("expired by a millisecond", partial(owned, owner=RIVAL, lease_expires_at_ms=EXPIRED), Claimed)
        .applies("its postponement is over", partial(free, not_before_ms=NOW - 1), Claimed)
        .refuses("stopped", stopped, Stopped)
        .refuses("absent", nothing, Stopped(None))
        .refuses("postponed until now", partial(free, not_before_ms=NOW), Held(None, NOW))
        .refuses(
            "not expired on every clock",
            partial(owned, owner=RIVAL, lease_expires_at_ms=EXPIRED + 1),
            Held(RIVAL, NOW),
        )
        .refuses("held in worker mode", partial(owned, owner=RIVAL, lease_expires_at_ms=WITHOUT), Held(RIVAL, None))
        .refuses("expired before a checkpoint", expired_unproven, Unproven)
        .refuses("expired without a checkpoint number", partial(expired_unproven, checkpoint_no=WITHOUT), Unproven)
        .refuses("its own claim had landed", partial(owned, lease_nonce=NONCE), Claimed)
        .refuses("it cannot be read", partial(owned, spec="by hand"), Malformed)
        .refuses("its epoch is no number", partial(free, lease_epoch=str(EPOCH)), Malformed)
        .refuses("it has no epoch", partial(free, lease_epoch=WITHOUT), Malformed)
        .refuses("its version is no number", partial(free, spec_version="4"), Malformed)
        .refuses("it has no spec", partial(free, spec=WITHOUT), Malformed)
        .refuses("it has no URL", partial(free, upstream_url=WITHOUT), Malformed)
        .refuses("its expiry is in seconds", partial(free, lease_expires_at_ms=NOW // 1000), Malformed)
        .refuses(
            "its expiry is in seconds, and somebody's",
            partial(owned, owner=RIVAL, lease_expires_at_ms=NOW // 1000),
            Malformed,
        )
        .applies("it was never owned, and has no expiry", partial(free, lease_expires_at_ms=WITHOUT), Claimed)
    )


def _renewals() -> list[Of]:
    def bare(connection_id: str) -> Write:
        return lease.renew(held(connection_id), sent=SENT, timing=TIMING)

    def carrying(connection_id: str) -> Write:
        return lease.renew(held(connection_id), sent=SENT, timing=TIMING, checkpoint=CHECKPOINT)

    def decode(answer: Answer) -> object:
        return lease.renewed(answer, lease=held(""), expires_at_ms=RENEWED_TO)

    both = []
    for name, write in (("renew", bare), ("renew with a checkpoint", carrying)):
        both.append(
            Of(name, write, decode)
            .applies("ours", owned, Renewed(RENEWED_TO))
            .refuses("stolen", partial(owned, owner=RIVAL), Lost("stolen", RIVAL))
            .refuses("stolen and taken again", partial(owned, lease_epoch=EPOCH + 2), Lost("stolen", ME))
            .refuses("released", partial(owned, lease_owner=WITHOUT), Lost("released"))
            .refuses("deleted", nothing, Lost("deleted"))
            .refuses("changed", partial(owned, spec_version=5), Changed)
            .refuses("stopped", partial(owned, spec_version=5, desired_state="STOPPED"), Stopped)
            .refuses("a later renewal landed first", partial(owned, lease_expires_at_ms=RENEWED_TO), Outrun)
            .refuses("it cannot be read", partial(owned, spec_version="4"), Lost("malformed"))
        )
    both[1].refuses("a later checkpoint landed first", partial(owned, checkpoint_no=4), Outrun)
    return both


def _checkpoints() -> Of:
    def write(connection_id: str) -> Write:
        return lease.checkpoint(held(connection_id), CHECKPOINT)

    def decode(answer: Answer) -> object:
        return lease.checkpointed(answer, lease=held(""), checkpoint=CHECKPOINT)

    return (
        Of("checkpoint", write, decode)
        .applies("ours", owned, Checkpointed(4))
        .applies("ours, whatever version", partial(owned, spec_version=9), Checkpointed(4))
        .refuses("stolen", partial(owned, owner=RIVAL), Lost("stolen", RIVAL))
        .refuses("stolen and taken again", partial(owned, lease_epoch=EPOCH + 2), Lost("stolen", ME))
        .refuses("a later checkpoint landed first", partial(owned, checkpoint_no=4), Outrun)
        .refuses("deleted", nothing, Lost("deleted"))
    )


def _releases() -> Of:
    def write(connection_id: str) -> Write:
        return lease.release(held(connection_id), checkpoint=Checkpoint(4, Position("b-9")), now_ms=NOW)

    return (
        Of("release", write, lease.released)
        .applies("ours", owned, Released(landed=True))
        .applies("ours, run out but not taken", partial(owned, lease_expires_at_ms=1), Released(landed=True))
        .refuses("stolen", partial(owned, owner=RIVAL), Released(landed=False))
        .refuses("taken again by ourselves", partial(owned, lease_epoch=EPOCH + 1), Released(landed=False))
        .refuses("released before", free, Released(landed=False))
        .refuses("deleted", nothing, Released(landed=False))
    )


def _crashed() -> list[Of]:
    def again(connection_id: str) -> Write:
        found = seen(connection_id)
        return lease.claim_after_crash(
            found, worker_id=ME, nonce=NONCE, sent=SENT, timing=TIMING, mode=LeaseMode.CONNECTION
        )

    def postpone(connection_id: str) -> Write:
        return lease.postpone(seen(connection_id, crashes=1), now_ms=NOW, timing=TIMING)

    claim = (
        Of("claim after a crash", again, _claimed)
        .applies("still expired, of that epoch", expired_unproven, Claimed)
        .applies("its postponement is over", partial(expired_unproven, not_before_ms=NOW - 1), Claimed)
        .refuses("stopped", partial(expired_unproven, desired_state="STOPPED"), Stopped)
        .refuses("renewed", partial(expired_unproven, lease_expires_at_ms=EXPIRED + 1), Held(RIVAL, NOW))
        .refuses("taken meanwhile", partial(expired_unproven, lease_epoch=EPOCH + 1), Unproven)
        .refuses("postponed", partial(expired_unproven, not_before_ms=NOW), Held(None, NOW))
    )
    put_down = (
        Of("postpone", postpone, landed)
        .applies("still expired, of that epoch", expired_unproven, True)
        .refuses("renewed", partial(expired_unproven, lease_expires_at_ms=EXPIRED + 1), False)
        .refuses("taken meanwhile", partial(expired_unproven, lease_epoch=EPOCH + 1), False)
        .refuses("put down already", partial(expired_unproven, lease_owner=WITHOUT), False)
        .refuses("deleted", nothing, False)
    )
    return [claim, put_down]


def _orphanings() -> list[Of]:
    def saved(connection_id: str) -> Saved:
        return Saved(connection_id, EPOCH, 9, 4, Position(70, "host-1"))

    def write(connection_id: str) -> Write:
        return lease.orphan(seen(connection_id, checkpoint_no=3), dead_worker_id=RIVAL, now_ms=NOW)

    def carrying(connection_id: str) -> Write:
        found = seen(connection_id, checkpoint_no=3)
        return lease.orphan(found, dead_worker_id=RIVAL, now_ms=NOW, saved=saved(connection_id))

    def unread(connection_id: str) -> Write:
        return lease.orphan_unread(connection_id, dead_worker_id=RIVAL, now_ms=NOW, saved=None)

    def unread_carrying(connection_id: str) -> Write:
        return lease.orphan_unread(connection_id, dead_worker_id=RIVAL, now_ms=NOW, saved=saved(connection_id))

    dead = partial(owned, owner=RIVAL, lease_expires_at_ms=WITHOUT)
    return [
        Of("orphan", write, landed)
        .applies("the dead worker's", dead, True)
        .refuses("taken by another", partial(dead, owner=ME), False)
        .refuses("taken again", partial(dead, lease_epoch=EPOCH + 1), False)
        .refuses("checkpointed since", partial(dead, checkpoint_no=4), False)
        .refuses("it stands on an expiry of its own", partial(dead, lease_expires_at_ms=EXPIRED), False)
        .refuses("deleted", nothing, False),
        Of("orphan with a page's position", carrying, landed)
        .applies("the dead worker's", dead, True)
        .refuses("taken by another", partial(dead, owner=ME), False)
        .refuses("taken again", partial(dead, lease_epoch=EPOCH + 1), False)
        .refuses("checkpointed since", partial(dead, checkpoint_no=4), False)
        .refuses("changed since", partial(dead, spec_version=5), False)
        .refuses("it stands on an expiry of its own", partial(dead, lease_expires_at_ms=EXPIRED), False),
        Of("orphan unread", unread, landed)
        .applies("the dead worker's", dead, True)
        .applies("of whatever epoch and version", partial(dead, lease_epoch=EPOCH + 1, spec_version=5), True)
        .refuses("taken by another", partial(dead, owner=ME), False)
        .refuses("it has no checkpoint", partial(dead, checkpoint_no=0), False)
        .refuses("its epoch is no number", partial(dead, lease_epoch=str(EPOCH)), False)
        .refuses("it stands on an expiry of its own", partial(dead, lease_expires_at_ms=EXPIRED), False)
        .refuses("deleted", nothing, False),
        Of("orphan unread with a page's position", unread_carrying, landed)
        .applies("the dead worker's", dead, True)
        .applies("it had only a page", partial(dead, checkpoint_no=0), True)
        .refuses("taken by another", partial(dead, owner=ME), False)
        .refuses("taken again", partial(dead, lease_epoch=EPOCH + 1), False)
        .refuses("the item is as new", partial(dead, checkpoint_no=9), False)
        .refuses("changed since", partial(dead, spec_version=5), False)
        .refuses("it stands on an expiry of its own", partial(dead, lease_expires_at_ms=EXPIRED), False)
        .refuses("deleted", nothing, False),
    ]


def _people() -> list[Of]:
    def create(connection_id: str) -> Write:
        return lease.create(
            connection_id,
            upstream_url="wss://upstream.example/feed",
            spec={"rewind": 1, "nested": {"list": [True, None, "", 0.25]}},
            labels={"team": "Ω"},
            desired_state=DesiredState.STARTED,
            shard="STARTED#cases",
            now_ms=NOW,
            updated_by="arn:aws:iam::1:user/ä",
        )

    def stop(connection_id: str) -> Write:
        change = Change(desired_state=DesiredState.STOPPED, labels={"a": "b"}, forget_position=True)
        return lease.control(seen(connection_id), change, shard="STARTED#cases", now_ms=NOW, updated_by="me")

    def start(connection_id: str) -> Write:
        change = Change(desired_state=DesiredState.STARTED, upstream_url="wss://other", spec={"n": 1})
        return lease.control(seen(connection_id), change, shard="STARTED#cases", now_ms=NOW, updated_by="me")

    def delete(connection_id: str) -> Write:
        return lease.delete(connection_id, now_ms=NOW, timing=TIMING)

    leftover = partial(stopped, lease_expires_at_ms=RENEWED_TO)
    kept = partial(stopped, lease_owner=RIVAL, lease_expires_at_ms=EXPIRED + 1)
    return [
        Of("create", create, lease.created).applies("absent", nothing, Done()).refuses("there already", free, Exists()),
        Of("control, to stop", stop, lease.controlled)
        .applies("the version seen", partial(owned, position={"sequence": 1}, last_sequence="1"), Done)
        .refuses("put off meanwhile", partial(owned, not_before_ms=NOW + 9), Changed)
        .refuses("changed meanwhile", partial(free, spec_version=5), Changed)
        .refuses("deleted", nothing, Absentee()),
        Of("control, to start", start, lease.controlled)
        .applies("the version seen", stopped, Done)
        .refuses("put off meanwhile", partial(stopped, not_before_ms=NOW + 9), Changed)
        .refuses("changed meanwhile", partial(stopped, spec_version=3), Changed),
        Of("delete", delete, lease.deleted)
        .applies("stopped and nobody's", stopped, Done())
        .applies("stopped and nobody's, whatever expiry was left", leftover, Done())
        .applies("stopped and expired", partial(kept, lease_expires_at_ms=EXPIRED), Done())
        .refuses("started", free, Busy("started"))
        .refuses("stopped but owned", kept, Busy("owned", EXPIRED + 1))
        .refuses("stopped but owned in worker mode", partial(kept, lease_expires_at_ms=WITHOUT), Busy("owned"))
        .refuses("deleted before", nothing, Absentee()),
    ]


TRANSITIONS: Mapping[str, list[Case]] = {
    of.transition: of.cases
    for of in (
        _claims(LeaseMode.CONNECTION),
        _claims(LeaseMode.WORKER),
        *_renewals(),
        _checkpoints(),
        _releases(),
        *_crashed(),
        *_orphanings(),
        *_people(),
    )
}
DECIDED_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    # The epoch is the one seen, which had been read as a number.
    "claim after a crash": ("Less(attribute='lease_epoch'",),
}
"""Clauses that the cases of another transition decide."""
