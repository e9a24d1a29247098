"""Connections whose worker has ended and has not released them: they are to stream, and for a while nobody counts
them. The dead owner's lease stands, so that no sweep finds them free."""

from collections.abc import Iterable


class Orphans:
    """Each is one until somebody owns it, or for `kept_s`: by then its lease has run out, and the sweeps count it."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._until_s: dict[str, float] = {}

    def left(self, connection_ids: Iterable[str], now_s: float) -> None:
        """Their worker has ended. To say so again changes nothing."""
        for connection_id in connection_ids:
            self._until_s.setdefault(connection_id, now_s + self._kept_s)

    def count(self, owned: Iterable[str], now_s: float) -> int:
        """How many there are, now that others own these."""
        taken = set(owned)
        self._until_s = {
            connection_id: until_s
            for connection_id, until_s in self._until_s.items()
            if until_s > now_s and connection_id not in taken
        }
        return len(self._until_s)
