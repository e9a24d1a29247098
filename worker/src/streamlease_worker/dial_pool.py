"""What a dial gate holds: this worker's part of each budget, and the dials that wait. Part of the dial gate."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from streamlease import budget as budgets
from streamlease.budget import CATCH_UP_MS, Ask, Budget, Ledger, Spent
from streamlease.timing import Instant

EARLY_SHARE = 4
"""The next slice is asked for once no more than this part of one is left, and lasts no longer than `EARLY_S`: so one
follows the other without a rest, and yet what slow dials leave lying is not heaped up."""
EARLY_S = 1.0
FAILURES = 2
"""After more than so many, nothing is expected of a ledger: nobody who needs it keeps another budget's tokens."""


@dataclass(slots=True, eq=False)
class Slice:
    slice_id: str
    dials: int
    left: int
    next_s: float
    """From when on the next of what is left may be spent."""
    step_s: float
    until_s: float
    until_ms: int
    """The same, as the ledger has it."""
    last_s: float
    """When the last of its dials was over, so far."""
    under_way: int = 0

    @property
    def last_ms(self) -> int:
        """By the clock that the slice was taken by, which was looked at then: this may have been set since."""
        return self.until_ms - math.floor((self.until_s - self.last_s) * 1000)

    def spend(self, now_s: float) -> None:
        self.left -= 1
        self.under_way += 1
        self.next_s = max(self.next_s, now_s - CATCH_UP_MS / 1000) + self.step_s


@dataclass(slots=True, eq=False)
class Pool:
    """This worker's part of one budget."""

    budget: Budget
    waiting: list["Ticket"] = field(default_factory=list)
    """The oldest first."""
    slices: list[Slice] = field(default_factory=list)
    spent: list[Spent] = field(default_factory=list)
    told_until_s: float = float("-inf")
    """So long it is worth telling what became of earlier slices: they count as spent at their end otherwise."""
    ask: Ask | None = None
    """Sent and not answered, or to be sent again as it is."""
    in_flight: bool = False
    again_s: float = float("-inf")
    failures: int = 0
    ledger: Ledger | None = None
    seen_s: float = float("-inf")
    place_until_s: float = float("-inf")
    """So long the ledger may say that somebody waits here."""

    def left(self, now_s: float) -> int:
        return sum(each.left for each in self.slices if each.until_s > now_s)

    def first(self, now_s: float) -> Slice | None:
        """Where the next token comes from: what ends soonest of that whose time has come."""
        usable = [each for each in self.slices if each.left and each.next_s <= now_s < each.until_s]
        return min(usable, key=lambda each: each.until_s, default=None)

    def next_s(self, now_s: float) -> float | None:
        """When the next of what is left may be spent; None: nothing is left."""
        return min((each.next_s for each in self.slices if each.left and each.until_s > now_s), default=None)

    def enough(self, wanted: int, now_s: float) -> bool:
        """Whether what is left will do for now."""
        left = self.left(now_s)
        if not left or left >= wanted:
            return left > 0
        newest = self.slices[-1]
        return left * EARLY_SHARE > newest.dials or left * newest.step_s > EARLY_S

    def settle(self, now_s: float) -> None:
        """Slices of which nothing will be spent any more are reported with the next ask."""
        done = [each for each in self.slices if not each.under_way and (not each.left or each.until_s <= now_s)]
        self.spent += [Spent(each.slice_id, each.dials - each.left, each.last_ms) for each in done]
        self.told_until_s = max([self.told_until_s, *(each.until_s for each in done)])
        self.slices = [each for each in self.slices if each not in done]

    def expected_s(self, place: int, ticket: "Ticket", now: Instant) -> float | None:
        """About when the `place`th that waits here may dial; None: it is not known. Others of the fleet, who wait for
        longer, are taken to be spread as those here are."""
        here = place - self.left(now.mono_s)
        if self.ledger is None or here <= 0:
            return None
        place = here + _older(self.ledger, ticket) * place // len(self.waiting)
        at_ms = budgets.expected_ms(self.ledger, self.budget.limit, place, now.wall_ms)
        return now.mono_s + (at_ms - now.wall_ms) / 1000

    def served(self, within_ms: int, now: Instant) -> int:
        """About how many of those that wait here have a token, or will have one within so long."""
        if self.failures > FAILURES:
            return self.left(now.mono_s)
        if self.ledger is None:
            return len(self.waiting)
        free = budgets.free_within(self.ledger, self.budget.limit, within_ms, now.wall_ms)
        waiting = len(self.waiting)
        return self.left(now.mono_s) + free * waiting // (waiting + _older(self.ledger, self.waiting[0]))


@dataclass(slots=True, eq=False)
class Ticket:
    number: int
    worker_id: str
    host: str
    pools: tuple[Pool, ...]
    """The scarcest first."""
    since: Instant
    told_s: float | None = None
    """The moment it was told to expect."""
    said: bool = False
    spending: list[Slice] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Whether something is known of all that it needs."""
        return all(pool.ledger is not None for pool in self.pools)

    @property
    def age(self) -> tuple[float, int]:
        return self.since.mono_s, self.number


def wanting(waiting: Iterable[Ticket], now: Instant) -> dict[Pool, list[Ticket]]:
    """Who wants a token of what. `waiting`: the oldest first. A dial that needs several waits for the scarcest, and in
    another's queue only once it would not wait there in vain for a whole window: what it takes, nobody else has."""
    served: dict[tuple[Pool, int], int] = {}
    found: dict[Pool, list[Ticket]] = {}
    for ticket in waiting:
        places: list[tuple[Pool, int]] = []
        for pool in ticket.pools:
            per_ms = pool.budget.limit.per_ms
            for scarcer, _ in places:
                if (scarcer, per_ms) not in served:
                    served[scarcer, per_ms] = scarcer.served(per_ms, now)
            if any(place >= served[scarcer, per_ms] for scarcer, place in places):
                break
            queue = found.setdefault(pool, [])
            places.append((pool, len(queue)))
            queue.append(ticket)
    return found


def _older(ledger: Ledger, ticket: Ticket) -> int:
    """How many wait elsewhere for longer, as far as is known."""
    return sum(
        queue.waiting
        for queue in ledger.queues
        if queue.worker_id != ticket.worker_id and queue.since_ms <= ticket.since.wall_ms
    )
