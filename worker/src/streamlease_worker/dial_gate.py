"""The dial gate: which of a worker's dials may go out now (design §6). A step.

A dial goes out when there is room among those under way, when its host's pace allows it, and when every budget that its
spec names has a token here: who has waited longest, first. Tokens come in slices that the fleet shares, and are spent
one by one, each at its time; where none can be had, what is left is spent. Who runs it asks again at `due_s`, and
carries out the commands, in order.
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from streamlease.budget import LONGEST_LOOK_MS, Ask, Budget, Later, Ledger, Taken
from streamlease.errors import Fault
from streamlease.timing import SKEW_MS, Instant
from streamlease_worker.dial_pool import Pool, Slice, Ticket, wanting
from streamlease_worker.jitter import backoff_s, draw

MOST_UNDER_WAY = 256
"""Handshakes at a time: TLS costs a core some milliseconds each, and all of them at once would all run out of time."""
MOST_UNDER_WAY_TO_A_HOST = 32
"""A host that never answers leaves the rest to the others. No more than `routes` lets through at a time: there, what
waits runs out of its time."""
FLEET_DIALS_A_SECOND = 500
"""To one host, by a whole fleet, where no budget says otherwise."""
LEAST_DIALS_A_SECOND = 20
MOST_PACES = 1_000
SOONEST_S = 0.001
TICK_S = 0.02
"""Of a slice's pace: what came due meanwhile goes out together, for each tick looks at all that wait."""
TELL_AFTER_S = 1.0
TELL_ALL_S = 15.0
TELL_AGAIN = 0.25
"""An expectation that is off by this part, and by a minute, is told anew: each is a write to the connection's item."""
FRESH_S = 1.0
"""A ledger seen longer ago is read again before anything is decided by it."""
FIRST_RETRY_S, LONGEST_RETRY_S = 0.2, 5.0


@dataclass(frozen=True, slots=True)
class Allow:
    """The dial of this ticket may begin, before the monotonic `until_s`. `gone` follows, sooner or later."""

    ticket: int
    until_s: float


@dataclass(frozen=True, slots=True)
class Tell:
    """What this ticket waits for, in words."""

    ticket: int
    reason: str


@dataclass(frozen=True, slots=True)
class Take:
    """Run `flows.budget.take`. Answer with `answered`, always."""

    budget: Budget
    ask: Ask
    seen: Ledger | None


type Command = Allow | Tell | Take


