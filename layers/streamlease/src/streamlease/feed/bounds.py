"""How much work one frame may be. All that it holds is looked at in one go, and meanwhile no other connection is.

What a look takes is reckoned from the spec before any frame comes (`spec.effort`), in microseconds of a core that a
frame like any other takes; a slower core takes longer, in proportion. A frame that would take longer than
`LONGEST_US` is not taken apart: it is delivered as it came, and counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamlease.feed.decoding import MOST_ENTRIES
from streamlease.write import Value

LONGEST_US: Final = 80_000
"""Together with its decoding, about a tenth of a second: heartbeats are due every 2 s at the most frequent."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one feed."""

    per_message_us: float = 0.0
    """Of looking at a message, whatever it holds: rules, conditions, paths."""
    per_value_us: float = 0.0
    """Of what looks at all values and names in a message: some functions and comparisons. 0 for most feeds."""
    per_entry_us: float = 0.0
    """Of what looks at all entries of lists in a message: filters, projections. 0 for most feeds."""
    per_record_us: float = 0.0
    """Of an entry of `record.each`; 0 where the message is the record."""

    @property
    def most_messages(self) -> int:
        """In one frame."""
        return _at_most(self.per_message_us)

    @property
    def most_records(self) -> int:
        """Of one frame, all its messages together."""
        return _at_most(self.per_record_us)

    @property
    def most_values(self) -> int | None:
        """In one frame of one message; None: no fewer than can be decoded."""
        return int((LONGEST_US - self.per_message_us) / self.per_value_us) if self.per_value_us else None

    @property
    def most_entries(self) -> int | None:
        """Of lists, in one frame of one message; None: no fewer than can be decoded."""
        return int((LONGEST_US - self.per_message_us) / self.per_entry_us) if self.per_entry_us else None

    @property
    def looks_through(self) -> bool:
        """Whether a look at a message takes the longer, the more it holds."""
        return self.per_value_us > 0 or self.per_entry_us > 0

    def exceeded(self, messages: Sequence[Value]) -> bool:
        """Whether to look at these messages of one frame would take too long."""
        us = len(messages) * self.per_message_us
        if us > LONGEST_US or len(messages) > MOST_ENTRIES:
            return True
        return self.looks_through and self._through(messages) > LONGEST_US - us

    def _through(self, messages: Sequence[Value]) -> float:
        """What it takes to look through them, or more than is allowed: then not all of them was counted."""
        level = list(messages)
        us = len(level) * self.per_value_us
        an_entry, a_pair = self.per_value_us + self.per_entry_us, 2 * self.per_value_us
        while level and us <= LONGEST_US:
            below: list[Value] = []
            for value in level:
                if type(value) is list:
                    us += len(value) * an_entry
                    below += value
                elif type(value) is dict:
                    us += len(value) * a_pair
                    below += value.values()
            level = below
        return us

    def records_left(self, messages: int) -> int:
        """How many records so many messages of one frame may give, together."""
        return _at_most(self.per_record_us, LONGEST_US - messages * self.per_message_us)


def _at_most(us: float, of_us: float = LONGEST_US) -> int:
    return MOST_ENTRIES if us * MOST_ENTRIES <= max(of_us, 0.0) else int(max(of_us, 0.0) / us)
