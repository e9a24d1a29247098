"""What a fleet asks of AWS, and what that costs, reckoned from its size. Pure.

Units of each kind of write were measured singly (`tests/contract/test_executor.py`, `bench/lease_cost.py`). Intervals
are taken at their nominal length: renewals go out up to a tenth early and heartbeats up to a fifth, so leases measure 5
to 15 % above this.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from streamlease import envelope, pages, plan
from streamlease.feed.events import Record
from streamlease.model import LeaseMode, Position, Saved
from streamlease.timing import Timing
from streamlease_cli.pricing import Prices
from streamlease_worker.rounds import AUDIT_S, LONGEST_READ_FLEET_S, READ_FLEET_S, SMALL_FLEET

MONTH_H = 730
MONTH_S = MONTH_H * 3_600
GB = 1 << 30
WRITE_UNIT = 1 << 10
READ_UNIT = 4 << 10
MEMBER_BYTES = 400
WORKER_ID_LENGTH = 41
"""An ECS task's, and what a process adds to it."""
INDEX_ENTRY_BYTES = 150
"""Keys and the projection; DynamoDB adds 100 bytes to each item and index entry that it stores."""
STORED_OVERHEAD_BYTES = 100
POLL_S = 2.0
RECONCILE_S = 60.0
WALK_S = 900.0
FUNCTION_GB = 0.5
RECONCILE_RUN_S = 1.0
STREAM_RUN_S = 0.1
STREAM_BATCH = 10
"""Releases that one run of the stream function sees, on average: few, since it does not wait for more."""
LINGER_S = 0.1
"""What a connection's records gather for before they go out as one Kinesis record: its linger, and a call."""
PROVISIONED_USE = 0.7
"""Of provisioned units; automatic scaling is set to it."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is to run. Rates are of the whole fleet, sizes in bytes."""

    connections: int
    workers: int
    vcpu: float
    memory_gb: float
    shards: int
    records_per_s: float
    record_bytes: int
    checkpoint_s: float
    item_bytes: int
    moves_per_month: float
    """How often a connection changes its owner, all connections together: deployments above all."""


@dataclass(frozen=True, slots=True)
class Writes:
    """Write units a second."""

    leases: float
    checkpoints: float
    """Beyond those that ride on renewals."""
    moves: float
    sweeps: float

    @property
    def total(self) -> float:
        return self.leases + self.checkpoints + self.moves + self.sweeps


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a month's bill."""

    name: str
    usage: str
    cost: float


@dataclass(frozen=True, slots=True)
class Bill:
    """A month of one mode, on demand. `provisioned_dynamodb`: the throughput part, if it were provisioned."""

    mode: LeaseMode
    timing: Timing
    writes: Writes
    read_units_per_s: float
    lines: tuple[Line, ...] = field(default_factory=tuple)
    lease_cost: float = 0.0
    provisioned_dynamodb: float = 0.0

    @property
    def cost(self) -> float:
        return sum(line.cost for line in self.lines)


def bill(mode: LeaseMode, timing: Timing, fleet: Fleet, prices: Prices) -> Bill:
    """A month's cost of `fleet` in `mode`."""
    units = writes(mode, timing, fleet)
    reads = read_units(mode, timing, fleet)
    return Bill(
        mode,
        timing,
        units,
        reads,
        tuple(_lines(mode, units, reads, fleet, prices)),
        lease_cost=_writes_cost(units.leases, prices),
        provisioned_dynamodb=MONTH_H
        / PROVISIONED_USE
        * (units.total * prices.dynamodb_write_capacity_unit_hour + reads * prices.dynamodb_read_capacity_unit_hour),
    )


# --- units ----------------------------------------------------------------------------------------------------------


