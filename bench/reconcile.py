"""The reconcile function over a large table, within 512 MB; and the burial of one worker with many connections.

    python -m bench.reconcile [--items 5000] [--expired 1000] [--buried 500] [--walk] [--json] [--keep FILE]

Both against the emulator, whose CPU is told beside ours: it may be what there is to wait for. The function's code is
the deployed one, in a process whose address space is limited to 512 MB. The burial is in worker mode: sealing,
orphaning and offering, with each position on a page. `--walk` also measures a run that walks all owners, as every
fifteenth does.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import batched
from pathlib import Path
from typing import Any

from bench.kept import circumstances, parser, progress, some, tell
from bench.loading import cpu_s_of_group, member_item, owned_connection, put_all
from bench.shift import connection_named, new_connection
from streamlease import pages
from streamlease.dynamodb import clock
from streamlease.dynamodb.executor import Executor
from streamlease.flow import Flow, run
from streamlease.flows.bury import Burials, bury_expired
from streamlease.flows.sweep import members
from streamlease.model import RECONCILE_ID, LeaseMode, Position, Saved
from streamlease.settings import (
    LEASE_VARIABLE,
    MODE_VARIABLE,
    OFFERS_QUEUE_VARIABLE,
    SHARDS,
    TABLE_VARIABLES,
    TIMINGS,
)
from streamlease.timing import Instant, Timing
from streamlease.write import Item, Table, apply
from streamlease_cli.local.checkout import Checkout, clean_environment, find_checkout
from streamlease_cli.local.emulator import Emulator, start_emulator
from tests.contract.stores import on_endpoint

MEGABYTES = 512
SWEPT_WITHIN_S = 60.0
BURIED_WITHIN_S = 10.0
EACH = 500
"""Connections of each worker that owns some."""
ON_A_PAGE = 20
NEVER_MS = 3_600_000
"""Leases that stand all through the bench."""


def main(arguments: list[str]) -> int:
    asking = parser("reconcile", __doc__)
    asking.add_argument("--items", type=some, default=5_000, help="started connections, the expired among them")
    asking.add_argument("--expired", type=some, default=1_000)
    asking.add_argument("--buried", type=some, default=500, help="connections of the worker that is buried")
    asking.add_argument("--walk", action="store_true", help="also a run that walks all owners")
    asked = asking.parse_args(arguments)
    if asked.expired > asked.items:
        asking.error(f"--expired is {asked.expired}, of only {asked.items} items")
    where = circumstances("reconcile", arguments)
    os.environ.update(clean_environment({}))
    checkout = find_checkout()
    with tempfile.TemporaryDirectory(prefix="streamlease-reconcile-") as folder:
        with start_emulator(checkout, Path(folder) / "log-of-the-burial") as running:
            burial = buried(running, asked.buried)
        with start_emulator(checkout, Path(folder) / "log-of-the-function") as running:
            swept = reconciled(running, checkout, asked.items, asked.expired, walk=asked.walk)
    tell(result(asked.items, asked.expired, asked.buried, swept, burial), asked, where)
    return 0


def result(
    connections: int, expired: int, of_the_dead: int, swept: dict[str, Any], burial: dict[str, Any]
) -> dict[str, Any]:
    offered = sum(each["offered"] for each in swept["runs"])
    unmet = []
    if swept["swept_s"] > SWEPT_WITHIN_S:
        unmet.append(f"the sweep took {swept['swept_s']:.1f} s, over {SWEPT_WITHIN_S:g}")
    if offered != expired:
        unmet.append(f"{offered} offers for {expired} expired connections")
    if burial["bury_s"] > BURIED_WITHIN_S:
        unmet.append(f"the burial took {burial['bury_s']:.1f} s, over {BURIED_WITHIN_S:g}")
    if burial["orphaned"] != of_the_dead:
        unmet.append(f"{burial['orphaned']} of {of_the_dead} connections of the dead were freed")
    return {
        "items": connections,
        "expired": expired,
        "offered": offered,
        "limit_mb": MEGABYTES,
        **swept,
        "buried_connections": of_the_dead,
        **burial,
        "unmet": unmet,
    }


# --- the function ----------------------------------------------------------------------------------------------------


def reconciled(running: Emulator, checkout: Checkout, connections: int, expired: int, *, walk: bool) -> dict[str, Any]:
    with on_endpoint("emulator", running.endpoint) as store:
        executor = store.executor
        if executor is None:
            raise TypeError("no executor")
        now = clock.now()
        began_s = time.monotonic()
        put_all(executor, Table.CONNECTIONS, fleet_of(connections, expired, now))
        timing = TIMINGS[LeaseMode.CONNECTION]
        living = range(expired // EACH + 1, -(-connections // EACH))
        later = Instant(now.mono_s, now.wall_ms + NEVER_MS)
        put_all(
            executor,
            Table.MEMBERS,
            (member_item(f"worker-{number}", owned=EACH, joined=later, timing=timing) for number in living),
        )
        progress(f"{connections:,} connections, {expired:,} of them expired, in {time.monotonic() - began_s:.0f} s")
        environment = {
            **running.client_environment(),
            **{variable: executor.tables[table] for table, variable in TABLE_VARIABLES.items()},
            OFFERS_QUEUE_VARIABLE: executor.offers_queue_url,
            MODE_VARIABLE: LeaseMode.CONNECTION.value,
            LEASE_VARIABLE: str(timing.lease_ms),
            "POWERTOOLS_TRACE_DISABLED": "true",
            "POWERTOOLS_SERVICE_NAME": "bench",
        }
        # A run of the fourteen in fifteen that do not walk all owners.
        put_all(executor, Table.MEMBERS, [{"worker_id": RECONCILE_ID, "walked_at_ms": clock.now().wall_ms}])
        swept = function_said(checkout, environment, running)
        if walk:
            put_all(executor, Table.MEMBERS, [{"worker_id": RECONCILE_ID, "walked_at_ms": 0}])
            swept |= {f"walking_{name}": value for name, value in function_said(checkout, environment, running).items()}
    return swept


def fleet_of(connections: int, expired: int, now: Instant) -> Iterator[Item]:
    """The first are expired, of workers that are long gone; the others' leases stand."""
    timing = TIMINGS[LeaseMode.CONNECTION]
    for number in range(connections):
        moved_ms = -NEVER_MS if number < expired else NEVER_MS
        claimed = Instant(now.mono_s, now.wall_ms + moved_ms)
        owner = f"worker-{number // EACH}" if number >= expired else f"gone-{number // EACH}"
        yield owned_connection(number, owner, claimed=claimed, timing=timing, mode=LeaseMode.CONNECTION, shards=SHARDS)


