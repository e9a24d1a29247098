"""How a worker's load is judged: slowly, and more slowly for the better."""

from streamlease.shares import HALF_PACE, NO_PACE, WHOLE_PACE
from streamlease_worker.load import RECORDS_PER_EXTRA, SLOW_MS, SMOOTHING_S, SOON_S, WELL_AGAIN_S, Load
from streamlease_worker.supervisor_events import Measured

EVERY_S = 5.0


class Days:
    """A load, and a clock that its measurements move."""

    def __init__(self) -> None:
        self.load = Load()
        self.now_s = 0.0

    def pass_time(self, seconds: float, *, lag_ms: int = 0, unfit: str | None = None, **rates: float) -> None:
        for _ in range(round(seconds / EVERY_S)):
            self.now_s += EVERY_S
            self.load.measured(Measured(rates, lag_ms, unfit), self.now_s)


def test_a_connection_weighs_more_the_more_it_carries() -> None:
    days = Days()
    days.pass_time(5, a=RECORDS_PER_EXTRA - 1, b=RECORDS_PER_EXTRA, c=10 * RECORDS_PER_EXTRA)
    assert [days.load.extra_of(name) for name in ("a", "b", "c", "unknown")] == [0, 1, 10, 0]
    assert (days.load.extra, days.load.band) == (11, 1)
    days.load.forget("c")
    assert days.load.extra == 1


def test_a_burst_does_not_make_a_connection_heavy() -> None:
    days = Days()
    days.pass_time(SMOOTHING_S, a=0.0)
    days.pass_time(EVERY_S, a=5 * RECORDS_PER_EXTRA)
    assert days.load.extra_of("a") == 0
    days.pass_time(5 * SMOOTHING_S, a=5 * RECORDS_PER_EXTRA)
    assert days.load.extra_of("a") == 4


def test_what_is_measured_no_more_is_forgotten() -> None:
    days = Days()
    days.pass_time(5, a=900.0)
    days.pass_time(5)
    assert days.load.extra == 0


def test_an_event_loop_that_is_late_for_long_halves_the_share_and_says_why() -> None:
    days = Days()
    days.pass_time(SOON_S, lag_ms=SLOW_MS)
    assert days.load.pace == WHOLE_PACE
    days.pass_time(EVERY_S, lag_ms=SLOW_MS)
    assert days.load.pace == HALF_PACE
    assert days.load.said()["why"] == f"its event loop comes {SLOW_MS} ms late"


def test_a_hiccup_halves_nothing() -> None:
    days = Days()
    for _ in range(10):
        days.pass_time(EVERY_S, lag_ms=10 * SLOW_MS)
        days.pass_time(EVERY_S)
    assert days.load.pace == WHOLE_PACE
    assert "pace" not in days.load.said()


def test_l33_a_worker_that_got_better_by_shedding_is_filled_again_only_much_later() -> None:
    days = Days()
    days.pass_time(30, lag_ms=SLOW_MS)
    days.pass_time(WELL_AGAIN_S)
    assert days.load.pace == HALF_PACE
    days.pass_time(EVERY_S)
    assert days.load.pace == WHOLE_PACE


def test_an_unfit_worker_is_to_have_nothing() -> None:
    days = Days()
    days.pass_time(30, unfit="its sink takes nothing")
    assert days.load.pace == NO_PACE
    assert days.load.said()["why"] == "its sink takes nothing"
