"""At rest a fleet is even (design §6): two workers' connections differ by one at most, however it came to be."""

from collections.abc import Callable, Sequence

from tests.simulation.fleet import Shell
from tests.simulation.kernel import Kernel, S
from tests.simulation.violation import Violation

LOOK_EVERY_US = 5 * S
WITHIN_US = 240 * S
"""Who was unwell has its share again after two and a half minutes; a minute of calm follows a deployment; then come a
summary's rounds and the moves themselves."""


def until_even(kernel: Kernel, living: Callable[[], Sequence[Shell]]) -> list[Violation]:
    """Run on, when all is well, until the living are even, or has had its time for that."""
    latest_us = kernel.now_us + WITHIN_US
    while max(held := [s.holds() for s in living() if not s.unwell()], default=0) - min(held, default=0) > 1:
        if kernel.now_us >= latest_us:
            what = f"{WITHIN_US // S} s after all was well they hold {held}"
            return [Violation(9, "a fleet at rest is even", kernel.now_us, "", what)]
        kernel.run_until(kernel.now_us + LOOK_EVERY_US)
    return []
