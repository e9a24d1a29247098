"""Bury members whose lease ran out, and free what they held without an expiry of its own (worker mode, design §3).

Every step may be the last: each is found and done again by the next sweep, of anybody.
"""

from dataclasses import dataclass

from streamlease import items, lease, membership, plan
from streamlease.errors import Malformed
from streamlease.flow import Flow, now, page, read, send, write
from streamlease.model import Connection, Member, MemberState, Offer
from streamlease.timing import Timing
from streamlease.write import Applied, Index, Item, Query, Read, Table


@dataclass(frozen=True, slots=True)
class Burials:
    buried: int
    orphaned: int
    untaken_offers: int
    malformed: tuple[Malformed, ...]


def bury_expired(everybody: tuple[Member, ...], *, timing: Timing) -> Flow[Burials]:
    """Bury every expired member, then sweep everything that is DEAD and not yet GONE. Raises Fault."""
    buried = orphaned = untaken = 0
    malformed: list[Malformed] = []
    for member in everybody:
        instant = yield from now()
        dead = member.state is MemberState.DEAD
        if membership.expired(member, now_ms=instant.wall_ms, timing=timing):
            answer = yield from write(membership.bury(member, now_ms=instant.wall_ms, timing=timing))
            dead = isinstance(answer, Applied)
            buried += dead
        if not dead:
            continue
        offers, left, bad = yield from orphan_all(member.worker_id)
        malformed += bad
        orphaned += len(offers)
        untaken += len((yield from send(offers)))
        if left == 0 and membership.may_forget(member, sweep_began_ms=instant.wall_ms):
            yield from write(membership.forget(member, now_ms=instant.wall_ms))
    return Burials(buried, orphaned, untaken, tuple(malformed))


def orphan_all(worker_id: str) -> Flow[tuple[tuple[Offer, ...], int, tuple[Malformed, ...]]]:
    """Orphan what `by_owner` shows of a dead or absent worker. Returns the offers to send, how many items the index
    showed, and what could not be read."""
    offers: list[Offer] = []
    malformed: list[Malformed] = []
    shown = 0
    cursor: Item | None = None
    while True:
        answer = yield from page(Query(Table.CONNECTIONS, worker_id, Index.BY_OWNER, cursor=cursor))
        for item in answer.items:
            shown += 1
            try:
                freed = yield from orphan_one(str(item.get("connection_id")), worker_id)
            except Malformed as problem:
                malformed.append(problem)
                continue
            if freed is not None:
                instant = yield from now()
                offers.append(plan.offer(freed.connection_id, "orphaned", instant.wall_ms))
        cursor = answer.cursor
        if cursor is None:
            return tuple(offers), shown, tuple(malformed)


def orphan_one(connection_id: str, dead_worker_id: str) -> Flow[Connection | None]:
    """Free one connection of a dead worker; None where it is not one to free. Raises Fault, Malformed."""
    item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
    if item is None or item.get("lease_owner") != dead_worker_id or "lease_expires_at_ms" in item:
        return None
    seen = items.connection(item)
    instant = yield from now()
    answer = yield from write(lease.orphan(seen, dead_worker_id=dead_worker_id, now_ms=instant.wall_ms))
    return seen if isinstance(answer, Applied) else None
