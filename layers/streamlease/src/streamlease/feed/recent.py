"""What was delivered lately and may come again: by the position, or by a window that the feed declares.

Bounded in number and in the length of each. A duplicate that slips through costs nothing but itself, for it carries the
same record id.
"""

from collections import OrderedDict, deque

from streamlease.feed.ledger import Rank

MOST = 4_096
LONGEST = 256
"""An id longer than this is not remembered."""


class Recent:
    """The ids of records that a resuming upstream may send again: those at and after the position."""

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


class Window:
    """The last `most` keys, none older than `within_ms` by the wall clock of their arrival."""

    __slots__ = ("_arrived", "_most", "_within_ms")

    def __init__(self, most: int, within_ms: float | None) -> None:
        self._most = most
        self._within_ms = within_ms
        self._arrived: OrderedDict[str, int] = OrderedDict()
        """By arrival. Of a plain dict, what is taken from its front is passed over at each look for the first."""

    def __len__(self) -> int:
        return len(self._arrived)

    def holds(self, key: str, at_ms: int) -> bool:
        """Whether the key came within the window that ends at `at_ms`."""
        arrived_ms = self._arrived.get(key)
        return arrived_ms is not None and (self._within_ms is None or at_ms - arrived_ms <= self._within_ms)

    def add(self, key: str, at_ms: int) -> None:
        arrived = self._arrived
        arrived.pop(key, None)
        arrived[key] = at_ms
        if len(arrived) > self._most:
            arrived.popitem(last=False)
        if self._within_ms is None:
            return
        for _ in range(2):  # two go for each that comes, so that a window empties without a pause
            oldest = next(iter(arrived))
            if at_ms - arrived[oldest] <= self._within_ms:
                break
            del arrived[oldest]
