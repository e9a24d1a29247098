"""Dial budgets: how many dials of a whole fleet may begin within any stretch of time (design §6). Pure.

What an upstream counts dials by, a host as one egress sees it or a credential, has one *ledger*. A worker that wants to
dial takes a *slice* of it by one conditional write, and spends that by itself until the slice ends. What it does not
spend counts as spent until it says otherwise with its next write: a crash costs its slice, and allows no dial too many.

A slice counts from its taking until `per_ms` after its end, on every clock within the allowance. So no window of that
length sees more dials than the limit: when the last of the slices that it sees was taken, all others of them counted.

The limit is the promise; the *pace* keeps waves out. A slice is spent dial by dial, and one slice's dials follow those
of another: tokens come back as they went, so that what goes out at once would come back at once, a window later.

(Longer than a file should be: what the item says, what follows from it, and how it is written belong together.)
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from streamlease.errors import Malformed
from streamlease.model import SCHEMA
from streamlease.timing import SKEW_MS, Instant
from streamlease.write import Absent, Condition, Equals, Item, Put, Table, Value

PARTITION = "#dials"
"""The worker items table's key of all ledgers. No worker id begins with `#`."""
SHARE_OF_A_SLICE = 10
"""A slice is at most this part of the limit."""
LONGEST_SLICE_MS = 30_000
SHORTEST_SLICE_MS = 5_000
"""Secrets are looked up between a turn and its dial."""
LONGEST_SPREAD_MS = 30_000
"""What fills a budget goes out over its window, or over so long where that is longer: spread so far it is no wave, and
a quota for a day is there to be used."""
SLOWEST_STEP_MS = 200
"""Between two dials for the pace's sake: five a second are no wave."""
AHEAD_MS = 1_000
"""How long before it begins whose turn it is may take a slice, so that one follows the other without a rest."""
CATCH_UP_MS = 100
"""What was missed of the pace for no longer is made up for: a slice is a round trip, and timers come late."""
SHORTEST_QUEUE_MS, LONGEST_QUEUE_MS = 10_000, 60_000
"""Those that wait look more often, and say it again after half of it: so long what a dead one wanted is left to it."""
RESERVED_MS = 1_000
"""How soon to look again while what is free is left to others, who have waited for longer."""
LONGEST_LOOK_MS = 20_000
"""How old what is told to people may be; a look is a read."""
MERGED_INTO = 20
"""Slices that are over are kept as about so many: each counts for a part of the window longer than it would have to."""
MERGED_ID = "-"
"""No report of one of them may make less of the others."""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `dials` in any `per_ms` milliseconds, by all that share a budget."""

    dials: int
    per_ms: int

    @property
    def slice_ms(self) -> int:
        """How long a slice may be spent."""
        return max(SHORTEST_SLICE_MS, min(LONGEST_SLICE_MS, self.per_ms // SHARE_OF_A_SLICE))

    @property
    def queue_ms(self) -> int:
        """How long a worker is believed to wait after it said so."""
        return max(SHORTEST_QUEUE_MS, min(LONGEST_QUEUE_MS, self.per_ms // 2))

    @property
    def largest_slice(self) -> int:
        return max(1, self.dials // SHARE_OF_A_SLICE)

    @property
    def rest_ms(self) -> float:
        """Between two dials, in the long run."""
        return self.per_ms / self.dials

    @property
    def spread_ms(self) -> int:
        """Over how long all of the dials go out."""
        return min(self.per_ms, LONGEST_SPREAD_MS)

    def step_ms(self, wanted: int) -> float:
        """From one dial of the fleet to the next, where `wanted` either count already or wait. What needs little of the
        budget goes out faster by as much: a tenth of the dials take a hundredth of the time that all of them take."""
        return min(SLOWEST_STEP_MS, self.spread_ms * min(1.0, wanted / self.dials) / self.dials)


@dataclass(frozen=True, slots=True)
class Budget:
    """What is counted, over which time, and against which limit. Budgets of one `key` share a ledger, each with a limit
    of its own; those of another time have another ledger, so that a dial that counts by both is counted once in each.
    """

    key: str
    name: str
    """For people: the host, or the credential's reference."""
    limit: Limit


