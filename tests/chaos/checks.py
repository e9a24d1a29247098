"""The invariants of the design (docs/architecture.md, 7), held against what a run left behind. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from streamlease.feed.events import Gap, Record
from streamlease.model import LeaseMode
from tests.chaos.attempts import Told, What
from tests.chaos.evidence import Evidence
from tests.chaos.upstream import record_id

CLOCKS_MS = 5
"""Between the two clocks of one reading, and their rounding."""
SECOND_MS = 1_000
"""The streams tell the time of a write in whole seconds."""


@dataclass(frozen=True, slots=True)
class Violation:
    """`invariant` is its number. `what` is a word to count by."""

    invariant: int
    what: str
    sentence: str

    def __str__(self) -> str:
        return f"invariant {self.invariant}, {self.what}: {self.sentence}"


def violations(evidence: Evidence) -> list[Violation]:
    """All there are."""
    return [found for check in CHECKS for found in check(evidence)]


# --- 1: who delivers holds the lease ---------------------------------------------------------------------------------


def overlaps(evidence: Evidence) -> Iterator[Violation]:
    yield from overlapping(evidence.told)


def overlapping(attempts: Iterable[Told]) -> Iterator[Violation]:
    """No attempt begins in an epoch once one has begun in a later epoch of the same connection."""
    newest: dict[str, tuple[int, float]] = {}
    for told in sorted(attempts, key=lambda told: told.until_s):
        if told.what is not What.BEGAN:
            continue
        epoch, since_s = newest.get(told.connection_id, (told.epoch, told.until_s))
        if told.epoch < epoch and told.from_s > since_s:
            late_s = told.from_s - since_s
            yield Violation(
                1,
                "overlap",
                f"process {told.pid} began a delivery of {told.connection_id} in epoch {told.epoch}, {late_s:.3f} s"
                f" after one in epoch {epoch} had begun",
            )
        if told.epoch > epoch or told.connection_id not in newest:
            newest[told.connection_id] = (told.epoch, told.until_s)


def deliveries_without_lease(evidence: Evidence) -> Iterator[Violation]:
    """An attempt is of the epoch's own owner, and begins before the deadline of the last renewal that landed."""
    owners = {
        (one.connection.connection_id, one.connection.lease_epoch): one.connection.lease_owner
        for one in evidence.written
        if one.connection.lease_owner is not None
    }
    expiries = _expiries(evidence)
    for told in evidence.told:
        if told.what is not What.BEGAN:
            continue
        key = told.connection_id, told.epoch
        who = f"process {told.pid} began a delivery of {told.connection_id} in epoch {told.epoch}"
        owner = owners.get(key)
        if owner is None or owner not in evidence.workers.get(told.pid, ()):
            yield Violation(1, "no_owner", f"{who}, which is {owner or 'nobody'}'s")
            continue
        deadline_ms = expiries(key, owner) - evidence.timing.margin_ms
        if told.wall_ms > deadline_ms + CLOCKS_MS:
            yield Violation(1, "after_deadline", f"{who}, {told.wall_ms - deadline_ms} ms after its deadline")


def _expiries(evidence: Evidence) -> Callable[[tuple[str, int], str], int]:
    """The latest expiry that was written for an epoch, by its key and owner; 0: none."""
    of_epochs: dict[tuple[str, int], int] = defaultdict(int)
    of_members: dict[str, int] = defaultdict(int)
    for one in evidence.written:
        key = one.connection.connection_id, one.connection.lease_epoch
        if one.connection.lease_owner is not None:
            of_epochs[key] = max(of_epochs[key], one.connection.lease_expires_at_ms or 0)
    for each in evidence.batched:
        key = each.connection_id, each.epoch
        of_epochs[key] = max(of_epochs[key], each.expires_at_ms or 0)
    for seen in evidence.members:
        name = seen.member.worker_id
        of_members[name] = max(of_members[name], seen.member.lease_expires_at_ms)
    if evidence.mode is LeaseMode.CONNECTION:
        return lambda key, owner: of_epochs[key]
    return lambda key, owner: of_members[owner]


# --- 2: epochs -------------------------------------------------------------------------------------------------------


