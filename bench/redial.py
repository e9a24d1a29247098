"""How a worker dials again: an upstream that accepts and closes at once, and a thousand connections dropped at once.

    python -m bench.redial [--seconds 60] [--connections 1000] [--budget 100] [--json]

Beside the first, the `websockets` library's own reconnecting iterator does the same. Exit code 1 where a connection is
dialled more than once a second or does not slow down, where one of those dropped does not come back, where more than a
tenth of them come back within the same tenth of a second, or more open than the budget allows within its ten seconds.
Without a budget, which is shown beside it, all may come back within the second that the first wait is drawn from.
"""

import argparse
import sys

from bench import processes
from bench.holding import say

MOST_OF_A_TENTH = 0.1
SLACK = 1.05
"""A budget counts when dials begin, and what is seen here is when they have opened."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.redial", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--budget", type=int, default=100, help="dials a second for the fleet")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    processes.prepare()
    with processes.upstream("bench.churn_upstream") as (port,):
        told = (port, str(asked.seconds), str(asked.connections), str(asked.budget))
        found = processes.side("bench.redial_side", *told)
    closing, dropped = found["closing"], found["dropped"]
    print(
        f"accepted and closed: {closing['redials_per_s']} redials a second of each connection,"
        f" {closing['first_10_s']} dials a second at first, by quarters {closing['by_quarter']};"
        f" the library's iterator: {found['peer_redials_per_s']}",
        file=sys.stderr,
    )
    unbudgeted = found["unbudgeted"]
    for words, each in ((f"with {asked.budget} dials a second", dropped), ("at the worker's own pace", unbudgeted)):
        print(
            f"dropped at once, {words}: {each['back']} of {asked.connections} came back, by the second", file=sys.stderr
        )
        print(f"at most {each['most_in_a_tenth']} in a tenth of a second", file=sys.stderr)
        for second, number in enumerate(each["by_second"]):
            print(f"{second:>4} s {number:>5} {'#' * (-(-number // 10))}", file=sys.stderr)
    if asked.json:
        say(
            redials_per_s=closing["redials_per_s"],
            first_10_s=closing["first_10_s"],
            by_quarter=closing["by_quarter"],
            peer_redials_per_s=found["peer_redials_per_s"],
            synchronised_peak=dropped["most_in_a_tenth"] / asked.connections,
            unbudgeted_peak=unbudgeted["most_in_a_tenth"] / asked.connections,
            budget_per_s=asked.budget,
            most_in_ten_s=dropped["most_in_ten_s"],
            came_back=min(dropped["back"], unbudgeted["back"]),
            histogram=dropped["by_second"],
            unbudgeted_histogram=unbudgeted["by_second"],
        )
    slow = closing["redials_per_s"] <= 1 and closing["first_10_s"] <= 1
    falls = closing["by_quarter"][-1] < closing["by_quarter"][0]
    whole = dropped["back"] == unbudgeted["back"] == asked.connections
    spread = dropped["most_in_a_tenth"] <= MOST_OF_A_TENTH * asked.connections
    kept = dropped["most_in_ten_s"] <= SLACK * 10 * asked.budget
    return 0 if slow and falls and whole and spread and kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
