"""One run of the scheduled reconciliation: offer what nobody owns, bury the dead, walk all owners now and then.

Idempotent. It keeps to its time: what is left over is where the next run begins.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from streamlease import items, membership, plan
from streamlease.errors import Malformed
from streamlease.flow import MOST_WRITES, Flow, chunks, now, page, read, send, write
from streamlease.flows import pages
from streamlease.flows.bury import Swept, bury_expired, free
from streamlease.flows.pages import Testament
from streamlease.flows.sweep import Roster, known, members, shard_page
from streamlease.model import RECONCILE_ID, Member, MemberState
from streamlease.timing import Instant, Timing
from streamlease.write import Always, Index, Item, Read, Scan, Table, Update, Value

OWNER_WALK_EVERY_MS = 15 * 60_000
OLDEST_READ = 25
"""How many of the freed connections are read to tell how long they have waited: the index does not say."""


@dataclass(slots=True)
class Report:
    """What one run saw and did. `complete` is False where time ran out and the next run goes on."""

    unowned: int = 0
    """Of the whole pass over the shards, also where earlier runs began it; a lower bound while it is not complete."""
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
    """One for each item that could not be read."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run begins: shard, cursor within it and what was counted before it; member; owners, and when all of them
    were last walked."""

    shard: int = 0
    cursor: Item | None = None
    unowned: int = 0
    member: str = ""
    walk: Item | None = None
    walked_at_ms: int = 0
    turned: bool = False
    """The burials and the walk come before the shards: after a run without time for all, so that neither starves."""

    def walk_is_due(self, now_ms: int) -> bool:
        """Also where the last was in the future: somebody's clock was wrong."""
        return self.walk is not None or not 0 <= now_ms - self.walked_at_ms < OWNER_WALK_EVERY_MS


@dataclass(slots=True)
class _Run:
    """One run under way."""

    report: Report
    roster: Roster
    keys: tuple[str, ...]
    timing: Timing
    began: Instant
    stop_at_s: float
    all_shards_seen: bool = False
    all_members_seen: bool = False


def reconcile(*, shards: int, timing: Timing, budget_s: float) -> Flow[Report]:
    """Run once, beginning nothing new after `budget_s` seconds. Raises Fault where the tables cannot be used at all."""
    began = yield from now()
    place = yield from _place()
    before = yield from known(shards)
    roster = yield from members()
    report = Report(malformed=[*before.malformed, *roster.malformed])
    keys = plan.sweep_shards(shards, before.shards)
    this = _Run(report, roster, keys, timing, began, began.mono_s + budget_s)

    parts = (_bury, _walk_owners, _offer_unowned) if place.turned else (_offer_unowned, _bury, _walk_owners)
    for part in parts:
        place = yield from part(this, place)
    report.complete = this.all_shards_seen and this.all_members_seen and not place.walk_is_due(began.wall_ms)
    yield from _keep(replace(place, turned=not report.complete and not place.turned))

    report.malformed = list({problem.where: problem for problem in report.malformed}.values())
    # A summary from the future would stand until then: nothing older replaces it.
    at_ms = began.wall_ms if roster.date_ms is None else min(began.wall_ms, roster.date_ms)
    fleet = plan.summary(
        roster.members, unowned=report.unowned, shards=before.shards, now_ms=at_ms, before=before.fleet
    )
    report.live_members = fleet.live
    report.started_not_streaming = report.unowned + sum(_not_streaming(m) for m in roster.members)
    if this.all_shards_seen:
        yield from write(membership.summarise(fleet))
    return report


def _offer_unowned(this: _Run, place: Place) -> Flow[Place]:
    """Sweep from `place` to the last shard, and begin with the first another time."""
    report, keys = this.report, this.keys
    first = place.shard if place.shard < len(keys) else 0
    cursor = place.cursor if first == place.shard else None
    report.unowned = place.unowned if first == place.shard else 0
    to_read = OLDEST_READ
    for number in range(first, len(keys)):
        while True:
            instant = yield from now()
            if instant.mono_s >= this.stop_at_s:
                return replace(place, shard=number, cursor=cursor, unowned=report.unowned)
            found, cursor = yield from shard_page(keys[number], timing=this.timing, cursor=cursor)
            report.unowned += len(found)
            offers = plan.offers(found, now_ms=instant.wall_ms)
            untaken = yield from send(offers)
            report.offered += len(offers) - len(untaken)
            report.untaken_offers += len(untaken)
            expired_ms = [c.lease_expires_at_ms for c in found if c.lease_expires_at_ms]
            waited_ms = instant.wall_ms - min(expired_ms, default=instant.wall_ms)
            report.oldest_unowned_ms = max(report.oldest_unowned_ms, waited_ms)
            freed = [c.connection_id for c in found if not c.lease_expires_at_ms][:to_read]
            to_read -= len(freed)
            yield from _oldest_freed(report, freed)
            if cursor is None:
                break
    this.all_shards_seen = True
    return replace(place, shard=0, cursor=None, unowned=0)


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
        since_ms = max(found.updated_at_ms, found.status.since_ms if found.status else 0, found.not_before_ms or 0)
        report.oldest_unowned_ms = max(report.oldest_unowned_ms, instant.wall_ms - since_ms)


