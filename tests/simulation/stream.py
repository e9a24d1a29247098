"""DynamoDB Streams and the stream function: the deployed filter, then the real `flows.stream.react`.

In order for one connection, at some delay, retried a few times, and dropped at the end; a fault may drop it at once.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from streamlease.errors import Fault, Malformed
from streamlease.flows.stream import react
from streamlease.write import Item, Table
from tests.simulation.clock import Clock
from tests.simulation.drive import drive
from tests.simulation.kernel import MS, Kernel, S
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.store import Landing

PATTERNS: Sequence[Mapping[str, Sequence[Any]]] = (
    {"last_event": ("CONTROL", "RELEASED", "ORPHANED"), "desired_state": ("STARTED",)},
    {"last_event": ("CONTROL",), "desired_state": ("STOPPED",), "lease_owner": ({"exists": True},)},
)
"""FilterCriteria of the template, as attribute → values; `test_stream.py` holds the two against each other."""
RETRIES = 5
MOST_AGE_US = 600 * S


def passes(image: Item | None) -> bool:
    """Whether the event source mapping invokes the function for this new image."""
    if image is None:
        return False
    return any(all(_matches(image.get(name), wanted) for name, wanted in pattern.items()) for pattern in PATTERNS)


def _matches(value: object, wanted: Sequence[Any]) -> bool:
    return any(value is not None if isinstance(one, Mapping) else value == one for one in wanted)


@dataclass(slots=True)
class Trouble:
    """What a fault makes of records that are written while it lasts."""

    until_us: int = 0
    drop: float = 0.0
    delay_us: int = 0
    cause: int = 0


@dataclass(slots=True)
class _Record:
    image: Item
    written_us: int
    due_us: int
    tries: int = 0


@dataclass(slots=True)
class StreamFunction:
    """Observes the store. Each connection's records wait in a line of their own."""

    kernel: Kernel
    network: Network
    clock: Clock
    trouble: Trouble = field(default_factory=Trouble)
    invocations: int = 0
    _lines: dict[str, deque[_Record]] = field(default_factory=dict)
    _draws: Random = field(init=False)

    def __post_init__(self) -> None:
        self._draws = self.kernel.draws("stream")

    def observe(self, landing: Landing) -> None:
        if landing.write.table is not Table.CONNECTIONS or not landing.applied or not passes(landing.after):
            return
        assert landing.after is not None
        draws = self._draws
        delay_us = draws.randint(50 * MS, 400 * MS)
        if self.trouble.until_us > self.kernel.now_us:
            if draws.random() < self.trouble.drop:
                self.network.ledger.hit(
                    "stream record dropped", str(landing.after.get("last_event")), "stream", self.trouble.cause
                )
                return
            if self.trouble.delay_us:
                self.network.ledger.hit(
                    "stream record delayed", str(landing.after.get("last_event")), "stream", self.trouble.cause
                )
                delay_us += self.trouble.delay_us
        line = self._lines.setdefault(landing.key[0], deque())
        line.append(_Record(landing.after, self.kernel.now_us, self.kernel.now_us + delay_us))
        if len(line) == 1:
            self.kernel.at(line[0].due_us, lambda: self._invoke(line))

    def _invoke(self, line: deque[_Record]) -> None:
        record = line[0]
        self.invocations += 1
        process = Process("stream-function", self.kernel, self.clock, "stream-function")
        thread = process.thread()
        drive(
            react(record.image), thread, self.network, timeout_us=5 * S, done=lambda outcome: self._after(line, outcome)
        )

    def _after(self, line: deque[_Record], outcome: object) -> None:
        record = line[0]
        if isinstance(outcome, Malformed):
            self.network.ledger.report(outcome)
        if isinstance(outcome, Fault) and self._again(record):
            record.tries += 1
            self.kernel.after(min(60, 1 << record.tries) * S, lambda: self._invoke(line))
            return
        line.popleft()
        if line:
            self.kernel.at(line[0].due_us, lambda: self._invoke(line))

    def _again(self, record: _Record) -> bool:
        return record.tries < RETRIES and self.kernel.now_us - record.written_us < MOST_AGE_US
