"""What a demonstration showed: the numbers of its report, out of what the run left behind. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamlease_cli.local.evidence import Departure, Evidence, Happened, WorkerEvent


@dataclass(frozen=True, slots=True)
class Seconds:
    """Nearest-rank percentiles; None where there is nothing to rank."""

    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Move:
    """What one departure did. `affected` connections were the worker's when it was told to go or was killed.

    A gap runs from the kill, or for a drain from the close of the old socket, to the readiness of the new one.
    `unrecovered` are those whose gap has no end, or whose old socket nobody saw close.
    """

    affected: int
    gap_seconds: Seconds
    unrecovered: int


@dataclass(frozen=True, slots=True)
class Row:
    """One connection. Epochs in order, the worker of each. A gap is None where there was none, or none with an end."""

    connection_id: str
    owners: tuple[str, ...]
    epochs: tuple[int, ...]
    moves: int
    kill_gap_seconds: float | None
    drain_gap_seconds: float | None
    published: int
    delivered: int
    missing: int
    duplicates: int
    overlaps: int


@dataclass(frozen=True, slots=True)
class Report:
    """The whole run. `published`: what the relay has stored of these feeds. `delivered`: how many different ones of
    those the sink has; `missing`: how many it has not. `duplicates`: deliveries of what was delivered before.
    `unexplained`: deliveries of what the relay does not have, or without the upstream's id, so that they prove nothing.
    `overlaps`: deliveries that came after one of a higher epoch.
    """

    connections: int
    workers: int
    kill: Move
    drain: Move
    published: int
    delivered: int
    missing: int
    duplicates: int
    unexplained: int
    gap_records: int
    torn_lines: int
    most_moves: int
    overlaps: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run must keep to."""

    kill_gap_s: float
    drain_gap_p99_s: float


def report(evidence: Evidence) -> Report:
    """The numbers of a run."""
    stored: dict[str, set[str]] = defaultdict(set)
    for note in evidence.stored:
        stored[note.author].add(note.event_id)
    delivered: dict[str, Counter[str]] = defaultdict(Counter)
    overlaps: Counter[str] = Counter()
    newest: dict[str, int] = {}
    unexplained = 0
    for delivery in evidence.sink.deliveries:
        connection_id = delivery.connection_id
        overlaps[connection_id] += delivery.epoch < newest.get(connection_id, 0)
        newest[connection_id] = max(delivery.epoch, newest.get(connection_id, 0))
        if delivery.record_id in stored[evidence.feeds.get(connection_id, "")]:
            delivered[connection_id][delivery.record_id] += 1
        else:
            unexplained += 1

    events = sorted(evidence.events, key=lambda event: (event.connection_id, event.epoch, event.at_ms))
    by_connection: dict[str, list[WorkerEvent]] = defaultdict(list)
    for event in events:
        by_connection[event.connection_id].append(event)
    kill_gaps = _gaps(by_connection, evidence.killed, from_close=False)
    drain_gaps = _gaps(by_connection, evidence.drained, from_close=True)

    rows = []
    for connection_id, author in sorted(evidence.feeds.items()):
        owners = _owners(by_connection[connection_id])
        counts = delivered[connection_id]
        rows.append(
            Row(
                connection_id=connection_id,
                owners=tuple(owners.values()),
                epochs=tuple(owners),
                moves=max(0, len(owners) - 1),
                kill_gap_seconds=kill_gaps.get(connection_id),
                drain_gap_seconds=drain_gaps.get(connection_id),
                published=len(stored[author]),
                delivered=len(counts),
                missing=len(stored[author] - counts.keys()),
                duplicates=counts.total() - len(counts),
                overlaps=overlaps[connection_id],
            )
        )
    return Report(
        connections=len(rows),
        workers=evidence.workers,
        kill=_move(kill_gaps.values()),
        drain=_move(drain_gaps.values()),
        published=sum(row.published for row in rows),
        delivered=sum(row.delivered for row in rows),
        missing=sum(row.missing for row in rows),
        duplicates=sum(row.duplicates for row in rows),
        unexplained=unexplained,
        gap_records=len(evidence.sink.gaps),
        torn_lines=evidence.sink.torn,
        most_moves=max((row.moves for row in rows), default=0),
        overlaps=overlaps.total(),
        rows=tuple(rows),
    )


