"""Take a slice of a dial budget, with every doubtful answer settled by the ledger itself."""

from streamlease import budget as budgets
from streamlease.budget import PARTITION, Ask, Budget, Later, Ledger, Taken
from streamlease.flow import Flow, now, page, write
from streamlease.timing import SKEW_MS
from streamlease.write import Applied, Query, Table

RACES = 5
CONTENDED_MS = 300


def take(budget: Budget, ask: Ask, seen: Ledger | None, *, skew_ms: int = SKEW_MS) -> Flow[Taken | Later]:
    """`seen`: the ledger as it was a moment ago; None: it is read first. Raises Fault, Malformed.

    After a fault the same ask is to be sent again: if the first send had landed, or lands, its slice is what is taken.
    """
    ledger = seen if seen is not None else (yield from _read(budget))
    for _ in range(RACES):
        sent = yield from now()
        earlier = budgets.landed(ledger, budget.limit, ask, sent, skew_ms=skew_ms)
        if earlier is not None:
            return earlier
        plan = budgets.plan(ledger, budget, ask, sent, skew_ms=skew_ms)
        if plan.write is None:
            return plan.outcome
        answer = yield from write(plan.write)
        if isinstance(answer, Applied):
            return plan.outcome
        ledger = budgets.ledger(answer.item)
    sent = yield from now()
    return Later(sent.wall_ms + CONTENDED_MS, ledger)


def _read(budget: Budget) -> Flow[Ledger]:
    """A query, for that is what workers may do with this table."""
    answer = yield from page(Query(Table.WORKER_ITEMS, PARTITION, prefix=budget.key))
    found = [item for item in answer.items if item.get("item") == budget.key]
    return budgets.ledger(found[0] if found else None)
