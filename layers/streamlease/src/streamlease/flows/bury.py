"""Bury members whose lease ran out, and free what they held without an expiry of its own (worker mode, design §3).

Every step may be the last: each is found and done again by the next sweep, of anybody.
"""

import math
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
    go_on_at: str | None = None
    """The member to begin at another time, where time ran out; None where all were seen."""


@dataclass(frozen=True, slots=True)
class Orphanings:
    """What one sweep of a dead worker's connections did."""

    offers: tuple[Offer, ...]
    left: int
    """How many the index showed that this burial has to be swept again for; 0 ends it, when it is old enough."""
    malformed: tuple[Malformed, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Stands:
    """Still the dead worker's, but on an expiry of its own: nothing to free, and no burial has to wait for it."""


def bury_expired(
    everybody: tuple[Member, ...],
    *,
    timing: Timing,
    date_ms: int | None = None,
    begin_at: str = "",
    stop_at_s: float = math.inf,
) -> Flow[Burials]:
    """Bury every expired member, then sweep everything that is DEAD and not yet GONE. Raises Fault.

    `date_ms` is the service's clock when it showed `everybody`: a caller whose own runs ahead must not bury the living,
    nor forget the dead.
    Goes once around, from the member `begin_at`, and begins nothing new after the monotonic second `stop_at_s`.
    """
    buried = orphaned = untaken = 0
    malformed: list[Malformed] = []
    cut: str | None = None
    for member in sorted(everybody, key=lambda each: (each.worker_id < begin_at, each.worker_id)):
        instant = yield from now()
        if instant.mono_s >= stop_at_s:
            cut = member.worker_id
            break
        dead = member.state is MemberState.DEAD
        clock_ms = instant.wall_ms if date_ms is None else min(instant.wall_ms, date_ms)
        if membership.expired(member, now_ms=clock_ms, timing=timing):
            answer = yield from write(membership.bury(member, now_ms=clock_ms, timing=timing))
            dead = isinstance(answer, Applied)
            buried += dead
        if not dead:
            continue
        swept = yield from orphan_all(member.worker_id, stop_at_s=stop_at_s)
        malformed += swept.malformed
        orphaned += len(swept.offers)
        untaken += len((yield from send(swept.offers)))
        if not swept.complete:
            cut = member.worker_id
            break
        if swept.left == 0 and membership.may_forget(member, sweep_began_ms=clock_ms):
            yield from write(membership.forget(member, now_ms=clock_ms))
    return Burials(buried, orphaned, untaken, tuple(malformed), cut)


def orphan_all(worker_id: str, *, stop_at_s: float = math.inf) -> Flow[Orphanings]:
    """Orphan what `by_owner` shows of a dead worker. The offers are the caller's to send. Raises Fault."""
    offers: list[Offer] = []
    malformed: list[Malformed] = []
    left = 0
    cursor: Item | None = None
    while True:
        answer = yield from page(Query(Table.CONNECTIONS, worker_id, Index.BY_OWNER, cursor=cursor))
        for item in answer.items:
            instant = yield from now()
            if instant.mono_s >= stop_at_s:
                return Orphanings(tuple(offers), left, tuple(malformed), complete=False)
            try:
                found = yield from orphan_one(str(item.get("connection_id")), worker_id)
            except Malformed as problem:
                malformed.append(problem)
                left += 1
                continue
            left += not isinstance(found, Stands)
            if isinstance(found, Connection):
                offers.append(plan.offer(found.connection_id, "orphaned", instant.wall_ms))
        cursor = answer.cursor
        if cursor is None:
            return Orphanings(tuple(offers), left, tuple(malformed), complete=True)


def orphan_one(connection_id: str, dead_worker_id: str) -> Flow[Connection | Stands | None]:
    """Free one connection of a dead worker; None where it is not one to free. Raises Fault, Malformed."""
    item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
    if item is None or item.get("lease_owner") != dead_worker_id:
        return None
    if "lease_expires_at_ms" in item:
        return Stands()
    seen = items.connection(item)
    instant = yield from now()
    answer = yield from write(lease.orphan(seen, dead_worker_id=dead_worker_id, now_ms=instant.wall_ms))
    return seen if isinstance(answer, Applied) else None
