"""Numbers that prove that nothing is missing: one after the other, ranges that meet, or each naming the one before.

A number that is not beyond what its series has reached is a duplicate or comes late, and says nothing. Bounded: the key
that was not seen for the longest is forgotten when there are too many, and its series begins anew.
"""

from collections import OrderedDict
from typing import Final

from streamlease.feed.continuity import Hole
from streamlease.feed.reader import key_text, number
from streamlease.feed.shape import RecordShape
from streamlease.write import Value

LONGEST_SHOWN: Final = 60
"""Of a key, in a gap's reason."""


class SeriesTracker:
    """How far each series has come, over all sockets of one owner."""

    def __init__(self, shape: RecordShape) -> None:
        self._series = shape.series
        self._of_message = shape.of_message
        self._reached: OrderedDict[str, int] = OrderedDict()  # see recent.Window
        self.unreadable = 0
        """Entries without a number, so far."""

    def unseen(self) -> bool:
        """Numbers came without a look at them. Whether that may hide what is missing: where a series may have begun in
        there, the next number of it has none to follow. The next of a series that had begun tells by itself."""
        series = self._series
        if series is None:
            return False
        if series.restart is not None:
            self._reached.clear()  # lower numbers from here on would prove nothing
        return series.key is not None or not self._reached

    @property
    def reads_entries(self) -> bool:
        """Whether the message alone does not say which number of which series it has."""
        keyed = self._series is not None and self._series.key is not None
        return "number" not in self._of_message or (keyed and "key" not in self._of_message)

    def dialling(self, *, gap_is_told: bool) -> None:
        """A new socket. Where a gap is told anyway, or numbers begin anew, there is nothing to compare with."""
        if gap_is_told or (self._series is not None and self._series.per_socket):
            self._reached.clear()

    def arrived(self, message: Value, entry: Value) -> Hole | None:
        """An entry is about to be delivered. The gap before it, if there is one."""
        series, of_message = self._series, self._of_message
        if series is None:
            return None
        found = number(series.number(message if "number" in of_message else entry))
        if not isinstance(found, int):
            self.unreadable += 1
            return None
        key = ""
        if series.key is not None:
            key = key_text(series.key(message if "key" in of_message else entry)) or ""
        reached = self._reached.pop(key, None)
        hole: Hole | None = None
        if reached is None or (series.restart is not None and series.restart(entry)):
            reached = found
        elif series.previous is not None:
            before = number(series.previous(message if "previous" in of_message else entry))
            hole, reached = self._after(key, reached, before, found)
        else:
            first = number(series.first(message if "first" in of_message else entry)) if series.first else found
            if isinstance(first, int) and first > reached + 1:
                hole = _hole(key, reached, first, f"numbers rise by one here, and {first - reached - 1} are missing")
            reached = max(reached, found)
        self._reached[key] = reached
        if len(self._reached) > series.most_keys:
            self._reached.popitem(last=False)
        return hole

    def _after(self, key: str, reached: int, before: float | None, found: int) -> tuple[Hole | None, int]:
        """An entry that names the number before its own. Where that is the one reached, the next may even be lower."""
        if before == reached:
            return None, found
        if before is not None and before < 0:
            return None, found  # a first one: there is none before it
        if found <= reached:
            return None, reached
        says = f"the one before is said to be {before}" if before is not None else "the one before is not said"
        return _hole(key, reached, found, f"{says}, and {reached} was the last"), found


def _hole(key: str, from_number: int, to_number: int, reason: str) -> Hole:
    return Hole(from_number, to_number, f"{key[:LONGEST_SHOWN]}: {reason}" if key else reason)
