"""Taking a lease when answers are lost, land late or meet a stopped, crashed or unreadable connection."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import lease
from streamlease.errors import Conflict, Denied, Fault, Malformed, Throttled, Unreachable
from streamlease.flow import Request, run
from streamlease.flows.audit import release_unknown
from streamlease.flows.claim import Claimer, claim
from streamlease.lease import Claimed, Held, Stopped
from streamlease.model import DesiredState, LeaseMode, StatusState
from streamlease.write import Update
from tests.core.flows.stores import TIMING, Fleet
from tests.fakes.trouble import Landing, Troubled, is_write

MODES = pytest.mark.parametrize("mode", LeaseMode)


def me(mode: LeaseMode = LeaseMode.CONNECTION, worker_id: str = "me") -> Claimer:
    return Claimer(worker_id, TIMING, mode)


def take(fleet: Fleet, perform: Any = None, claimer: Claimer | None = None, nonce: str = "n1") -> object:
    return run(claim("c1", nonce=nonce, claimer=claimer or me()), perform or fleet.perform)


@MODES
def test_what_is_free_is_taken(mode: LeaseMode) -> None:
    fleet = Fleet()
    fleet.add("c1")
    outcome = take(fleet, claimer=me(mode))
    assert isinstance(outcome, Claimed)
    assert outcome.connection == fleet.connection("c1")
    assert outcome.deadline_s == TIMING.deadline_s(fleet.clock())
    assert take(fleet, claimer=me(mode, "other"), nonce="n2") == Held("me", _until(fleet, mode))


def _until(fleet: Fleet, mode: LeaseMode) -> int | None:
    return fleet.clock.wall_ms + TIMING.lease_ms + TIMING.skew_ms if mode is LeaseMode.CONNECTION else None


def test_what_nobody_wants_is_not_taken() -> None:
    fleet = Fleet()
    assert take(fleet) == Stopped(None)
    fleet.add("c1", DesiredState.STOPPED)
    assert isinstance(take(fleet), Stopped)
    assert fleet.connection("c1").lease_owner is None


@pytest.mark.parametrize(
    "changes", [{"lease_epoch": "7"}, {"lease_epoch": None}, {"spec": "{}", "not_before_ms": 10**15}]
)
def test_what_cannot_be_read_is_reported_with_its_id_and_not_touched(changes: dict[str, Any]) -> None:
    fleet = Fleet()
    fleet.add("c1")
    fleet.edit("c1", **changes)
    before = fleet.item("c1")
    with pytest.raises(Malformed, match="connection 'c1'"):
        take(fleet)
    assert fleet.item("c1") == before


@MODES
def test_l9_a_claim_whose_answer_was_lost_is_kept(mode: LeaseMode) -> None:
    fleet = Fleet()
    fleet.add("c1")
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"), landing=Landing.BEFORE)
    outcome = take(fleet, troubled.perform, me(mode))
    assert isinstance(outcome, Claimed)
    assert outcome.connection == fleet.connection("c1")


def test_a_claim_that_never_arrived_is_the_fault_itself() -> None:
    fleet = Fleet()
    fleet.add("c1")
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"))
    with pytest.raises(Unreachable):
        take(fleet, troubled.perform)
    assert fleet.connection("c1").lease_owner is None


def test_m10_a_claim_that_lands_after_it_was_given_up_is_released_by_the_audit() -> None:
    fleet = Fleet()
    fleet.add("c1")
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"), landing=Landing.LATER)
    with pytest.raises(Unreachable):
        take(fleet, troubled.perform)
    troubled.land()
    assert fleet.connection("c1").lease_owner == "me"
    assert run(release_unknown("me", "c1"), fleet.perform) is True
    assert fleet.connection("c1").lease_owner is None
    assert isinstance(take(fleet, claimer=me(worker_id="other"), nonce="n2"), Claimed)


@MODES
def test_a_connection_that_was_stopped_before_its_claim_was_read_back_is_given_back(mode: LeaseMode) -> None:
    """Its version counts as seen: no renewal would ever be refused for it, and the socket would stay open."""
    fleet = Fleet()
    fleet.add("c1")

    def perform(request: Request) -> object:
        answer = fleet.perform(request)
        if isinstance(request, Update) and request.add:
            fleet.stop("c1")
            raise Unreachable("no answer")
        return answer

    outcome = take(fleet, perform, me(mode))
    assert isinstance(outcome, Stopped)
    found = fleet.connection("c1")
    assert (found.lease_owner, found.desired_state) == (None, DesiredState.STOPPED)


# --- crashes ----------------------------------------------------------------------------------------------------------


def crash(fleet: Fleet, worker_id: str) -> object:
    """Claimed by somebody who dies before the first checkpoint; the lease has run out."""
    outcome = take(fleet, claimer=me(worker_id=worker_id), nonce=worker_id)
    fleet.clock.advance(TIMING.lease_ms + TIMING.skew_ms + 1)
    return outcome


def test_m17_the_first_crash_costs_no_wait_and_the_second_does() -> None:
    fleet = Fleet()
    fleet.add("c1")
    assert isinstance(crash(fleet, "w1"), Claimed)
    second = crash(fleet, "w2")
    assert isinstance(second, Claimed)
    assert second.connection.crashes == 1
    until_ms = fleet.clock.wall_ms + lease.FIRST_POSTPONEMENT_MS
    assert take(fleet, claimer=me(worker_id="w3"), nonce="n3") == Held(None, until_ms)
    found = fleet.connection("c1")
    assert (found.lease_owner, found.crashes, found.not_before_ms) == (None, 2, until_ms)
    assert found.status is not None
    assert (found.status.state, found.status.reason) == (
        StatusState.RELEASED,
        "its worker died without a checkpoint, 2 in a row",
    )
    assert take(fleet, claimer=me(worker_id="w4"), nonce="n4") == Held(None, until_ms)
    fleet.clock.advance(lease.FIRST_POSTPONEMENT_MS + 1)
    assert isinstance(take(fleet, claimer=me(worker_id="w5"), nonce="n5"), Claimed)


def test_of_two_who_take_after_a_crash_one_wins() -> None:
    fleet = Fleet()
    fleet.add("c1")
    crash(fleet, "w1")
    rival = claim("c1", nonce="rival", claimer=me(worker_id="rival"))
    request: Request = next(rival)
    for _ in range(3):  # until it is about to claim what it was told is unproven
        request = rival.send(fleet.perform(request))
    assert isinstance(take(fleet), Claimed)
    with pytest.raises(StopIteration) as stop:
        rival.send(fleet.perform(request))
    assert stop.value.value == Held("me", fleet.clock.wall_ms + TIMING.lease_ms + TIMING.skew_ms)


def test_a_rival_that_crashed_as_well_in_between_is_left_to_the_next_attempt() -> None:
    fleet = Fleet()
    fleet.add("c1")
    crash(fleet, "w1")
    slow = claim("c1", nonce="slow", claimer=me(worker_id="slow"))
    request: Request = next(slow)
    for _ in range(2):
        request = slow.send(fleet.perform(request))
    crash(fleet, "w2")
    request = slow.send(fleet.perform(request))
    with pytest.raises(StopIteration) as stop:
        slow.send(fleet.perform(request))
    assert stop.value.value == Held("w1", None)


# --- any fault, anywhere ----------------------------------------------------------------------------------------------


@given(
    mode=st.sampled_from(LeaseMode),
    crashed=st.booleans(),
    position=st.integers(0, 6),
    fault=st.sampled_from([Unreachable("x"), Throttled("x"), Conflict("x"), Denied("x")]),
    landing=st.sampled_from(Landing),
)
def test_a_fault_at_any_request_leaves_a_lease_that_is_known_free_or_found_by_the_audit(
    mode: LeaseMode, crashed: bool, position: int, fault: Fault, landing: Landing
) -> None:
    fleet = Fleet()
    fleet.add("c1")
    if crashed:
        crash(fleet, "w1")
    before = fleet.connection("c1")
    troubled = Troubled(fleet.perform)
    troubled.trouble(
        fault,
        when=lambda request: len(troubled.performed) == position + 1,
        landing=landing if isinstance(fault, Unreachable) else Landing.NEVER,
    )
    try:
        outcome = take(fleet, troubled.perform, me(mode))
    except Fault as raised:
        assert raised is fault  # noqa: PT017 - only some positions raise
        outcome = None
    troubled.land()
    found = fleet.connection("c1")
    assert found.lease_epoch - before.lease_epoch in (0, 1)
    if outcome is not None:
        assert isinstance(outcome, Claimed)
        assert (found.lease_owner, found.lease_epoch) == ("me", outcome.lease.epoch)
    elif found.lease_owner == "me":
        assert run(release_unknown("me", "c1"), fleet.perform) is True
        assert fleet.connection("c1").lease_owner is None


def test_the_fault_above_befalls_writes_and_reads_alike() -> None:
    fleet = Fleet()
    fleet.add("c1")
    crash(fleet, "w1")
    troubled = Troubled(fleet.perform)
    take(fleet, troubled.perform)
    kinds = [is_write(request) for request in troubled.performed]
    assert kinds == [False, True, False, True], "read the clock, claim, read the clock, claim after the crash"
