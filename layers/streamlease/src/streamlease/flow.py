"""Procedures of several requests, as generators: they yield a request and are sent its answer, or thrown its `Fault`.

One procedure so serves boto3 threads, the Lambda functions, the CLI and the simulator alike: who runs it decides how a
request is carried out, and may stop between any two. A procedure touches no clock, randomness or I/O of its own.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from streamlease.errors import Fault
from streamlease.model import Offer
from streamlease.timing import Instant
from streamlease.write import Answer, Item, Page, Query, Read, Scan, Write


@dataclass(frozen=True, slots=True)
class Now:
    """Read both clocks, monotonic first. Answered with an `Instant`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Up to `MOST_WRITES` conditional updates of one table, each with its own outcome; in calls of 25, side by side.

    Answered with one `Answer` or `Fault` per write, in order. A fault that struck every call is thrown instead.
    """

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class SendOffers:
    """Send up to `MOST_OFFERS` offers, in calls of 10, side by side. Answered with the offers the queue did not take. A
    fault that struck every call is thrown instead."""

    offers: tuple[Offer, ...]


type Request = Write | Read | Query | Scan | Batch | SendOffers | Now
type Flow[T] = Generator[Request, Any, T]

BATCH_WRITES = 25
BATCH_OFFERS = 10
"""What the services take in one call."""
MOST_WRITES = 4 * BATCH_WRITES
MOST_OFFERS = 10 * BATCH_OFFERS


def now() -> Flow[Instant]:
    instant: Instant = yield Now()
    return instant


def write(request: Write) -> Flow[Answer]:
    answer: Answer = yield request
    return answer


def read(request: Read) -> Flow[Item | None]:
    item: Item | None = yield request
    return item


def page(request: Query | Scan) -> Flow[Page]:
    answer: Page = yield request
    return answer


def batch(writes: Sequence[Write]) -> Flow[tuple[Answer | Fault, ...]]:
    answers: tuple[Answer | Fault, ...] = yield Batch(tuple(writes))
    return answers


def send(offers: Sequence[Offer]) -> Flow[tuple[Offer, ...]]:
    """Send any number of offers, in batches; returns those not taken. Offers are hints: a fault costs only these."""
    refused: list[Offer] = []
    for group in chunks(offers, MOST_OFFERS):
        try:
            untaken: tuple[Offer, ...] = yield SendOffers(group)
        except Fault:
            untaken = group
        refused.extend(untaken)
    return tuple(refused)


def chunks[T](values: Iterable[T], size: int) -> Generator[tuple[T, ...]]:
    """`values` in tuples of at most `size`, in order."""
    group: list[T] = []
    for value in values:
        group.append(value)
        if len(group) == size:
            yield tuple(group)
            group = []
    if group:
        yield tuple(group)


def run[T](flow: Flow[T], perform: Callable[[Request], object]) -> T:
    """Carry `flow` out, one request after the other, on this thread."""
    try:
        request = next(flow)
        while True:
            try:
                answer = perform(request)
            except Fault as fault:
                request = flow.throw(fault)
            else:
                request = flow.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result
