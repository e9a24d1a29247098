"""When to dial again: full jitter, doubling, and starting over only once a connection has proven itself."""

from streamlease.feed.feed import Retry

_MOST_DOUBLINGS = 32


class Backoff:
    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._failures = 0

    def proven(self) -> None:
        """The connection is good: the next failure is a first one."""
        self._failures = 0

    def longest_s(self, draw: float) -> float:
        """Half of the longest wait at least, and no failure counted: for what may well wait."""
        return self._retry.longest_s * (1 + draw) / 2

    def delay_s(self, draw: float, retry_after_s: float | None = None) -> float:
        """How long to wait after one more failure; `draw` is uniform in [0, 1). What the upstream asks for is waited
        for, up to the feed's limit; the jitter comes on top, so that those it told the same do not return as one."""
        ceiling_s = min(self._retry.longest_s, self._retry.first_s * 2.0 ** min(self._failures, _MOST_DOUBLINGS))
        self._failures += 1
        jittered_s = draw * ceiling_s
        if retry_after_s is None or not retry_after_s > 0:  # a NaN is no wish either
            return jittered_s
        return min(retry_after_s, self._retry.longest_retry_after_s) + jittered_s
