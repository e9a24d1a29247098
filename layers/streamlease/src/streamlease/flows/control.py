"""What people ask for: create, change, start, stop, delete. Each names its outcome; a race is tried again here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from streamlease import items, lease, membership, plan
from streamlease.errors import Denied, Unreachable
from streamlease.flow import Flow, now, page, read, write
from streamlease.lease import Absentee, Busy, Change, Changed, Done, Exists
from streamlease.model import Connection, DesiredState, Seek, StatusState
from streamlease.timing import Timing
from streamlease.write import Read, Scan, Table, Value

RACES = 5
DATE_RESOLUTION_MS = 1_000
"""A service tells its clock in whole seconds, cut off."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Who writes, and over how many shards."""

    updated_by: str
    shards: int
    timing: Timing


def prepare(operator: Operator) -> Flow[None]:
    """Before the first write of a person's: see that this clock may be used, and record the number of shards, so that
    every sweep covers them. Raises Fault."""
    yield from _check_clock(operator.timing)
    yield from write(membership.raise_shards(operator.shards))


def _check_clock(timing: Timing) -> Flow[None]:
    """Nothing bounds the error of a person's machine. One far ahead would make epochs that nobody comes up to once the
    connection is made anew, and delete what is still owned; one far behind would make epochs that readers drop."""
    before = yield from now()
    answer = yield from page(Scan(Table.MEMBERS, limit=1))
    after = yield from now()
    if answer.date_ms is None:
        return
    ahead_ms = before.wall_ms - (answer.date_ms + DATE_RESOLUTION_MS)
    behind_ms = answer.date_ms - after.wall_ms
    if max(ahead_ms, behind_ms) > timing.skew_ms:
        wrong = f"{ahead_ms / 1000:.0f} s ahead of" if ahead_ms > 0 else f"{behind_ms / 1000:.0f} s behind"
        raise Denied(
            f"this machine's clock is {wrong} the tables' service: set it (by NTP) before changing connections"
        )


def find(connection_id: str) -> Flow[Connection | None]:
    """Raises Fault, Malformed."""
    item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
    return None if item is None else items.connection(item)


def create(
    connection_id: str,
    *,
    upstream_url: str,
    spec: Mapping[str, Value],
    labels: Mapping[str, str],
    desired_state: DesiredState,
    operator: Operator,
) -> Flow[Done | Exists]:
    """Raises Fault. A create whose answer was lost is read back: an item of the same moment, writer and contents is
    ours, or as good as ours."""
    instant = yield from now()
    request = lease.create(
        connection_id,
        upstream_url=upstream_url,
        spec=spec,
        labels=labels,
        desired_state=desired_state,
        shard=plan.shard(connection_id, operator.shards),
        now_ms=instant.wall_ms,
        updated_by=operator.updated_by,
    )
    try:
        answer = yield from write(request)
    except Unreachable:
        item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
        if item is None:
            raise
        written = ("created_at_ms", "updated_at_ms", "updated_by", "desired_state", "upstream_url", "spec", "labels")
        ours = all(item.get(name) == request.item[name] for name in written)
        return Done() if ours else Exists()
    return lease.created(answer)


def change(connection_id: str, wanted: Change, *, operator: Operator) -> Flow[Done | Absentee | Changed]:
    """Read, then write on the version seen, a few times over. `Changed`: others kept changing it.

    Asking for what is there already writes nothing. Raises Fault, Malformed.
    """
    races = 0
    while True:
        seen = yield from find(connection_id)
        if seen is None:
            return Absentee()
        if satisfied(seen, wanted):
            return Done(seen)
        instant = yield from now()
        request = lease.control(
            seen,
            wanted,
            shard=plan.shard(connection_id, operator.shards),
            now_ms=instant.wall_ms,
            updated_by=operator.updated_by,
        )
        races += 1
        try:
            answer = yield from write(request)
        except Unreachable:
            if races == RACES:
                raise
            continue  # it may have landed: the next read tells
        outcome = lease.controlled(answer)
        if not isinstance(outcome, Changed) or races == RACES:
            return outcome


def satisfied(seen: Connection, wanted: Change) -> bool:
    """Whether `seen` already is what is wanted."""
    return (
        not (wanted.again and is_given_up(seen))
        and (wanted.desired_state is None or wanted.desired_state is seen.desired_state)
        and (wanted.upstream_url is None or wanted.upstream_url == seen.upstream_url)
        and (wanted.spec is None or wanted.spec == seen.spec)
        and (wanted.labels is None or dict(wanted.labels) == dict(seen.labels))
        and (not wanted.forget_position or (seen.seek is None and _starts_from_nowhere(seen)))
        and (wanted.seek is None or (_asked_for(seen) == wanted.seek and _starts_from_nowhere(seen)))
    )


def _asked_for(seen: Connection) -> Seek | None:
    return None if seen.seek is None else replace(seen.seek, from_sequence=None)


def is_given_up(seen: Connection) -> bool:
    """Whether nobody tries it now, though it is started."""
    state = seen.status.state if seen.status is not None else None
    return seen.not_before_ms is not None or state in (StatusState.FAILED, StatusState.QUARANTINED)


def _starts_from_nowhere(seen: Connection) -> bool:
    """In worker mode an owner's newest position is not in the item, which then has to say that it is gone."""
    paged = seen.lease_owner is not None and seen.lease_expires_at_ms is None
    return seen.position is None and (not paged or seen.positions_since_version == seen.spec_version)


def delete(connection_id: str, *, operator: Operator) -> Flow[Done | Busy | Absentee]:
    """Raises Fault, Malformed. Safe to repeat."""
    instant = yield from now()
    answer = yield from write(lease.delete(connection_id, now_ms=instant.wall_ms, timing=operator.timing))
    return lease.deleted(answer)
