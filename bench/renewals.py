"""Renewals for each second of client CPU, beside python-dynamodb-lock, on one emulator in one run.

    python -m bench.renewals [--leases 200] [--rounds 3] [--seconds 5] [--json] [--keep bench/renewals.jsonl]

Ours: a keeper in connection mode, its clock virtual so that it need not wait, its renewals sent by the worker's own
executor and answered by the emulator. The peer: its own thread, as quickly as it goes. Both count renewals that landed,
and the CPU of the whole process, the emulator being another. The figure is the median of the rounds.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, override

from bench.kept import circumstances, parser, progress, some, tell
from bench.shift import Positions, Shift, numbers
from streamlease import flow
from streamlease.dynamodb.executor import Executor
from streamlease.flow import run
from streamlease.model import LeaseMode
from streamlease.settings import TIMINGS
from streamlease.write import Applied, Table
from streamlease_cli.local.checkout import Checkout, clean_environment, find_checkout
from streamlease_worker.keeper_events import Answered, Renew, writes
from tests.contract.stores import Store, emulator

GOAL = 8.0


class Renewing(Shift):
    """A shift whose renewals go to a store."""

    def __init__(self, store: Store, leases: int, worker_id: str, positions: Positions | None) -> None:
        mode = LeaseMode.CONNECTION
        super().__init__(worker_id, range(leases), mode=mode, timing=TIMINGS[mode], positions=positions)
        if store.executor is None:
            raise TypeError(f"{store.name} has no executor")
        self._executor: Executor = store.executor
        self.landed = 0
        for item in self.items:
            store.put(Table.CONNECTIONS, item)

    @override
    def _renew(self, command: Renew) -> Answered:
        sent = self.now()
        answers = run(flow.batch(writes(command, sent=sent, timing=self.timing)), self._executor.perform)
        self.landed += sum(isinstance(answer, Applied) for answer in answers)
        return Answered(command.batch, sent, answers)


def main(arguments: list[str]) -> int:
    asking = parser("renewals", __doc__)
    asking.add_argument("--leases", type=some, default=200)
    asking.add_argument("--rounds", type=some, default=3)
    asking.add_argument("--seconds", type=some, default=5, help="of the peer's renewals in each round")
    asked = asking.parse_args(arguments)
    where = circumstances("renewals", arguments)
    checkout = find_checkout()
    python = bench_python(checkout)
    os.environ.update(clean_environment({}))
    ours: list[float] = []
    carrying: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory(prefix="streamlease-renewals-") as folder, emulator(Path(folder) / "log") as store:
        for number in range(asked.rounds):
            ours.append(of_ours(store, asked.leases, f"ours-{number}", None))
            theirs.append(of_theirs(python, checkout, endpoint_of(store), asked.leases, asked.seconds))
            carrying.append(of_ours(store, asked.leases, f"carrying-{number}", numbers))
            progress(f"round {number + 1}: ours {ours[-1]:,.0f} a CPU second, theirs {theirs[-1]:,.0f}")
    tell(result(asked.leases, ours, carrying, theirs), asked, where)
    return 0


def result(leases: int, ours: list[float], carrying: list[float], theirs: list[float]) -> dict[str, Any]:
    middle, peer = statistics.median(ours), statistics.median(theirs)
    ratio = middle / peer
    return {
        "ours_per_cpu_s": round(middle),
        "peer_per_cpu_s": round(peer),
        "ratio": round(ratio, 2),
        "ours_with_checkpoints_per_cpu_s": round(statistics.median(carrying)),
        "peer": "python-dynamodb-lock",
        "leases": leases,
        "rounds": [{"ours": round(a), "peer": round(b)} for a, b in zip(ours, theirs, strict=True)],
        "unmet": [] if ratio >= GOAL else [f"{ratio:.1f} times the peer's renewals, under {GOAL:g}"],
    }


def of_ours(store: Store, leases: int, worker_id: str, positions: Positions | None) -> float:
    """Landed renewals a CPU second of this process. Five renewals of each lease are counted."""
    shift = Renewing(store, leases, worker_id, positions)
    shift.begin()
    shift.landed = 0
    cpu_s = time.process_time()
    shift.go_on(5 * TIMINGS[LeaseMode.CONNECTION].heartbeat_ms / 1_000)
    return shift.landed / (time.process_time() - cpu_s)


def of_theirs(python: Path, checkout: Checkout, endpoint: str, locks: int, seconds: int) -> float:
    command = [str(python), "-m", "bench.renewals_peer", endpoint, str(locks), str(seconds)]
    # Its own environment has none of this project's packages, and needs none.
    ran = subprocess.run(command, cwd=checkout.root, capture_output=True, text=True, check=False)  # noqa: S603
    if ran.returncode != 0:
        raise SystemExit(f"renewals: the peer ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    said = json.loads(ran.stdout)
    return float(said["renewed"] / said["cpu_s"])


def endpoint_of(store: Store) -> str:
    if store.executor is None:
        raise TypeError(f"{store.name} has no executor")
    return store.executor.clients.writes.meta.endpoint_url


def bench_python(checkout: Checkout) -> Path:
    """Of the benches' environment, made where it is not there yet."""
    progress("the benches' environment")
    made = subprocess.run(  # noqa: S603
        [sys.executable, str(checkout.root / "scripts/setup.py"), "bench"], check=False
    )
    if made.returncode != 0:
        raise SystemExit("renewals: the benches' environment could not be made; what setup printed above says why")
    return checkout.local / "envs/bench/bin/python"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
