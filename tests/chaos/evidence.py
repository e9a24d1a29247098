"""What a run left behind, as values for the checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamlease.consume.reader import Order, Reader, Verdict
from streamlease.consume.unpack import lines
from streamlease.envelope import Envelope
from streamlease.feed.events import Gap, Record
from streamlease.model import LeaseMode
from streamlease.timing import Timing
from tests.chaos.attempts import Told
from tests.chaos.history import Batched, MemberWritten, Written
from tests.chaos.upstream import Visit


@dataclass(frozen=True, slots=True)
class Stop:
    """A connection was stopped from `from_s` until `until_s`, on the leases' clock. Its sockets have to be closed
    `within_s`. `disturbed`: its owner may have been kept from hearing of it or from closing; a socket that is opened
    later than that is wrong even so."""

    connection_id: str
    from_s: float
    until_s: float
    within_s: float
    disturbed: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one fleet."""

    mode: LeaseMode
    timing: Timing
    published: Mapping[str, int]
    """The number of each feed's last record."""
    live: frozenset[str]
    """Feeds that do not resume."""
    told: Sequence[Told]
    workers: Mapping[int, frozenset[str]]
    """The ids that each process went by."""
    written: Sequence[Written]
    batched: Sequence[Batched]
    members: Sequence[MemberWritten]
    visits: Sequence[Visit]
    stops: Sequence[Stop]
    sink: "SinkRead"


@dataclass(frozen=True, slots=True)
class SinkRead:
    """The sink's content, as the library's own reader takes it."""

    records: tuple[Envelope, ...]
    """All of them, in the order of the file."""
    fresh: tuple[Envelope, ...]
    """What the reader passes on: neither of an epoch that was over, nor again."""
    gaps: tuple[Envelope, ...]
    """Of those that are passed on."""
    stale: int
    torn: int
    """Lines that are none: beginnings that a killed worker, or one without room, never ended."""


def read_sink(data: bytes) -> SinkRead:
    """Reads a whole file."""
    unpacked = lines(data)
    reader = Reader(Order.STREAM)
    fresh: list[Envelope] = []
    stale = 0
    for envelope in unpacked.envelopes:
        match reader.judge(envelope):
            case Verdict.FRESH:
                reader.processed(envelope)
                fresh.append(envelope)
            case Verdict.STALE:
                stale += 1
            case Verdict.DUPLICATE:
                reader.seen_again(envelope)
    return SinkRead(
        records=tuple(envelope for envelope in unpacked.envelopes if isinstance(envelope.delivery, Record)),
        fresh=tuple(envelope for envelope in fresh if isinstance(envelope.delivery, Record)),
        gaps=tuple(envelope for envelope in fresh if isinstance(envelope.delivery, Gap)),
        stale=stale,
        torn=len(unpacked.malformed),
    )
