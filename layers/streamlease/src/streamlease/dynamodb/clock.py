"""The clocks of this machine, as an `Instant`. The only place of the library that reads them."""

import sys
import time

from streamlease.timing import Instant


def monotonic_s() -> float:
    """Seconds that go on while the machine is suspended, where the system has such a clock.

    Lease deadlines are instants of *this* clock: compare them with nothing else (`time.monotonic` stops in a suspend).
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    elif sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)  # goes on in sleep there; time.monotonic does not
    else:
        return time.monotonic()


def now() -> Instant:
    """Both clocks, monotonic first: a pause between the two can then only shorten a lease (design §4)."""
    mono_s = monotonic_s()
    return Instant(mono_s, time.time_ns() // 1_000_000)
