"""What a decoded message becomes: records, gaps and counts, numbered and entered into the ledger."""

from urllib.parse import urlsplit

from streamlease.feed import template
from streamlease.feed.continuity import Continuity, Hole
from streamlease.feed.events import Advance, Command, Count, Deliver, Gap, Message, Record
from streamlease.feed.feed import Feed
from streamlease.feed.ledger import Ledger
from streamlease.feed.reader import Reader
from streamlease.feed.recent import Recent
from streamlease.model import Position, Sequence
from streamlease.write import Value

LONGEST_REASON = 300


class Intake:
    """One owner's side of a feed's records, over all its sockets."""

    def __init__(self, feed: Feed, position: Position | None) -> None:
        self._instance = instance = urlsplit(feed.url).netloc.rpartition("@")[2].lower()
        self._shape = feed.record
        self._complete = feed.resume.complete
        self._newest_first = feed.resume.order == "newest_first"
        self._reader = Reader(feed.record)
        self._ledger = Ledger(feed, position, instance)
        self._continuity = Continuity(feed, position, instance)
        self._resumes = template.needs_cursor(feed)
        self._recent = Recent() if self._resumes else None
        self._replaying = False
        self._cursor: Sequence | None = None

    @property
    def position(self) -> Position | None:
        return self._ledger.position

    @property
    def delivered(self) -> int:
        return self._ledger.delivered

    @property
    def acknowledged(self) -> int:
        return self._ledger.acknowledged

    def dialling(self) -> Sequence | None:
        """A new socket is about to be asked for; the cursor to go on from."""
        self._cursor = self._ledger.cursor() if self._resumes else None
        position = self._ledger.position
        foreign = position is not None and position.instance not in (None, self._instance)
        self._continuity.dialling(self._cursor, begun=position is not None, foreign=foreign)
        self._replaying = self._newest_first
        if self._newest_first:
            self._ledger.replay_begins()
        return self._cursor

    def lost(self, why: str) -> None:
        self._continuity.lost(why)

    def begin(self, commands: list[Command]) -> None:
        """The stream begins, or goes on: what is missing before it is said first."""
        position = self._ledger.begin()
        if position is not None:
            commands.append(Advance(position))
        self._gap(self._continuity.owed(), commands)

    def unreadable(self, message: Message, commands: list[Command]) -> None:
        """A message that is not JSON: a record all the same, for what cannot be read cannot be judged."""
        commands.append(Count("not_json"))
        self.begin(commands)
        number = self._ledger.deliver()
        commands.append(Deliver((Record(number, None, None, None, message.received_at_ms, message.data),)))

    def message(self, value: Value, message: Message, commands: list[Command]) -> Position | None:
        """The position, if the message let it move (the end of a replay may)."""
        if self._shape.when is None or self._shape.when(value):
            self._record(value, message.received_at_ms, commands)
        if self._replaying and self._complete is not None and self._complete(value):
            self._replaying = False
            self._gap(self._continuity.replay_ended(self._cursor), commands)
            return self._moved(self._ledger.replay_ended())
        return None

    def acknowledge(self, number: int) -> Position | None:
        """The position, if it moved."""
        return self._moved(self._ledger.acknowledge(number))

    def _moved(self, position: Position | None) -> Position | None:
        floor = self._ledger.floor()
        if position is not None and self._recent is not None and floor is not None:
            self._recent.forget_below(floor)
        return position

    def _record(self, value: Value, received_at_ms: int, commands: list[Command]) -> None:
        shape, reader, recent = self._shape, self._reader, self._recent
        sequence = reader.sequence(value)
        record_id = reader.record_id(value, sequence)
        if self._replaying:
            self._continuity.replayed(sequence)
        if recent is not None and record_id is not None and record_id in recent:
            commands.append(Count("duplicate"))
            return
        self.begin(commands)
        settles_at: Sequence | None = None
        if sequence is not None:
            self._gap(self._continuity.arrived(sequence), commands)
            settles_at, from_the_future = reader.present(sequence, received_at_ms)
            if from_the_future:
                commands.append(Count("future_sequence"))
        elif shape.sequence is not None:
            commands.append(Count("unreadable_sequence"))
        payload = value
        if shape.payload is not None:
            payload = shape.payload(value)
            if payload is None:
                payload = value
                commands.append(Count("unreadable_payload"))
        number = self._ledger.deliver(settles_at)
        if recent is not None and record_id is not None:
            # By its own sequence, not by what the position may follow: that is what the upstream sends again by.
            rank = self._ledger.floor() if sequence is None else self._ledger.rank(sequence)
            recent.add(record_id, rank or 0)
        record = Record(number, sequence, record_id, reader.event_at_ms(value), received_at_ms, payload)
        commands.append(Deliver((record,)))

    def _gap(self, hole: Hole | None, commands: list[Command]) -> None:
        if hole is None:
            return
        commands.append(Count("gap"))
        gap = Gap(self._ledger.deliver(), hole.from_sequence, hole.to_sequence, hole.reason[:LONGEST_REASON])
        commands.append(Deliver((gap,)))