def _bury(this: _Run, place: Place) -> Flow[Place]:
    roster, report = this.roster, this.report
    burials = yield from bury_expired(
        roster.members,
        timing=this.timing,
        date_ms=roster.date_ms,
        begin_at=place.member,
        stop_at_s=this.stop_at_s,
    )
    report.buried += burials.buried
    report.orphaned += burials.orphaned
    report.untaken_offers += burials.untaken_offers
    report.malformed += burials.malformed
    this.all_members_seen = burials.go_on_at is None
    return replace(place, member=burials.go_on_at or "")


def _walk_owners(this: _Run, place: Place) -> Flow[Place]:
    """When it is time again: compare every owned connection with the members, and orphan a dead or absent owner's."""
    report = this.report
    instant: Instant = yield from now()
    if not place.walk_is_due(this.began.wall_ms) or instant.mono_s >= this.stop_at_s:
        return place
    everybody = this.roster.members
    alive = {m.worker_id: True for m in everybody if m.state in (MemberState.LIVE, MemberState.DRAINING)}
    testaments: dict[str, Testament] = {}
    got_on = False
    cursor = place.walk
    while True:
        answer = yield from page(Scan(Table.CONNECTIONS, Index.BY_OWNER, cursor=cursor))
        swept = Swept()
        seen_all = True
        for owner, some in _in_batches((yield from _of_the_dead(answer.items, alive))):
            instant = yield from now()
            if instant.mono_s >= this.stop_at_s and got_on:
                seen_all = False  # the page is read again by the next run, less what was freed of it
                break
            if owner not in testaments:
                testaments[owner] = yield from pages.seal(owner)
                report.malformed += testaments[owner].malformed
            yield from free(some, owner, testaments[owner], swept)
            got_on = True
        report.orphaned += len(swept.offers)
        report.untaken_offers += swept.untaken
        report.malformed += swept.malformed
        if not seen_all:
            return replace(place, walk=cursor)
        got_on = True
        cursor = answer.cursor
        if cursor is None:
            report.walked_owners = True
            return replace(place, walk=None, walked_at_ms=this.began.wall_ms)
        instant = yield from now()
        if instant.mono_s >= this.stop_at_s:
            return replace(place, walk=cursor)


def _in_batches(of_owners: Mapping[str, list[Item]]) -> Iterator[tuple[str, tuple[Item, ...]]]:
    for owner, group in of_owners.items():
        for some in chunks(group, MOST_WRITES):
            yield owner, some


def _of_the_dead(owned: tuple[Item, ...], alive: dict[str, bool]) -> Flow[dict[str, list[Item]]]:
    """Connections by their owner, of owners that are dead or absent.

    `alive` was read before the index was: who is missing from it may have joined since, and is looked up before
    anything is taken from it.
    """
    found: dict[str, list[Item]] = {}
    for item in owned:
        owner = str(item.get("lease_owner"))
        if owner not in alive:
            member = yield from read(Read(Table.MEMBERS, {"worker_id": owner}))
            alive[owner] = member is not None and member.get("state") not in (MemberState.DEAD, MemberState.GONE)
        if not alive[owner]:
            found.setdefault(owner, []).append(item)
    return found


def _not_streaming(member: Member) -> int:
    streaming = member.load.get("streaming")
    running = member.state in (MemberState.LIVE, MemberState.DRAINING)
    return max(0, member.owned - streaming) if running and isinstance(streaming, int) else 0


def _place() -> Flow[Place]:
    item = yield from read(Read(Table.MEMBERS, {"worker_id": RECONCILE_ID}))
    fields = item or {}
    cursor, walk, member = fields.get("cursor"), fields.get("walk"), fields.get("member")
    return Place(
        shard=_whole(fields.get("shard")),
        cursor=cursor if isinstance(cursor, dict) else None,
        unowned=_whole(fields.get("unowned")),
        member=member if isinstance(member, str) else "",
        walk=walk if isinstance(walk, dict) else None,
        walked_at_ms=_whole(fields.get("walked_at_ms")),
        turned=fields.get("turned") is True,
    )


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0


def _keep(place: Place) -> Flow[None]:
    optional = {"cursor": place.cursor, "walk": place.walk, "member": place.member or None}
    attributes: dict[str, Value] = {
        "shard": place.shard,
        "unowned": place.unowned,
        "walked_at_ms": place.walked_at_ms,
        "turned": place.turned,
        **{name: value for name, value in optional.items() if value is not None},
    }
    remove = tuple(name for name, value in optional.items() if value is None)
    key = {"worker_id": RECONCILE_ID}
    yield from write(Update(Table.MEMBERS, key, Always(), set=attributes, remove=remove))
