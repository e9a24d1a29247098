"""Find what nobody owns: all shards of the expiry index, and the members (design §5).

Workers sweep to claim; the reconcile function sweeps to offer, as the backstop that works when no worker has room.
"""

from dataclasses import dataclass

from streamlease import items, membership, plan
from streamlease.errors import Malformed
from streamlease.flow import Flow, now, page, read, write
from streamlease.model import FLEET_ID, FleetSummary, Member
from streamlease.plan import Candidate
from streamlease.timing import Instant, Timing
from streamlease.write import Index, Item, Query, Read, Scan, Table

CLOCKS_APART_MS = 2_000


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one full sweep saw. `unowned` counts every candidate, also beyond those listed."""

    candidates: tuple[Candidate, ...]
    fleet: FleetSummary
    members: tuple[Member, ...]
    malformed: tuple[Malformed, ...]


def stored_fleet() -> Flow[FleetSummary | None]:
    """The summary that somebody's last sweep wrote. Raises Fault, Malformed."""
    item = yield from read(Read(Table.MEMBERS, {"worker_id": FLEET_ID}))
    return None if item is None else items.fleet_summary(item)


@dataclass(frozen=True, slots=True)
class Known:
    """What the last summary said. `shards`: the most that items may stand under."""

    shards: int
    fleet: FleetSummary | None
    malformed: tuple[Malformed, ...]


def known(configured_shards: int) -> Flow[Known]:
    """Raises Fault. A summary that cannot be read is reported, and stops no sweep."""
    try:
        stored = yield from stored_fleet()
    except Malformed as problem:
        return Known(configured_shards, None, (problem,))
    return Known(max(configured_shards, stored.shards if stored else 0), stored, ())


@dataclass(frozen=True, slots=True)
class Roster:
    """Every member item, and what could not be read among them. `date_ms`: the service's clock at the first answer."""

    members: tuple[Member, ...]
    malformed: tuple[Malformed, ...]
    date_ms: int | None


def members() -> Flow[Roster]:
    """Raises Fault."""
    found: list[Member] = []
    date_ms: int | None = None
    malformed: list[Malformed] = []
    cursor = None
    while True:
        answer = yield from page(Scan(Table.MEMBERS, cursor=cursor, consistent=True))
        date_ms = date_ms or answer.date_ms
        for item in answer.items:
            if str(item.get("worker_id", "")).startswith("#"):
                continue
            try:
                found.append(items.member(item))
            except Malformed as problem:
                malformed.append(problem)
        cursor = answer.cursor
        if cursor is None:
            return Roster(tuple(found), tuple(malformed), date_ms)


def shard_page(
    shard: str, *, timing: Timing, cursor: Item | None = None, limit: int = 1_000, watched_clock: bool = False
) -> Flow[tuple[tuple[Candidate, ...], Item | None]]:
    """One page of candidates of one shard. The clock is the smaller of ours and the service's own `Date`, where given:
    a caller whose clock runs ahead must not see a lease as expired early. A worker's `watched_clock` is what its claims
    go by anyway: a `Date` is of whole seconds, and would show it everything half a second late."""
    instant = yield from now()
    query = Query(
        Table.CONNECTIONS,
        shard,
        Index.BY_EXPIRY,
        below=timing.expired_before_ms(instant.wall_ms),
        cursor=cursor,
        limit=limit,
    )
    answer = yield from page(query)
    date_ms = None if watched_clock else answer.date_ms
    clock_ms = instant.wall_ms if date_ms is None else min(instant.wall_ms, date_ms)
    below = timing.expired_before_ms(clock_ms)
    found = tuple(c for c in plan.candidates(answer.items) if c.lease_expires_at_ms < below)
    return found, answer.cursor


def _later(began: Instant, before: FleetSummary | None) -> int:
    """When a summary is of, that was begun after `before` was read: by a clock that is a little behind, it would be of
    an earlier time, and would never be written. By clocks further apart than two may be, nothing is set right."""
    ahead_ms = before.at_ms - began.wall_ms if before is not None else -1
    return began.wall_ms + ahead_ms + 1 if 0 <= ahead_ms <= CLOCKS_APART_MS else began.wall_ms


def recount(*, shards: int) -> Flow[Sweep]:
    """Divide the connections up anew by the members as they are now, without a look at the shards: for who has just
    said that it drains, and whose offers wait for the others' shares. Three requests. Raises Fault."""
    began = yield from now()
    before = yield from known(shards)
    everybody = yield from members()
    unowned = before.fleet.unowned if before.fleet else 0
    fleet = plan.summary(
        everybody.members,
        unowned=unowned,
        shards=before.shards,
        now_ms=_later(began, before.fleet),
        before=before.fleet,
    )
    yield from write(membership.summarise(fleet))
    return Sweep((), fleet, everybody.members, (*before.malformed, *everybody.malformed))


def sweep(*, shards: int, timing: Timing, enough: int, turn: int) -> Flow[Sweep]:
    """Sweep all shards once, listing at most `enough` candidates, and write the fleet summary.

    Raises Fault. Shards are read to their end, for the count; only the list is cut. `turn` says which shard comes
    first: workers that draw it at random do not all reach for the same few.
    """
    began = yield from now()
    before = yield from known(shards)
    found: list[Candidate] = []
    unowned = 0
    keys = plan.sweep_shards(shards, before.shards)
    first = turn % len(keys)
    for shard in keys[first:] + keys[:first]:
        cursor: Item | None = None
        while True:
            some, cursor = yield from shard_page(shard, timing=timing, cursor=cursor, watched_clock=True)
            unowned += len(some)
            found.extend(some[: max(0, enough - len(found))])
            if cursor is None:
                break
    everybody = yield from members()
    fleet = plan.summary(
        everybody.members,
        unowned=unowned,
        shards=before.shards,
        now_ms=_later(began, before.fleet),
        before=before.fleet,
    )
    yield from write(membership.summarise(fleet))
    return Sweep(tuple(found), fleet, everybody.members, (*before.malformed, *everybody.malformed))
