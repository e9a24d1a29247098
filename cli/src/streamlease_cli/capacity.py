"""How quickly a fleet fails over, how many shards it needs, and what it meets first as it grows. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from streamlease import plan
from streamlease.model import LeaseMode
from streamlease.settings import MOST_SHARDS, SHARDS
from streamlease.timing import SKEW_MS, Timing
from streamlease_cli.costing import MEMBER_BYTES, READ_UNIT, Fleet, positions_on_a_page
from streamlease_cli.errors import BadInput

DIAL_MS = 1_000
"""What a dial and its subscription are given, in windows and no further: an upstream may take longer."""
SWEEP_MS = round(plan.FLEET_SWEEP_S * 1_000)
LEAST_HEARTBEAT_MS = 1_000
"""The template's."""
KEY_WRITES = 1_000
"""Write units a second of one partition key, for the table and for each index."""
KEY_READS = 3_000
SHARD_USE = 0.5
"""Of a shard's key: connections do not fall evenly on the shards."""
TABLE_WRITES = 40_000
"""On-demand write units a second of a table, and of each index: the account's default quota, which can be raised."""
FARGATE_VCPU = 6
"""The default quota of a new account, which can be raised."""
SERVICE_TASKS = 5_000
IN_FLIGHT = 120_000
"""Messages of a standard queue that were received and not deleted. A worker has ten."""
MOVE_ALL_S = 60.0
"""A whole fleet is taken to move within this, in a deployment."""
BURY_S = 5.0
"""What the burial of one worker may take by the owner index's key alone."""


@dataclass(frozen=True, slots=True)
class Window:
    """From a worker's death to its connections streaming elsewhere, in seconds. A lease was renewed at some time before
    the death, so that what is left of it varies by a heartbeat."""

    lease_s: float
    skew_s: float
    sweep_s: float
    dial_s: float
    usual_s: float

    @property
    def at_most_s(self) -> float:
        return self.lease_s + self.skew_s + self.sweep_s + self.dial_s


def window(timing: Timing, *, queue_s: float = 0.0) -> Window:
    """`queue_s`: what the last connection waits for its dial, where an upstream allows only so many a second."""
    lease_s, skew_s, sweep_s, dial_s = (each / 1_000 for each in (timing.lease_ms, timing.skew_ms, SWEEP_MS, DIAL_MS))
    usual_s = lease_s - timing.heartbeat_ms / 2_000 + skew_s + sweep_s / 2 + dial_s + queue_s / 2
    return Window(lease_s, skew_s, sweep_s, dial_s + queue_s, usual_s)


def dial_queue_s(fleet: Fleet, dials_per_s: float | None) -> float:
    """How long the dials take of the connections that one death sets free, all of them to one host."""
    return fleet.connections / fleet.workers / dials_per_s if dials_per_s else 0.0


def timing_for(failover_s: float) -> Timing:
    """The longest lease that streams again within `failover_s`, and heartbeats of a third of it. Raises BadInput."""
    rest_ms = SKEW_MS + SWEEP_MS + DIAL_MS
    heartbeat_ms = math.floor((failover_s * 1_000 - rest_ms) / 3)
    if heartbeat_ms < LEAST_HEARTBEAT_MS:
        least_s = (3 * LEAST_HEARTBEAT_MS + rest_ms) / 1_000
        raise BadInput(
            f"--failover is {failover_s:g} s; {least_s:g} s is the least there can be: a lease of 3 s,"
            f" {SKEW_MS / 1_000:g} s by which clocks may differ, {SWEEP_MS / 1_000:g} s until a sweep, and"
            f" {DIAL_MS / 1_000:g} s for the dial"
        )
    return Timing(heartbeat_ms=heartbeat_ms, lease_ms=3 * heartbeat_ms)


