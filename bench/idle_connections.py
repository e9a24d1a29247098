"""What idle connections weigh in one worker, plain and with TLS, and whether it keeps up with their pings on one core.

    python -m bench.idle_connections [--plain 10000] [--tls 5000] [--hold 60] [--json]

The upstream is another process and listens on several loopback addresses. The worker's side is the whole of what a
connection is in a worker (runner, machine, socket, way to the sink), on one core, in a process for each kind.
Exit code 1 where a connection weighs more than 25 KiB plain or 100 KiB with TLS, where one was lost or did not open, or
where a pong was too late.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench import processes
from bench.holding import say

MOST_PLAIN_KIB = 25
MOST_TLS_KIB = 100


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.idle_connections", description=__doc__.partition("\n")[0])
    parser.add_argument("--plain", type=int, default=10_000)
    parser.add_argument("--tls", type=int, default=5_000)
    parser.add_argument("--hold", type=float, default=60.0, help="seconds; pings go out every 20")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    processes.prepare()
    with processes.upstream("bench.idle_upstream") as (port, *addresses):
        plain = held(f"ws://{{}}:{port}/", addresses, asked.plain, asked.hold)
    with (
        tempfile.TemporaryDirectory(prefix="streamlease-bench-") as folder,
        processes.upstream("bench.idle_upstream", "--tls", folder) as (port, *addresses),
    ):
        tls = held(f"wss://{{}}:{port}/", addresses, asked.tls, asked.hold, str(Path(folder) / "certificate.pem"))
    for name, side in (("plain", plain), ("TLS", tls)):
        print(
            f"{name}: {side['connections']:,} connections of {side['kib']} KiB, open after {side['opened_s']} s;"
            f" held on {side['cpu_share']:.0%} of a core, the loop at most {side['worst_tick_late_ms']} ms late,"
            f" {side['late_pongs']} late pongs, {side['lost']} changes of state",
            file=sys.stderr,
        )
    if asked.json:
        say(
            plain_connections=plain["connections"],
            plain_kib=plain["kib"],
            tls_connections=tls["connections"],
            tls_kib=tls["kib"],
            plain_cpu_share=plain["cpu_share"],
            plain_worst_tick_late_ms=plain["worst_tick_late_ms"],
            late_pongs=plain["late_pongs"] + tls["late_pongs"],
            lost=plain["lost"] + tls["lost"],
        )
    whole = plain["connections"] == asked.plain and tls["connections"] == asked.tls
    steady = not any(side["late_pongs"] or side["lost"] for side in (plain, tls))
    return 0 if whole and steady and plain["kib"] <= MOST_PLAIN_KIB and tls["kib"] <= MOST_TLS_KIB else 1


def held(pattern: str, addresses: list[str], connections: int, hold_s: float, *trusted: str) -> dict[str, int | float]:
    urls = ",".join(pattern.format(address) for address in addresses)
    return processes.side("bench.idle_side", urls, str(connections), str(hold_s), *trusted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
