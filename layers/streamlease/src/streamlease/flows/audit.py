"""The minute's audit: what the owner index says is ours, against what runs. It makes lost and late events harmless.

The worker lists, compares with what it runs at that very moment (`plan.audit`), and settles each difference by one of
the two procedures below. Both go by a consistent read, never by the index alone.
"""

from streamlease import items, lease
from streamlease.flow import Flow, now, page, read, write
from streamlease.lease import Checkpoint
from streamlease.model import Connection, DesiredState
from streamlease.write import Index, Item, Query, Read, Table


def listed(worker_id: str) -> Flow[tuple[Item, ...]]:
    """What `by_owner` shows of this worker. Raises Fault."""
    found: list[Item] = []
    cursor: Item | None = None
    while True:
        answer = yield from page(Query(Table.CONNECTIONS, worker_id, Index.BY_OWNER, cursor=cursor))
        found.extend(answer.items)
        cursor = answer.cursor
        if cursor is None:
            return tuple(found)


def release_unknown(worker_id: str, connection_id: str) -> Flow[bool]:
    """Give up a lease that is ours in the table and runs nowhere here. Raises Fault, Malformed.

    Only for an id that no claim is in flight for: the caller holds new claims of it back until this is done.
    """
    item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
    if item is None or item.get("lease_owner") != worker_id:
        return False
    seen = items.connection(item)
    instant = yield from now()
    held = lease.lease_of(seen, worker_id)
    number = Checkpoint(seen.checkpoint_no + 1)
    answer = yield from write(lease.release(held, checkpoint=number, now_ms=instant.wall_ms))
    return lease.released(answer).landed


def look_again(worker_id: str, connection_id: str, known_version: int) -> Flow[Connection | None]:
    """A running connection's item, where it is STOPPED or of another version than the one known; None where nothing is
    new or it is not ours. Raises Fault, Malformed."""
    item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
    if item is None or item.get("lease_owner") != worker_id:
        return None
    seen = items.connection(item)
    news = seen.spec_version != known_version or seen.desired_state is DesiredState.STOPPED
    return seen if news else None