@dataclass(frozen=True, slots=True)
class Slice:
    slice_id: str
    dials: int
    until_ms: int
    """Spent before this, by the wall clock of who took it, or never."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What a worker said last of those that wait there."""

    worker_id: str
    since_ms: int
    """Since when the oldest of them waits."""
    waiting: int
    said_ms: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """One budget's item, as somebody saw it."""

    revision: int = 0
    slices: tuple[Slice, ...] = ()
    queues: tuple[Queue, ...] = ()
    paced_ms: int = 0
    """When, at its pace, the last dial of all slices has gone out: there the next slice begins."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What became of an earlier slice, of which nothing will be spent any more."""

    slice_id: str
    dials: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A worker's wish for a slice. After a fault it is sent again with the same `slice_id`: at most one send lands."""

    worker_id: str
    slice_id: str
    waiting_ms: tuple[int, ...]
    """Since when each of those waits that wants a dial of this slice, the oldest first. Nothing: nobody waits any more,
    and the place in the queue is given up."""
    spent: tuple[Spent, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """A slice of `dials`, to be spent before the monotonic `until_s`, which is `until_ms` of the ledger: the first from
    `from_s` on, the others each `step_s` after the one before."""

    dials: int
    from_s: float
    step_s: float
    until_s: float
    until_ms: int
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Later:
    """Nothing now: look again at `again_ms`."""

    again_ms: int
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Plan:
    """What the ledger says to an ask. `write`: what makes it so; None: nothing is to be written."""

    outcome: Taken | Later
    write: Put | None


def host_budget(host: str, egress: str, limit: Limit) -> Budget:
    return Budget(f"host#{host}#{egress}#{limit.per_ms}", host, limit)


def credential_budget(references: Iterable[str], limit: Limit) -> Budget:
    """`references` are what the credential is looked up by, never its value. It counts from whichever egress."""
    named = ", ".join(sorted(references))
    digest = hashlib.sha256(named.encode()).hexdigest()[:32]
    return Budget(f"credential#{digest}#{limit.per_ms}", named, limit)


def plan(ledger: Ledger, budget: Budget, ask: Ask, sent: Instant, *, skew_ms: int = SKEW_MS) -> Plan:
    """Who has waited longest goes first: what others who wait for longer are known to want is left to them."""
    now_ms, limit = sent.wall_ms, budget.limit
    slices = _tidied(_reported(ledger.slices, ask.spent), now_ms, limit.per_ms, skew_ms)
    others = tuple(
        q for q in ledger.queues if q.worker_id != ask.worker_id and now_ms - q.said_ms <= limit.queue_ms + skew_ms
    )
    known = next((q for q in ledger.queues if q.worker_id == ask.worker_id), None)
    if not ask.waiting_ms:
        if known is None:
            return Plan(Later(now_ms, replace(ledger, slices=slices)), None)
        after = replace(ledger, revision=ledger.revision + 1, slices=slices, queues=others)
        return Plan(Later(now_ms, after), _put(ledger, after, budget))
    mine = (ask.waiting_ms[0], ask.worker_id)
    ahead = sum(q.waiting for q in others if (q.since_ms, q.worker_id) < mine)
    counted = _counted(slices, limit, now_ms, skew_ms)
    free = limit.dials - counted
    dials = min(len(ask.waiting_ms), limit.largest_slice, free - ahead)
    from_ms = _turn_ms(ledger, limit, now_ms, skew_ms)
    begins_ms = from_ms if ahead else from_ms - AHEAD_MS
    if dials > 0 and begins_ms <= now_ms:
        step_ms = limit.step_ms(counted + len(ask.waiting_ms) + sum(q.waiting for q in others))
        paced_ms = from_ms + math.ceil(dials * step_ms)
        until_ms = max(now_ms, paced_ms) + limit.slice_ms
        rest = ask.waiting_ms[dials:]
        queues = (*others, Queue(ask.worker_id, rest[0], len(rest), now_ms)) if rest else others
        slices = (*slices, Slice(ask.slice_id, dials, until_ms))
        after = Ledger(ledger.revision + 1, slices, queues, paced_ms)
        taken = Taken(dials, _mono_s(from_ms, sent), step_ms / 1000, _mono_s(until_ms, sent), until_ms, after)
        return Plan(taken, _put(ledger, after, budget))
    again_ms = begins_ms if dials > 0 else now_ms + RESERVED_MS
    if free <= 0:
        ends = [each.until_ms + limit.per_ms + skew_ms for each in slices]
        again_ms = max(now_ms + 1, min((end for end in ends if end >= now_ms), default=now_ms) + 1)
    again_ms = min(again_ms, now_ms + limit.queue_ms // 2, now_ms + LONGEST_LOOK_MS)
    waiting = len(ask.waiting_ms)
    if known is not None and now_ms - known.said_ms < limit.queue_ms // 2 and waiting <= 2 * known.waiting:
        return Plan(Later(again_ms, replace(ledger, slices=slices)), None)
    queues = (*others, Queue(ask.worker_id, ask.waiting_ms[0], waiting, now_ms))
    after = replace(ledger, revision=ledger.revision + 1, slices=slices, queues=queues)
    return Plan(Later(again_ms, after), _put(ledger, after, budget))


def landed(ledger: Ledger, limit: Limit, ask: Ask, sent: Instant, *, skew_ms: int = SKEW_MS) -> Taken | None:
    """The slice of an earlier send of this ask, whose answer was lost. None: none has landed. Its place in the pace has
    passed, more or less: it is spent from now on."""
    for each in ledger.slices:
        if each.slice_id == ask.slice_id:
            step_s = limit.step_ms(_wanted(ledger, limit, sent.wall_ms, skew_ms)) / 1000
            until_s = _mono_s(each.until_ms, sent)
            return Taken(each.dials, sent.mono_s, step_s, until_s, each.until_ms, ledger)
    return None


def expected_ms(ledger: Ledger, limit: Limit, place: int, now_ms: int, *, skew_ms: int = SKEW_MS) -> int:
    """About when the `place`th of all that wait may dial, if nobody cuts in."""
    counted = _counted(ledger.slices, limit, now_ms, skew_ms)
    step_ms = limit.step_ms(max(counted + place, _wanted(ledger, limit, now_ms, skew_ms)))
    paced_ms = max(now_ms, _turn_ms(ledger, limit, now_ms, skew_ms)) + round((place - 1) * step_ms)
    return max(paced_ms, _freed_ms(ledger, limit, place, now_ms, skew_ms))


def free_within(ledger: Ledger, limit: Limit, within_ms: int, now_ms: int, *, skew_ms: int = SKEW_MS) -> int:
    """About how many dials all together may take within so long."""
    free = limit.dials - _counted(ledger.slices, limit, now_ms + within_ms, skew_ms)
    return max(0, free) + limit.dials * (within_ms // (limit.per_ms + skew_ms))


def _freed_ms(ledger: Ledger, limit: Limit, place: int, now_ms: int, skew_ms: int) -> int:
    """When so many dials no longer count that the `place`th may be taken."""
    free = limit.dials - _counted(ledger.slices, limit, now_ms, skew_ms)
    at_ms = now_ms
    for each in sorted(ledger.slices, key=lambda each: each.until_ms):
        if free >= place:
            return at_ms
        end_ms = each.until_ms + limit.per_ms + skew_ms
        if end_ms >= now_ms:
            free += each.dials
            at_ms = end_ms
    windows = max(0, -(-(place - free) // limit.dials))
    return at_ms + windows * (limit.per_ms + skew_ms)


def _turn_ms(ledger: Ledger, limit: Limit, now_ms: int, skew_ms: int) -> int:
    """When the next slice begins. No clock within the allowance gives turns out further ahead than that."""
    possible = ledger.paced_ms <= now_ms + AHEAD_MS + limit.spread_ms + skew_ms
    return max(ledger.paced_ms if possible else now_ms, now_ms - CATCH_UP_MS)


def _wanted(ledger: Ledger, limit: Limit, now_ms: int, skew_ms: int) -> int:
    return _counted(ledger.slices, limit, now_ms, skew_ms) + sum(each.waiting for each in ledger.queues)


def _mono_s(at_ms: int, sent: Instant) -> float:
    return sent.mono_s + (at_ms - sent.wall_ms) / 1000


def _counted(slices: Iterable[Slice], limit: Limit, now_ms: int, skew_ms: int) -> int:
    return sum(each.dials for each in slices if each.until_ms + limit.per_ms + skew_ms >= now_ms)


def _reported(slices: tuple[Slice, ...], spent: tuple[Spent, ...]) -> tuple[Slice, ...]:
    """What their owner says of slices, which only ever makes less of them."""
    reports = {report.slice_id: report for report in spent}
    found = []
    for each in slices:
        report = reports.get(each.slice_id)
        if report is not None:
            dials, until_ms = min(each.dials, report.dials), min(each.until_ms, report.last_ms)
            each = Slice(each.slice_id, dials, until_ms)
        if each.dials > 0:
            found.append(each)
    return tuple(found)


def _tidied(slices: tuple[Slice, ...], now_ms: int, per_ms: int, skew_ms: int) -> tuple[Slice, ...]:
    """Without those that count no more; those that are over, which nobody will say anything of any more, are put
    together with their neighbours, to the later end."""
    apart_ms = max(1, per_ms // MERGED_INTO)
    kept: list[Slice] = []
    over: list[Slice] = []
    for each in sorted(slices, key=lambda each: each.until_ms):
        if each.until_ms + per_ms + skew_ms < now_ms:
            continue
        if each.until_ms + skew_ms >= now_ms:
            kept.append(each)
        elif over and each.until_ms // apart_ms == over[-1].until_ms // apart_ms:
            over[-1] = Slice(MERGED_ID, over[-1].dials + each.dials, each.until_ms)
        else:
            over.append(each)
    return (*over, *kept)


# --- the item ---------------------------------------------------------------------------------------------------------


def _put(seen: Ledger, after: Ledger, budget: Budget) -> Put:
    """Condition: the revision is the one seen, so that of all who saw it one lands."""
    unseen: Condition = Absent("revision")
    item: dict[str, Value] = {
        "schema": SCHEMA,
        "worker_id": PARTITION,
        "item": budget.key,
        "of": budget.name,
        "revision": after.revision,
        "slices": [{"id": s.slice_id, "dials": s.dials, "until_ms": s.until_ms} for s in after.slices],
        "queues": [
            {"worker_id": q.worker_id, "since_ms": q.since_ms, "waiting": q.waiting, "said_ms": q.said_ms}
            for q in after.queues
        ],
        "paced_ms": after.paced_ms,
    }
    return Put(Table.WORKER_ITEMS, item, Equals("revision", seen.revision) if seen.revision else unseen)


def ledger(item: Item | None) -> Ledger:
    """Raises Malformed."""
    if item is None:
        return Ledger()
    where = f"dial budget {item.get('item')!r}"
    return Ledger(
        revision=_whole(item, "revision", where),
        slices=tuple(
            Slice(_text(each, "id", where), _whole(each, "dials", where), _whole(each, "until_ms", where))
            for each in _maps(item, "slices", where)
        ),
        queues=tuple(
            Queue(
                _text(each, "worker_id", where),
                _whole(each, "since_ms", where),
                _whole(each, "waiting", where),
                _whole(each, "said_ms", where),
            )
            for each in _maps(item, "queues", where)
        ),
        paced_ms=_whole(item, "paced_ms", where) if "paced_ms" in item else 0,
    )


def _maps(item: Item, name: str, where: str) -> list[Item]:
    value = item.get(name)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Malformed(where, f"{name} must be a list of maps")
    return value


def _whole(item: Item, name: str, where: str) -> int:
    value = item.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Malformed(where, f"{name} must be a whole number")
    return value


def _text(item: Item, name: str, where: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise Malformed(where, f"{name} must be a string")
    return value