def epochs(evidence: Evidence) -> Iterator[Violation]:
    """An epoch never falls, names one owner, and rises at a claim alone."""
    last: dict[str, int] = {}
    owners: dict[tuple[str, int], str] = {}
    named = [
        (one.connection.connection_id, one.connection.lease_epoch, one.connection.lease_owner, one.event)
        for one in evidence.written
    ]
    for connection_id, epoch, owner, event in named:
        before = last.get(connection_id, epoch)
        last[connection_id] = max(before, epoch)
        if epoch < before:
            yield Violation(2, "epoch_fell", f"that of {connection_id} fell from {before} to {epoch}")
        if epoch > before and (event != "CLAIMED" or epoch != before + 1):
            yield Violation(2, "epoch_jumped", f"that of {connection_id} went from {before} to {epoch} at {event}")
        if owner is not None and owners.setdefault((connection_id, epoch), owner) != owner:
            first = owners[connection_id, epoch]
            yield Violation(2, "two_owners", f"epoch {epoch} of {connection_id} was {first}'s and {owner}'s")
    for each in evidence.batched:
        owner = owners.get((each.connection_id, each.epoch))
        if owner != each.owner:
            yield Violation(
                2, "stale_write", f"{each.owner} wrote {each.connection_id} in epoch {each.epoch}, which is {owner}'s"
            )
    for envelope in evidence.sink.records:
        if (envelope.connection_id, envelope.epoch) not in owners:
            yield Violation(
                2, "unknown_epoch", f"a record of {envelope.connection_id} has epoch {envelope.epoch}, which nobody had"
            )


def takers(evidence: Evidence) -> Iterator[Violation]:
    """Connection mode: who claims a lease that was not given back waits for its expiry and the skew allowance."""
    if evidence.mode is not LeaseMode.CONNECTION:
        return
    expiries = _expiries(evidence)
    released = {(each.connection_id, each.epoch) for each in evidence.batched if each.event == "RELEASED"}
    released |= {
        (one.connection.connection_id, one.connection.lease_epoch)
        for one in evidence.written
        if one.connection.lease_owner is None
    }
    for one in evidence.written:
        claimed = one.connection
        before = claimed.connection_id, claimed.lease_epoch - 1
        if one.event != "CLAIMED" or before in released or claimed.lease_expires_at_ms is None:
            continue
        sent_ms = claimed.lease_expires_at_ms - evidence.timing.lease_ms
        free_ms = expiries(before, "") + evidence.timing.skew_ms
        if sent_ms <= free_ms:
            yield Violation(
                2, "taken_early", f"{claimed.connection_id} was claimed {free_ms - sent_ms} ms before it was free"
            )


# --- 3: positions ----------------------------------------------------------------------------------------------------


def positions(evidence: Evidence) -> Iterator[Violation]:
    """A position never falls, and passes no record that is not durable."""
    for name, seen in _positions(evidence).items():
        for (_, _, before), (epoch, number, after) in pairwise(sorted(seen)):
            if after < before:
                yield Violation(
                    3, "position_fell", f"that of {name} fell from {before} to {after} (epoch {epoch}, number {number})"
                )
    durable = _durable(evidence)
    for each in evidence.batched:
        if each.sequence is not None and each.sequence > durable(each.connection_id, each.at.wall_ms):
            yield Violation(
                3, "not_durable", f"{each.owner} stored position {each.sequence} of {each.connection_id} too early"
            )
    for one in evidence.written:
        position = one.connection.position
        if position is None or not isinstance(position.sequence, int):
            continue
        name = one.connection.connection_id
        if position.sequence > durable(name, (one.at_s + 1) * SECOND_MS):
            yield Violation(
                3, "not_durable", f"position {position.sequence} of {name} stood in the table too early ({one.event})"
            )


def _positions(evidence: Evidence) -> dict[str, list[tuple[int, int, int]]]:
    """Of each connection: epoch, checkpoint number, sequence."""
    found: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for one in evidence.written:
        seen = one.connection
        if seen.position is not None and isinstance(seen.position.sequence, int):
            found[seen.connection_id].append((seen.lease_epoch, seen.checkpoint_no, seen.position.sequence))
    for each in evidence.batched:
        if each.sequence is not None:
            found[each.connection_id].append((each.epoch, each.checkpoint_no or 0, each.sequence))
    return found


