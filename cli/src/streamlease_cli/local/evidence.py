"""What a run left behind, read into values: the sink's records and the workers' logs."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from streamlease.errors import Malformed
from streamlease_cli.local.relay import StoredEvent


@dataclass(frozen=True, slots=True)
class Delivery:
    """A record in the sink. `record_id` is the upstream's own, None where the worker could not read it."""

    connection_id: str
    epoch: int
    record_id: str | None


@dataclass(frozen=True, slots=True)
class GapRecord:
    """An envelope that says that continuity was lost."""

    connection_id: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class SinkRecords:
    """The sink's content in the order it was written. `torn`: beginnings of lines that a killed worker never ended."""

    deliveries: tuple[Delivery, ...]
    gaps: tuple[GapRecord, ...]
    torn: int


class Happened(StrEnum):
    """What the workers' logs say of connections."""

    CLAIMED = "claimed"
    READY = "ready"
    CLOSED = "socket_closed"
    RELEASED = "released"


_PARTS = {"connection_id": str, "epoch": int, "worker_id": str, "at_ms": int}
"""Of an event in a log, beside its name."""


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """One such line. `at_ms` is the worker's wall clock, Unix milliseconds."""

    happened: Happened
    connection_id: str
    epoch: int
    worker_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Departure:
    """A worker's end, as its owner brought it about: the signal was sent at `at_ms`."""

    worker_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything a report is made from. `feeds` says which upstream author each connection subscribed to."""

    workers: int
    feeds: dict[str, str]
    stored: tuple[StoredEvent, ...]
    sink: SinkRecords
    events: tuple[WorkerEvent, ...]
    killed: Departure
    drained: Departure


def read_sink(lines: Iterable[str]) -> SinkRecords:
    """Reads a JSON-lines sink that several workers append to, each write being whole lines.

    A worker killed within a write may leave the beginning of a line, and the next writer's line follows it directly.
    That beginning was never acknowledged; it is counted and skipped. Raises Malformed for anything else.
    """
    deliveries: list[Delivery] = []
    gaps: list[GapRecord] = []
    torn = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        envelope, was_torn = _last_object(line)
        torn += was_torn
        if envelope is None:
            continue
        try:
            if envelope.get("type") == "gap":
                gaps.append(GapRecord(envelope["connection_id"], envelope["epoch"], envelope["reason"]))
            else:
                record_id = envelope.get("record_id")
                deliveries.append(Delivery(envelope["connection_id"], envelope["epoch"], record_id))
        except KeyError as missing:
            raise Malformed(f"line {number} of the sink", f"has no {missing.args[0]}") from None
    return SinkRecords(tuple(deliveries), tuple(gaps), torn)


def _last_object(line: str) -> tuple[dict[str, Any] | None, bool]:
    """The envelope that ends the line, and whether something torn stands before it or instead of it."""
    start = 0
    while start >= 0:
        try:
            found = json.loads(line[start:])
        except (ValueError, RecursionError):
            start = line.find('{"v":', start + 1)
        else:
            return (found, start > 0) if isinstance(found, dict) else (None, True)
    return None, True


def read_log(lines: Iterable[str], unread: Callable[[str], None]) -> Iterator[WorkerEvent]:
    """The events among a worker's log lines; everything else in it is passed over.

    So is an event that lacks a part or has it otherwise, since nothing is measured on a guess: `unread` is told of
    each, by what is wrong with it.
    """
    names = {name.value for name in Happened}
    for line in lines:
        if not line.startswith("{"):
            continue
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue  # the last line of a killed worker, or nobody's
        event = said.get("event") if isinstance(said, dict) else None
        if not isinstance(event, str) or event not in names:
            continue
        wrong = next((name for name, kind in _PARTS.items() if not isinstance(said.get(name), kind)), None)
        if wrong is not None:
            unread(f"an event {event!r} without a readable {wrong}")
            continue
        yield WorkerEvent(Happened(event), said["connection_id"], said["epoch"], said["worker_id"], said["at_ms"])
