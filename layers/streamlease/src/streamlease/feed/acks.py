"""What the upstream is still to be told: that a message was received, or that what came of it is durable.

An acknowledgement goes to the socket that its message came on, in the order of the messages, and only while that socket
is there: what was not acknowledged on it is sent again by the upstream, told by its record id, and acknowledged then.
Bounded: beyond `MOST` that wait, the newest are left to be sent again.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamlease.feed.shape import Acks
from streamlease.write import Value

MOST: Final = 10_000
LONGEST: Final = 4_096
"""Of a text to say back. A message with a longer one gets no acknowledgement, nor one with half of a surrogate pair,
which JSON can say and no socket can carry."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Due:
    """One acknowledgement to be sent: what to put into the feed's template."""

    socket: int
    values: Mapping[str, Value]


class AckBook:
    def __init__(self, acks: Acks) -> None:
        self._acks = acks
        self._waiting: deque[tuple[int, Due]] = deque()
        self._due: list[Due] = []
        self.left_out = 0
        """Acknowledgements that will not be sent, so far, because too many were waiting."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._due)

    def received(self, message: Value, socket: int, *, delivered: int, durable: int) -> None:
        """A message was read, and all that came of it is delivered: the last delivery is number `delivered`. All up to
        and with number `durable` are durable."""
        acks = self._acks
        if acks.when is not None and not acks.when(message):
            return
        values = {name: read(message) for name, read in acks.capture.items()}
        if not all(_can_be_said(value) for value in values.values()):
            return
        due = Due(socket, values)
        if acks.on == "receipt" or durable >= delivered:
            self._due.append(due)
        elif len(self._waiting) < MOST:
            self._waiting.append((delivered, due))
        else:
            self.left_out += 1

    def durable(self, number: int) -> None:
        """All deliveries up to and with `number` are durable."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= number:
            self._due.append(waiting.popleft()[1])

    def closed(self, socket: int) -> None:
        """Nothing can be said on this socket any more."""
        self._due = [due for due in self._due if due.socket != socket]
        if any(due.socket == socket for _, due in self._waiting):
            self._waiting = deque(entry for entry in self._waiting if entry[1].socket != socket)

    def take(self) -> list[Due]:
        """What is to be sent now, in order. Given once."""
        if not self._due:
            return []
        due, self._due = self._due, []
        if self._acks.gather == "each":
            return due
        of_socket: dict[int, list[Due]] = {}
        for each in due:
            of_socket.setdefault(each.socket, []).append(each)
        if self._acks.gather == "latest":
            return [several[-1] for several in of_socket.values()]
        return [_together(several) for several in of_socket.values()]


def _together(due: list[Due]) -> Due:
    names = due[0].values
    return Due(due[0].socket, {name: [each.values[name] for each in due] for name in names})


def _can_be_said(value: Value) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST and not _SURROGATE.search(value)
    return isinstance(value, int | float) and not isinstance(value, bool)