def _durable(evidence: Evidence) -> Callable[[str, int], int]:
    """The highest sequence of a connection that a sink had acknowledged at a time; 0: none."""
    times: dict[str, list[int]] = defaultdict(list)
    highest: dict[str, list[int]] = defaultdict(list)
    for told in sorted(evidence.told, key=lambda told: told.wall_ms):
        if told.what is What.DURABLE and told.last is not None:
            reached = highest[told.connection_id]
            times[told.connection_id].append(told.wall_ms)
            reached.append(max(told.last, reached[-1] if reached else 0))

    def durable(name: str, at_ms: int) -> int:
        at = bisect_right(times[name], at_ms)
        return highest[name][at - 1] if at else 0

    return durable


# --- 5: records ------------------------------------------------------------------------------------------------------


def missing(evidence: Evidence) -> Iterator[Violation]:
    """Each record of a feed that resumes is passed on by the reader; each that another feed lacks is told by a gap."""
    got: dict[str, set[int]] = defaultdict(set)
    for envelope in evidence.sink.fresh:
        if isinstance(envelope.delivery, Record) and isinstance(envelope.delivery.sequence, int):
            got[envelope.connection_id].add(envelope.delivery.sequence)
    gaps: dict[str, list[Gap]] = defaultdict(list)
    for envelope in evidence.sink.gaps:
        if isinstance(envelope.delivery, Gap):
            gaps[envelope.connection_id].append(envelope.delivery)
    for name, last in evidence.published.items():
        numbers = got[name]
        first = min(numbers, default=last + 1) if name in evidence.live else 1
        for number in range(first, last + 1):
            if number in numbers or (name in evidence.live and _told_of(number, gaps[name])):
                continue
            yield Violation(5, "missing", f"record {number} of {name} is not in the sink, of {last} published")


def _told_of(number: int, gaps: list[Gap]) -> bool:
    for gap in gaps:
        after = not isinstance(gap.from_sequence, int) or gap.from_sequence <= number
        before = not isinstance(gap.to_sequence, int) or number <= gap.to_sequence
        if after and before:
            return True
    return False


def strangers(evidence: Evidence) -> Iterator[Violation]:
    """What comes again carries the same record id, and says what the upstream said."""
    for envelope in evidence.sink.records:
        record = envelope.delivery
        assert isinstance(record, Record)
        if not isinstance(record.sequence, int) or record.record_id != record_id(
            envelope.connection_id, record.sequence
        ):
            yield Violation(
                5, "strange_record", f"{envelope.connection_id} has a record {record.record_id} at {record.sequence}"
            )


def duplicates(evidence: Evidence) -> int:
    """Records that are in the sink more often than once, each time but the first."""
    records = evidence.sink.records
    ids = {(each.connection_id, each.delivery.record_id) for each in records if isinstance(each.delivery, Record)}
    return len(records) - len(ids)


# --- 6: stopped connections ------------------------------------------------------------------------------------------


def stopped(evidence: Evidence) -> Iterator[Violation]:
    """A stopped connection's sockets are closed in time, and none is opened."""
    for stop in evidence.stops:
        due_s = stop.from_s + stop.within_s
        if due_s >= stop.until_s:
            continue
        for visit in evidence.visits:
            if visit.feed != stop.connection_id or visit.opened_s >= stop.until_s:
                continue
            if visit.opened_s > due_s:
                late_s = visit.opened_s - stop.from_s
                yield Violation(
                    6, "opened_stopped", f"{visit.feed} was dialled {late_s:.1f} s after it had been stopped"
                )
            elif not stop.disturbed and (visit.closed_s is None or visit.closed_s > due_s):
                yield Violation(
                    6, "open_stopped", f"{visit.feed} was open {stop.within_s:.1f} s after it had been stopped"
                )


CHECKS = (overlaps, deliveries_without_lease, epochs, takers, positions, missing, strangers, stopped)
