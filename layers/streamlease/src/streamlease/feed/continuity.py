"""Where it cannot be proven that nothing is missing, a gap record has to say so (design, invariants 3 and 5).

Continuity is proven by going on from a cursor, or by an upstream that sends everything again. It is not where a stream
that had begun, under this owner or an earlier one, is dialled without either; where the cursor is another upstream's;
where a replay was as long as the upstream makes them; or where sequences that rise by one jump.
"""

from dataclasses import dataclass

from streamlease.feed.feed import Feed
from streamlease.model import Position, Seek, Sequence


@dataclass(frozen=True, slots=True)
class Hole:
    """What a gap record says, before it has a number."""

    from_sequence: Sequence | None
    to_sequence: Sequence | None
    reason: str


class Continuity:
    def __init__(self, feed: Feed, position: Position | None, instance: str) -> None:
        self._resumes_whole = feed.resume.without_cursor == "all"
        self._contiguous = feed.record.contiguous
        self._at_most = feed.resume.at_most
        self._why: str | None = None
        self._owed: Hole | None = None
        self._last: Sequence | None = None if position is None else position.sequence
        self._reached: int | None = None
        self._replayed = 0
        self._unseen = False
        self._oldest: Sequence | None = None
        self._follows = False
        if position is not None and position.instance not in (None, instance):
            self._owe(
                f"the upstream changed from {position.instance} to {instance}, whose cursor may mean something else"
            )
        elif isinstance(self._last, int):
            self._reached = self._last

    @property
    def owes(self) -> bool:
        return self._owed is not None

    @property
    def last(self) -> Sequence | None:
        """The last sequence that was read, by this owner or by one before it."""
        return self._last

    def restarted(self) -> None:
        """The upstream numbers anew."""
        self._last = self._reached = None

    def lost(self, why: str) -> None:
        """The socket is gone, for the reason given."""
        self._why = why

    def forgotten(self, why: str) -> None:
        """The cursor is worth nothing any more, for the reason given: what comes next need not follow."""
        self._owe(why)

    def sought(self, seek: Seek) -> None:
        """Somebody asked for a start from somewhere else."""
        place = {"live": "live", "beginning": "from the beginning", "position": f"from {seek.sequence}"}[seek.to]
        self._owed = Hole(seek.from_sequence, seek.sequence, f"somebody asked to go on {place} (seek)")
        self._reached = None

    def cut_short(self, oldest: Sequence | None, why: str) -> Hole:
        """The upstream goes on from `oldest` at the earliest, and not from the cursor that it was asked for."""
        self._reached = None
        return Hole(self._last, oldest, why)

    def dialling(self, cursor: Sequence | None, *, begun: bool, foreign: bool = False) -> None:
        """A dial that asks to go on from `cursor`. `begun`: there was a stream before, this owner's or another's.
        `foreign`: the cursor is another upstream's, because nothing of this one's was settled yet."""
        self._replayed = 0
        self._unseen = False
        self._oldest = None
        self._follows = begun
        if begun and cursor is None and not self._resumes_whole:
            why = f"the connection was lost ({self._why})" if self._why else "the connection has a new owner"
            self._owe(f"{why}, and there is no cursor to go on from")
        elif begun and cursor is not None and foreign and self._why:
            self._owe(f"the connection was lost ({self._why}), and the only cursor to go on from is another upstream's")

    def owed(self) -> Hole | None:
        """The gap to be delivered before any record of the new stream. Given once."""
        owed, self._owed = self._owed, None
        return owed

    def arrived(self, sequence: Sequence) -> Hole | None:
        """A record is about to be delivered. The gap before it, if there is one."""
        self._last = sequence
        if not self._contiguous or not isinstance(sequence, int):
            return None
        reached = self._reached
        if reached is not None and sequence <= reached:
            return None
        self._reached = sequence
        if reached is None or sequence == reached + 1:
            return None
        return Hole(reached, sequence, f"sequences rise by one here, and {sequence - reached - 1} of them are missing")

    def replayed(self, sequence: Sequence | None) -> None:
        """A record of the replay was read, whether delivered or a duplicate."""
        self._replayed += 1
        if sequence is not None and not isinstance(sequence, str):
            oldest = self._oldest
            self._oldest = sequence if oldest is None or isinstance(oldest, str) else min(oldest, sequence)

    def unseen(self) -> bool:
        """Any number of records came without a look at them. Whether that may hide what is missing: the next sequence
        tells, if it has one to follow, and the end of a replay does."""
        self._unseen = True
        return self._contiguous and self._reached is None

    def replay_ended(self, cursor: Sequence | None) -> Hole | None:
        """The gap that a replay cut short by the upstream's own limit leaves."""
        if self._at_most is None or not self._follows or not (self._unseen or self._replayed >= self._at_most):
            return None
        sent = "sent as many" if self._replayed >= self._at_most else "what it sent was not all taken apart"
        return Hole(cursor, self._oldest, f"the upstream replays at most {self._at_most} records, and {sent}")

    def _owe(self, reason: str) -> None:
        if self._owed is None:
            self._owed = Hole(self._last, None, reason)
        self._reached = None
