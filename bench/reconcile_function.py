"""The reconcile function as Lambda runs it, under its memory limit: called until a run says that it is complete.

    python -m bench.reconcile_function MEGABYTES

Prints JSON. The settings are the environment's. The limit is of the address space, which holds more than what Lambda
counts.
"""

import json
import resource
import sys
import time
from dataclasses import dataclass, field
from typing import Any

TIMEOUT_S = 60.0
MOST_RUNS = 20


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler reads of Lambda's context object."""

    began_s: float = field(default_factory=time.monotonic)
    function_name: str = "reconcile"
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:000000000000:function:reconcile"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return round((TIMEOUT_S - (time.monotonic() - self.began_s)) * 1_000)


def main(megabytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    from functions.reconcile.app import handler  # within the limit, as everything that it imports

    began_s, cpu_s = time.monotonic(), time.process_time()
    runs: list[dict[str, Any]] = []
    while len(runs) < MOST_RUNS:
        run_began_s = time.monotonic()
        report = handler({"source": "bench"}, Context())
        report["seconds"] = round(time.monotonic() - run_began_s, 2)
        runs.append(report)
        if report["complete"]:
            break
    document = {
        "seconds": round(time.monotonic() - began_s, 2),
        "cpu_s": round(time.process_time() - cpu_s, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024, 1),
        "runs": runs,
    }
    print(f"\nRESULT {json.dumps(document)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
