"""The reader's memory, and the rule by which it moves: judge first, and remember only what has been processed.

`Reader` is that memory for one stream of records, whoever reads it. `Batch` carries one delivery of the transport
through it: a record that fails holds back what comes after it, so that nothing is remembered past a record that is
still to come again. Neither is safe to share between threads.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum

from streamlease.consume.dedupe import IDS, IDS_PER_CONNECTION, Window
from streamlease.consume.fence import MOST_CONNECTIONS, Fence
from streamlease.envelope import Envelope
from streamlease.errors import Malformed, StreamleaseError
from streamlease.feed.events import Record
from streamlease.write import Value

STATE_VERSION = 1


class Order(StrEnum):
    """What the transport promises, which decides whether there can be a fence and what a failure holds back."""

    STREAM = "stream"
    """One order, and after a failure everything from it on comes again: a Kinesis shard, a file."""
    CONNECTION = "connection"
    """An order for each connection alone: a FIFO queue with the connection id as the message group."""
    NONE = "none"
    """No order: a standard queue, or shards that were merged. A record of an older epoch may be durable and late, and
    nobody sends it again; so there is no fence, and only duplicates are dropped."""


class Verdict(Enum):
    FRESH = "fresh"
    """To be processed."""
    STALE = "stale"
    """Of an older epoch than one that was processed: its owner had lost the lease, and it comes again by the new one,
    where the feed can resume."""
    DUPLICATE = "duplicate"
    """A record of this id was processed."""


class HeldBack(StreamleaseError):
    """Not processed, for an earlier record has failed. Report it as failed, so that it comes again after that one."""

    retryable = True

    def __init__(self, connection_id: str) -> None:
        super().__init__(f"a record of connection {connection_id!r} waits for one before it that failed")
        self.connection_id = connection_id


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is remembered."""

    connections: int = MOST_CONNECTIONS
    ids_per_connection: int = IDS_PER_CONNECTION
    ids: int = IDS
    """Of all connections together."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What is remembered of one connection."""

    epoch: int
    """The highest that was processed."""
    record_ids: tuple[str, ...] = ()
    """The newest last."""


