"""Ctrl-C while bulk work goes on: noted first, so that what is on its way can be answered and counted."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Whether a person has had enough. Calling it says so; read by several threads, set by the signal alone."""

    def __init__(self) -> None:
        self._came = False

    def __call__(self) -> bool:
        return self._came

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Within it the first SIGINT is only noted; the next one has its usual effect. A thread gets no signal, and
        notes nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def note(_: int, __: FrameType | None) -> None:
            signal.signal(signal.SIGINT, before)
            self._came = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
