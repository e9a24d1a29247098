"""What is decided of a wall clock by what is measured of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.flow import Now, Request, run
from streamlease.flows.claim import Claimer, claim
from streamlease.lease import Claimed, create
from streamlease.model import DesiredState, LeaseMode
from streamlease.timing import Timing
from streamlease.write import Put, Read, Table
from streamlease_worker.clock import FRESH_S, STEP_MS, ClockWatch, Unread, Unsteady, Verdict, steady
from tests.fakes.memory import MemoryStore
from tests.worker.clock_machine import Machine

TIMING = Timing()
HALF_MS = TIMING.skew_ms // 2
FRESH_MS = int(FRESH_S * 1000)
HOUR_MS = 3_600_000


def judged(watch: ClockWatch, machine: Machine) -> Verdict:
    return watch.judge(machine.now())


def watching(machine: Machine) -> ClockWatch:
    """A watch that has just read a good ClockDrift."""
    watch = ClockWatch(TIMING)
    machine.reads(watch)
    return watch


# --- ClockDrift ------------------------------------------------------------------------------------------------------


def test_a_small_bound_lets_claim_and_renew() -> None:
    verdict = judged(watching(Machine()), Machine())
    assert (verdict.may_claim, verdict.may_renew, verdict.source) == (True, True, "clock_drift")
    assert verdict.error_ms == pytest.approx(0.4)


def test_a_bound_over_half_the_allowance_stops_claims_at_once_and_renewals_after_one_lease() -> None:
    machine = Machine(error_ms=HALF_MS)
    watch = watching(machine)
    seen = []
    for _ in range(4):
        verdict = judged(watch, machine)
        seen.append((verdict.may_claim, verdict.may_renew))
        machine.advance(TIMING.lease_ms // 3)
    assert seen == [(False, True), (False, True), (False, True), (False, False)]


def test_a_bound_of_half_the_allowance_itself_stops_nothing() -> None:
    machine = Machine()
    watch = ClockWatch(TIMING)
    machine.reads(watch, machine.measured(slack_ms=HALF_MS))
    assert judged(watch, machine).may_claim


def test_renewals_are_stopped_only_by_a_whole_lease_without_a_break() -> None:
    machine = Machine()
    watch = ClockWatch(TIMING)
    for slack_ms in (600, 600, 0.4, 600, 600):
        machine.reads(watch, machine.measured(slack_ms))
        machine.advance(TIMING.lease_ms // 2)
    assert not judged(watch, machine).may_claim
    assert not judged(watch, machine).may_renew
    machine.reads(watch)
    assert judged(watch, machine).may_renew


def test_what_is_not_measured_stops_nobody() -> None:
    machine = Machine(error_ms=HOUR_MS)
    watch = ClockWatch(TIMING)
    watch.read(Unread("no such variable"), machine.now(), machine.now())
    verdict = judged(watch, machine)
    assert (verdict.may_claim, verdict.may_renew, verdict.error_ms) == (True, True, None)
    assert "no such variable" in verdict.reason


def test_an_unsynchronised_clock_with_a_small_bound_is_as_good_as_its_last_synchronised_reading() -> None:
    machine = Machine()
    watch = watching(machine)
    machine.advance(60_000)
    machine.reads(watch, machine.measured(synchronised=False))
    assert judged(watch, machine).source == "clock_drift"
    machine.advance(FRESH_MS)
    machine.reads(watch, machine.measured(synchronised=False))
    verdict = judged(watch, machine)
    assert (verdict.may_claim, verdict.source) == (True, "nothing")
    assert "NOT_SYNCHRONIZED" in verdict.reason


def test_an_unsynchronised_clock_with_a_large_bound_stops_claims() -> None:
    machine = Machine()
    watch = watching(machine)
    machine.reads(watch, machine.measured(slack_ms=501, synchronised=False))
    assert not judged(watch, machine).may_claim


def test_a_reading_counts_for_ten_minutes() -> None:
    machine = Machine()
    watch = watching(machine)
    machine.advance(FRESH_MS)
    assert judged(watch, machine).source == "clock_drift"
    machine.advance(1)
    verdict = judged(watch, machine)
    assert verdict.source == "nothing"
    assert "600 s" in verdict.reason


@pytest.mark.parametrize(("off_ms", "why"), [(3_000, "not come yet"), (-FRESH_MS - 1_000, "ago")])
def test_a_reading_that_refers_to_another_time_than_the_clocks_is_not_believed(off_ms: int, why: str) -> None:
    machine = Machine()
    watch = ClockWatch(TIMING)
    machine.reads(watch, replace(machine.measured(), reference_ms=machine.now().wall_ms + off_ms))
    verdict = judged(watch, machine)
    assert verdict.source == "nothing"
    assert why in verdict.reason


# --- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, 500, -500])
def test_a_step_is_seen_in_the_first_instant_after_it_before_anything_is_read(step_ms: int) -> None:
    machine = Machine()
    watch = watching(machine)
    machine.advance(10_000)
    assert judged(watch, machine).may_claim
    machine.step(step_ms)
    verdict = judged(watch, machine)
    assert not verdict.may_claim
    assert f"stepped by {step_ms:+d} ms" in verdict.reason


def test_a_step_within_the_allowance_stops_nothing_and_several_add_up() -> None:
    machine = Machine()
    watch = watching(machine)
    machine.step(300)
    assert judged(watch, machine).may_claim
    machine.step(300)
    assert not judged(watch, machine).may_claim


def test_a_step_back_lets_claim_again() -> None:
    machine = Machine()
    watch = watching(machine)
    machine.step(HOUR_MS)
    assert not judged(watch, machine).may_claim
    machine.step(-HOUR_MS)
    assert judged(watch, machine).may_claim


def test_a_step_longer_than_a_lease_ago_stops_renewals() -> None:
    machine = Machine()
    watch = watching(machine)
    machine.step(-HOUR_MS)
    assert judged(watch, machine).may_renew
    machine.advance(TIMING.lease_ms)
    assert not judged(watch, machine).may_renew


@pytest.mark.parametrize("step_ms", [3_000, -3_000])
def test_a_measurement_of_before_the_step_that_is_read_after_it_is_not_believed(step_ms: int) -> None:
    machine = Machine()
    watch = watching(machine)
    machine.advance(60_000)
    kept = machine.measured()
    machine.step(step_ms)
    for _ in range(3):
        machine.advance(5_000)
        machine.reads(watch, kept)
        assert not judged(watch, machine).may_claim


def test_a_step_before_the_first_reading_makes_that_one_doubtful_too() -> None:
    machine = Machine()
    watch = ClockWatch(TIMING)
    judged(watch, machine)
    kept = machine.measured()
    machine.step(10_000)
    machine.reads(watch, kept)
    assert judged(watch, machine).source == "nothing"
    machine.advance(16_000)
    machine.reads(watch)
    assert not judged(watch, machine).may_claim


def test_another_step_makes_the_next_measurement_doubtful_again() -> None:
    machine = Machine()
    watch = watching(machine)
    machine.step(-300)
    machine.reads(watch)
    machine.advance(16_000)
    kept = machine.measured()
    machine.step(-300)
    assert not judged(watch, machine).may_claim
    machine.reads(watch, kept)
    assert not judged(watch, machine).may_claim


def test_the_second_measurement_after_a_step_is_believed() -> None:
    machine = Machine(error_ms=400)
    watch = watching(machine)
    machine.step(-400)
    machine.reads(watch)
    machine.advance(16_000)
    machine.reads(watch)
    verdict = judged(watch, machine)
    assert verdict.may_claim
    assert verdict.error_ms == pytest.approx(0.4)


def test_a_reading_during_which_the_clock_stepped_is_not_believed() -> None:
    machine = Machine()
    watch = ClockWatch(TIMING)
    asked, reading = machine.now(), machine.measured()
    machine.step(HOUR_MS)
    watch.read(reading, asked, machine.now())
    assert judged(watch, machine).source == "nothing"


# --- the services' Date ----------------------------------------------------------------------------------------------


def calling(machine: Machine, times: int = 1) -> ClockWatch:
    """A watch without ClockDrift that has heard services answer, all 130 ms."""
    watch = ClockWatch(TIMING)
    for _ in range(times):
        machine.advance(90)
        machine.calls(watch)
    return watch


@pytest.mark.parametrize("error_ms", [2_600, -2_600, HOUR_MS, -HOUR_MS])
def test_one_answer_shows_a_clock_that_is_far_off(error_ms: int) -> None:
    machine = Machine(error_ms)
    verdict = judged(calling(machine), machine)
    assert (verdict.may_claim, verdict.source) == (False, "date")
    assert verdict.error_ms is not None
    assert HALF_MS < verdict.error_ms <= abs(error_ms)


@pytest.mark.parametrize("error_ms", [2_001, -2_001])
def test_some_answers_show_a_clock_that_is_off_by_more_than_two_seconds(error_ms: int) -> None:
    machine = Machine(error_ms)
    assert not judged(calling(machine, 8), machine).may_claim


@pytest.mark.parametrize("error_ms", [0, 499, -499])
def test_any_number_of_answers_accuses_no_good_clock(error_ms: int) -> None:
    machine = Machine(error_ms)
    assert judged(calling(machine, 50), machine).may_claim


def test_by_date_alone_renewals_are_stopped_after_one_lease_too() -> None:
    machine = Machine(HOUR_MS)
    watch = calling(machine)
    machine.advance(TIMING.lease_ms)
    assert not judged(watch, machine).may_renew


@pytest.mark.parametrize("step_ms", [2_001, -2_001])
def test_after_good_answers_a_step_is_seen_without_another(step_ms: int) -> None:
    machine = Machine()
    watch = calling(machine, 12)
    machine.step(step_ms)
    assert not judged(watch, machine).may_claim


def test_a_clock_that_was_slewed_right_is_let_claim_by_the_next_answers() -> None:
    machine = Machine(3_000)
    watch = calling(machine, 10)
    assert not judged(watch, machine).may_claim
    machine.advance(60_000)
    machine.slew(-3_000)
    for _ in range(10):
        machine.advance(90)
        machine.calls(watch)
    assert judged(watch, machine).may_claim


def test_while_clock_drift_can_be_read_no_date_overrules_it() -> None:
    machine = Machine()
    watch = watching(machine)
    watch.dated(machine.true_ms - HOUR_MS, machine.now(), machine.now())
    verdict = judged(watch, machine)
    assert (verdict.may_claim, verdict.source) == (True, "clock_drift")


def test_when_clock_drift_cannot_be_read_a_date_overrules_the_last_reading() -> None:
    machine = Machine()
    watch = watching(machine)
    watch.dated(machine.true_ms - HOUR_MS, machine.now(), machine.now())
    watch.read(Unread("it does not answer"), machine.now(), machine.now())
    verdict = judged(watch, machine)
    assert (verdict.may_claim, verdict.source) == (False, "date")
    assert "it does not answer" in verdict.reason


def test_no_date_clears_a_clock_that_has_stepped_since_its_last_reading() -> None:
    machine = Machine()
    watch = watching(machine)
    watch.read(Unread("it does not answer"), machine.now(), machine.now())
    machine.step(900)
    machine.calls(watch)
    assert not judged(watch, machine).may_claim


def test_an_answer_during_which_the_clock_stepped_says_nothing() -> None:
    machine = Machine()
    watch = ClockWatch(TIMING)
    sent = machine.now()
    machine.step(HOUR_MS)
    watch.dated(machine.true_ms, sent, machine.now())
    assert judged(watch, machine).source == "nothing"


def test_a_date_counts_for_ten_minutes() -> None:
    machine = Machine(HOUR_MS)
    watch = calling(machine)
    machine.advance(FRESH_MS + 1)
    assert judged(watch, machine).source == "nothing"


# --- for any course of things ----------------------------------------------------------------------------------------

DELAYS_MS = st.integers(0, 3_000)
CALLS = st.tuples(st.integers(0, 200_000), DELAYS_MS, DELAYS_MS, st.integers(0, 999))


@given(
    errors_ms=st.lists(st.integers(-HALF_MS, HALF_MS), min_size=1, max_size=5),
    calls=st.lists(CALLS, max_size=25),
)
def test_a_clock_that_stays_within_its_half_is_never_accused_by_honest_services(
    errors_ms: list[int], calls: list[tuple[int, int, int, int]]
) -> None:
    machine = Machine()
    watch = ClockWatch(TIMING)
    for number, (pause_ms, there_ms, back_ms, kept_ms) in enumerate(calls):
        machine.error_ms = errors_ms[number % len(errors_ms)]
        machine.advance(pause_ms)
        machine.calls(watch, there_ms=there_ms, back_ms=back_ms, kept_ms=kept_ms)
        assert judged(watch, machine).may_claim


EVENTS = st.lists(
    st.tuples(st.sampled_from(["step", "measure", "read", "lose"]), st.integers(-5_000, 5_000), st.booleans())
    | st.tuples(st.just("wait"), st.integers(0, 60_000), st.booleans())
    | st.tuples(st.just("call"), st.integers(0, 1_000), st.booleans()),
    max_size=40,
)


@given(EVENTS)
def test_who_may_claim_by_clock_drift_has_a_clock_within_its_half_whatever_steps_and_however_long_it_is_kept(
    events: list[tuple[str, int, bool]],
) -> None:
    machine = Machine()
    watch = ClockWatch(TIMING)
    judged(watch, machine)
    kept = machine.measured()
    for name, ms, fresh in events:
        match name:
            case "step":
                machine.step(ms)
                judged(watch, machine)  # the worker looks at its clock many times a second
            case "measure":
                machine.advance(1_000)
                kept = machine.measured(synchronised=fresh)
            case "read":
                kept = machine.measured() if fresh else kept  # it never goes back to an older one
                machine.reads(watch, kept)
                machine.advance(1_000)
            case "lose":
                watch.read(Unread("it does not answer"), machine.now(), machine.now())
            case "wait":
                machine.advance(ms)
            case "call":
                machine.calls(watch, there_ms=ms)
        verdict = judged(watch, machine)
        if verdict.source == "clock_drift" and verdict.may_claim:
            assert abs(machine.error_ms) <= HALF_MS + STEP_MS


# --- where it is asked -----------------------------------------------------------------------------------------------


def started(machine: Machine) -> Put:
    return create(
        "c",
        upstream_url="wss://example",
        spec={},
        labels={},
        desired_state=DesiredState.STARTED,
        shard="STARTED#1",
        now_ms=machine.true_ms,
        updated_by="me",
    )


def stepping(machine: Machine, store: MemoryStore, step_ms: int) -> Verdict | None:
    """Claim with a clock that steps just before the claim's own look at it; the verdict that stopped it, if any."""
    watch = watching(machine)
    machine.step(step_ms)
    perform = steady(store.perform, watch.judge)
    try:
        outcome = run(claim("c", nonce="n", claimer=Claimer("w", TIMING, LeaseMode.CONNECTION)), perform)
    except Unsteady:
        return judged(watch, machine)
    assert isinstance(outcome, Claimed)
    return None


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
def test_l17_a_worker_whose_clock_steps_by_an_hour_claims_nothing_from_that_instant_on(step_ms: int) -> None:
    machine = Machine()
    store = MemoryStore(machine.now)
    store.perform(started(machine))
    held = Claimer("another", TIMING, LeaseMode.CONNECTION)
    assert isinstance(run(claim("c", nonce="m", claimer=held), store.perform), Claimed)
    before = store.item(Table.CONNECTIONS, "c")
    assert stepping(machine, store, step_ms) is not None
    assert store.item(Table.CONNECTIONS, "c") == before


def test_a_steady_clock_claims() -> None:
    machine = Machine()
    store = MemoryStore(machine.now)
    store.perform(started(machine))
    assert stepping(machine, store, 0) is None


def test_only_the_time_is_withheld_from_who_has_no_good_clock() -> None:
    machine = Machine(HOUR_MS)
    watch = calling(machine)
    answers: dict[type[Request], object] = {Now: machine.now(), Read: None}
    perform = steady(lambda request: answers[type(request)], watch.judge)
    assert perform(Read(Table.CONNECTIONS, {"connection_id": "c"})) is None
    with pytest.raises(Unsteady, match="off by at least"):
        perform(Now())
