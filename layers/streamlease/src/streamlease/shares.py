"""How many connections each worker is to have: computed by whoever sweeps, from all members, and read by everybody
(design §5, §6). Pure.

Weights are whole numbers: a connection weighs 1, and more where it carries much; what a worker weighs beyond the number
of its connections, it says in its heartbeat's load (`EXTRA`), and how much of a share it can bear (`PACE`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from streamlease.model import Member, MemberState, Shares

EXTRA = "extra"
PACE = "pace"
WHOLE_PACE, HALF_PACE, NO_PACE = 100, 50, 0
"""Per cent of a share: well; slow; to be relieved of everything."""
LATELY_MS = 15_000
"""A summary that is older says nothing. And so long, beside a heartbeat, what somebody leaves may be in no count."""
LESS_MS = 5_000
"""While nobody goes: a smaller count holds after so long. What was just claimed is told within a second."""
GREW_MS = 2_500
MUCH = 0.1
"""A total that grows by more than this part may still be growing: for so long nothing is given up by it."""
MORE_MS = 1_500
"""While something moves: a larger count holds after so long."""
LEARNT_MS = 5 * 60_000
"""So long a measured weight is taken to be there still. Who has just taken a connection has yet to measure it, over
some minutes; by what is measured meanwhile, others would move there and back."""
STUBBORN_MS = 30_000
"""What nobody has taken for so long, though there was room, is not to be taken: unreadable, or put off."""
CALM_MS = 60_000
"""After the last worker of an older generation has gone, so long nothing is moved for balance."""
AHEAD_MS = 5_000
"""By more than this no two clocks differ that may write."""
SETTLED_MS = 10_000
"""After any burial, likewise."""
LONGEST_DEPLOYMENT_MS = 15 * 60_000
"""Two generations side by side for longer are no deployment, and the newer balances as any fleet does."""


def rank(worker_id: str) -> int:
    """Where a share has a remainder, workers of low rank have one more. It never changes, so that nothing moves for
    its sake."""
    return crc32(worker_id.encode())


def ahead(member: Member, *, now_ms: int) -> bool:
    """Whether its expiry is further away than any heartbeat of now writes: its clock was ahead, and whether it lives is
    not to be told for as long as that."""
    return member.lease_ms > 0 and member.lease_expires_at_ms > now_ms + member.lease_ms + AHEAD_MS


def silent(member: Member, *, now_ms: int) -> bool:
    """Whether it has missed two heartbeats: it may be dead, and nothing is to wait for its taking its share. By its own
    lease, since workers of another mode have another. (Members of an earlier release do not say theirs.)"""
    return member.lease_expires_at_ms < now_ms + member.lease_ms // 3


def weight(member: Member) -> int:
    extra = member.load.get(EXTRA)
    return member.owned + (extra if isinstance(extra, int) and extra > 0 else 0)


def pace(member: Member) -> int:
    found = member.load.get(PACE)
    return found if isinstance(found, int) and NO_PACE <= found <= WHOLE_PACE else WHOLE_PACE


def target(shares: Shares, worker_id: str, *, own_pace: int = WHOLE_PACE) -> int:
    """What a worker is to weigh in the end. The targets of all that count add up to the whole."""
    if own_pace == NO_PACE and not shares.all_unwell:
        return 0
    own_pace = WHOLE_PACE if shares.all_unwell else own_pace
    return shares.level * own_pace // WHOLE_PACE + (rank(worker_id) < shares.one_more_below)


def too_many(shares: Shares, worker_id: str, *, weighs: int, own_pace: int = WHOLE_PACE, band: int = 0) -> int:
    """How much a worker that weighs `weighs` is to give up for the sake of others. 0: it is to rest.

    At rest nobody that is well has more than one above another. Nothing is given up while nobody lacks anything, while
    what nobody owns would fill what is lacking (orphans come first), and while others come or go.
    `band`: so much above its share is let be, for weights that are measured and waver.
    """
    if not shares.movable or shares.lacking <= 0:
        return 0
    own = target(shares, worker_id, own_pace=own_pace)
    level = own - (rank(worker_id) < shares.one_more_below)
    most = level + (shares.one_more_below > 0 and own_pace != NO_PACE)
    if weighs > most + band or (shares.short and weighs > own + band):
        # An unwell worker has too much of everything: it gives up no more than others can take.
        return min(weighs - own, shares.lacking)
    return 0


def divide(
    members: Collection[Member], *, unowned: int, before: Shares | None, before_ms: int, now_ms: int
) -> Shares | None:
    """None: nobody is there to share. `before`: what the summary of `before_ms` said."""
    if not 0 <= now_ms - before_ms < LATELY_MS:
        before = None
    running = [m for m in members if m.state is MemberState.LIVE and m.lease_expires_at_ms >= now_ms]
    able = [m for m in running if not silent(m, now_ms=now_ms) and not ahead(m, now_ms=now_ms)] or running
    if not able:
        return None
    patience = _Patience.of(before, unowned, room=_room(able), now_ms=now_ms)
    waiting = max(0, unowned - patience.stubborn)
    going, deploying = _going(members, now_ms=now_ms), _deploying(members, able, now_ms=now_ms)
    patience_ms = LATELY_MS + max(m.lease_ms for m in running) // 3
    extra_now = sum(weight(m) - m.owned for m in able)
    extra, extra_at_ms = _extra(before, extra_now, now_ms=now_ms)
    counted = to_share(able, waiting) - extra_now + extra
    drains = any(_drains(m, now_ms=now_ms) and not silent(m, now_ms=now_ms) for m in members)
    total = _Total.of(before, counted, going=going, drains=drains, patience_ms=patience_ms, now_ms=now_ms)
    grew = before is None or total.number - before.total > MUCH * before.total
    grew_at_ms = now_ms if before is None or grew else before.grew_at_ms
    counting = _counting(able, total.number)
    older = sum(weight(m) for m in able if m not in counting)
    whole = max(total.number - older, sum(weight(m) for m in counting))
    all_unwell = all(pace(m) == NO_PACE for m in counting)
    level, one_more_below = _fill(counting, whole, all_unwell=all_unwell)
    found = Shares(
        generation=min(m.generation for m in counting),
        level=level,
        one_more_below=one_more_below,
        whole=whole,
        total=total.number,
        total_at_ms=total.at_ms,
        more_since_ms=total.more_since_ms,
        grew_at_ms=grew_at_ms,
        stubborn=patience.stubborn,
        least_unowned=patience.least,
        least_since_ms=patience.since_ms,
        movable=not going and not deploying and now_ms - grew_at_ms >= GREW_MS,
        all_unwell=all_unwell,
        extra=extra,
        extra_at_ms=extra_at_ms,
    )
    return _with_lacking(found, counting, waiting)


def to_share(able: Sequence[Member], waiting: int) -> int:
    """What the able have, and what waits for an owner: a cold fleet would else have a share of nothing."""
    return sum(weight(m) for m in able) + waiting


def _extra(before: Shares | None, extra: int, *, now_ms: int) -> tuple[int, int]:
    """The measured part of the total, and when about so much was measured last: a smaller one holds after long."""
    if before is None or now_ms - before.extra_at_ms >= LEARNT_MS:
        return extra, now_ms
    fell = extra < (1 - MUCH) * before.extra
    return max(extra, before.extra), before.extra_at_ms if fell else now_ms


@dataclass(frozen=True, slots=True)
class _Total:
    """How much there is. While connections move, a count is short of those that nobody has told of yet, and has those
    twice that were told of before they went: so what was counted in peace holds for a while."""

    number: int
    at_ms: int
    more_since_ms: int

    @staticmethod
    def of(
        before: Shares | None, counted: int, *, going: bool, drains: bool, patience_ms: int, now_ms: int
    ) -> "_Total":
        """`patience_ms`: how long those that somebody leaves may be in no count. `drains`: somebody goes who lives, and
        what is to come of him is in no count either."""
        if before is None or not before.total or counted == before.total:
            return _Total(counted, now_ms, 0)
        if counted > before.total:
            since_ms = before.more_since_ms or now_ms
            if now_ms - since_ms >= MORE_MS or not (going or before.lacking):
                return _Total(counted, now_ms, 0)
            return _Total(before.total, now_ms, since_ms)
        if drains:
            return _Total(before.total, now_ms, 0)
        if now_ms - before.total_at_ms >= (patience_ms if going else LESS_MS):
            return _Total(counted, now_ms, 0)
        return _Total(before.total, before.total_at_ms, 0)


def _counting(able: Sequence[Member], total: int) -> list[Member]:
    """Those of the newest generation, and of older ones only where the newer have no room for all that is not the
    older's."""
    counting: list[Member] = []
    for generation in sorted({m.generation for m in able}, reverse=True):
        counting += [m for m in able if m.generation == generation]
        theirs = total - sum(m.owned for m in able if m not in counting)
        if sum(m.capacity for m in counting) >= theirs and any(m.capacity > m.owned for m in counting):
            break
    return counting


