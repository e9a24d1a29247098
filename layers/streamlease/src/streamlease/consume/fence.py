"""The reader's fence: no record of an older epoch, once one of a newer epoch of its connection has been processed."""

from collections import OrderedDict
from collections.abc import Iterator

MOST_CONNECTIONS = 500_000
"""Some 100 MB, if there are so many."""


class Fence:
    """The highest epoch processed of each connection. Bounded: of more than `most` connections, those that were longest
    without a record are forgotten, and a stale record of theirs would pass."""

    def __init__(self, most: int = MOST_CONNECTIONS) -> None:
        self._most = most
        self._highest: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._highest)

    def __iter__(self) -> Iterator[str]:
        """The connections, the one longest without a record first."""
        return iter(self._highest)

    def highest(self, connection_id: str) -> int | None:
        return self._highest.get(connection_id)

    def is_stale(self, connection_id: str, epoch: int) -> bool:
        return epoch < self._highest.get(connection_id, epoch)

    def advance(self, connection_id: str, epoch: int) -> None:
        """A record of this epoch has been processed. The fence never falls."""
        self._highest[connection_id] = max(epoch, self._highest.get(connection_id, epoch))
        self._highest.move_to_end(connection_id)
        if len(self._highest) > self._most:
            self._highest.popitem(last=False)
