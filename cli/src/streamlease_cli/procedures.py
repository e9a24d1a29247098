"""What a command does to one connection: read first, so that what is already so is said and costs no write.

Like `streamlease.flows`, procedures are generators; nothing here does I/O.
"""

from dataclasses import dataclass
from typing import Literal

from streamlease import plan, shares
from streamlease.errors import Conflict, Malformed
from streamlease.flow import Flow, now, write
from streamlease.flows import control, sweep
from streamlease.flows.control import Operator
from streamlease.lease import Absentee, Change, Changed, Done, Exists
from streamlease.membership import expired, request_drain
from streamlease.model import Connection, DesiredState, FleetSummary, Member, MemberState
from streamlease.timing import Timing
from streamlease.write import Applied, Item
from streamlease_cli.difference import FieldChange, differences
from streamlease_cli.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Switched:
    """`was_so`: nothing had to be written."""

    was_so: bool


def switch(
    connection_id: str, wanted: DesiredState, operator: Operator, *, again: bool = False
) -> Flow[Switched | None]:
    """Start or stop; None: there is no such connection. `again`: also what is started, but given up or put off. Raises
    Fault, Malformed."""
    seen = yield from control.find(connection_id)
    if seen is None:
        return None
    change = Change(desired_state=wanted, again=again)
    if control.satisfied(seen, change):
        return Switched(was_so=True)
    outcome = yield from control.change(connection_id, change, operator=operator)
    if isinstance(outcome, Changed):
        raise _contended(connection_id)
    return None if isinstance(outcome, Absentee) else Switched(was_so=False)


@dataclass(frozen=True, slots=True)
class Added:
    """The connection is there as it was asked for; `was_there`: it had been before."""

    was_there: bool


@dataclass(frozen=True, slots=True)
class Differs:
    """A connection of that id says something else, in these fields. Nothing was written."""

    fields: tuple[str, ...]


def add(wanted: Wanted, state: DesiredState, operator: Operator) -> Flow[Added | Differs]:
    """Raises Fault, Malformed. Whether one that is there already is started or stopped makes no difference."""
    created = yield from control.create(
        wanted.connection_id,
        upstream_url=wanted.upstream_url,
        spec=wanted.spec,
        labels=wanted.labels,
        desired_state=state,
        operator=operator,
    )
    if isinstance(created, Done):
        return Added(was_there=False)
    seen = yield from control.find(wanted.connection_id)
    if seen is None:
        raise _contended(wanted.connection_id)
    changes = differences(seen, wanted)
    return Differs(tuple(change.field for change in changes)) if changes else Added(was_there=True)


@dataclass(frozen=True, slots=True)
class Settled:
    """What applying one connection came to. `changes` are the fields that differed; all of them, when created."""

    outcome: Literal["created", "changed", "unchanged"]
    changes: tuple[FieldChange, ...]


def preview(wanted: Wanted) -> Flow[Settled]:
    """What `settle` would do. Raises Fault, Malformed."""
    seen = yield from control.find(wanted.connection_id)
    return _compared(seen, wanted)


def settle(wanted: Wanted, operator: Operator) -> Flow[Settled]:
    """Create the connection or make it as wanted. Raises Fault, Malformed."""
    for _ in range(control.RACES):
        seen = yield from control.find(wanted.connection_id)
        compared = _compared(seen, wanted)
        if compared.outcome == "unchanged":
            return compared
        if seen is None:
            created = yield from control.create(
                wanted.connection_id,
                upstream_url=wanted.upstream_url,
                spec=wanted.spec,
                labels=wanted.labels,
                desired_state=wanted.initial_state,
                operator=operator,
            )
            if isinstance(created, Exists):
                continue
            return compared
        changed = yield from control.change(wanted.connection_id, _change(wanted), operator=operator)
        if isinstance(changed, Done):
            return compared
    raise _contended(wanted.connection_id)


def _change(wanted: Wanted) -> Change:
    return Change(
        desired_state=wanted.desired_state,
        upstream_url=wanted.upstream_url,
        spec=wanted.spec,
        labels=wanted.labels,
    )


def _compared(seen: Connection | None, wanted: Wanted) -> Settled:
    changes = differences(seen, wanted)
    if seen is None:
        return Settled("created", changes)
    return Settled("unchanged" if control.satisfied(seen, _change(wanted)) else "changed", changes)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a reconciliation would find now. Counts only: nothing is offered, buried or written."""

    unowned: int
    expired_members: int
    live_members: int
    malformed: int


def preview_reconcile(*, shards: int, timing: Timing) -> Flow[Preview]:
    """Raises Fault."""
    before = yield from sweep.known(shards)
    unowned = 0
    for shard in plan.sweep_shards(shards, before.shards):
        cursor: Item | None = None
        while True:
            found, cursor = yield from sweep.shard_page(shard, timing=timing, cursor=cursor)
            unowned += len(found)
            if cursor is None:
                break
    roster = yield from sweep.members()
    instant = yield from now()
    lapsed = sum(expired(member, now_ms=instant.wall_ms, timing=timing) for member in roster.members)
    alive = len(plan.live(roster.members, now_ms=instant.wall_ms))
    return Preview(unowned, lapsed, alive, len(before.malformed) + len(roster.malformed))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The members, and what the last sweep's summary gives each."""

    members: tuple[Member, ...]
    summary: FleetSummary | None
    summary_age_ms: int | None
    unowned: int | None
    malformed: tuple[Malformed, ...]


def share(found: Fleet, member: Member) -> int | None:
    """How many connections, or what weight, this member is to have; None: nothing is known, or it has none."""
    summary = found.summary
    if member.state is not MemberState.LIVE or summary is None:
        return None
    if summary.shares is not None and member.generation < summary.shares.generation:
        return None
    of_it = plan.share(summary, member.worker_id, pace=shares.pace(member))
    return None if of_it is None else min(member.capacity, of_it)


def ask_to_drain(worker_id: str, *, asked_by: str) -> Flow[bool]:
    """Whether there is somebody to be asked. Raises Fault."""
    answer = yield from write(request_drain(worker_id, asked_by=asked_by))
    return isinstance(answer, Applied)


def fleet() -> Flow[Fleet]:
    """Raises Fault."""
    summary: FleetSummary | None = None
    malformed: tuple[Malformed, ...] = ()
    try:
        summary = yield from sweep.stored_fleet()
    except Malformed as problem:
        malformed = (problem,)
    roster = yield from sweep.members()
    instant = yield from now()
    at_ms = summary.at_ms if summary else 0
    return Fleet(
        members=roster.members,
        summary=summary,
        summary_age_ms=instant.wall_ms - at_ms if at_ms else None,
        unowned=summary.unowned if summary and at_ms else None,
        malformed=(*malformed, *roster.malformed),
    )


def _contended(connection_id: str) -> Conflict:
    return Conflict(f"connection {connection_id!r} kept being changed by others: run the command again")