def writes(mode: LeaseMode, timing: Timing, fleet: Fleet) -> Writes:
    """Write units a second. A renewal moves an index key: the item, and two for the index. A claim and a release change
    both indexes; in worker mode an owned connection stands in one index only."""
    heartbeat_s = timing.heartbeat_ms / 1_000
    item = math.ceil(fleet.item_bytes / WRITE_UNIT)
    of_members = fleet.workers / heartbeat_s
    per_move = 2 * (item + (3 if mode is LeaseMode.CONNECTION else 2))
    if mode is LeaseMode.CONNECTION:
        leases, checkpoints = fleet.connections / heartbeat_s * (item + 2) + of_members, 0.0
    else:
        leases, checkpoints = of_members, _page_writes(fleet)
    return Writes(leases, checkpoints, fleet.moves_per_month * per_move / MONTH_S, 1 / plan.FLEET_SWEEP_S)


def _page_writes(fleet: Fleet) -> float:
    """A page is written once in an interval if any position on it has moved."""
    if not fleet.connections:
        return 0.0
    on_a_page = positions_on_a_page()
    moved = 1 - math.exp(-fleet.records_per_s / fleet.connections * fleet.checkpoint_s)
    return fleet.connections / on_a_page / fleet.checkpoint_s * (1 - (1 - moved) ** on_a_page)


@cache
def positions_on_a_page() -> int:
    """How many positions of one number share a write unit, with ids of 36 characters: as many as the keeper puts there,
    which goes by an estimate of what each will take."""
    name, epoch, number, sequence = "x" * 36, 1_790_000_000_000, 1_000, 1_790_000_000_000_000
    each = pages.estimate(Saved(name, epoch, number, 1, Position(sequence=sequence, instance="stream.example")))
    return (pages.PAGE_BYTES - pages.size("x" * WORKER_ID_LENGTH, 10, 0)) // each


def read_units(mode: LeaseMode, timing: Timing, fleet: Fleet) -> float:
    """Read units a second: sweeps (a query is half a unit at least), summaries, audits; in worker mode the inbox."""
    members = max(1.0, fleet.workers * MEMBER_BYTES / READ_UNIT)
    sweep = (fleet.shards + 1) / 2 + 1 + members
    owned = fleet.connections * INDEX_ENTRY_BYTES / READ_UNIT / 2
    summary_s = min(READ_FLEET_S * max(1.0, fleet.workers / SMALL_FLEET), LONGEST_READ_FLEET_S)
    inbox = fleet.workers / (timing.heartbeat_ms / 1_000) if mode is LeaseMode.WORKER else 0.0
    of_sweeps = sweep / plan.FLEET_SWEEP_S + sweep / RECONCILE_S
    return of_sweeps + fleet.workers / summary_s + owned / AUDIT_S + owned / WALK_S + inbox


# --- the bill --------------------------------------------------------------------------------------------------------


def _lines(mode: LeaseMode, units: Writes, reads: float, fleet: Fleet, prices: Prices) -> Iterable[Line]:
    def written(name: str, per_s: float) -> Line:
        return Line(name, f"{per_s:,.1f} write units/s", _writes_cost(per_s, prices))

    yield written("leases", units.leases)
    riding = mode is LeaseMode.CONNECTION
    yield Line("checkpoints", "with the renewals", 0.0) if riding else written("checkpoints", units.checkpoints)
    yield written("moves and sweeps", units.moves + units.sweeps)
    yield Line("reads", f"{reads:,.1f} read units/s", reads * MONTH_S / 1e6 * prices.dynamodb_read_units_million)
    stored = _stored_gb(mode, fleet)
    gb_month = prices.dynamodb_storage_gb_month + prices.dynamodb_backup_gb_month
    yield Line("storage and its backup", f"{stored:,.3f} GB", stored * gb_month)
    invocations = fleet.moves_per_month / STREAM_BATCH
    stream = invocations / 1e6 * prices.dynamodb_streams_lambda_reads_million
    yield Line("DynamoDB stream", "read by a function", stream)
    yield _functions(invocations, prices)
    requests = fleet.workers / POLL_S * MONTH_S + fleet.moves_per_month * 0.6
    yield Line("SQS", f"{requests / 1e6:,.1f} M requests", requests / 1e6 * prices.sqs_requests_million)
    an_hour = fleet.vcpu * prices.fargate_vcpu_hour + fleet.memory_gb * prices.fargate_gb_hour
    usage = f"{fleet.workers:,} x {fleet.vcpu:g} vCPU, {fleet.memory_gb:g} GB"
    yield Line("Fargate", usage, fleet.workers * an_hour * MONTH_H)
    yield _kinesis(fleet, prices)


