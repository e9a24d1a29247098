"""What a dial gate holds: this worker's part of each budget, and the dials that wait. Part of the dial gate."""

from dataclasses import dataclass, field

from streamlease import budget as budgets
from streamlease.budget import Ask, Budget, Ledger, Spent
from streamlease.timing import Instant


@dataclass(slots=True, eq=False)
class Slice:
    slice_id: str
    dials: int
    left: int
    until_s: float
    under_way: int = 0
    last_ms: int = 0


@dataclass(slots=True, eq=False)
class Pool:
    """This worker's part of one budget."""

    budget: Budget
    waiting: list["Ticket"] = field(default_factory=list)
    """The oldest first."""
    slices: list[Slice] = field(default_factory=list)
    spent: list[Spent] = field(default_factory=list)
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
        """Where the next token comes from: what ends soonest."""
        usable = [each for each in self.slices if each.left and each.until_s > now_s]
        return min(usable, key=lambda each: each.until_s, default=None)

    def settle(self, now_s: float) -> None:
        """Slices of which nothing will be spent any more are reported with the next ask."""
        done = [each for each in self.slices if not each.under_way and (not each.left or each.until_s <= now_s)]
        self.spent += [Spent(each.slice_id, each.dials - each.left, each.last_ms) for each in done]
        self.slices = [each for each in self.slices if each not in done]

    def expected_s(self, place: int, ticket: "Ticket", now: Instant) -> float | None:
        """About when the `place`th that waits here may dial; None: it is not known. Others of the fleet, who wait for
        longer, are taken to be spread as those here are."""
        here = place - self.left(now.mono_s)
        if self.ledger is None or here <= 0:
            return None
        others = sum(
            queue.waiting
            for queue in self.ledger.queues
            if queue.worker_id != ticket.worker_id and queue.since_ms <= ticket.since.wall_ms
        )
        place = here + others * place // len(self.waiting)
        at_ms = budgets.expected_ms(self.ledger, self.budget.limit, place, now.wall_ms)
        return now.mono_s + (at_ms - now.wall_ms) / 1000


@dataclass(slots=True, eq=False)
class Ticket:
    number: int
    worker_id: str
    host: str
    pools: tuple[Pool, ...]
    since: Instant
    told_s: float | None = None
    """The moment it was told to expect."""
    said: bool = False
    spending: list[Slice] = field(default_factory=list)

    @property
    def age(self) -> tuple[float, int]:
        return self.since.mono_s, self.number
