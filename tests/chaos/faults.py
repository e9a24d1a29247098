"""The faults of a run, drawn from its seed. Pure: the same seed is the same plan, whatever comes of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Kind(StrEnum):
    """What is done, and what counts as a hit."""

    KILL = "kill"
    """SIGKILL, and a new process after a while. Hits if leases were held, as the next two."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT after a while."""
    BLOCKED_LOOP = "blocked_loop"
    """The event loop runs nothing for a while; the other threads go on."""
    FULL_DISK = "full_disk"
    """The sink's file cannot grow for this worker. Hits if a write was refused."""
    DYNAMODB_CUT = "dynamodb_cut"
    """See `link.Way`; hits if a request was met, as all of these."""
    DYNAMODB_SILENT = "dynamodb_silent"
    DYNAMODB_SLOW = "dynamodb_slow"
    DYNAMODB_LATE = "dynamodb_late"
    DYNAMODB_THROTTLED = "dynamodb_throttled"
    DYNAMODB_UNANSWERED = "dynamodb_unanswered"
    SQS_CUT = "sqs_cut"
    SQS_SLOW = "sqs_slow"
    SQS_THROTTLED = "sqs_throttled"
    SQS_UNANSWERED = "sqs_unanswered"
    UPSTREAM_RESET = "upstream_reset"
    """Some sockets are reset. Hits if one was open, as the next two."""
    UPSTREAM_RESTART = "upstream_restart"
    """Some sockets are closed with 1012."""
    UPSTREAM_AWAY = "upstream_away"
    """All sockets are reset, and new ones refused for a while."""


@dataclass(frozen=True, slots=True)
class Span:
    """How long a kind of fault lasts, in leases."""

    least: float
    most: float


OF_WORKERS: dict[Kind, Span] = {
    Kind.KILL: Span(0.0, 1.0),
    Kind.PAUSE: Span(0.5, 5.0),
    Kind.BLOCKED_LOOP: Span(0.5, 2.5),
    Kind.FULL_DISK: Span(0.2, 1.0),
    Kind.DYNAMODB_CUT: Span(0.2, 1.5),
    Kind.DYNAMODB_SILENT: Span(0.2, 1.5),
    Kind.DYNAMODB_SLOW: Span(0.2, 1.0),
    Kind.DYNAMODB_LATE: Span(0.2, 1.0),
    Kind.DYNAMODB_THROTTLED: Span(0.2, 1.5),
    Kind.DYNAMODB_UNANSWERED: Span(0.2, 1.0),
    Kind.SQS_CUT: Span(0.2, 1.0),
    Kind.SQS_SLOW: Span(0.2, 1.0),
    Kind.SQS_THROTTLED: Span(0.2, 1.0),
    Kind.SQS_UNANSWERED: Span(0.2, 1.0),
}
OF_THE_UPSTREAM: dict[Kind, Span] = {
    Kind.UPSTREAM_RESET: Span(0.0, 0.0),
    Kind.UPSTREAM_RESTART: Span(0.0, 0.0),
    Kind.UPSTREAM_AWAY: Span(0.2, 0.7),
}
UPSTREAM = "upstream"
LONGEST_DELAY = 1.0
"""Of one request, in leases."""
REST = Span(0.1, 0.6)
UPSTREAM_REST = Span(1.0, 2.5)


@dataclass(frozen=True, slots=True)
class Fault:
    """One of a lane's. Times are in leases."""

    lane: str
    number: int
    kind: Kind
    lasts: float
    delay: float
    """Of each request, where the kind is about delays."""
    share: float
    """Of the connections, where the kind is about some of them; of a line, for a full disk."""
    rest: float
    """Until the lane's next."""


def plan(seed: int, lane: str) -> Iterator[Fault]:
    """The faults of a lane, which is a worker's name or `UPSTREAM`, without end. Each kind comes once in a round."""
    random = Random(f"{seed}/{lane}")
    spans = OF_THE_UPSTREAM if lane == UPSTREAM else OF_WORKERS
    rest = UPSTREAM_REST if lane == UPSTREAM else REST
    number = 0
    while True:
        for kind in random.sample(list(spans), len(spans)):
            yield Fault(
                lane=lane,
                number=number,
                kind=kind,
                lasts=random.uniform(spans[kind].least, spans[kind].most),
                delay=random.uniform(0.05, LONGEST_DELAY),
                share=random.uniform(0.1, 0.6),
                rest=random.uniform(rest.least, rest.most),
            )
            number += 1
