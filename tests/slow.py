"""The tests on a slow machine: now and then a process of theirs stands still for some seconds (decision 158).

    python -m tests.slow [PYTEST'S ARGUMENTS]

Any process below pytest: its own workers, the embedded AWS, a Streamlease worker, a guard. Clocks go on meanwhile, as
they do where a machine has too much to do. A test that fails only here depends on how fast the machine is.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from tests.e2e.running import descendants, still_there

AFTER_S = 10.0
"""The tests are collected first."""
EVERY_S = 0.6
"""On average."""
LEAST_S, MOST_S = 1.0, 3.0
_LOOK_EVERY_S = 0.05


def main(arguments: Sequence[str]) -> int:
    """pytest's exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    over = threading.Event()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "-m", "not chaos", *arguments]
    with subprocess.Popen(command) as tests:  # noqa: S603 - this Python
        disturbing = threading.Thread(target=disturb, args=(tests.pid, over))
        disturbing.start()
        try:
            return tests.wait()
        except BaseException:
            tests.send_signal(signal.SIGINT)
            raise
        finally:
            over.set()
            disturbing.join()


def disturb(pid: int, over: threading.Event) -> None:
    """Stop one process or another below `pid` until it is over; none is left standing."""
    stopped: dict[int, tuple[str, float]] = {}
    next_s = time.monotonic() + AFTER_S
    count = 0
    while not over.wait(_LOOK_EVERY_S):
        now_s = time.monotonic()
        for each in [each for each, (_, until_s) in stopped.items() if until_s <= now_s]:
            _signal(each, stopped.pop(each)[0], signal.SIGCONT)
        if now_s >= next_s:
            next_s = now_s + random.uniform(0, 2 * EVERY_S)
            running = {each: began for each, began in descendants(pid).items() if each not in stopped}
            if running:
                each, began = random.choice(list(running.items()))
                _signal(each, began, signal.SIGSTOP)
                stopped[each] = began, now_s + random.uniform(LEAST_S, MOST_S)
                count += 1
    for each, (began, _) in stopped.items():
        _signal(each, began, signal.SIGCONT)
    sys.stderr.write(f"{count} times a process stood still\n")


def _signal(pid: int, began: str, number: signal.Signals) -> None:
    """Not to another process that has this id by now."""
    with contextlib.suppress(ProcessLookupError):
        if still_there({pid: began}):
            os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
