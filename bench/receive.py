"""Records a CPU-second on the worker's whole receive path, beside bare loops and peers that do the same work.

    python -m bench.receive [--records 400000] [--runs 3] [--json]

One process floods; each side reads so many records of 200 bytes from it, in a process of its own, one after the other;
what counts is the CPU time of the side. The figure of a side is the median of its runs. See `bench.receive_side`.
Exit code 1 where the worker's path falls short of 50,000 records or 0.3 of a bare `websockets` loop.
"""

import argparse
import statistics
import sys

from bench import processes
from bench.holding import say

SIDES = ("bare", "streamlease", "websockets", "aiohttp", "picows", "bare+uvloop", "streamlease+uvloop")
LEAST_PER_CPU_S = 50_000
LEAST_OF_BARE = 0.3


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.receive", description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    processes.prepare()
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    # More than are counted: what is read and not yet at the sink must not be what is waited for.
    with processes.upstream("bench.flood", "--messages", str(asked.records + 20_000)) as (url,):
        for _ in range(asked.runs):
            for side in SIDES:
                found[side].append(processes.side("bench.receive_side", side, url, str(asked.records))["per_cpu_s"])
    figures = {side: statistics.median(values) for side, values in found.items()}
    for side, figure in figures.items():
        spread = f"{min(found[side]):,.0f} to {max(found[side]):,.0f}"
        print(f"{side:20} {figure:>10,.0f} records a CPU-second ({spread})", file=sys.stderr)
    ratio = figures["streamlease"] / figures["bare"]
    if asked.json:
        say(
            records_per_cpu_s=round(figures["streamlease"]),
            bare_per_cpu_s=round(figures["bare"]),
            ratio_to_bare=round(ratio, 3),
            websockets_per_cpu_s=round(figures["websockets"]),
            aiohttp_per_cpu_s=round(figures["aiohttp"]),
            picows_per_cpu_s=round(figures["picows"]),
            uvloop_records_per_cpu_s=round(figures["streamlease+uvloop"]),
            uvloop_bare_per_cpu_s=round(figures["bare+uvloop"]),
        )
    return 0 if figures["streamlease"] >= LEAST_PER_CPU_S and ratio >= LEAST_OF_BARE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
