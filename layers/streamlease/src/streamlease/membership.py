"""The life of a worker's member item: join, heartbeat, leave, burial. Pure, like `lease` (design §3).

DEAD is final: a worker that finds itself buried fences everything and joins again under a new id.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from streamlease import items
from streamlease.errors import Malformed
from streamlease.model import FLEET_ID, SCHEMA, FleetSummary, Member, MemberState
from streamlease.timing import Instant, Timing
from streamlease.write import (
    Absent,
    Answer,
    Applied,
    Equals,
    Less,
    Put,
    Table,
    Update,
    Value,
    all_of,
    any_of,
)

GONE_AFTER_MS = 15 * 60_000
"""A burial stays open to be swept again for this long: index lag and requests that land late are outlived by it."""
GONE_KEPT_S = 24 * 3600
LATELY_MS = 30_000


@dataclass(frozen=True, slots=True)
class Joined:
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Beat:
    """The member lease runs on. `seen` is the heartbeat number now stored; `drain_requested`: who asked this worker to
    drain, if somebody did."""

    seen: int
    drain_requested: str | None = None


@dataclass(frozen=True, slots=True)
class Behind:
    """Another heartbeat of ours had landed first, unanswered; `seen` is the number now stored."""

    seen: int


@dataclass(frozen=True, slots=True)
class Buried:
    """This worker was declared dead, or its item is gone. `drain_requested`: who had asked it to drain before that."""

    drain_requested: str | None = None


@dataclass(frozen=True, slots=True)
class Ahead:
    """The stored expiry is not below the one to be written: this clock has gone back. Nothing was written."""


type HeartbeatOutcome = Beat | Behind | Buried | Ahead


def _key(worker_id: str) -> Mapping[str, str]:
    return {"worker_id": worker_id}


def join(
    worker_id: str, *, generation: int, capacity: int, zone: str, started_at_ms: int, sent: Instant, timing: Timing
) -> Put:
    """Condition: no such item, so that a doubled join resets nothing and revives no dead member."""
    return Put(
        Table.MEMBERS,
        {
            "schema": SCHEMA,
            "worker_id": worker_id,
            "state": MemberState.LIVE.value,
            "heartbeat": 0,
            "lease_expires_at_ms": timing.expires_at_ms(sent),
            "generation": generation,
            "capacity": capacity,
            "owned": 0,
            "started_at_ms": started_at_ms,
            "lease_ms": timing.lease_ms,
            "zone": zone,
        },
        Absent("worker_id"),
    )


def heartbeat(
    worker_id: str,
    *,
    seen: int,
    state: MemberState,
    owned: int,
    load: Mapping[str, Value],
    sent: Instant,
    timing: Timing,
) -> Update:
    """Condition: LIVE or DRAINING, the heartbeat is the one seen, and the stored expiry is below the new one: a clock
    that was set back must not end a lease that its owner counts on. One write unit: no index, under 1 KB."""
    return Update(
        Table.MEMBERS,
        _key(worker_id),
        all_of(
            any_of(Equals("state", MemberState.LIVE.value), Equals("state", MemberState.DRAINING.value)),
            Equals("heartbeat", seen),
            Less("lease_expires_at_ms", timing.expires_at_ms(sent)),
        ),
        set={
            "state": state.value,
            "heartbeat": seen + 1,
            "lease_expires_at_ms": timing.expires_at_ms(sent),
            "owned": owned,
            "load": dict(load),
        },
    )


def beaten(answer: Answer, *, seen: int) -> HeartbeatOutcome:
    if isinstance(answer, Applied):
        asked_by = answer.item.get("drain_requested") if answer.item is not None else None
        return Beat(seen + 1, str(asked_by) if asked_by is not None else None)
    if answer.item is None:
        return Buried()
    try:
        found = items.member(answer.item)
    except Malformed:
        return Buried()
    if found.state not in (MemberState.LIVE, MemberState.DRAINING) or found.heartbeat < seen:
        return Buried(found.drain_requested)
    return Behind(found.heartbeat) if found.heartbeat > seen else Ahead()


def request_drain(worker_id: str, *, asked_by: str) -> Update:
    """Ask a worker to drain: it reads that in the answer to its next heartbeat. Condition: LIVE or DRAINING."""
    return Update(
        Table.MEMBERS,
        _key(worker_id),
        any_of(Equals("state", MemberState.LIVE.value), Equals("state", MemberState.DRAINING.value)),
        set={"drain_requested": asked_by},
    )


def leave(worker_id: str, *, now_ms: int) -> Update:
    """A clean end: the worker buries itself, once it owns nothing. Condition: not dead already."""
    return _bury(worker_id, (), now_ms)


def bury(dead: Member, *, now_ms: int, timing: Timing) -> Update:
    """Condition: not DEAD, and the expiry is the one seen, which has run out."""
    seen = Equals("lease_expires_at_ms", dead.lease_expires_at_ms)
    return _bury(dead.worker_id, (seen, Less("lease_expires_at_ms", timing.expired_before_ms(now_ms))), now_ms)


def _bury(worker_id: str, terms: tuple[Equals | Less, ...], now_ms: int) -> Update:
    living = any_of(Equals("state", MemberState.LIVE.value), Equals("state", MemberState.DRAINING.value))
    return Update(
        Table.MEMBERS,
        _key(worker_id),
        all_of(living, *terms),
        set={"state": MemberState.DEAD.value, "buried_at_ms": now_ms, "owned": 0},
    )


def forget(dead: Member, *, now_ms: int) -> Update:
    """DEAD → GONE, after a complete and empty sweep that began late enough (`may_forget`); time to live removes it."""
    return Update(
        Table.MEMBERS,
        _key(dead.worker_id),
        Equals("state", MemberState.DEAD.value),
        set={"state": MemberState.GONE.value, "ttl": now_ms // 1000 + GONE_KEPT_S},
    )


def buried_lately(member: Member, *, now_ms: int) -> bool:
    """Whether workers' own sweeps go over it again: for a reaper that died halfway, and for what the index showed late.
    Afterwards the reconcile function does, each minute."""
    dead = member.state is MemberState.DEAD and member.buried_at_ms is not None
    return dead and now_ms < (member.buried_at_ms or 0) + LATELY_MS


def may_forget(dead: Member, *, sweep_began_ms: int) -> bool:
    return dead.buried_at_ms is not None and sweep_began_ms >= dead.buried_at_ms + GONE_AFTER_MS


def expired(member: Member, *, now_ms: int, timing: Timing) -> bool:
    alive = member.state in (MemberState.LIVE, MemberState.DRAINING)
    return alive and member.lease_expires_at_ms < timing.expired_before_ms(now_ms)


def summarise(summary: FleetSummary) -> Update:
    """Write the fleet summary; older numbers never replace newer ones. `raise_shards` writes the shard maximum."""
    return Update(
        Table.MEMBERS,
        _key(FLEET_ID),
        any_of(Absent("at_ms"), Less("at_ms", summary.at_ms)),
        set={
            "schema": SCHEMA,
            "at_ms": summary.at_ms,
            "live": summary.live,
            "owned": summary.owned,
            "unowned": summary.unowned,
            **({} if summary.shares is None else {"shares": items.shares_attribute(summary.shares)}),
        },
        remove=("shares",) if summary.shares is None else (),
    )


def raise_shards(shards: int) -> Update:
    """Record that items are about to be written over this many shards. Condition: the stored maximum is lower."""
    return Update(
        Table.MEMBERS,
        _key(FLEET_ID),
        any_of(Absent("shards"), Less("shards", shards)),
        set={"schema": SCHEMA, "shards": shards},
    )
