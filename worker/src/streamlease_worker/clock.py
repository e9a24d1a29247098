"""Whether this machine's wall clock is good enough to claim and to renew by (design §4). Pure: all is told to it.

Two things are measured. The task metadata's `ClockDrift` gives an upper bound on the clock's error; the `Date` header
of an answer gives whole seconds of a service's clock, which prove an error only where it is large. Between measurements
the monotonic clock shows every step of the wall clock, to the millisecond.

Only a measured error over half the skew allowance counts. What cannot be read says nothing, and stops nobody.
Known limit: a wall clock that is slewed (not stepped) takes the monotonic clock along, and shows in the next
measurement only. The reasons are decision 090.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from streamlease.flow import Now, Request
from streamlease.timing import Instant, Timing
from streamlease_worker.faults import Unsteady as Unsteady

FRESH_S = 600.0
"""A measurement counts for this long. A crystal left to itself strays some 50 ms in that time."""
DATE_AGE_MS = 2_000
"""A `Date` lies this far in the past at most: it is cut to whole seconds, and some servers keep one for a second."""
STEP_MS = 10
"""The wall clock has stepped where it moves by more than this other than the monotonic clock does."""
SLEW = 0.0005
"""An error that the `Date`s have shown is let grow by this, as a kernel slews a clock."""
REFERENCE_AHEAD_MS = 1_000
"""A `ReferenceTimestamp` further in the future than this contradicts the clock that it was read by."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The task metadata's `ClockDrift`, as it was said."""

    bound_ms: float
    """`ClockErrorBound`: the clock is off by this at most."""
    reference_ms: int
    """`ReferenceTimestamp`: when the clock was last held against its reference. Unix milliseconds, in whole seconds."""
    synchronised: bool
    """`ClockSynchronizationStatus`: whether the last attempt to do so succeeded."""


@dataclass(frozen=True, slots=True)
class Unread:
    """No `ClockDrift` could be had, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the clock is good for at one instant, and why, for logs and the health report."""

    may_claim: bool
    """Also: may judge by this clock that somebody else's lease or membership has run out."""
    may_renew: bool
    """False once claims have been stopped for a whole lease without a break."""
    error_ms: float | None
    """From ClockDrift the most that the clock is off, from a `Date` the least. None where nothing is known."""
    source: Literal["clock_drift", "date", "nothing"]
    reason: str


