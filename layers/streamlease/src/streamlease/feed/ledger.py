"""What is out at the sink, and how far the position may go.

The position is the sequence below which every record is durable, so it follows the acknowledged prefix alone, and:
- in a replay that comes newest first, it waits for the replay's end and for all that was delivered before it;
- of what came in one message none advances before all of it is durable;
- where many records share a sequence and the upstream goes on *after* a cursor, it stays one sequence behind, for the
  last one's siblings may still come;
- where a sequence falls behind those before it, it waits for that record, too: at it, if the upstream sends the record
  of a cursor again, else before it;
- it never falls, however sequences run; texts, which have no order of their own, have that of their first delivery.
"""

from collections import deque
from dataclasses import replace

from streamlease.feed import reader
from streamlease.feed.feed import Feed
from streamlease.model import Position, Sequence

type Rank = int | float


class Ledger:
    """One owner's deliveries of one connection, numbered from 1. Holds one tuple for each that is not acknowledged."""

    def __init__(self, feed: Feed, position: Position | None, instance: str) -> None:
        self.position = position
        self.delivered = 0
        """The number of the last delivery."""
        self.acknowledged = 0
        """All up to and with this number are durable."""
        self._pending: deque[tuple[int, Rank, Sequence]] = deque()
        self._instance = instance
        self._rewind = feed.resume.rewind
        self._rewind_elsewhere = feed.resume.rewind_elsewhere
        self._elsewhere = feed.resume.elsewhere
        self._may_follow = feed.resume.inclusive or feed.record.unique
        self._inclusive = feed.resume.inclusive
        self._highest: Rank = float("-inf")
        """Of all deliveries."""
        self._behind: deque[tuple[int, Rank, Sequence]] | None = None
        """Of what waits and has a lower rank than something delivered before: the lowest, the lowest after that, and so
        on. Few feeds have any."""
        self._replaying = False
        self._gate = 0
        self._numeric = feed.record.sequence_type == "number"
        self._order: deque[str] | None = None
        """Of the texts that have a rank. Most feeds have numbers, and an empty queue weighs as much as 60 of them."""
        self._ranks: dict[str, int] = {}
        self._next_rank = 0
        self._rank: Rank | None = None
        self._greatest: tuple[Rank, Sequence] | None = None
        self._below: tuple[Rank, Sequence] | None = None
        self._forgotten = False
        start = self._start()
        if start is not None and position is not None and position.instance in (None, instance):
            self._rank = self.rank(start)
            self._greatest = (self._rank, start)

    def _start(self) -> Sequence | None:
        if self.position is None or self.position.sequence is None:
            return None
        read = reader.number if self._numeric else reader.text
        return read(self.position.sequence)

    def cursor(self) -> Sequence | None:
        """Where to ask the upstream to go on from; None while no position, or none of this feed's kind, is known."""
        if self._forgotten:
            return None
        start = self._start()
        if self.is_foreign and self._elsewhere == "live":
            return None
        by = self._rewind + (self._rewind_elsewhere if self.is_foreign else 0)
        if start is None or isinstance(start, str) or not by:
            return start
        rewind = int(by) if isinstance(start, int) and float(by).is_integer() else by
        return max(start - rewind, 0) if start >= 0 else start

    @property
    def is_foreign(self) -> bool:
        """Whether the position is another upstream's."""
        return self.position is not None and self.position.instance not in (None, self._instance)

    def rank(self, sequence: Sequence) -> Rank:
        """What orders sequences."""
        if not isinstance(sequence, str):
            return sequence
        rank = self._ranks.get(sequence)
        if rank is None:
            rank = self._ranks[sequence] = self._next_rank
            self._next_rank += 1
            if self._order is None:
                self._order = deque()
            self._order.append(sequence)
        return rank

    def floor(self) -> Rank | None:
        """Records ranked below this will not be sent again by an upstream that is asked to go on from here."""
        if self._rank is None or not self._numeric:
            return self._rank
        return self._rank - self._rewind

    def deliver(self, sequence: Sequence | None = None) -> int:
        """One more delivery; its number. `sequence` is what the position may become once it is acknowledged."""
        number = self.delivered = self.delivered + 1
        if sequence is not None:
            rank = self.rank(sequence) if isinstance(sequence, str) else sequence
            self._pending.append((number, rank, sequence))
            if rank >= self._highest:
                self._highest = rank
            elif self._numeric:
                self._falls_behind(number, rank, sequence)
        return number

    def _falls_behind(self, number: int, rank: Rank, sequence: Sequence) -> None:
        behind = self._behind = deque() if self._behind is None else self._behind
        while behind and behind[-1][1] >= rank:
            behind.pop()
        behind.append((number, rank, sequence))

    def together(self, first: int, *, whole: bool = True) -> None:
        """The deliveries from number `first` on came in one message: no position may lie within it. Of one that is not
        `whole` none counts."""
        pending, several = self._pending, []
        while pending and pending[-1][0] >= first:
            several.append(pending.pop())
        if whole:
            pending.extend((self.delivered, rank, sequence) for _, rank, sequence in reversed(several))
        behind, several = self._behind, []
        while behind and behind[-1][0] >= first:
            several.append(behind.pop())
        if behind is not None:
            behind.extend((self.delivered, rank, sequence) for _, rank, sequence in reversed(several))

    def forget(self) -> None:
        """The cursor is worth nothing any more. The position stays what it is until a new sequence is durable, and no
        sequence from before counts for it."""
        self._pending.clear()
        self._behind, self._highest = None, float("-inf")
        self._order = None
        self._ranks.clear()
        self._rank = self._greatest = self._below = None
        self._forgotten = True

    def hold(self, token: str | None, resume_url: str | None) -> Position | None:
        """The position with these, if that changes it. With a new token no sequence from before counts."""
        position = self.position or Position(instance=self._instance)
        if token is not None and token != position.token:
            self.forget()
            self._forgotten = False
            position = Position(None, self._instance, resume_url, token)
        elif resume_url is not None:
            position = replace(position, resume_url=resume_url)
        if position == self.position:
            return None
        self.position = position
        return position

    def begin(self) -> Position | None:
        """The stream has begun. A connection without a position gets one, so that the next owner knows that there was a
        stream to go on with, even if no sequence was ever read. Returned if new."""
        if self.position is not None:
            return None
        self.position = Position(instance=self._instance)
        return self.position

    def acknowledge(self, number: int) -> Position | None:
        """The position, if it moved. A number already acknowledged, or never given, says nothing new."""
        number = min(number, self.delivered)
        if number <= self.acknowledged:
            return None
        self.acknowledged = number
        pending = self._pending
        while pending and pending[0][0] <= number:
            _, rank, sequence = pending.popleft()
            if self._greatest is None or rank > self._greatest[0]:
                self._below, self._greatest = self._greatest, (rank, sequence)
            elif rank < self._greatest[0] and (self._below is None or rank > self._below[0]):
                self._below = (rank, sequence)
        return self._settle()

    def replay_begins(self) -> None:
        self._replaying = True

    def replay_ended(self) -> Position | None:
        """The position, if it moved."""
        self._replaying = False
        self._gate = self.delivered
        return self._settle()

    def _settle(self) -> Position | None:
        if self._replaying or self.acknowledged < self._gate:
            return None
        safe = self._greatest if self._may_follow else self._below
        if self._behind:
            safe = self._before_what_waits(safe)
        if safe is None or (self._rank is not None and safe[0] <= self._rank):
            return None
        self._rank, sequence = safe
        self._forgotten = False
        while self._order and self._ranks[self._order[0]] < self._rank:
            self._ranks.pop(self._order.popleft())
        if self.position is not None and self.position.instance in (None, self._instance):
            self.position = replace(self.position, sequence=sequence, instance=self._instance)
        else:
            self.position = Position(sequence, self._instance)
        return self.position

    def _before_what_waits(self, safe: tuple[Rank, Sequence] | None) -> tuple[Rank, Sequence] | None:
        """As far as the position may go for what fell behind."""
        behind = self._behind
        while behind and behind[0][0] <= self.acknowledged:
            behind.popleft()
        if not behind or safe is None:
            return safe
        _, rank, sequence = behind[0]
        if safe[0] < rank:
            return safe
        return (rank, sequence) if self._inclusive else None
