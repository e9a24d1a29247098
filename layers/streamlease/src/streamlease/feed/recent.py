"""The ids of records that a resuming upstream may send again: those at and after the position.

Bounded: ids behind the position are dropped as it moves, and the oldest go when there are too many. A duplicate that
slips through costs nothing but itself, for it carries the same record id.
"""

from collections import deque

from streamlease.feed.ledger import Rank

MOST = 4_096
LONGEST = 256
"""An id longer than this is not remembered."""


class Recent:
    __slots__ = ("_ids", "_order")

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._order: deque[tuple[str, Rank]] = deque()

    def __contains__(self, record_id: str) -> bool:
        return record_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, record_id: str, rank: Rank) -> None:
        if len(record_id) > LONGEST:
            return
        self._ids.add(record_id)
        self._order.append((record_id, rank))
        if len(self._order) > MOST:
            self._ids.discard(self._order.popleft()[0])

    def forget_below(self, floor: Rank) -> None:
        order = self._order
        while order and order[0][1] < floor:
            self._ids.discard(order.popleft()[0])
