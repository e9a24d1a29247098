"""Bury members whose lease ran out, and free what they held without an expiry of its own (worker mode, design §3).

bury → seal the pages → orphan → offer. Every step may be the last: each is found and done again by the next sweep, of
anybody. Several may do the same at once: what one has done is refused to the others.
"""

import math
from dataclasses import dataclass, field

from streamlease import items, lease, membership, plan
from streamlease.errors import Fault, Malformed
from streamlease.flow import MOST_WRITES, Flow, batch, chunks, now, page, read, send, write
from streamlease.flows import pages
from streamlease.flows.pages import Testament
from streamlease.model import Connection, Member, MemberState, Offer
from streamlease.timing import Timing
from streamlease.write import Applied, Index, Item, Query, Read, Refused, Table


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
    """Sent already, as their connections were freed."""
    left: int
    """How many the index showed that this burial has to be swept again for; 0 ends it, when it is old enough."""
    malformed: tuple[Malformed, ...]
    complete: bool
    untaken_offers: int = 0


@dataclass(frozen=True, slots=True)
class Stands:
    """Still the dead worker's, but on an expiry of its own: nothing to free, and no burial has to wait for it."""


@dataclass(frozen=True, slots=True)
class Freed:
    """Nobody's any more."""

    connection_id: str


NOTHING_SAVED = Testament()

type Orphaned = Freed | Stands | Malformed | None
"""What became of one connection of a dead worker. None: it is not one to free, or is so only next time."""


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
        untaken += swept.untaken_offers
        if not swept.complete:
            cut = member.worker_id
            break
        if swept.left == 0 and membership.may_forget(member, sweep_began_ms=clock_ms):
            yield from pages.discard(member.worker_id)
            yield from write(membership.forget(member, now_ms=clock_ms))
    return Burials(buried, orphaned, untaken, tuple(malformed), cut)


@dataclass(slots=True)
class Swept:
    """What has been done so far."""

    offers: list[Offer] = field(default_factory=list)
    left: int = 0
    malformed: list[Malformed] = field(default_factory=list)
    untaken: int = 0

    def done(self, *, complete: bool) -> Orphanings:
        return Orphanings(tuple(self.offers), self.left, tuple(self.malformed), complete, self.untaken)


def orphan_all(worker_id: str, *, stop_at_s: float = math.inf) -> Flow[Orphanings]:
    """Seal a dead worker's pages, then orphan and offer what `by_owner` shows of it, 100 at a time. Raises Fault.

    The first go whatever the time, so that no run is too short to get on.
    """
    testament = yield from pages.seal(worker_id)
    swept = Swept(malformed=list(testament.malformed))
    got_on = False
    cursor: Item | None = None
    while True:
        answer = yield from page(Query(Table.CONNECTIONS, worker_id, Index.BY_OWNER, cursor=cursor))
        for group in chunks(answer.items, MOST_WRITES):
            instant = yield from now()
            if instant.mono_s >= stop_at_s and got_on:
                return swept.done(complete=False)
            yield from free(group, worker_id, testament, swept)
            got_on = True
        cursor = answer.cursor
        if cursor is None:
            return swept.done(complete=True)


def free(group: tuple[Item, ...], worker_id: str, testament: Testament, swept: Swept) -> Flow[None]:
    """Orphan up to 100 connections and offer them, so that who takes them need not wait for the rest. Raises Fault."""
    outcomes, fault = yield from orphan_some(group, worker_id, testament)
    instant = yield from now()
    freed = [each.connection_id for each in outcomes if isinstance(each, Freed)]
    offers = [plan.offer(connection_id, "orphaned", instant.wall_ms) for connection_id in freed]
    swept.offers += offers
    swept.malformed += [each for each in outcomes if isinstance(each, Malformed)]
    swept.left += sum(not isinstance(each, Stands) for each in outcomes)
    swept.untaken += len((yield from send(offers)))
    if fault is not None:
        raise fault


def orphan_some(
    group: tuple[Item, ...], dead_worker_id: str, testament: Testament
) -> Flow[tuple[list[Orphaned], Fault | None]]:
    """Orphan up to 100 connections as `by_owner` shows them. One outcome each, and the first fault, which leaves None
    for its connection. Raises Fault where it struck them all.

    No connection is read before its first write, whose condition holds of all but the rare (`lease.orphan_unread`); a
    refusal shows the item, and a second write goes by that.
    """
    instant = yield from now()
    outcomes: dict[str, Orphaned] = {}
    faults: list[Fault] = []
    odd = [str(item.get("connection_id")) for item in group if not isinstance(item.get("spec_version"), int)]
    plain = [str(item.get("connection_id")) for item in group if isinstance(item.get("spec_version"), int)]
    first = [
        lease.orphan_unread(
            connection_id,
            dead_worker_id=dead_worker_id,
            now_ms=instant.wall_ms,
            saved=testament.entries.get(connection_id),
        )
        for connection_id in plain
    ]
    again: list[Connection] = []
    for connection_id, answer in zip(plain, (yield from batch(first)) if first else (), strict=True):
        match answer:
            case Applied():
                outcomes[connection_id] = Freed(connection_id)
            case Refused(item):
                found = _to_free(item, dead_worker_id)
                if isinstance(found, Connection):
                    again.append(found)
                else:
                    outcomes[connection_id] = found
            case Fault():
                faults.append(answer)
    second = [
        lease.orphan(
            seen,
            dead_worker_id=dead_worker_id,
            now_ms=instant.wall_ms,
            saved=testament.entries.get(seen.connection_id),
        )
        for seen in again
    ]
    for seen, answer in zip(again, (yield from batch(second)) if second else (), strict=True):
        if isinstance(answer, Fault):
            faults.append(answer)
        else:
            outcomes[seen.connection_id] = Freed(seen.connection_id) if isinstance(answer, Applied) else None
    for connection_id in odd:
        outcomes[connection_id] = yield from orphan_one(connection_id, dead_worker_id, testament)
    return [outcomes.get(str(item.get("connection_id"))) for item in group], faults[0] if faults else None


def orphan_one(connection_id: str, dead_worker_id: str, testament: Testament = NOTHING_SAVED) -> Flow[Orphaned]:
    """By a read: for what the index shows to be no connection of ours. Raises Fault."""
    item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
    found = _to_free(item, dead_worker_id)
    if not isinstance(found, Connection):
        return found
    instant = yield from now()
    saved = testament.entries.get(connection_id)
    write_ = lease.orphan(found, dead_worker_id=dead_worker_id, now_ms=instant.wall_ms, saved=saved)
    answer = yield from write(write_)
    return Freed(connection_id) if isinstance(answer, Applied) else None


def _to_free(item: Item | None, dead_worker_id: str) -> Connection | Stands | Malformed | None:
    """What an item says of itself, as it stood when it was read or a write refused."""
    if item is None or item.get("lease_owner") != dead_worker_id:
        return None
    if "lease_expires_at_ms" in item:
        return Stands()
    try:
        return items.connection(item)
    except Malformed as problem:
        return problem
