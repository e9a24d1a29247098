"""What leases and positions cost in both modes: statements of real keepers, times the units of each kind of write.

    python -m bench.lease_cost [--connections 1000] [--workers 2] [--seconds 60] [--json] [--keep FILE]

Keepers, one a worker, live through some simulated minutes while every position advances each second, and what they send
is counted. Each kind of write is measured singly against the emulator (`ReturnConsumedCapacity=INDEXES`); so are pages
as the keepers filled them. Worker mode at a 2 s heartbeat and a 6 s lease, connection mode at 10 s and 30 s.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.kept import circumstances, parser, progress, some, tell
from bench.shift import Positions, Sent, Shift, connection_named, discord, new_connection, numbers
from streamlease import lease, membership, pages
from streamlease.dynamodb import requests
from streamlease.dynamodb.executor import Executor
from streamlease.lease import Checkpoint
from streamlease.model import Lease, LeaseMode, MemberState, Status, StatusState
from streamlease.settings import TIMINGS
from streamlease.timing import Instant, Timing
from streamlease.write import Always, Put, Table, Update, Write
from streamlease_cli.local.checkout import clean_environment
from tests.contract.stores import Store, emulator

GOAL_LEASES = 12.0
GOAL_WITH_CHECKPOINTS = 90.0
WORKER_ID = "0123456789abcdef0123456789abcdef-01234567"
"""As long as an ECS task's, and what a process adds to it."""
SENT = Instant(1_000.0, 1_800_000_100_000)

type Units = tuple[float, float]
"""Of the table, and of its indexes."""


def main(arguments: list[str]) -> int:
    asking = parser("lease_cost", __doc__)
    asking.add_argument("--connections", type=some, default=1_000)
    asking.add_argument("--workers", type=some, default=2)
    asking.add_argument("--seconds", type=some, default=60, help="simulated, after the warm-up")
    asked = asking.parse_args(arguments)
    where = circumstances("lease_cost", arguments)
    os.environ.update(clean_environment({}))

    def run(mode: LeaseMode, positions: Positions | None) -> list[Sent]:
        name = positions.__name__ if positions else "nothing advances"
        progress(f"{asked.workers} keepers in {mode} mode, {asked.seconds} s of their time ({name})")
        shares = split(asked.connections, asked.workers)
        return [
            Shift(f"{WORKER_ID[:-2]}{at:02d}", share, mode=mode, timing=TIMINGS[mode], positions=positions).work(
                asked.seconds
            )
            for at, share in enumerate(shares)
        ]

    ran = {
        "worker": run(LeaseMode.WORKER, None),
        "worker, positions": run(LeaseMode.WORKER, numbers),
        "worker, positions of Discord": run(LeaseMode.WORKER, discord),
        "connection": run(LeaseMode.CONNECTION, None),
        "connection, positions": run(LeaseMode.CONNECTION, numbers),
    }
    with tempfile.TemporaryDirectory(prefix="streamlease-cost-") as folder, emulator(Path(folder) / "log") as store:
        progress("measuring each kind of write against the emulator")
        units = measured(store)
        sampled = {name: measured_pages(store, sent) for name, sent in ran.items()}
    tell(result(asked.connections, asked.workers, ran, units, sampled), asked, where)
    return 0


