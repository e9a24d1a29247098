"""What people ask for, when others ask too and answers are lost."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import plan
from streamlease.errors import Denied, Malformed, Throttled, Unreachable
from streamlease.flow import Flow, Request, run
from streamlease.flows import control
from streamlease.flows.control import RACES, Operator, satisfied
from streamlease.flows.sweep import stored_fleet
from streamlease.lease import Absentee, Busy, Change, Changed, Done, Exists
from streamlease.model import Connection, DesiredState, FleetSummary, LeaseMode
from streamlease.write import Page, Put, Read, Scan, Table, Update
from tests.core.flows.stores import SHARDS, TIMING, Fleet
from tests.core.strategies import CONNECTIONS, NAMES, SPECS
from tests.fakes.trouble import Landing, Troubled

ME = Operator("me", SHARDS, TIMING)


def create(url: str = "wss://up", operator: Operator = ME, **changes: Any) -> Flow[Done | Exists]:
    wanted = {"spec": {"a": 1}, "labels": {"t": "x"}, "desired_state": DesiredState.STARTED, **changes}
    return control.create("c1", upstream_url=url, operator=operator, **wanted)


def test_a_connection_is_made_once() -> None:
    fleet = Fleet()
    assert run(create(), fleet.perform) == Done()
    found = fleet.connection("c1")
    assert (found.upstream_url, found.spec, found.labels, found.updated_by) == ("wss://up", {"a": 1}, {"t": "x"}, "me")
    assert (fleet.item("c1") or {})["desired_state_shard"] == plan.shard("c1", SHARDS)
    fleet.clock.advance(1)
    assert run(create("wss://other"), fleet.perform) == Exists()
    assert fleet.connection("c1") == found


@pytest.mark.parametrize("landing", [Landing.BEFORE, Landing.NEVER])
def test_a_create_whose_answer_was_lost_is_told_by_the_item(landing: Landing) -> None:
    fleet = Fleet()
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"), landing=landing)
    if landing is Landing.BEFORE:
        assert run(create(), troubled.perform) == Done()
    else:
        with pytest.raises(Unreachable):
            run(create(), troubled.perform)
        assert fleet.item("c1") is None


@pytest.mark.parametrize(
    "other",
    [
        create("wss://theirs"),
        create(spec={"a": 2}),
        create(labels={}),
        create(desired_state=DesiredState.STOPPED),
        create(operator=Operator("you", SHARDS, TIMING)),
    ],
)
def test_l7_a_create_that_lost_to_another_of_the_same_millisecond_is_not_told_it_won(
    other: Flow[Done | Exists],
) -> None:
    fleet = Fleet()
    run(other, fleet.perform)
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"))
    assert run(create(), troubled.perform) == Exists()


def test_a_connection_that_was_claimed_before_the_creates_answer_was_read_back_is_still_ours() -> None:
    fleet = Fleet()

    def perform(request: Request) -> object:
        answer = fleet.perform(request)
        if isinstance(request, Put):
            fleet.own("c1", "w1")
            raise Unreachable("no answer")
        return answer

    assert run(create(), perform) == Done()


# --- change -----------------------------------------------------------------------------------------------------------

CHANGES = st.builds(
    Change,
    desired_state=st.none() | st.sampled_from(DesiredState),
    upstream_url=st.none() | NAMES,
    spec=st.none() | SPECS,
    labels=st.none() | st.dictionaries(NAMES, NAMES, max_size=2),
    forget_position=st.booleans(),
)


@given(CHANGES, CHANGES)
def test_what_was_asked_for_is_there_and_asking_again_writes_nothing(first: Change, second: Change) -> None:
    fleet = Fleet()
    fleet.add("c1")
    for wanted in (first, second):
        outcome = run(control.change("c1", wanted, operator=ME), fleet.perform)
        assert isinstance(outcome, Done)
        assert satisfied(fleet.connection("c1"), wanted)
        before = fleet.item("c1")
        again = run(control.change("c1", wanted, operator=ME), fleet.perform)
        assert again == Done(fleet.connection("c1"))
        assert fleet.item("c1") == before


@given(CONNECTIONS)
def test_a_connection_satisfies_what_it_is(seen: Connection) -> None:
    wanted = Change(seen.desired_state, seen.upstream_url, seen.spec, seen.labels)
    assert satisfied(seen, wanted)
    assert satisfied(seen, Change())
    assert not satisfied(seen, Change(spec={**seen.spec, "one more": 1}))
    assert not satisfied(seen, Change(labels={**seen.labels, "one more": ""}))
    assert not satisfied(seen, Change(upstream_url=seen.upstream_url + "/"))
    other = DesiredState.STOPPED if seen.desired_state is DesiredState.STARTED else DesiredState.STARTED
    assert not satisfied(seen, Change(other))
    in_a_page = seen.lease_owner is not None and seen.lease_expires_at_ms is None
    if not in_a_page:
        assert satisfied(seen, Change(forget_position=True)) is (seen.position is None)


def test_in_worker_mode_a_position_is_forgotten_that_only_a_page_holds() -> None:
    fleet = Fleet()
    fleet.own("c1", "w1", LeaseMode.WORKER)
    forget = Change(forget_position=True)
    assert fleet.connection("c1").position is None
    run(control.change("c1", forget, operator=ME), fleet.perform)
    told = fleet.connection("c1")
    assert (told.spec_version, told.positions_since_version) == (2, 2)
    run(control.change("c1", forget, operator=ME), fleet.perform)
    assert fleet.connection("c1") == told, "once is enough"


def test_a_change_of_what_is_not_there_is_told() -> None:
    assert run(control.change("c1", Change(), operator=ME), Fleet().perform) == Absentee()


def rivals(fleet: Fleet, times: int) -> Any:
    """A store where somebody else changes the connection just before each of our first `times` writes."""
    left = [times]

    def perform(request: Request) -> object:
        if isinstance(request, Update) and left[0]:
            left[0] -= 1
            fleet.clock.advance(1)
            run(control.change("c1", Change(spec={"at": fleet.clock.wall_ms}), operator=ME), fleet.perform)
        return fleet.perform(request)

    return perform


def test_a_lost_race_is_run_again_a_few_times() -> None:
    fleet = Fleet()
    fleet.add("c1")
    wanted = Change(DesiredState.STOPPED)
    outcome = run(control.change("c1", wanted, operator=ME), rivals(fleet, RACES - 1))
    assert isinstance(outcome, Done)
    assert fleet.connection("c1").spec == {"at": fleet.clock.wall_ms}, "and the others' changes are kept"
    assert fleet.connection("c1").desired_state is DesiredState.STOPPED


def test_a_race_that_is_always_lost_says_so() -> None:
    fleet = Fleet()
    fleet.add("c1")
    outcome = run(control.change("c1", Change(DesiredState.STOPPED), operator=ME), rivals(fleet, RACES))
    assert outcome == Changed(fleet.connection("c1"))
    assert fleet.connection("c1").desired_state is DesiredState.STARTED


@pytest.mark.parametrize("landing", Landing)
def test_a_change_whose_answer_was_lost_is_made_once(landing: Landing) -> None:
    fleet = Fleet()
    fleet.add("c1")
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"), landing=landing)
    outcome = run(control.change("c1", Change(spec={"b": 1}), operator=ME), troubled.perform)
    assert isinstance(outcome, Done)
    troubled.land()
    assert (fleet.connection("c1").spec, fleet.connection("c1").spec_version) == ({"b": 1}, 2)


def test_a_store_that_answers_no_write_is_not_called_a_race() -> None:
    fleet = Fleet()
    fleet.add("c1")
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"), times=RACES)
    with pytest.raises(Unreachable):
        run(control.change("c1", Change(spec={"b": 1}), operator=ME), troubled.perform)


def test_any_other_fault_is_not_tried_again_here() -> None:
    fleet = Fleet()
    fleet.add("c1")
    troubled = Troubled(fleet.perform)
    troubled.trouble(Throttled("too much"))
    with pytest.raises(Throttled):
        run(control.change("c1", Change(spec={"b": 1}), operator=ME), troubled.perform)


# --- find, delete, prepare -------------------------------------------------------------------------------------------


def test_what_is_looked_for_is_found_or_not() -> None:
    fleet = Fleet()
    assert run(control.find("c1"), fleet.perform) is None
    fleet.add("c1")
    assert run(control.find("c1"), fleet.perform) == fleet.connection("c1")
    fleet.edit("c1", spec_version="1")
    with pytest.raises(Malformed, match="'c1': spec_version"):
        run(control.find("c1"), fleet.perform)


def test_what_is_stopped_and_nobodys_is_deleted() -> None:
    fleet = Fleet()
    assert run(control.delete("c1", operator=ME), fleet.perform) == Absentee()
    fleet.own("c1", "w1")
    assert run(control.delete("c1", operator=ME), fleet.perform) == Busy("started")
    fleet.stop("c1")
    until_ms = fleet.clock.wall_ms + TIMING.lease_ms
    assert run(control.delete("c1", operator=ME), fleet.perform) == Busy("owned", until_ms)
    fleet.clock.advance(TIMING.lease_ms + TIMING.skew_ms + 1)
    assert run(control.delete("c1", operator=ME), fleet.perform) == Done()
    assert fleet.item("c1") is None


def test_a_recreated_connection_never_repeats_an_epoch() -> None:
    """M7: where the clocks of those who create differ by less than what lies between, as the skew allowance asks."""
    fleet, highest = Fleet(), 0
    for _ in range(5):
        fleet.own("c1", "w1")
        assert fleet.connection("c1").lease_epoch > highest
        highest = fleet.connection("c1").lease_epoch
        fleet.stop("c1")
        fleet.clock.advance(TIMING.lease_ms + TIMING.skew_ms + 1)
        assert run(control.delete("c1", operator=ME), fleet.perform) == Done()
        fleet.clock.wall_ms -= TIMING.skew_ms


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_the_number_of_shards_is_recorded_before_it_is_used_and_only_grows(numbers: list[int]) -> None:
    fleet = Fleet()
    for number in numbers:
        run(control.prepare(Operator("me", number, TIMING)), fleet.perform)
    assert run(stored_fleet(), fleet.perform) == FleetSummary(0, 0, 0, 0, max(numbers))


@given(st.integers(-90_000, 90_000))
def test_nobody_changes_anything_by_a_clock_that_is_wrong(error_ms: int) -> None:
    """M7: an epoch made by a clock a day ahead is one that the connection made anew never comes up to."""
    fleet = Fleet()
    service_ms = fleet.clock.wall_ms
    fleet.clock.advance(error_ms)

    def perform(request: Request) -> object:
        answer = fleet.perform(request)
        return replace(answer, date_ms=service_ms // 1_000 * 1_000) if isinstance(answer, Page) else answer

    if abs(error_ms) <= TIMING.skew_ms:
        run(control.prepare(ME), perform)
        return
    if -TIMING.skew_ms <= error_ms <= TIMING.skew_ms + control.DATE_RESOLUTION_MS:
        return  # a second cut off hides that much
    wrong = "ahead of" if error_ms > 0 else "behind"
    with pytest.raises(Denied, match=rf"clock is \d+ s {wrong} the tables' service: set it"):
        run(control.prepare(ME), perform)
    assert fleet.store.items(Table.MEMBERS) == ()


def test_a_slow_answer_does_not_make_a_clock_wrong() -> None:
    fleet = Fleet()

    def perform(request: Request) -> object:
        answer = fleet.perform(request)
        fleet.clock.advance(9_000 if isinstance(request, Scan) else 0)
        return answer

    run(control.prepare(ME), perform)
    assert run(stored_fleet(), fleet.perform) is not None


def test_a_service_that_tells_no_time_is_taken_as_it_is() -> None:
    fleet = Fleet()

    def perform(request: Request) -> object:
        answer = fleet.perform(request)
        return replace(answer, date_ms=None) if isinstance(answer, Page) else answer

    run(control.prepare(ME), perform)
    assert run(stored_fleet(), fleet.perform) is not None


def test_a_read_is_enough_to_know_that_nothing_is_to_be_done() -> None:
    fleet = Fleet()
    fleet.add("c1")
    troubled = Troubled(fleet.perform)
    run(control.change("c1", Change(DesiredState.STARTED), operator=ME), troubled.perform)
    assert [type(request) for request in troubled.performed] == [Read]
