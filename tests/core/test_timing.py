"""Intervals that make a lease safe: its owner stops before any taker begins, for any clocks within the allowance."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamlease.timing import MARGIN_MS, SKEW_MS, Instant, Timing

TIMINGS = st.builds(
    lambda heartbeat_ms, longer_ms, skew_ms: Timing(heartbeat_ms, 3 * heartbeat_ms + longer_ms, skew_ms, MARGIN_MS),
    st.integers(300, 60_000),
    st.integers(0, 60_000),
    st.integers(0, 5_000),
)


@given(TIMINGS, st.integers(0, 10**9), st.data())
def test_no_taker_sees_a_lease_as_expired_before_its_owner_has_stopped(
    timing: Timing, true_ms: int, data: st.DataObject
) -> None:
    """Each wall clock is within half of the allowance of the true time; the owner counts on its monotonic clock."""
    half_ms = timing.skew_ms // 2
    owner_error_ms = data.draw(st.integers(-half_ms, half_ms))
    taker_error_ms = data.draw(st.integers(-half_ms, half_ms))
    later_ms = data.draw(st.integers(0, 2 * timing.lease_ms))
    sent = Instant(mono_s=true_ms / 1000, wall_ms=true_ms + owner_error_ms)
    expires_at_ms = timing.expires_at_ms(sent)
    taken = expires_at_ms < timing.expired_before_ms(true_ms + later_ms + taker_error_ms)
    if taken:
        assert (true_ms + later_ms) / 1000 > timing.deadline_s(sent)


@given(TIMINGS, st.integers(0, 10**9))
def test_a_deadline_is_the_margin_before_the_lease_ends_on_the_owners_monotonic_clock(
    timing: Timing, wall_ms: int
) -> None:
    sent = Instant(100.0, wall_ms)
    assert timing.deadline_s(sent) == pytest.approx(100.0 + (timing.lease_ms - timing.margin_ms) / 1000)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_a_lease_shorter_than_three_heartbeats_is_refused_with_both_numbers(heartbeat_ms: int, lease_ms: int) -> None:
    assume(3 * heartbeat_ms > lease_ms)
    with pytest.raises(
        ValueError, match=f"heartbeat of {heartbeat_ms} ms needs .* {3 * heartbeat_ms} ms, not {lease_ms}"
    ):
        Timing(heartbeat_ms, lease_ms)


@pytest.mark.parametrize("heartbeat_ms", [0, -1])
def test_a_heartbeat_that_is_not_positive_is_refused(heartbeat_ms: int) -> None:
    with pytest.raises(ValueError, match=f"heartbeat must be positive, not {heartbeat_ms} ms"):
        Timing(heartbeat_ms, 30_000)


@pytest.mark.parametrize(("skew_ms", "margin_ms"), [(-1, 0), (0, -1), (0, 2_000), (0, 9_000)])
def test_a_margin_that_leaves_no_time_is_refused(skew_ms: int, margin_ms: int) -> None:
    with pytest.raises(ValueError, match="no time to deliver in a lease of 3000 ms"):
        Timing(1_000, 3_000, skew_ms, margin_ms)


def test_the_defaults_are_the_designs() -> None:
    timing = Timing()
    assert (timing.heartbeat_ms, timing.lease_ms, timing.skew_ms, timing.margin_ms) == (10_000, 30_000, 1_000, 500)
    assert (SKEW_MS, MARGIN_MS) == (1_000, 500)


@given(st.integers(1, 10_000), st.integers(3, 10), st.integers(0, 1_900), st.floats(0, 1e6))
def test_a_member_is_fresh_until_its_next_heartbeat_is_late_and_never_beyond_its_deadline(
    heartbeat_ms: int, times: int, margin_ms: int, sent_s: float
) -> None:
    timing = Timing(heartbeat_ms=heartbeat_ms, lease_ms=times * heartbeat_ms, margin_ms=min(margin_ms, heartbeat_ms))
    deadline_s = timing.deadline_s(Instant(sent_s, 0))
    fresh_until_s = timing.fresh_until_s(deadline_s)
    assert fresh_until_s <= deadline_s
    assert fresh_until_s == pytest.approx(sent_s + 1.5 * heartbeat_ms / 1000)
