"""What one seed is: a fleet, its connections, what people do, and what goes wrong when. All values, all drawn up front.

A failing seed is shrunk by leaving out entries of `plan`, with everything else as it was. `who` is a slot of the
service (`w0`, `w1`, …), which successive processes fill, or `*`, or `BUSIEST`.
"""

from dataclasses import dataclass
from typing import Literal

from streamlease.budget import Limit
from streamlease.model import LeaseMode
from streamlease.timing import Timing
from tests.simulation.kernel import S
from tests.simulation.network import Service, Twist
from tests.simulation.process import Place
from tests.simulation.upstream import Nature

BUSIEST = "busiest"
"""Whichever slot holds most leases when the entry's time has come."""


@dataclass(frozen=True, slots=True)
class Befall:
    """The next request with this label, of this slot, is twisted."""

    at_us: int
    twist: Twist
    label: str
    who: str
    delay_us: int


@dataclass(frozen=True, slots=True)
class Pause:
    """All code of a worker stops; `place`: at the next such place in its code, else at once."""

    at_us: int
    who: str
    length_us: int
    place: Place | None


@dataclass(frozen=True, slots=True)
class Crash:
    at_us: int
    who: str


@dataclass(frozen=True, slots=True)
class BlockLoop:
    """The event loop does not run, the keeper's thread does."""

    at_us: int
    who: str
    length_us: int


@dataclass(frozen=True, slots=True)
class Partition:
    at_us: int
    who: str
    service: Service
    length_us: int
    answers_only: bool


@dataclass(frozen=True, slots=True)
class Throttle:
    at_us: int
    who: str
    length_us: int


@dataclass(frozen=True, slots=True)
class StepClock:
    """Within the allowance (a new offset), or far beyond it (`by_ms` on top)."""

    at_us: int
    who: str
    to_ms: float | None
    by_ms: float = 0.0
    back_after_us: int = 0


@dataclass(frozen=True, slots=True)
class IndexLag:
    at_us: int
    length_us: int
    extra_us: int


@dataclass(frozen=True, slots=True)
class StreamTrouble:
    at_us: int
    length_us: int
    drop: float
    delay_us: int


@dataclass(frozen=True, slots=True)
class OffersTrouble:
    at_us: int
    length_us: int
    loss: float
    double: float
    delay_us: int


@dataclass(frozen=True, slots=True)
class ScheduleTrouble:
    at_us: int
    skip: bool
    double: bool
    dies_after: int | None
    clock_off_ms: float


@dataclass(frozen=True, slots=True)
class UpstreamTrouble:
    at_us: int
    connection_id: str
    what: Literal["drop", "refuse", "reset", "mute"]
    length_us: int
    who: str = "*"
    """To whom it is mute."""


@dataclass(frozen=True, slots=True)
class SinkFault:
    at_us: int
    length_us: int
    fails: float
    answer_lost: float
    slow_us: int


@dataclass(frozen=True, slots=True)
class Deploy:
    """Replace every process by one of a newer generation, a few at a time; the mode may change with it."""

    at_us: int
    mode: LeaseMode
    apart_us: int


@dataclass(frozen=True, slots=True)
class Scale:
    """`delta` more processes, or as many fewer by SIGTERM."""

    at_us: int
    delta: int


@dataclass(frozen=True, slots=True)
class Act:
    """Somebody asks for something, with the library's own procedures."""

    at_us: int
    connection_id: str
    what: Literal["start", "stop", "edit", "delete", "create", "forget", "seek", "move", "replace", "flurry"]
    """`replace`: stop, delete as soon as that may be, create anew. `flurry`: create or start, edits on its heels."""


@dataclass(frozen=True, slots=True)
class LateClaim:
    """The next time that somebody starts this connection, the claim of a worker that has long been dead and gone (its
    host was suspended, say) lands at that very instant. In worker mode nothing but the quarter-hourly walk finds it."""

    at_us: int
    connection_id: str


type Planned = (
    Befall
    | Pause
    | Crash
    | BlockLoop
    | Partition
    | Throttle
    | StepClock
    | IndexLag
    | StreamTrouble
    | OffersTrouble
    | ScheduleTrouble
    | UpstreamTrouble
    | SinkFault
    | Deploy
    | Scale
    | Act
    | LateClaim
)


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    mode: LeaseMode
    timing: Timing
    worker_timing: Timing
    shards: int
    workers: int
    capacity: int
    page_limit: int
    connections: dict[str, Nature]
    plan: tuple[Planned, ...]
    quiet_us: int
    """From here on nothing new goes wrong."""
    end_us: int
    offsets_ms: tuple[float, ...]
    """Of the successive processes' wall clocks, all within half of the allowance."""
    rates_ppm: tuple[float, ...]
    clock: Literal["unwatched", "dates", "metadata"]
    """How workers watch their clocks. Only where they do is a clock ever stepped by an hour."""
    late: frozenset[str]
    """Connections that nobody creates at the beginning."""
    last_acts: tuple[Act, ...]
    """What people do after the faults have stopped: obeyed within the bounds of a healthy fleet."""

    dials: Limit | None = None
    """How many dials the whole fleet may begin, where its upstreams count them."""

    def timing_of(self, mode: LeaseMode) -> Timing:
        return self.timing if mode is LeaseMode.CONNECTION else self.worker_timing


SETTLE_US = 12 * S
"""Faults begin once a healthy fleet has claimed everything."""
