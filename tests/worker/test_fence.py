"""The fence: one epoch's permission to deliver."""

import pytest

from streamlease_worker.fence import Fence, Fenced
from tests.fakes.clock import SetClock


def fence(clock: SetClock) -> Fence:
    return Fence("a", 7, now_s=lambda: clock.mono_s)


def test_a_new_fence_lets_nothing_through() -> None:
    with pytest.raises(Fenced, match=r"connection 'a' may deliver no more in epoch 7: its lease ran out"):
        fence(SetClock()).check()


def test_attempts_may_begin_until_the_deadline_and_not_at_it() -> None:
    clock = SetClock()
    cell = fence(clock)
    cell.extend(clock.mono_s + 2)
    clock.advance(1_500)
    cell.check()
    assert cell.left_s() == pytest.approx(0.5)
    clock.advance(500)
    assert cell.left_s() == 0
    with pytest.raises(Fenced):
        cell.check()


def test_a_deadline_only_grows() -> None:
    clock = SetClock()
    cell = fence(clock)
    cell.extend(clock.mono_s + 2)
    cell.extend(clock.mono_s + 1)
    assert cell.left_s() == pytest.approx(2)


def test_a_closed_fence_stays_closed_and_says_why_it_was_first() -> None:
    clock = SetClock()
    cell = fence(clock)
    cell.extend(clock.mono_s + 2)
    cell.close("stolen")
    cell.close("its lease was given up")
    cell.extend(clock.mono_s + 100)
    assert cell.left_s() == 0
    with pytest.raises(Fenced, match="stolen"):
        cell.check()