def function_said(checkout: Checkout, environment: dict[str, str], running: Emulator) -> dict[str, Any]:
    emulator_s = cpu_s_of_group(running.process.pid)
    command = [sys.executable, "-m", "bench.reconcile_function", str(MEGABYTES)]
    ran = subprocess.run(  # noqa: S603 - this Python
        command, cwd=checkout.root, env=environment, capture_output=True, text=True, check=False
    )
    found = [line for line in ran.stdout.splitlines() if line.startswith("RESULT ")]
    if ran.returncode != 0 or not found:
        raise SystemExit(f"reconcile: the function ended with {ran.returncode}: {ran.stderr.strip()[-800:]}")
    said: dict[str, Any] = json.loads(found[-1].removeprefix("RESULT "))
    progress(f"{len(said['runs'])} runs of the function in {said['seconds']:.1f} s, {said['peak_mb']} MB at most")
    return {
        "swept_s": said["seconds"],
        "function_cpu_s": said["cpu_s"],
        "function_peak_mb": said["peak_mb"],
        "emulator_cpu_s": round(cpu_s_of_group(running.process.pid) - emulator_s, 2),
        "runs": said["runs"],
    }


# --- the burial ------------------------------------------------------------------------------------------------------


def buried(running: Emulator, connections: int) -> dict[str, Any]:
    with on_endpoint("emulator", running.endpoint) as store:
        executor = store.executor
        if executor is None:
            raise TypeError("no executor")
        executor = Executor(executor.clients, executor.tables, executor.offers_queue_url)  # by the real clock
        now = clock.now()
        timing = TIMINGS[LeaseMode.WORKER]
        dead, long_ago = "worker-dead", Instant(now.mono_s, now.wall_ms - 60_000)
        put_all(
            executor,
            Table.CONNECTIONS,
            (
                owned_connection(number, dead, claimed=long_ago, timing=timing, mode=LeaseMode.WORKER, shards=SHARDS)
                for number in range(connections)
            ),
        )
        put_all(executor, Table.WORKER_ITEMS, pages_of(dead, connections, now.wall_ms))
        put_all(executor, Table.MEMBERS, [member_item(dead, owned=connections, joined=long_ago, timing=timing)])
        progress(f"a worker with {connections:,} connections is dead")
        emulator_s, cpu_s, began_s = cpu_s_of_group(running.process.pid), time.process_time(), time.monotonic()
        burials: Burials = run(burial(timing), executor.perform)
        took_s = time.monotonic() - began_s
        spent_s, emulator_s = time.process_time() - cpu_s, cpu_s_of_group(running.process.pid) - emulator_s
    progress(f"buried in {took_s:.1f} s ({spent_s:.1f} s of our CPU, {emulator_s:.1f} s of the emulator's)")
    return {
        "bury_s": round(took_s, 2),
        "bury_cpu_s": round(spent_s, 2),
        "bury_emulator_cpu_s": round(emulator_s, 2),
        "orphaned": burials.orphaned,
        "untaken_offers": burials.untaken_offers,
    }


def burial(timing: Timing) -> Flow[Burials]:
    """As a worker's sweep does it."""
    roster = yield from members()
    return (yield from bury_expired(roster.members, timing=timing))


def pages_of(worker_id: str, connections: int, now_ms: int) -> Iterator[Item]:
    """Its pages, with a position of each connection that is newer than its item's."""
    for number, some_numbers in enumerate(batched(range(connections), ON_A_PAGE, strict=False)):
        entries = []
        for each in some_numbers:
            connection_id = connection_named(each)
            made = new_connection(connection_id).item
            epoch = int(str(made["lease_epoch"])) + 1
            entries.append(Saved(connection_id, epoch, 7, 1, Position(sequence=now_ms * 1_000 + each)))
        made_page = apply(pages.create(worker_id, number), None)
        yield apply(pages.write(worker_id, number, version=5, entries=entries), made_page) or {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