def _room(counting: Sequence[Member]) -> int:
    return sum(max(0, m.capacity - m.owned) for m in counting)


@dataclass(frozen=True, slots=True)
class _Patience:
    """How much of what is unowned nobody can take. The least that was unowned within a whole window of time is it."""

    stubborn: int
    least: int
    since_ms: int

    @staticmethod
    def of(before: Shares | None, unowned: int, *, room: int, now_ms: int) -> "_Patience":
        if before is None or room < unowned:
            return _Patience(0, unowned, now_ms)
        stubborn, least = min(before.stubborn, unowned), min(before.least_unowned, unowned)
        if now_ms - before.least_since_ms < STUBBORN_MS:
            return _Patience(stubborn, least, before.least_since_ms)
        return _Patience(least, unowned, now_ms)


def _fill(counting: Sequence[Member], whole: int, *, all_unwell: bool) -> tuple[int, int]:
    """The level that each may be filled to, and the rank below which there is one more, so that all of it fits exactly,
    as far as capacities allow."""

    def held(member: Member, level: int) -> int:
        own_pace = WHOLE_PACE if all_unwell else pace(member)
        return min(member.capacity + weight(member) - member.owned, level * own_pace // WHOLE_PACE)

    low, high = 0, max(whole, 0)
    if sum(held(m, high) for m in counting) < whole:
        # Slow workers, or too little capacity: look further up, but not for ever.
        high = max(2 * high, max(m.capacity + weight(m) for m in counting))
    while low < high:
        middle = (low + high + 1) // 2
        if sum(held(m, middle) for m in counting) <= whole:
            low = middle
        else:
            high = middle - 1
    rest = whole - sum(held(m, low) for m in counting)
    more = sorted(
        rank(m.worker_id)
        for m in counting
        if (all_unwell or pace(m) > NO_PACE) and m.capacity + weight(m) - m.owned > held(m, low)
    )
    if rest <= 0 or not more:
        return low, 0
    return low, more[min(rest, len(more)) - 1] + 1


def _going(members: Collection[Member], *, now_ms: int) -> bool:
    """Whether somebody goes, or has just gone, well or not."""
    for member in members:
        if member.state in (MemberState.LIVE, MemberState.DRAINING):
            if _drains(member, now_ms=now_ms) or silent(member, now_ms=now_ms):
                return True
        elif _buried_within(SETTLED_MS, member, now_ms=now_ms):
            return True
    return False


def _drains(member: Member, *, now_ms: int) -> bool:
    return member.state is MemberState.DRAINING and not ahead(member, now_ms=now_ms)


def _buried_within(within_ms: int, member: Member, *, now_ms: int) -> bool:
    """Also where it was after `now_ms`, when this count began: by another clock, or while the count was under way."""
    return -AHEAD_MS <= now_ms - (member.buried_at_ms or 0) < within_ms


def _deploying(members: Collection[Member], able: Sequence[Member], *, now_ms: int) -> bool:
    """Whether older workers are there yet, or were: what moves from them anyway must not move twice."""
    newest = max(m.generation for m in able)
    began_ms = min(m.started_at_ms for m in able if m.generation == newest)
    if now_ms - began_ms >= LONGEST_DEPLOYMENT_MS:
        return False
    return any(
        member.generation < newest
        and (
            (member.state in (MemberState.LIVE, MemberState.DRAINING) and not ahead(member, now_ms=now_ms))
            or _buried_within(CALM_MS, member, now_ms=now_ms)
        )
        for member in members
    )


def _with_lacking(found: Shares, counting: Sequence[Member], waiting: int) -> Shares:
    lacking, short = -waiting, False
    for member in counting:
        own = min(target(found, member.worker_id, own_pace=pace(member)), member.capacity)
        own_level = own - (rank(member.worker_id) < found.one_more_below)
        lacking += max(0, own - weight(member))
        short = short or weight(member) < own_level
    return replace(found, lacking=max(0, lacking), short=short)
