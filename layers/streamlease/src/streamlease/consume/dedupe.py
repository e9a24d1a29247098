"""Which records have been processed, by connection and record id, as far back as memory is given to it."""

import hashlib
from collections import OrderedDict

IDS_PER_CONNECTION = 1_024
IDS = 200_000
"""Of all connections together: some 50 MB of ids of usual length."""
LONGEST = 128
"""A longer id is remembered by its digest, so that memory is bounded whatever upstreams call their records."""


class Window:
    """The record ids last processed or seen again: of each connection at most `per_connection`, and `total` of all.

    An id is known from its `add` on until `per_connection` other ids of its connection, or `total` others of any, have
    been added or seen since.
    """

    def __init__(self, per_connection: int = IDS_PER_CONNECTION, total: int = IDS) -> None:
        self._per_connection = per_connection
        self._total = total
        # Both are in the order of use, so that the oldest of all is also the oldest of its connection.
        self._all: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._by_connection: dict[str, OrderedDict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def knows(self, connection_id: str, record_id: str) -> bool:
        return (connection_id, remembered(record_id)) in self._all

    def add(self, connection_id: str, record_id: str) -> None:
        """It has been processed, now or before."""
        kept = remembered(record_id)
        self._all[connection_id, kept] = None
        self._all.move_to_end((connection_id, kept))
        ids = self._by_connection.setdefault(connection_id, OrderedDict())
        ids[kept] = None
        ids.move_to_end(kept)
        if len(ids) > self._per_connection:
            self._drop(connection_id, next(iter(ids)))
        if len(self._all) > self._total:
            self._drop(*next(iter(self._all)))

    def ids(self, connection_id: str) -> tuple[str, ...]:
        """What is remembered of a connection, the oldest first."""
        return tuple(self._by_connection.get(connection_id, ()))

    def forget(self, connection_id: str) -> None:
        for kept in self._by_connection.pop(connection_id, ()):
            del self._all[connection_id, kept]

    def _drop(self, connection_id: str, kept: str) -> None:
        del self._all[connection_id, kept]
        ids = self._by_connection[connection_id]
        del ids[kept]
        if not ids:
            del self._by_connection[connection_id]


def remembered(record_id: str) -> str:
    """What is kept of an id: itself where it is short and plain, else a digest. A digest is kept as it is."""
    if len(record_id) <= LONGEST and record_id.isascii():
        return record_id
    return f"sha256:{hashlib.sha256(record_id.encode(errors='surrogatepass')).hexdigest()}"
