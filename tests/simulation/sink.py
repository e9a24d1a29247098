"""A sink that remembers who delivered what, and the reader behind it, who drops stale epochs and duplicates.

An attempt *begins* at one true instant and its bytes land at a later one, whatever has become of the sender meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from streamlease.feed.events import Gap, Record
from tests.simulation.kernel import MS, Kernel
from tests.simulation.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Attempt:
    """Some deliveries of one connection, handed over in one call."""

    connection_id: str
    worker: str
    epoch: int
    deliveries: tuple[Record | Gap, ...]
    began_us: int


@dataclass(slots=True)
class Reader:
    """What the reader side holds of one connection, in the order in which it took it: records by id, and gaps."""

    epoch: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    log: list[Record | Gap] = field(default_factory=list)
    stale: int = 0
    duplicates: int = 0

    def take(self, attempt: Attempt) -> None:
        if attempt.epoch < self.epoch:
            self.stale += len(attempt.deliveries)
            return
        self.epoch = attempt.epoch
        for delivery in attempt.deliveries:
            if isinstance(delivery, Record):
                if str(delivery.record_id) in self.records:
                    self.duplicates += 1
                    continue
                self.records[str(delivery.record_id)] = delivery
            self.log.append(delivery)

    def excuses(self, sequence: int) -> bool:
        """Whether a gap record says that this sequence may be missing. One without an end reaches the next record."""
        for number, delivery in enumerate(self.log):
            if isinstance(delivery, Gap):
                after = next((d for d in self.log[number + 1 :] if isinstance(d, Record)), None)
                ends = delivery.to_sequence if after is None or delivery.to_sequence is not None else after.sequence
                begins = delivery.from_sequence
                if (begins is None or float(begins) <= sequence) and (ends is None or sequence <= float(ends)):
                    return True
        return False


@dataclass(slots=True)
class SinkTrouble:
    """What a fault makes of attempts that begin while it lasts. Shares of all attempts, each in [0, 1]."""

    until_us: int = 0
    fails: float = 0.0
    answer_lost: float = 0.0
    slow_us: int = 0
    cause: int = 0


type Acknowledge = Callable[[bool], None]
"""Called once with whether the sink took it all; not at all where the answer is lost."""


@dataclass(slots=True)
class Sink:
    kernel: Kernel
    ledger: Ledger
    trouble: SinkTrouble = field(default_factory=SinkTrouble)
    readers: dict[str, Reader] = field(default_factory=dict)
    on_begin: Callable[[Attempt], None] | None = None
    on_land: Callable[[Attempt], None] | None = None
    attempts: int = 0
    _draws: Random = field(init=False)

    def __post_init__(self) -> None:
        self._draws = self.kernel.draws("sink")

    def reader(self, connection_id: str) -> Reader:
        return self.readers.setdefault(connection_id, Reader())

    def begin(self, attempt: Attempt) -> None:
        """The sender has checked its deadline and begins: the instant that invariant 1 is about."""
        self.attempts += 1
        if self.on_begin is not None:
            self.on_begin(attempt)

    def put(self, attempt: Attempt, then: Acknowledge) -> None:
        """The bytes leave the sender."""
        there_us = self._draws.randint(2 * MS, 30 * MS)
        back_us = self._draws.randint(2 * MS, 10 * MS)
        trouble = self.trouble
        if trouble.until_us > self.kernel.now_us:
            if self._draws.random() < trouble.fails:
                self.ledger.hit("sink refused", attempt.connection_id, attempt.worker, trouble.cause)
                self.kernel.after(there_us + back_us, lambda: then(False))
                return
            if trouble.slow_us:
                self.ledger.hit("sink slow", attempt.connection_id, attempt.worker, trouble.cause)
                there_us += trouble.slow_us
            if self._draws.random() < trouble.answer_lost:
                self.ledger.hit("sink answer lost", attempt.connection_id, attempt.worker, trouble.cause)
                self.kernel.after(there_us, lambda: self._land(attempt))
                return
        self.kernel.after(there_us, lambda: self._land(attempt))
        self.kernel.after(there_us + back_us, lambda: then(True))

    def _land(self, attempt: Attempt) -> None:
        self.reader(attempt.connection_id).take(attempt)
        if self.on_land is not None:
            self.on_land(attempt)