class Reader:
    """What has been processed so far."""

    def __init__(self, order: Order = Order.STREAM, limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self.order = order
        self._fence = Fence(limits.connections)
        self._window = Window(limits.ids_per_connection, limits.ids)

    def judge(self, envelope: Envelope) -> Verdict:
        """Changes nothing: until `processed` it may be asked again, and says the same."""
        if self.order is not Order.NONE and self._fence.is_stale(envelope.connection_id, envelope.epoch):
            return Verdict.STALE
        record_id = id_of(envelope)
        if record_id is not None and self._window.knows(envelope.connection_id, record_id):
            return Verdict.DUPLICATE
        return Verdict.FRESH

    def processed(self, envelope: Envelope) -> None:
        """Whatever was to be done about it is done. To be called in the order of the transport."""
        self._fence.advance(envelope.connection_id, envelope.epoch)
        record_id = id_of(envelope)
        if record_id is not None:
            self._window.add(envelope.connection_id, record_id)

    def seen_again(self, envelope: Envelope) -> None:
        """A duplicate was dropped: its id is as good as new."""
        record_id = id_of(envelope)
        if record_id is not None and self._window.knows(envelope.connection_id, record_id):
            self._window.add(envelope.connection_id, record_id)

    def forget_records(self, connection_id: str) -> None:
        """Take what a rewound connection sends again for new. The fence stays."""
        self._window.forget(connection_id)

    def batch(self) -> "Batch":
        """For one delivery: a Lambda invocation, one answer of GetRecords or ReceiveMessage, some lines of a file."""
        return Batch(self)

    # --- to be kept elsewhere ---

    def mark(self, connection_id: str, most_ids: int | None = None) -> Mark | None:
        """What is remembered of a connection, with its newest `most_ids` ids (None: all). None: it is not known."""
        epoch = self._fence.highest(connection_id)
        if epoch is None:
            return None
        ids = self._window.ids(connection_id)
        return Mark(epoch, ids if most_ids is None else ids[max(0, len(ids) - most_ids) :])

    def adopt(self, connection_id: str, mark: Mark) -> None:
        """Somebody has processed this too. Never takes anything back."""
        self._fence.advance(connection_id, mark.epoch)
        for record_id in mark.record_ids:
            if not self._window.knows(connection_id, record_id):
                self._window.add(connection_id, record_id)

    def state(self) -> dict[str, Value]:
        """All of it, JSON-ready. Keep it together with the place in the stream that it belongs to."""
        marks = {connection_id: self.mark(connection_id) for connection_id in self._fence}
        return {
            "v": STATE_VERSION,
            "order": self.order.value,
            "connections": {
                connection_id: {"epoch": mark.epoch, "record_ids": list(mark.record_ids)}
                for connection_id, mark in marks.items()
                if mark is not None
            },
        }

    @classmethod
    def restored(cls, state: Mapping[str, Value], limits: Limits | None = None) -> "Reader":
        """Of `state`. Raises Malformed."""
        connections = state.get("connections")
        if state.get("v") != STATE_VERSION or not isinstance(connections, Mapping):
            raise Malformed("reader state", f"it is not of this release: v must be {STATE_VERSION}, with connections")
        try:
            reader = cls(Order(str(state.get("order"))), limits)
        except ValueError:
            raise Malformed("reader state", f"order must be one of {', '.join(Order)}") from None
        for connection_id, mark in connections.items():
            reader.adopt(connection_id, mark_of(mark, f"reader state, connection {connection_id!r}"))
        return reader


class Batch:
    """One delivery on its way through a reader. Hand it everything of it, in order, also what is likely to fail."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.counted: Counter[Verdict] = Counter()
        self.settled: set[str] = set()
        """The connections of which something was processed or dropped."""
        self._held: set[str] = set()
        self._all_held = False

    def each(self, envelopes: Iterable[Envelope], act: Callable[[Envelope], object]) -> Counter[Verdict]:
        """Call `act` with each fresh one, and remember it once `act` has returned. What `act` raises, this raises: the
        rest is held back then. Raises HeldBack. Either way, report all of `envelopes` as failed: what was processed of
        them comes again too, and is dropped then where it has ids."""
        counted: Counter[Verdict] = Counter()
        rest = tuple(envelopes)
        for at, envelope in enumerate(rest):
            try:
                verdict = self._one(envelope, act)
            except BaseException:
                self._hold(rest[at:])
                raise
            counted[verdict] += 1
            self.counted[verdict] += 1
        return counted

    def together(
        self, envelopes: Iterable[Envelope], act: Callable[[tuple[Envelope, ...]], object]
    ) -> Counter[Verdict]:
        """Call `act` once with all fresh ones (not at all, if there are none), and remember them once it has returned.
        Otherwise as `each`: all or nothing."""
        everything = tuple(envelopes)
        try:
            verdicts = self._sift(everything)
            fresh = tuple(each for each, verdict in zip(everything, verdicts, strict=True) if verdict is Verdict.FRESH)
            if fresh:
                act(fresh)
        except BaseException:
            self._hold(everything)
            raise
        for envelope, verdict in zip(everything, verdicts, strict=True):
            self._settle(envelope, verdict)
        self.counted.update(verdicts)
        return Counter(verdicts)

    def _one(self, envelope: Envelope, act: Callable[[Envelope], object]) -> Verdict:
        self._check_held(envelope)
        verdict = self.reader.judge(envelope)
        if verdict is Verdict.FRESH:
            act(envelope)
        self._settle(envelope, verdict)
        return verdict

    def _sift(self, envelopes: tuple[Envelope, ...]) -> list[Verdict]:
        """What each is, as if the fresh ones before it had been processed."""
        verdicts: list[Verdict] = []
        meanwhile = Reader(self.reader.order, Limits(len(envelopes), len(envelopes), len(envelopes)))
        for envelope in envelopes:
            self._check_held(envelope)
            verdict = self.reader.judge(envelope)
            if verdict is Verdict.FRESH:
                verdict = meanwhile.judge(envelope)
            if verdict is Verdict.FRESH:
                meanwhile.processed(envelope)
            verdicts.append(verdict)
        return verdicts

    def _settle(self, envelope: Envelope, verdict: Verdict) -> None:
        self.settled.add(envelope.connection_id)
        if verdict is Verdict.FRESH:
            self.reader.processed(envelope)
        elif verdict is Verdict.DUPLICATE:
            self.reader.seen_again(envelope)

    def _check_held(self, envelope: Envelope) -> None:
        if self._all_held or envelope.connection_id in self._held:
            raise HeldBack(envelope.connection_id)

    def _hold(self, envelopes: tuple[Envelope, ...]) -> None:
        match self.reader.order:
            case Order.STREAM:
                self._all_held = True
            case Order.CONNECTION:
                self._held.update(envelope.connection_id for envelope in envelopes)
            case Order.NONE:
                pass


def id_of(envelope: Envelope) -> str | None:
    """What tells a record from others of its connection. None: nothing does, and a gap is never told from another."""
    return envelope.delivery.record_id if isinstance(envelope.delivery, Record) else None


def mark_of(value: Value, where: str) -> Mark:
    """Raises Malformed."""
    epoch = value.get("epoch") if isinstance(value, Mapping) else None
    record_ids = value.get("record_ids", ()) if isinstance(value, Mapping) else ()
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise Malformed(where, "epoch must be a whole number")
    if isinstance(record_ids, str) or not isinstance(record_ids, list | tuple):
        raise Malformed(where, "record_ids must be a list")
    if not all(isinstance(record_id, str) for record_id in record_ids):
        raise Malformed(where, "record_ids must be texts")
    return Mark(epoch, tuple(str(record_id) for record_id in record_ids))
