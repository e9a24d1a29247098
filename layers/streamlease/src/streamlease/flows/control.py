"""What people ask for: create, change, start, stop, delete. Each names its outcome; a race is tried again here."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamlease import items, lease, membership, plan
from streamlease.errors import Unreachable
from streamlease.flow import Flow, now, read, write
from streamlease.lease import Absentee, Busy, Change, Changed, Done, Exists
from streamlease.model import Connection, DesiredState
from streamlease.timing import Timing
from streamlease.write import Read, Table, Value

RACES = 5


@dataclass(frozen=True, slots=True)
class Operator:
    """Who writes, and over how many shards."""

    updated_by: str
    shards: int
    timing: Timing


def prepare(operator: Operator) -> Flow[None]:
    """Before writing items over `shards` shards: record the number, so that every sweep covers them. Raises Fault."""
    yield from write(membership.raise_shards(operator.shards))


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
        (wanted.desired_state is None or wanted.desired_state is seen.desired_state)
        and (wanted.upstream_url is None or wanted.upstream_url == seen.upstream_url)
        and (wanted.spec is None or wanted.spec == seen.spec)
        and (wanted.labels is None or dict(wanted.labels) == dict(seen.labels))
        and not (wanted.forget_position and seen.position is not None)
    )


def delete(connection_id: str, *, operator: Operator) -> Flow[Done | Busy | Absentee]:
    """Raises Fault, Malformed. Safe to repeat."""
    instant = yield from now()
    answer = yield from write(lease.delete(connection_id, now_ms=instant.wall_ms, timing=operator.timing))
    return lease.deleted(answer)
