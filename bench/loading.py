"""Tables filled in bulk, for benches that begin with a large fleet; and what a process has cost."""

import os
from collections.abc import Iterable
from itertools import batched
from pathlib import Path

from bench.kept import progress
from bench.shift import connection_named, new_connection
from streamlease import items, lease, plan
from streamlease.dynamodb.attributes import encode_item
from streamlease.dynamodb.executor import Executor
from streamlease.lease import Checkpoint
from streamlease.model import LeaseMode, Position, Status, StatusState
from streamlease.timing import Instant, Timing
from streamlease.write import Applied, Item, Table, apply

AT_ONCE = 25


def put_all(executor: Executor, table: Table, made: Iterable[Item]) -> int:
    """Writes them without any condition; how many."""
    count = 0
    for group in batched(made, AT_ONCE, strict=False):
        requests = [{"PutRequest": {"Item": encode_item(item)}} for item in group]
        left = {executor.tables[table]: requests}
        while left:
            left = dict(executor.clients.writes.batch_write_item(RequestItems=left)["UnprocessedItems"])  # type: ignore[arg-type]
        count += len(group)
        if count % 10_000 == 0:
            progress(f"{count:,} {table} written")
    return count


def owned_connection(
    number: int, owner: str, *, claimed: Instant, timing: Timing, mode: LeaseMode, shards: int, checkpoint: bool = True
) -> Item:
    """A started connection as its owner's claim, at `claimed`, and its first checkpoint left it."""
    connection_id = connection_named(number)
    item: Item | None = apply(new_connection(connection_id), None)
    claim = lease.claim(connection_id, worker_id=owner, nonce="n", sent=claimed, timing=timing, mode=mode)
    item = apply(claim, item)
    outcome = lease.claimed(Applied(item), worker_id=owner, nonce="n", sent=claimed, timing=timing)
    if not isinstance(outcome, lease.Claimed) or item is None:
        raise TypeError(f"the claim of {connection_id} came to {outcome}")
    if checkpoint:
        said = Checkpoint(1, Position(sequence=number), Status(StatusState.STREAMING, claimed.wall_ms))
        item = apply(lease.checkpoint(outcome.lease, said), item) or {}
    return {**item, "desired_state_shard": plan.shard(connection_id, shards)}


def member_item(worker_id: str, *, owned: int, joined: Instant, timing: Timing) -> Item:
    """A LIVE member that sent its last heartbeat at `joined`."""
    item: Item = {
        "schema": 1,
        "worker_id": worker_id,
        "state": "LIVE",
        "heartbeat": 9,
        "lease_expires_at_ms": timing.expires_at_ms(joined),
        "generation": 1,
        "capacity": 10_000,
        "owned": owned,
        "load": {"streaming": owned},
        "started_at_ms": joined.wall_ms - 3_600_000,
        "zone": "",
    }
    items.member(item)  # or it is none
    return item


def cpu_s_of_group(group: int) -> float:
    """CPU seconds of the running processes of a process group, on Linux; 0 elsewhere."""
    spent = 0.0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) == group:
            spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent
