"""Ctrl-C, SIGTERM and a closed terminal, as one exception, so that everything started is stopped in order."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_STOPPING = "stopping: workers give up what they hold, then all that was started is ended (Ctrl-C again: do not wait)"
_SHOW_CURSOR = b"\x1b[?25h\r\n"
"""A live table hides it."""


class Interrupted(BaseException):
    """One of the ending signals came. Not an Exception: what is not made for it must not catch it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.exit_code = 128 + number


@contextmanager
def interruptible(say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Within it the first ending signal is told of at once and raises Interrupted.

    The next one ends this process then and there, with the exit code that the signal has: nothing is waited for, and
    the guards do the rest. Main thread only.
    """
    before = {number: signal.getsignal(number) for number in _ENDING}

    def end_now(number: int, _: FrameType | None) -> None:
        # Not by a print: the signal may have come in the midst of one.
        os.write(
            sys.stderr.fileno(), _SHOW_CURSOR * sys.stderr.isatty() + b"not waited for: what still runs is stopped\n"
        )
        os._exit(128 + number)

    def raise_once(number: int, _: FrameType | None) -> None:
        for ending in _ENDING:
            signal.signal(ending, end_now)
        with contextlib.suppress(RuntimeError):  # it came in the midst of another line
            say(_STOPPING)
        raise Interrupted(signal.Signals(number))

    for number in _ENDING:
        signal.signal(number, raise_once)
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