def shards_needed(mode: LeaseMode, timing: Timing, connections: int) -> int:
    """The least power of two that leaves each shard's key half idle. May be above `MOST_SHARDS`."""
    needed = _expiry_writes(mode, timing, connections) / (KEY_WRITES * SHARD_USE)
    return 1 << max(0, math.ceil(math.log2(max(needed, 1.0))))


def _expiry_writes(mode: LeaseMode, timing: Timing, connections: float) -> float:
    """A second: of renewals, or in worker mode of claims and releases while everything moves."""
    if mode is LeaseMode.CONNECTION:
        return connections * 2 / (timing.heartbeat_ms / 1_000)
    return connections * 2 / MOVE_ALL_S


@dataclass(frozen=True, slots=True)
class Limit:
    """`connections`: how many the fleet may have until it is met, if all else grows with them. `remedy`: what then."""

    name: str
    connections: int
    remedy: str


def limits(mode: LeaseMode, timing: Timing, fleet: Fleet) -> tuple[Limit, ...]:
    """Soonest first."""
    return tuple(sorted(_limits(mode, timing, fleet), key=lambda limit: limit.connections))


def _limits(mode: LeaseMode, timing: Timing, fleet: Fleet) -> Iterable[Limit]:
    each = fleet.connections / fleet.workers
    of_expiry = _expiry_writes(mode, timing, 1.0)
    yield Limit(
        f"index key: {KEY_WRITES:,} write units a second of each of {fleet.shards} shards",
        math.floor(fleet.shards * KEY_WRITES / of_expiry),
        f"raise Shards (most {MOST_SHARDS:,}; live: docs/operations.md)",
    )
    yield Limit(
        f"owner's key: a dead worker's connections leave it at {KEY_WRITES:,} a second, for {BURY_S:g} s at most",
        math.floor(BURY_S * KEY_WRITES * fleet.workers),
        "more workers, each with fewer connections",
    )
    yield Limit(
        f"members: each sweep reads them all, {KEY_READS:,} read units a second of one key range",
        math.floor(KEY_READS * READ_UNIT / MEMBER_BYTES * each),
        "fewer, larger workers",
    )
    yield Limit(
        f"fleet summary: one item, read by each worker every 10 s at most, {KEY_READS:,} read units a second",
        math.floor(KEY_READS * 10 * each),
        "fewer, larger workers",
    )
    if mode is LeaseMode.CONNECTION:
        busiest = of_expiry
    else:
        busiest = max(of_expiry, 1 / positions_on_a_page() / fleet.checkpoint_s)
    yield Limit(
        f"quota: {TABLE_WRITES:,} write units a second of a table or an index, on demand",
        math.floor(TABLE_WRITES / busiest),
        "ask for a higher quota",
    )
    yield Limit(
        f"quota of a new account: {FARGATE_VCPU} vCPU on Fargate",
        math.floor(FARGATE_VCPU / fleet.vcpu) * math.floor(each),
        "ask for a higher quota",
    )
    yield Limit(
        f"an ECS service's {SERVICE_TASKS:,} tasks",
        math.floor(SERVICE_TASKS * each),
        "larger workers, or a second stack",
    )
    yield Limit(
        f"offers in flight: {IN_FLIGHT:,} of the queue, 10 of a worker",
        math.floor(IN_FLIGHT / 10 * each),
        "larger workers, or a second stack",
    )


def shards_advice(mode: LeaseMode, timing: Timing, connections: int) -> str:
    needed = shards_needed(mode, timing, connections)
    if needed > MOST_SHARDS:
        return (
            f"{needed:,} would be needed, more than the {MOST_SHARDS:,} there can be: longer heartbeats, or worker mode"
        )
    carried = math.floor(SHARDS * KEY_WRITES * SHARD_USE / _expiry_writes(mode, timing, 1.0))
    usual = f"the template's {SHARDS} carry {carried:,} connections with half of each key to spare"
    return f"{needed} would do; {usual}" if needed <= SHARDS else f"set Shards to {needed}: {usual}"