def _writes_cost(per_s: float, prices: Prices) -> float:
    return per_s * MONTH_S / 1e6 * prices.dynamodb_write_units_million


def _stored_gb(mode: LeaseMode, fleet: Fleet) -> float:
    indexed = 2 if mode is LeaseMode.CONNECTION else 1
    each = fleet.item_bytes + STORED_OVERHEAD_BYTES + indexed * (INDEX_ENTRY_BYTES + STORED_OVERHEAD_BYTES)
    paged = 0 if mode is LeaseMode.CONNECTION else (WRITE_UNIT + STORED_OVERHEAD_BYTES) / positions_on_a_page()
    return (fleet.connections * (each + paged) + fleet.workers * MEMBER_BYTES) / GB


def _functions(stream_runs: float, prices: Prices) -> Line:
    reconcile_runs = MONTH_S / RECONCILE_S
    seconds = reconcile_runs * RECONCILE_RUN_S + stream_runs * STREAM_RUN_S
    runs = reconcile_runs + stream_runs
    cost = runs / 1e6 * prices.lambda_requests_million + seconds * FUNCTION_GB * prices.lambda_gb_second
    return Line("Lambda", f"{runs:,.0f} runs", cost)


@dataclass(frozen=True, slots=True)
class Flow:
    """What the records stream takes, a second."""

    kinesis_records: float
    bytes: float
    billed_gb: float
    """On demand each Kinesis record counts in whole kilobytes."""

    @property
    def shards(self) -> int:
        """That it would take if it were provisioned, with a quarter to spare."""
        return max(1, math.ceil(1.25 * max(self.bytes / (1 << 20), self.kinesis_records / 1_000)))


def flow(fleet: Fleet) -> Flow:
    """A connection's records that come within a tenth of a second go out as one Kinesis record."""
    if not fleet.connections or not fleet.records_per_s:
        return Flow(0.0, 0.0, 0.0)
    together = max(1.0, fleet.records_per_s / fleet.connections * LINGER_S)
    records = fleet.records_per_s / together
    size = together * (fleet.record_bytes + envelope_bytes() + 1)
    return Flow(records, records * size, records * math.ceil(size / WRITE_UNIT) * WRITE_UNIT / GB)


@cache
def envelope_bytes() -> int:
    """What the envelope adds to a payload, with ids of 36 characters and a sequence of 16 digits."""
    record = Record(1, 1_790_000_000_000_000, "x" * 36, 1_790_000_000_000, 1_790_000_000_000, "")
    return len(envelope.encode("x" * 36, 1_790_000_000_000, record)) - len('""')


def _kinesis(fleet: Fleet, prices: Prices) -> Line:
    taken = flow(fleet)
    gb = taken.billed_gb * MONTH_S
    cost = MONTH_H * prices.kinesis_on_demand_stream_hour + gb * prices.kinesis_on_demand_in_gb
    cost += taken.bytes * MONTH_S / GB * prices.kinesis_on_demand_out_gb
    return Line("Kinesis, on demand, read once", f"{gb:,.0f} GB", cost)


def provisioned_kinesis(fleet: Fleet, prices: Prices) -> float:
    """A month of the records stream if its shards were provisioned. Data is read through shards, at no price."""
    taken = flow(fleet)
    return (
        taken.shards * MONTH_H * prices.kinesis_shard_hour
        + taken.kinesis_records * MONTH_S / 1e6 * prices.kinesis_put_units_million
    )