def unmet(result: Report, limits: Limits) -> list[str]:
    """What the run fell short of, a sentence each; empty if it kept to everything."""
    sentences = []
    for name, move in (("kill", result.kill), ("drain", result.drain)):
        if not move.affected:
            sentences.append(f"the {name} affected no connection, so it shows nothing")
        if move.unrecovered:
            sentences.append(
                f"{move.unrecovered} of {move.affected} connections did not stream again after the {name}, "
                "as far as the logs show"
            )
    worst_s, drain_s = result.kill.gap_seconds.max, result.drain.gap_seconds.p99
    if worst_s is not None and worst_s > limits.kill_gap_s:
        sentences.append(f"the kill's longest gap is {worst_s:.2f} s, over {limits.kill_gap_s:g} s")
    if drain_s is not None and drain_s > limits.drain_gap_p99_s:
        sentences.append(f"the drain's p99 gap is {drain_s:.2f} s, over {limits.drain_gap_p99_s:g} s")
    if not result.published:
        sentences.append("nothing was published, so nothing shows")
    if result.missing:
        sentences.append(f"{result.missing} of {result.published} records are missing at the sink")
    if result.unexplained:
        sentences.append(f"{result.unexplained} records at the sink are none of the upstream's, or carry no id")
    if result.gap_records:
        sentences.append(f"{result.gap_records} gap records, though the upstream can resume")
    if result.overlaps:
        sentences.append(f"{result.overlaps} records were delivered by an older epoch after a newer one")
    return sentences


def as_json(result: Report) -> dict[str, object]:
    """The report file's content."""
    return {
        "connections": result.connections,
        "workers": result.workers,
        "kill": _move_json(result.kill),
        "drain": _move_json(result.drain),
        "records": {
            "published": result.published,
            "delivered": result.delivered,
            "missing": result.missing,
            "duplicates": result.duplicates,
            "unexplained": result.unexplained,
            "gap_records": result.gap_records,
            "torn_lines": result.torn_lines,
        },
        "moves": {"max_per_connection": result.most_moves},
        "overlaps": result.overlaps,
        "per_connection": [
            {
                "connection_id": row.connection_id,
                "owners": list(row.owners),
                "epochs": list(row.epochs),
                "moves": row.moves,
                "kill_gap_seconds": row.kill_gap_seconds,
                "drain_gap_seconds": row.drain_gap_seconds,
                "published": row.published,
                "delivered": row.delivered,
                "missing": row.missing,
                "duplicates": row.duplicates,
                "overlaps": row.overlaps,
            }
            for row in result.rows
        ],
    }


def _move_json(move: Move) -> dict[str, object]:
    gaps = move.gap_seconds
    return {
        "affected": move.affected,
        "gap_seconds": {"p50": gaps.p50, "p99": gaps.p99, "max": gaps.max},
        "unrecovered": move.unrecovered,
    }


def _owners(events: Sequence[WorkerEvent]) -> dict[int, str]:
    """Worker by epoch, in order, of one connection's sorted events. Any event of an epoch tells its owner."""
    return {event.epoch: event.worker_id for event in events}


def _gaps(
    by_connection: dict[str, list[WorkerEvent]], departure: Departure, *, from_close: bool
) -> dict[str, float | None]:
    """The gap in seconds of each connection that was the departing worker's; None where it cannot be told."""
    gaps: dict[str, float | None] = {}
    for connection_id, events in by_connection.items():
        held = [event for event in events if event.at_ms <= departure.at_ms and event.happened is Happened.CLAIMED]
        if not held or held[-1].worker_id != departure.worker_id:
            continue
        epoch = held[-1].epoch
        if any(e.epoch == epoch and e.happened is Happened.RELEASED and e.at_ms <= departure.at_ms for e in events):
            continue
        began_ms: int | None = departure.at_ms
        if from_close:
            closes = [e.at_ms for e in events if e.epoch == epoch and e.happened is Happened.CLOSED]
            began_ms = max(closes, default=None)
        ready_ms = min((e.at_ms for e in events if e.epoch > epoch and e.happened is Happened.READY), default=None)
        gaps[connection_id] = None if began_ms is None or ready_ms is None else (ready_ms - began_ms) / 1000
    return gaps


def _move(gaps: Iterable[float | None]) -> Move:
    every = list(gaps)
    known = sorted(gap for gap in every if gap is not None)
    ranks = Seconds(_rank(known, 0.50), _rank(known, 0.99), known[-1] if known else None)
    return Move(len(every), ranks, len(every) - len(known))


def _rank(ordered: Sequence[float], share: float) -> float | None:
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None
