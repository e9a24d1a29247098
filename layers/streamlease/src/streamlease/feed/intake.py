"""What a decoded message becomes: records, gaps, counts and acknowledgements, numbered and entered into the ledger."""

from urllib.parse import urlsplit

from streamlease.feed import template
from streamlease.feed.acks import AckBook, Due
from streamlease.feed.continuity import Continuity, Hole
from streamlease.feed.decoding import Trouble, one_json
from streamlease.feed.events import Advance, Command, Count, Deliver, Gap, Message, Record
from streamlease.feed.feed import Feed
from streamlease.feed.ledger import Ledger
from streamlease.feed.once import once
from streamlease.feed.reader import Reader
from streamlease.feed.recent import Recent, Window
from streamlease.feed.series import SeriesTracker
from streamlease.model import Position, Seek, Sequence
from streamlease.write import Value

LONGEST_REASON = 300
_UNSEEN = "a message that was not taken apart may have said that something is missing"
MOST_REPEATED = 2 << 20
"""Characters: of a part of the whole message (a path that begins with $), which each of its records holds once more."""


class Intake:
    """One owner's side of a feed's records, over all its sockets."""

    def __init__(self, feed: Feed, position: Position | None, seek: Seek | None = None) -> None:
        self._instance = feed.resume.instance or urlsplit(feed.url).netloc.rpartition("@")[2].lower()
        if position is None and seek is not None:
            position = _sought(feed, seek, self._instance)
        else:
            seek = None
        shape, self._read_once = once(feed.record)
        self._shape = shape
        self._complete = feed.resume.complete
        self._newest_first = feed.resume.order == "newest_first"
        self._reader = Reader(shape)
        self._ledger = Ledger(feed, position, self._instance)
        self._continuity = Continuity(feed, position, self._instance)
        if seek is not None:
            self._continuity.sought(seek)
        self._series = SeriesTracker(shape) if shape.series is not None else None
        self.numbers_messages = shape.series is not None and shape.series.of_messages
        """Whether `numbered` is to see every message, also those that are no data."""
        self._resumes = template.needs_cursor(feed)
        self._window = Window(shape.dedupe.most, _ms(shape.dedupe.within_s)) if shape.dedupe is not None else None
        repeats = self._resumes or feed.acks is not None or feed.rotation.overlap
        self._recent = Recent() if repeats and self._window is None else None
        self._acks = AckBook(feed.acks) if feed.acks is not None else None
        self._acks_left_out = 0
        self._floor = feed.resume.floor
        self._floor_unknown = False
        self._is_one = feed.adapter is not None or feed.decode is one_json
        """Whether what cannot be decoded is one message, and not many of which one is broken."""
        self._rules_tell_gaps = any(rule.action == "gap" for rule in feed.rules)
        self._bounds = feed.bounds
        self._records_left = feed.bounds.most_records
        self._replaying = False
        self._cursor: Sequence | None = None
        self._keeps_token = feed.resume.token is not None
        self._session_is_over = False
        self._reader.enter(self.session[0])

    @property
    def position(self) -> Position | None:
        return self._ledger.position

    @property
    def delivered(self) -> int:
        return self._ledger.delivered

    @property
    def acknowledged(self) -> int:
        return self._ledger.acknowledged

    # --- dials --------------------------------------------------------------------------------------------------------

    @property
    def received(self) -> Sequence | None:
        """The last sequence that was read."""
        return self._continuity.last

    @property
    def session(self) -> tuple[str | None, str | None]:
        """The token and the URL to resume with."""
        position = self._ledger.position
        if position is None or self._session_is_over or self._ledger.is_foreign:
            return None, None
        return position.token, position.resume_url

    def cursor(self) -> Sequence | None:
        """Where to ask the upstream to go on from, were it asked now. Sequences that belong to a session of the
        upstream's are worth nothing without it."""
        if not self._resumes or (self._keeps_token and self.session[0] is None):
            return None
        return self._ledger.cursor()

    def dialled(self, cursor: Sequence | None, *, seamless: bool = False) -> None:
        """The socket that is read from here on asks the upstream to go on from `cursor`. `seamless`: it was ready while
        the one before was still read, so that nothing is missing in between."""
        self._cursor = cursor
        foreign = self._ledger.is_foreign
        if not seamless:
            self._continuity.dialling(self._cursor, begun=self._ledger.position is not None, foreign=foreign)
        if self._series is not None:
            self._series.dialling(gap_is_told=self._continuity.owes)
        self._floor_unknown = self._floor is not None and self._cursor is not None
        self._replaying = self._newest_first
        if self._newest_first:
            self._ledger.replay_begins()

    def lost(self, why: str) -> None:
        self._continuity.lost(why)

    def forget(self, why: str, *, session: bool = False) -> None:
        """The cursor is worth nothing any more: the next dial goes without, and a gap record says why. `session`: nor
        is the upstream's session."""
        self._session_is_over = self._session_is_over or session
        self._ledger.forget()
        self._continuity.forgotten(why)
        if self._recent is not None:
            self._recent = Recent()

    def hold(self, token: str | None, resume_url: str | None, commands: list[Command]) -> Position | None:
        """Keep these with the position, which is given if it changed. A new token is a new session of the upstream's:
        its sequences begin anew."""
        position = self._ledger.position
        before = None if position is None else position.token
        renewed = token is not None and token != before
        if renewed and position is not None and position.sequence is not None and not self._session_is_over:
            self._continuity.forgotten("the upstream began a new session")
            self.begin(commands)
        if renewed:
            self._session_is_over = False
            self._continuity.restarted()
            self._reader.enter(token)
        return self._ledger.hold(token, resume_url)

    def cut_short(self, why: str, commands: list[Command]) -> None:
        """The upstream goes on from later than the cursor."""
        self.begin(commands)
        self._gap(self._continuity.cut_short(None, why), commands)

    def age_s(self, cursor: Sequence, at_ms: int) -> float | None:
        """How old a cursor is that is a time."""
        dated_ms = self._reader.dated_ms(cursor)
        return None if dated_ms is None else (at_ms - dated_ms) / 1_000

    # --- messages -----------------------------------------------------------------------------------------------------

    def begin(self, commands: list[Command]) -> None:
        """The stream begins, or goes on: what is missing before it is said first."""
        deliveries: list[Record | Gap] = []
        self._begin(deliveries, commands)
        if deliveries:
            commands.append(Deliver(tuple(deliveries)))

    def unreadable(self, message: Message, commands: list[Command], trouble: Trouble = "not_json") -> None:
        """A message that cannot be decoded: a record all the same, for what cannot be read cannot be judged."""
        commands.append(Count(trouble))
        self.begin(commands)
        deliveries: list[Record | Gap] = []
        if not (self._is_one and trouble in ("not_json", "undecodable")):
            might_tell, self._floor_unknown = self._rules_tell_gaps or self._floor_unknown, False
            self._unseen(deliveries, commands, might_tell=might_tell)
        elif self._replaying:
            self._continuity.replayed(None)
        number = self._ledger.deliver()
        deliveries.append(Record(number, None, None, None, message.received_at_ms, message.data))
        commands.append(Deliver(tuple(deliveries)))

    def message(self, value: Value, message: Message, commands: list[Command]) -> Position | None:
        """One of the messages that a frame holds. The position, if it let it move (the end of a replay may)."""
        if self._floor_unknown:
            self._look_for_floor(value, commands)
        when, each = self._shape.when, self._shape.each
        if when is None or when(value):
            deliveries: list[Record | Gap] = []
            if each is None:
                self._record(value, value, 0, message.received_at_ms, deliveries, commands)
            else:
                self._entries(value, message.received_at_ms, deliveries, commands)
            if deliveries:
                commands.append(Deliver(tuple(deliveries)))
        if self._acks is not None:
            self._acks.received(
                value, message.socket, delivered=self._ledger.delivered, durable=self._ledger.acknowledged
            )
        if self._replaying and self._complete is not None and self._complete(value):
            self._replaying = False
            self._gap(self._continuity.replay_ended(self._cursor), commands)
            return self._moved(self._ledger.replay_ended())
        return None

    def frame(self, messages: int) -> None:
        """So many messages come, all of one frame: what is left to say of how many records they may give together."""
        self._records_left = self._bounds.records_left(messages)

    def numbered(self, value: Value, commands: list[Command]) -> None:
        """A message, data or not, before it is anything else: what its number says is missing before it."""
        if self._series is None:
            return
        deliveries: list[Record | Gap] = []
        self._follow(self._series, value, value, deliveries, commands)
        self._forget_what_was_read()
        if deliveries:
            commands.append(Deliver(tuple(deliveries)))

    def together(self, first: int, *, whole: bool = True) -> None:
        """All deliveries from number `first` on came in one frame: no position may lie within it. Not `whole`: there
        was more in it, which is left to the upstream to send again."""
        if self._ledger.delivered > first or not whole:
            self._ledger.together(first, whole=whole)

    def acknowledge(self, number: int) -> Position | None:
        """The position, if it moved."""
        moved = self._moved(self._ledger.acknowledge(number))
        if self._acks is not None:
            self._acks.durable(self._ledger.acknowledged)
        return moved

    # --- acknowledgements to the upstream -----------------------------------------------------------------------------

    def acks_due(self, commands: list[Command]) -> list[Due]:
        """What the upstream is to be told now, in order. Given once."""
        if self._acks is None:
            return []
        if self._acks.left_out > self._acks_left_out:
            commands.append(Count("ack_left_out", self._acks.left_out - self._acks_left_out))
            self._acks_left_out = self._acks.left_out
        return self._acks.take()

    def socket_closed(self, socket: int) -> None:
        """Nothing can be said on this socket any more: what waits for it is the upstream's to send again."""
        if self._acks is not None:
            self._acks.closed(socket)

    # --- records and gaps ---------------------------------------------------------------------------------------------

    def _moved(self, position: Position | None) -> Position | None:
        if position is not None and self._recent is not None:
            floor = self._ledger.floor()
            if floor is not None:
                self._recent.forget_below(floor)
        return position

    def _begin(self, deliveries: list[Record | Gap], commands: list[Command]) -> None:
        if self._ledger.position is None:
            position = self._ledger.begin()
            if position is not None:
                commands.append(Advance(position))
        if self._continuity.owes:
            self._hole(self._continuity.owed(), deliveries, commands)

    def _look_for_floor(self, value: Value, commands: list[Command]) -> None:
        """The upstream says from where on it has something: if that is past the cursor, the rest is gone."""
        cursor, floor = self._cursor, self._reader.cursor(None if self._floor is None else self._floor(value))
        if floor is None or cursor is None:
            return
        self._floor_unknown = False
        if not isinstance(floor, str) and not isinstance(cursor, str) and floor > cursor:
            self.begin(commands)
            self._gap(self._continuity.cut_short(floor, "the upstream has nothing older any more"), commands)

    def _entries(
        self, message: Value, received_at_ms: int, deliveries: list[Record | Gap], commands: list[Command]
    ) -> None:
        """Each entry of the message's list. A message without one is a record itself; one with too many is delivered
        whole."""
        entries = None if self._shape.each is None else self._shape.each(message)
        if not isinstance(entries, list):
            commands.append(Count("no_entries"))
            entries = [message]
        elif len(entries) > self._records_left or self._repeated(message) * len(entries) > MOST_REPEATED:
            commands.append(Count("too_many"))
            self._records_left = max(self._records_left - 1, 0)
            self._begin(deliveries, commands)
            self._unseen(deliveries, commands)
            self._record(message, None, 0, received_at_ms, deliveries, commands, whole=True)
            self._forget_what_was_read()
            return
        self._records_left = max(self._records_left - len(entries), 0)
        first = self._ledger.delivered + 1
        for index, entry in enumerate(entries):
            self._record(message, entry, index, received_at_ms, deliveries, commands)
        self._forget_what_was_read()
        if len(deliveries) > 1:
            self._ledger.together(first)

    def _forget_what_was_read(self) -> None:
        for read in self._read_once:
            read.forget()

    def _unseen(self, deliveries: list[Record | Gap], commands: list[Command], *, might_tell: bool = False) -> None:
        """What comes is delivered without a look at the records in it. `might_tell`: something in there may have said
        that something is missing. So may its numbers, where the next ones do not."""
        hides = [might_tell, self._continuity.unseen(), self._series is not None and self._series.unseen()]
        if any(hides):
            self._hole(self._continuity.cut_short(None, _UNSEEN), deliveries, commands)

    def _repeated(self, message: Value) -> int:
        """How many characters of the message each of its records holds, roughly."""
        shape, of_message = self._shape, self._shape.of_message
        parts = (
            shape.payload if "payload" in of_message else None,
            shape.record_id if "record_id" in of_message else None,
        )
        return sum(len(repr(part(message))) for part in parts if part is not None)

    def _record(
        self,
        message: Value,
        entry: Value,
        index: int,
        received_at_ms: int,
        deliveries: list[Record | Gap],
        commands: list[Command],
        *,
        whole: bool = False,
    ) -> None:
        """`whole`: the message itself, of whose entries none is looked at; what is read from the message is known of
        it. A path into an entry would find something else in the message."""
        shape, reader, ledger, recent, window = self._shape, self._reader, self._ledger, self._recent, self._window
        sequence = reader.sequence(message, entry)
        record_id = reader.record_id(message, entry, sequence, index)
        if self._replaying:
            self._continuity.replayed(sequence)
        key: str | None = None
        if recent is not None:
            if record_id is not None and record_id in recent:
                commands.append(Count("duplicate"))
                return
        elif window is not None:
            key = reader.dedupe_key(message, entry, record_id)
            if key is not None and window.holds(key, received_at_ms):
                commands.append(Count("duplicate"))
                return
        if ledger.position is None or self._continuity.owes:
            self._begin(deliveries, commands)
        if self._series is not None and not self.numbers_messages and not (whole and self._series.reads_entries):
            self._follow(self._series, message, entry, deliveries, commands)
        settles_at: Sequence | None = None
        if sequence is not None:
            hole = self._continuity.arrived(sequence)
            if hole is not None:
                self._hole(hole, deliveries, commands)
            settles_at = sequence
            if shape.sequence_unit is not None:
                settles_at, from_the_future = reader.present(sequence, received_at_ms)
                if from_the_future:
                    commands.append(Count("future_sequence"))
        elif shape.sequence is not None:
            commands.append(Count("unreadable_sequence"))
        payload = message if whole else entry
        if shape.payload is not None and not whole:
            payload = reader.payload(message, entry)
            if payload is None:
                payload = entry
                commands.append(Count("unreadable_payload"))
        number = ledger.deliver(settles_at)
        if recent is not None:
            if record_id is not None:
                # By its own sequence, not by what the position may follow: that is what the upstream sends again by.
                rank = ledger.floor() if sequence is None else ledger.rank(sequence)
                recent.add(record_id, rank or 0)
        elif window is not None and key is not None:
            window.add(key, received_at_ms)
        event_at_ms = None if shape.event_at is None else reader.event_at_ms(message, entry)
        deliveries.append(Record(number, sequence, record_id, event_at_ms, received_at_ms, payload))

    def _follow(
        self,
        series: SeriesTracker,
        message: Value,
        entry: Value,
        deliveries: list[Record | Gap],
        commands: list[Command],
    ) -> None:
        before = series.unreadable
        self._hole(series.arrived(message, entry), deliveries, commands)
        if series.unreadable > before:
            commands.append(Count("unreadable_number"))

    def _gap(self, hole: Hole | None, commands: list[Command]) -> None:
        deliveries: list[Record | Gap] = []
        self._hole(hole, deliveries, commands)
        if deliveries:
            commands.append(Deliver(tuple(deliveries)))

    def _hole(self, hole: Hole | None, deliveries: list[Record | Gap], commands: list[Command]) -> None:
        if hole is None:
            return
        commands.append(Count("gap"))
        reason = hole.reason[:LONGEST_REASON]
        deliveries.append(Gap(self._ledger.deliver(), hole.from_sequence, hole.to_sequence, reason))


def _sought(feed: Feed, seek: Seek, instance: str) -> Position | None:
    """The position that a seek asks for, if it is one."""
    sequence = feed.resume.beginning if seek.to == "beginning" else seek.sequence
    return None if sequence is None else Position(sequence, instance)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1_000