class DialGate:
    """Mutable; one caller at a time. Seconds are monotonic."""

    def __init__(self, worker_id: str) -> None:
        self._worker_id = worker_id
        self._waiting: list[Ticket] = []
        self._tickets: dict[int, Ticket] = {}
        self._under_way: dict[int, Ticket] = {}
        self._to_host: Counter[str] = Counter()
        self._paces: dict[str, float] = {}
        self._pools: dict[Budget, Pool] = {}
        self._of_several = 0
        """Of those that wait, so many need tokens of several budgets."""
        self._asks = 0
        self._live = 1
        self._due_s: float | None = None
        self._told_all_s = float("-inf")

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def due_s(self) -> float | None:
        """When to `tick` next; None: nothing waits for time to pass."""
        return self._due_s

    def fleet(self, live: int) -> None:
        """So many workers live: each dials at its part of the fleet's pace."""
        self._live = max(1, live)

    def want(self, number: int, host: str, wanted: Iterable[Budget], since: Instant, now: Instant) -> list[Command]:
        """`since`: since when it waits. Numbers are never used twice."""
        scarcest_first = sorted(dict.fromkeys(wanted), key=lambda budget: budget.limit.rest_ms, reverse=True)
        pools = tuple(self._pools.setdefault(budget, Pool(budget)) for budget in scarcest_first)
        ticket = self._tickets[number] = Ticket(number, self._worker_id, host, pools, since)
        for queue in (self._waiting, *(pool.waiting for pool in pools)):
            insort(queue, ticket, key=lambda each: each.age)
        self._of_several += len(pools) > 1
        return self._go_on(now)

    def gone(self, number: int, now: Instant) -> list[Command]:
        """The dial of this ticket has opened, has failed, or will not be."""
        ticket = self._tickets.pop(number, None)
        if ticket is None:
            return []
        if self._under_way.pop(number, None) is None:
            self._waits_no_more(ticket)
        else:
            self._to_host[ticket.host] -= 1
            for each in ticket.spending:
                each.under_way -= 1
                each.last_s = now.mono_s
        return self._go_on(now)

    def answered(self, budget: Budget, outcome: Taken | Later | Fault, now: Instant) -> list[Command]:
        """What became of a `Take`."""
        pool = self._pools[budget]
        ask, pool.in_flight = pool.ask, False
        if ask is None:
            return []
        if isinstance(outcome, Fault):
            pool.failures += 1
            wait_s = backoff_s(pool.failures, FIRST_RETRY_S, LONGEST_RETRY_S, self._worker_id, budget.key)
            pool.again_s = now.mono_s + wait_s
            return self.tick(now)
        pool.failures, pool.ask = 0, None
        pool.ledger, pool.seen_s = outcome.ledger, now.mono_s
        if not any(queue.worker_id == self._worker_id for queue in outcome.ledger.queues):
            pool.place_until_s = float("-inf")
        if isinstance(outcome, Taken):
            pool.slices.append(_slice(ask.slice_id, outcome, now))
            pool.spent = pool.spent[len(ask.spent) :]
            pool.again_s = now.mono_s
        else:
            # No answer names a later time: the clock may have been set back since it was reckoned.
            wait_s = min(max(0.0, (outcome.again_ms - now.wall_ms) / 1000), LONGEST_LOOK_MS / 1000)
            pool.again_s = now.mono_s + wait_s + draw(self._worker_id, budget.key, self._asks) / 2
        return self.tick(now)

    def tick(self, now: Instant) -> list[Command]:
        """Some time has passed."""
        told = self._telling(now)
        return told + self._go_on(now)

    def _go_on(self, now: Instant) -> list[Command]:
        self._due_s = None
        for pool in self._pools.values():
            pool.settle(now.mono_s)
        out = self._serve(now)
        out += self._asking(now)
        self._due_to_tell(now)
        return out

    # --- what goes out ------------------------------------------------------------------------------------------------

    def _serve(self, now: Instant) -> list[Command]:
        out: list[Command] = []
        spent: set[Pool] = set()
        kept: Counter[Pool] = Counter()
        wants = self._keeping(now)
        for ticket in tuple(self._waiting):
            if len(self._under_way) >= MOST_UNDER_WAY:
                break
            if self._to_host[ticket.host] >= MOST_UNDER_WAY_TO_A_HOST:
                continue
            if not spent.isdisjoint(ticket.pools):
                # Its token of the one is not for who came later: there would never be one of both.
                if wants:
                    kept.update(pool for pool in ticket.pools if (pool, ticket.number) in wants)
                continue
            if kept and any(kept[pool] >= pool.left(now.mono_s) for pool in ticket.pools):
                continue
            spending = [found for pool in ticket.pools if (found := pool.first(now.mono_s)) is not None]
            if len(spending) < len(ticket.pools):
                spent.update(self._not_now(ticket, now))
                if wants:
                    kept.update(pool for pool in ticket.pools if (pool, ticket.number) in wants)
                continue
            if not self._paced(ticket.host, now):
                continue
            for found in spending:
                found.spend(now.mono_s)
            ticket.spending = spending
            self._waits_no_more(ticket)
            self._under_way[ticket.number] = ticket
            self._to_host[ticket.host] += 1
            out.append(Allow(ticket.number, min((found.until_s for found in spending), default=float("inf"))))
        return out

    def _keeping(self, now: Instant) -> set[tuple[Pool, int]]:
        """Whose tokens of what are kept for them, while they wait for others: of the oldest, for these come first."""
        if not self._of_several or not any(pool.left(now.mono_s) for pool in self._pools.values()):
            return set()
        wanted = wanting(self._waiting[:MOST_UNDER_WAY], now)
        return {(pool, ticket.number) for pool, here in wanted.items() for ticket in here if ticket.is_known}

    def _not_now(self, ticket: Ticket, now: Instant) -> list[Pool]:
        """Those that have no token for it at this moment."""
        found = [pool for pool in ticket.pools if pool.first(now.mono_s) is None]
        for pool in found:
            next_s = pool.next_s(now.mono_s)
            if next_s is not None:
                self._due(max(next_s, now.mono_s + TICK_S), now)
        return found

    def _waits_no_more(self, ticket: Ticket) -> None:
        self._waiting.remove(ticket)
        self._of_several -= len(ticket.pools) > 1
        for pool in ticket.pools:
            pool.waiting.remove(ticket)

    def _paced(self, host: str, now: Instant) -> bool:
        """Whether the host's pace allows one more now. A second's worth may go out at once."""
        step_s = 1 / max(LEAST_DIALS_A_SECOND, FLEET_DIALS_A_SECOND / self._live)
        next_s = max(self._paces.get(host, 0.0), now.mono_s - 1.0) + step_s
        if next_s > now.mono_s:
            self._due(next_s, now)
            return False
        if len(self._paces) > MOST_PACES:
            self._paces = {name: at_s for name, at_s in self._paces.items() if at_s > now.mono_s - 1.0}
        self._paces[host] = next_s
        return True

    def _asking(self, now: Instant) -> list[Command]:
        out: list[Command] = []
        wanted: dict[Pool, list[Ticket]] | None = None
        for budget, pool in tuple(self._pools.items()):
            here = pool.waiting
            if self._of_several and here and not pool.in_flight:
                if now.mono_s < pool.again_s:
                    self._due(pool.again_s, now)
                    continue
                if wanted is None:
                    wanted = wanting(self._waiting, now)
                here = wanted.get(pool, [])
            leaves = not here and now.mono_s < pool.place_until_s
            if pool.in_flight or not (here or leaves) or (here and pool.enough(len(here), now.mono_s)):
                if not (pool.waiting or pool.slices or pool.in_flight) and now.mono_s > pool.told_until_s:
                    del self._pools[budget]
                continue
            if now.mono_s < pool.again_s and (pool.failures or not leaves):
                self._due(pool.again_s, now)
                continue
            if pool.ask is None or bool(pool.ask.waiting_ms) == leaves:
                # Others are kept waiting by a place that nobody has. What an ask may have taken counts as spent.
                self._asks += 1
                since_ms = sorted(ticket.since.wall_ms for ticket in here)[pool.left(now.mono_s) :]
                pool.ask = Ask(self._worker_id, f"{self._worker_id}#{self._asks}", tuple(since_ms), tuple(pool.spent))
            if here:
                pool.place_until_s = now.mono_s + (budget.limit.queue_ms + SKEW_MS) / 1000
            pool.in_flight = True
            out.append(Take(budget, pool.ask, pool.ledger if now.mono_s - pool.seen_s < FRESH_S else None))
        return out

    # --- what is said -------------------------------------------------------------------------------------------------

    def _telling(self, now: Instant) -> list[Command]:
        out: list[Command] = []
        everybody = now.mono_s >= self._told_all_s + TELL_ALL_S
        if everybody:
            self._told_all_s = now.mono_s
        places: Counter[Budget] = Counter()
        for ticket in self._waiting:
            for pool in ticket.pools:
                places[pool.budget] += 1
            if now.mono_s < ticket.since.mono_s + TELL_AFTER_S or (ticket.said and not everybody):
                continue
            found = [(pool.expected_s(places[pool.budget], ticket, now), pool.budget) for pool in ticket.pools]
            known = [(at_s, budget) for at_s, budget in found if at_s is not None]
            if known:
                out += _expect(ticket, *max(known, key=lambda each: each[0]), now.mono_s)
            elif not ticket.said:
                empty = [pool.budget.name for pool in ticket.pools if not pool.left(now.mono_s)]
                what = f"the dial budget of {empty[0]}" if empty else "its turn to dial"
                out.append(Tell(ticket.number, f"waiting for {what}"))
            ticket.said = True
        return out

    def _due_to_tell(self, now: Instant) -> None:
        unsaid = next((ticket for ticket in self._waiting if not ticket.said), None)
        if unsaid is not None:
            self._due(unsaid.since.mono_s + TELL_AFTER_S, now)
        if self._waiting and unsaid is not self._waiting[0]:
            self._due(self._told_all_s + TELL_ALL_S, now)

    def _due(self, at_s: float, now: Instant) -> None:
        at_s = max(at_s, now.mono_s + SOONEST_S)
        self._due_s = at_s if self._due_s is None else min(self._due_s, at_s)


def _slice(slice_id: str, taken: Taken, now: Instant) -> Slice:
    return Slice(
        slice_id,
        taken.dials,
        taken.dials,
        taken.from_s,
        taken.step_s,
        taken.until_s,
        taken.until_ms,
        last_s=now.mono_s,
    )


def _expect(ticket: Ticket, at_s: float, budget: Budget, now_s: float) -> list[Command]:
    if ticket.told_s is not None and abs(at_s - ticket.told_s) <= max(60.0, TELL_AGAIN * (at_s - now_s)):
        return []
    ticket.told_s = at_s
    allows = f"{budget.limit.dials} in {_duration(budget.limit.per_ms / 1000)}"
    about = _duration(max(1.0, at_s - now_s))
    return [Tell(ticket.number, f"waiting for the dial budget of {budget.name} ({allows}), about {about}")]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.0f} h"