class ClockWatch:
    """One machine's measurements. Not safe for threads: one caller at a time.

    Each instant is read just then, by the same clocks. Steps are seen from the first one on.
    """

    def __init__(self, timing: Timing) -> None:
        self._half_ms = timing.skew_ms / 2
        self._lease_s = timing.lease_ms / 1000
        self._reading: tuple[Reading, Instant] | None = None
        self._unread: str | None = "ClockDrift has not been read yet"
        self._first: Instant | None = None
        self._last: Instant | None = None
        self._stepped = False
        self._doubted_ms: int | None = None
        self._dates: _Offset | None = None
        self._over_since_s: float | None = None

    def read(self, found: Reading | Unread, asked: Instant, now: Instant) -> None:
        """The metadata was asked at `asked`, and `now` its answer is here."""
        self.judge(now)
        self._unread = found.reason if isinstance(found, Unread) else self._objection(found, asked, now)
        if self._unread is None and isinstance(found, Reading):
            known = self._reading
            is_known = known is not None and known[0].reference_ms == found.reference_ms
            self._reading = found, known[1] if known is not None and is_known else now
        self.judge(now)

    def dated(self, date_ms: int, sent: Instant, now: Instant) -> None:
        """A service has answered a request of `sent` with this `Date`, and `now` its answer is here."""
        if abs(_jump_ms(sent, now)) <= STEP_MS:  # else its two ends were read on two different clocks
            offset = _Offset(sent.wall_ms - date_ms - DATE_AGE_MS, now.wall_ms - date_ms, now)
            self._dates = offset if self._dates is None else self._dates.narrowed(offset)
        self.judge(now)

    def judge(self, now: Instant) -> Verdict:
        """What the clock is good for, if it reads `now`."""
        self._look_for_a_step(now)
        found = self._found(now)
        if not found.over:
            self._over_since_s = None
        elif self._over_since_s is None:
            self._over_since_s = now.mono_s
        since_s = self._over_since_s
        may_renew = since_s is None or now.mono_s - since_s < self._lease_s
        return Verdict(not found.over, may_renew, found.error_ms, found.source, found.reason)

    def _objection(self, reading: Reading, asked: Instant, now: Instant) -> str | None:
        """Why a reading is not believed, if it is not."""
        if reading.bound_ms > self._half_ms:
            return None  # bad news is believed from whomever
        if abs(_jump_ms(asked, now)) > STEP_MS:
            return "the wall clock stepped while ClockDrift was read"
        if not reading.synchronised:
            return "ClockDrift is NOT_SYNCHRONIZED"
        if reading.reference_ms > now.wall_ms + REFERENCE_AHEAD_MS:
            return "ClockDrift refers to a time that has not come yet"
        if now.wall_ms - reading.reference_ms > FRESH_S * 1000:
            return f"ClockDrift was last measured {(now.wall_ms - reading.reference_ms) / 1000:.0f} s ago"
        if self._stepped and self._doubted_ms in (None, reading.reference_ms):
            self._doubted_ms = reading.reference_ms
            return "ClockDrift may have been measured before the wall clock stepped"
        return None

    def _look_for_a_step(self, now: Instant) -> None:
        """The metadata may hold a measurement for a while: the first that is read after a step may be of before it."""
        self._first, last = self._first or now, self._last or now
        self._last = now
        if abs(_jump_ms(self._first if self._reading is None else self._reading[1], now)) <= STEP_MS:
            self._stepped, self._doubted_ms = False, None
        elif not self._stepped or abs(_jump_ms(last, now)) > STEP_MS:
            self._stepped, self._doubted_ms = True, None

    def _found(self, now: Instant) -> "_Finding":
        drift, dates = self._by_drift(now), self._by_dates(now)
        if drift is not None and (self._unread is None or drift.over or dates is None or not dates.over):
            return drift
        if dates is not None:
            return dates
        return _Finding(over=False, error_ms=None, source="nothing", reason=f"nothing is measured: {self._silence}")

    @property
    def _silence(self) -> str:
        return self._unread or f"ClockDrift has not been read for {FRESH_S:.0f} s"

    def _by_drift(self, now: Instant) -> "_Finding | None":
        if self._reading is None:
            return None
        reading, since = self._reading
        if now.mono_s - since.mono_s > FRESH_S:
            return None
        step_ms = _jump_ms(since, now)
        error_ms = reading.bound_ms + abs(step_ms)
        over = error_ms > self._half_ms
        stepped = f", and it has stepped by {step_ms:+d} ms since" if abs(step_ms) > STEP_MS else ""
        verdict = f"over the {self._half_ms:g} ms allowed" if over else f"within the {self._half_ms:g} ms allowed"
        reason = f"the wall clock is off by up to {reading.bound_ms:.3g} ms by ClockDrift{stepped}: {verdict}"
        return _Finding(over=over, error_ms=error_ms, source="clock_drift", reason=reason)

    def _by_dates(self, now: Instant) -> "_Finding | None":
        if self._dates is None or now.mono_s - self._dates.at.mono_s > FRESH_S:
            return None
        least_ms = self._dates.as_of(now).proven_ms
        over = least_ms > self._half_ms
        verdict = f"over the {self._half_ms:g} ms allowed" if over else "no proof that it is off"
        reason = (
            f"the wall clock is off by at least {least_ms:.0f} ms by the services' Date: {verdict}; {self._silence}"
        )
        return _Finding(over=over, error_ms=least_ms, source="date", reason=reason)


def steady(perform: Callable[[Request], object], judge: Callable[[Instant], Verdict]) -> Callable[[Request], object]:
    """`perform`, but that it raises Unsteady instead of giving a time that is not to be claimed, buried or swept by.

    Each procedure reads its clock just before it writes, so that no step can come between the check and the use.
    """

    def performed(request: Request) -> object:
        answer = perform(request)
        if isinstance(request, Now) and isinstance(answer, Instant):
            verdict = judge(answer)
            if not verdict.may_claim:
                raise Unsteady(verdict.reason)
        return answer

    return performed


@dataclass(frozen=True, slots=True)
class _Finding:
    over: bool
    error_ms: float | None
    source: Literal["clock_drift", "date", "nothing"]
    reason: str


@dataclass(frozen=True, slots=True)
class _Offset:
    """The wall clock is ahead of true time by more than `least_ms` and less than `most_ms`, as of `at`."""

    least_ms: float
    most_ms: float
    at: Instant

    @property
    def proven_ms(self) -> float:
        """What it is off by at least, one way or the other."""
        return max(self.least_ms, -self.most_ms, 0.0)

    def as_of(self, now: Instant) -> "_Offset":
        """What a later instant makes of it: steps are known, slewing is allowed for."""
        step_ms = _jump_ms(self.at, now)
        slewed_ms = SLEW * 1000 * max(0.0, now.mono_s - self.at.mono_s)
        return _Offset(self.least_ms + step_ms - slewed_ms, self.most_ms + step_ms + slewed_ms, now)

    def narrowed(self, newer: "_Offset") -> "_Offset":
        """What both say together. Where they contradict each other, the clock has been slewed, and the newer holds."""
        older = self.as_of(newer.at)
        least_ms, most_ms = max(older.least_ms, newer.least_ms), min(older.most_ms, newer.most_ms)
        return _Offset(least_ms, most_ms, newer.at) if least_ms <= most_ms else newer


def _jump_ms(since: Instant, now: Instant) -> int:
    """By how much the wall clock has moved other than the monotonic clock did."""
    return round(now.wall_ms - since.wall_ms - (now.mono_s - since.mono_s) * 1000)
