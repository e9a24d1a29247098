"""Connections and members as rows and as JSON. The JSON keys are the item's own names (design §2), and stay."""

from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from streamlease.model import Connection, DesiredState, Member, MemberState, Position
from streamlease.timing import Timing
from streamlease.write import Value
from streamlease_cli.redaction import without_credentials, without_secrets


def is_unowned(connection: Connection, *, now_ms: int, timing: Timing) -> bool:
    """Started, and nobody holds it: no owner, or a lease that has run out on every clock."""
    if connection.desired_state is DesiredState.STOPPED:
        return False
    expires_at_ms = connection.lease_expires_at_ms
    expired = expires_at_ms is not None and expires_at_ms < timing.expired_before_ms(now_ms)
    return connection.lease_owner is None or expired


def last_sequence(position: Position | None) -> str:
    return "" if position is None or position.sequence is None else str(position.sequence)


def listed(connection: Connection, *, now_ms: int, timing: Timing) -> dict[str, object]:
    """The keys of `ls --json`."""
    status = connection.status
    return {
        "connection_id": connection.connection_id,
        "desired_state": connection.desired_state.value,
        "upstream_url": without_credentials(connection.upstream_url),
        "labels": dict(connection.labels),
        "lease_owner": connection.lease_owner,
        "lease_epoch": connection.lease_epoch,
        "lease_expires_at_ms": connection.lease_expires_at_ms,
        "unowned": is_unowned(connection, now_ms=now_ms, timing=timing),
        "status": None
        if status is None
        else {
            "state": status.state.value,
            "since_ms": status.since_ms,
            "reason": status.reason,
            "until_ms": status.until_ms,
        },
        "last_sequence": last_sequence(connection.position) or None,
    }


def described(connection: Connection, owner: Member | None, *, now_ms: int, timing: Timing) -> dict[str, object]:
    """The keys of `describe --json`: those of `ls`, and everything else. No secret, no nonce, no resume token."""
    return {
        **listed(connection, now_ms=now_ms, timing=timing),
        "lease_left_ms": lease_left_ms(connection, owner, now_ms=now_ms),
        "worker": None if owner is None else member(owner, None, now_ms=now_ms, timing=timing),
        "spec": without_secrets(connection.spec),
        "spec_version": connection.spec_version,
        "position": _position(connection.position),
        "checkpoint_no": connection.checkpoint_no,
        "crashes": connection.crashes,
        "not_before_ms": connection.not_before_ms,
        "created_at_ms": connection.created_at_ms,
        "updated_at_ms": connection.updated_at_ms,
        "updated_by": connection.updated_by,
    }


def lease_left_ms(connection: Connection, owner: Member | None, *, now_ms: int) -> int | None:
    """Milliseconds until the lease runs out, negative when it has; of the owner's own lease in worker mode."""
    if connection.lease_owner is None:
        return None
    if connection.lease_expires_at_ms is not None:
        return connection.lease_expires_at_ms - now_ms
    return None if owner is None else owner.lease_expires_at_ms - now_ms


def has_left(member: Member) -> bool:
    """Whether it ended by itself, once it held nothing: others bury only what has let its lease run out."""
    return (
        member.state is MemberState.DEAD
        and member.buried_at_ms is not None
        and member.buried_at_ms <= member.lease_expires_at_ms
    )


def member(found: Member, share: int | None, *, now_ms: int, timing: Timing) -> dict[str, object]:
    """The keys of `workers --json`."""
    alive = found.state in (MemberState.LIVE, MemberState.DRAINING)
    return {
        "worker_id": found.worker_id,
        "state": found.state.value,
        "owned": found.owned,
        "share": share,
        "capacity": found.capacity,
        "generation": found.generation,
        "heartbeat": found.heartbeat,
        # Every heartbeat writes its own moment plus the lease.
        "heartbeat_age_ms": now_ms - (found.lease_expires_at_ms - timing.lease_ms),
        "lease_left_ms": found.lease_expires_at_ms - now_ms if alive else None,
        "zone": found.zone,
        "started_at_ms": found.started_at_ms,
        "load": dict(found.load),
        "drain_requested": found.drain_requested,
        "left": has_left(found),
    }


def _position(position: Position | None) -> Mapping[str, Value] | None:
    if position is None:
        return None
    return {
        "sequence": position.sequence,
        "instance": position.instance,
        "resume_url": None if position.resume_url is None else _without_query(position.resume_url),
        "token": None if position.token is None else "(kept, not shown)",
    }


def _without_query(url: str) -> str:
    """A resume URL names a session, often by its query: whoever has it can take the session over."""
    scheme, host, path, query, _ = urlsplit(without_credentials(url))
    return urlunsplit((scheme, host, path, "(not shown)" if query else "", ""))
