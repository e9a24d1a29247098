"""One run of the scheduled reconciliation: offer what nobody owns, bury the dead, walk all owners now and then.

Idempotent. It keeps to its time: what is left over is where the next run begins.
"""

from dataclasses import dataclass, field

from streamlease import items, membership, plan
from streamlease.errors import Malformed
from streamlease.flow import Flow, now, page, read, send, write
from streamlease.flows.bury import bury_expired, orphan_one
from streamlease.flows.sweep import members, shard_page, stored_fleet
from streamlease.model import RECONCILE_ID, Member, MemberState, Offer
from streamlease.timing import Instant, Timing
from streamlease.write import Always, Index, Item, Read, Scan, Table, Update, Value

OWNER_WALK_EVERY_MS = 15 * 60_000
OLDEST_READ = 25
"""How many of the freed connections are read to tell how long they have waited: the index does not say."""


@dataclass(slots=True)
class Report:
    """What one run saw and did. `complete` is False where time ran out and the next run goes on."""

    unowned: int = 0
    offered: int = 0
    untaken_offers: int = 0
    oldest_unowned_ms: int = 0
    started_not_streaming: int = 0
    live_members: int = 0
    buried: int = 0
    orphaned: int = 0
    walked_owners: bool = False
    complete: bool = False
    malformed: list[Malformed] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run begins: the shard, the cursor within it, and when all owners were last walked."""

    shard: int = 0
    cursor: Item | None = None
    walked_at_ms: int = 0


def reconcile(*, shards: int, timing: Timing, budget_s: float) -> Flow[Report]:
    """Run once, beginning nothing new after `budget_s` seconds. Raises Fault where the tables cannot be used at all."""
    report = Report()
    began = yield from now()
    stop_at_s = began.mono_s + budget_s
    place = yield from _place()
    stored = yield from stored_fleet()
    most = max(shards, stored.shards if stored else 0)

    next_place = yield from _offer_unowned(report, place, plan.sweep_shards(shards, most), timing, stop_at_s)
    everybody, malformed = yield from members()
    report.malformed += malformed
    burials = yield from bury_expired(everybody, timing=timing)
    report.buried, report.orphaned = burials.buried, burials.orphaned
    report.untaken_offers += burials.untaken_offers
    report.malformed += burials.malformed

    walked_at_ms = place.walked_at_ms
    instant = yield from now()
    if instant.wall_ms - walked_at_ms >= OWNER_WALK_EVERY_MS and instant.mono_s < stop_at_s:
        yield from _walk_owners(report, everybody)
        report.walked_owners = True
        walked_at_ms = instant.wall_ms
    yield from _keep(Place(next_place.shard, next_place.cursor, walked_at_ms))

    report.complete = next_place.shard == 0 and next_place.cursor is None
    fleet = plan.summary(everybody, unowned=report.unowned, shards=most, now_ms=began.wall_ms)
    report.live_members = fleet.live
    report.started_not_streaming = report.unowned + sum(_not_streaming(m) for m in everybody)
    if report.complete:
        yield from write(membership.summarise(fleet))
    return report


def _offer_unowned(
    report: Report, place: Place, keys: tuple[str, ...], timing: Timing, stop_at_s: float
) -> Flow[Place]:
    """Sweep from `place` once around. Returns where the next run begins: the start, when all was seen."""
    first = place.shard if place.shard < len(keys) else 0
    cursor = place.cursor if first == place.shard else None
    freed: list[str] = []
    for number in range(first, len(keys)):
        while True:
            instant = yield from now()
            if instant.mono_s >= stop_at_s:
                return Place(number, cursor)
            found, cursor = yield from shard_page(keys[number], timing=timing, cursor=cursor)
            report.unowned += len(found)
            offers = plan.offers(found, now_ms=instant.wall_ms)
            untaken = yield from send(offers)
            report.offered += len(offers) - len(untaken)
            report.untaken_offers += len(untaken)
            for candidate in found:
                if candidate.lease_expires_at_ms:
                    waited_ms = instant.wall_ms - candidate.lease_expires_at_ms
                    report.oldest_unowned_ms = max(report.oldest_unowned_ms, waited_ms)
                elif len(freed) < OLDEST_READ:
                    freed.append(candidate.connection_id)
            if cursor is None:
                break
    yield from _oldest_freed(report, freed)
    return Place()


def _oldest_freed(report: Report, freed: list[str]) -> Flow[None]:
    for connection_id in freed:
        item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
        if item is None or "lease_owner" in item:
            continue
        try:
            found = items.connection(item)
        except Malformed as problem:
            report.malformed.append(problem)
            continue
        instant = yield from now()
        since_ms = max(found.updated_at_ms, found.status.since_ms if found.status else 0)
        if (found.not_before_ms or 0) <= instant.wall_ms:
            report.oldest_unowned_ms = max(report.oldest_unowned_ms, instant.wall_ms - since_ms)


def _walk_owners(report: Report, everybody: tuple[Member, ...]) -> Flow[None]:
    """Compare every owned connection with the members: a dead or absent owner's are orphaned."""
    alive = {m.worker_id for m in everybody if m.state in (MemberState.LIVE, MemberState.DRAINING)}
    freed: list[Offer] = []
    cursor: Item | None = None
    while True:
        answer = yield from page(Scan(Table.CONNECTIONS, Index.BY_OWNER, cursor=cursor))
        for item in answer.items:
            owner = str(item.get("lease_owner"))
            if owner in alive:
                continue
            try:
                connection = yield from orphan_one(str(item.get("connection_id")), owner)
            except Malformed as problem:
                report.malformed.append(problem)
                continue
            if connection is not None:
                instant: Instant = yield from now()
                freed.append(plan.offer(connection.connection_id, "orphaned", instant.wall_ms))
        cursor = answer.cursor
        if cursor is None:
            break
    report.orphaned += len(freed)
    report.untaken_offers += len((yield from send(freed)))


def _not_streaming(member: Member) -> int:
    streaming = member.load.get("streaming")
    running = member.state in (MemberState.LIVE, MemberState.DRAINING)
    return max(0, member.owned - streaming) if running and isinstance(streaming, int) else 0


def _place() -> Flow[Place]:
    item = yield from read(Read(Table.MEMBERS, {"worker_id": RECONCILE_ID}))
    fields = item or {}
    shard, cursor, walked = fields.get("shard"), fields.get("cursor"), fields.get("walked_at_ms")
    return Place(
        shard if isinstance(shard, int) else 0,
        cursor if isinstance(cursor, dict) else None,
        walked if isinstance(walked, int) else 0,
    )


def _keep(place: Place) -> Flow[None]:
    attributes: dict[str, Value] = {"shard": place.shard, "walked_at_ms": place.walked_at_ms}
    if place.cursor is not None:
        attributes["cursor"] = place.cursor
    yield from write(
        Update(
            Table.MEMBERS,
            {"worker_id": RECONCILE_ID},
            Always(),
            set=attributes,
            remove=() if place.cursor is not None else ("cursor",),
        )
    )
