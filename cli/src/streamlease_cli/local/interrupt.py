"""Ctrl-C, SIGTERM and a closed terminal, as one exception, so that everything started is stopped in order."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """One of the ending signals came. Not an Exception: what is not made for it must not catch it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.exit_code = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Within it the first ending signal raises Interrupted, once; the next ones have their usual effect.

    So an impatient second Ctrl-C ends this process at once, and the guards do the rest. Main thread only.
    """
    before = {number: signal.getsignal(number) for number in _ENDING}

    def raise_once(number: int, _: FrameType | None) -> None:
        for ending, usual in before.items():
            signal.signal(ending, usual)
        raise Interrupted(signal.Signals(number))

    for number in _ENDING:
        signal.signal(number, raise_once)
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