def split(connections: int, workers: int) -> list[range]:
    shares = [connections // workers + (at < connections % workers) for at in range(workers)]
    starts = [sum(shares[:at]) for at in range(workers)]
    return [range(start, start + share) for start, share in zip(starts, shares, strict=True)]


def result(
    connections: int,
    workers: int,
    ran: dict[str, list[Sent]],
    units: dict[str, Units],
    sampled: dict[str, tuple[float, float]],
) -> dict[str, Any]:
    """The bench's line. Units a second: statements counted, times what each was measured to cost."""

    def per_s(name: str) -> float:
        return sum(rates(ran[name], units))

    leases, with_positions = per_s("worker"), per_s("worker, positions")
    unmet = []
    if connections == 10_000 and workers == 20:
        if leases > GOAL_LEASES:
            unmet.append(f"{leases:.1f} units a second for leases in worker mode, over {GOAL_LEASES:g}")
        if with_positions > GOAL_WITH_CHECKPOINTS:
            unmet.append(f"{with_positions:.1f} units a second with checkpoints, over {GOAL_WITH_CHECKPOINTS:g}")
    if units["heartbeat"][1]:
        unmet.append("a heartbeat writes into an index")
    for name, (reckoned, found) in sampled.items():
        if reckoned != found:
            unmet.append(f"pages ({name}) are {reckoned:g} units by their size, and {found:g} in the emulator")
    return {
        "connections": connections,
        "workers": workers,
        "worker_mode_wcu_per_s": round(leases, 2),
        "worker_mode_with_checkpoints_wcu_per_s": round(with_positions, 2),
        "worker_mode_with_discord_checkpoints_wcu_per_s": round(per_s("worker, positions of Discord"), 2),
        "connection_mode_wcu_per_s": round(per_s("connection"), 2),
        "connection_mode_with_checkpoints_wcu_per_s": round(per_s("connection, positions"), 2),
        "index_writes_per_heartbeat": units["heartbeat"][1],
        "per_connection_and_hour": {name: round(per_s(name) * 3_600 / connections, 2) for name in ran},
        "positions_on_a_page": {name: mean(sent, "entries") for name, sent in ran.items() if sent[0].entries},
        "page_bytes": {name: mean(sent, "page_bytes") for name, sent in ran.items() if sent[0].entries},
        "units": units,
        "statements_per_s": {name: counted(sent) for name, sent in ran.items()},
        "pages_measured": sampled,
        "unmet": unmet,
    }


def rates(sent: list[Sent], units: dict[str, Units]) -> Iterator[float]:
    for each in sent:
        for kind, times in each.statements.items():
            if kind != "page":
                yield times * sum(units[kind]) / each.seconds
        yield each.page_units / each.seconds


def counted(sent: list[Sent]) -> dict[str, float]:
    kinds = sorted({kind for each in sent for kind, times in each.statements.items() if times})
    return {kind: round(sum(each.statements[kind] / each.seconds for each in sent), 2) for kind in kinds}


def mean(sent: list[Sent], what: str) -> float | None:
    values = [value for each in sent for value in getattr(each, what)]
    return round(statistics.fmean(values), 1) if values else None


# --- against the emulator -------------------------------------------------------------------------------------------


def cost(executor: Executor, write: Write) -> Units:
    call = requests.call(write, executor.tables)
    parameters = {**call.parameters, "ReturnConsumedCapacity": "INDEXES"}
    consumed = getattr(executor.clients.writes, call.operation)(**parameters)["ConsumedCapacity"]
    indexes = consumed.get("GlobalSecondaryIndexes", {}).values()
    return float(consumed["Table"]["CapacityUnits"]), sum(float(each["CapacityUnits"]) for each in indexes)


def executor_of(store: Store) -> Executor:
    if store.executor is None:
        raise TypeError(f"{store.name} has no executor")
    return store.executor


def measured(store: Store) -> dict[str, Units]:
    """What each kind of write costs by itself, over an item as it stands in a running fleet."""
    executor = executor_of(store)
    beat = membership.heartbeat(
        WORKER_ID,
        seen=0,
        state=MemberState.LIVE,
        owned=500,
        load={"streaming": 500},
        sent=SENT,
        timing=TIMINGS[LeaseMode.WORKER],
    )
    join = membership.join(
        WORKER_ID,
        generation=1_800_000_000,
        capacity=500,
        zone="us-east-1a",
        started_at_ms=SENT.wall_ms,
        sent=Instant(0.0, SENT.wall_ms - 2_000),
        timing=TIMINGS[LeaseMode.WORKER],
    )
    checkpoint = Checkpoint(7, numbers(1, 1), Status(StatusState.STREAMING, SENT.wall_ms))
    kinds: dict[str, Callable[[], Units]] = {
        "heartbeat": lambda: (store.write(join), cost(executor, beat))[1],
        "renewal": lambda: of_connection(store, 1, LeaseMode.CONNECTION, _renewal(None)),
        "renewal with a checkpoint": lambda: of_connection(store, 2, LeaseMode.CONNECTION, _renewal(checkpoint)),
        "checkpoint of the item": lambda: of_connection(
            store, 3, LeaseMode.WORKER, lambda held, _: lease.checkpoint(held, checkpoint)
        ),
        "page made": lambda: cost(executor, pages.create(WORKER_ID, 1)),
    }
    return {kind: measure() for kind, measure in kinds.items()}


def _renewal(checkpoint: Checkpoint | None) -> Callable[[Lease, Timing], Update]:
    later = Instant(SENT.mono_s + 10, SENT.wall_ms + 10_000)
    return lambda held, timing: lease.renew(held, sent=later, timing=timing, checkpoint=checkpoint)


def of_connection(store: Store, number: int, mode: LeaseMode, write: Callable[[Lease, Timing], Update]) -> Units:
    """The cost of a write over a connection that was made and claimed as ever."""
    connection_id, timing = connection_named(number), TIMINGS[mode]
    store.write(new_connection(connection_id))
    claim = lease.claim(connection_id, worker_id=WORKER_ID, nonce="n", sent=SENT, timing=timing, mode=mode)
    outcome = lease.claimed(store.write(claim), worker_id=WORKER_ID, nonce="n", sent=SENT, timing=timing)
    if not isinstance(outcome, lease.Claimed):
        raise TypeError(f"the claim of {connection_id} came to {outcome}")
    return cost(executor_of(store), write(outcome.lease, timing))


def measured_pages(store: Store, sent: list[Sent]) -> tuple[float, float]:
    """Pages as the keepers filled them: units by their size, and as the emulator counts them."""
    reckoned = found = 0.0
    for update in (sample for each in sent for sample in each.samples):
        packed = update.set["packed"]
        number = int(update.key["item"].removeprefix(pages.PREFIX))
        size = pages.size(update.key["worker_id"], number, len(packed) if isinstance(packed, bytes) else 0)
        reckoned += -(-size // pages.PAGE_BYTES)
        blank = Put(Table.WORKER_ITEMS, {"schema": 1, **update.key, "version": 0}, Always())
        store.put(Table.WORKER_ITEMS, blank.item)
        found += sum(cost(executor_of(store), update))
    return reckoned, found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
