"""The minute's audit: what the table says is ours and what runs, settled by consistent reads."""

import pytest

from streamlease import plan
from streamlease.errors import Malformed
from streamlease.flow import run
from streamlease.flows.audit import listed, look_again, release_unknown
from streamlease.lease import Change, control
from streamlease.model import DesiredState, LeaseMode, Position
from streamlease.write import Query, Table
from tests.core.flows.stores import Fleet
from tests.fakes.trouble import Troubled


def test_all_pages_of_the_index_are_listed() -> None:
    fleet = Fleet()
    for number in range(1_005):
        fleet.own(f"c{number}", "me", checkpoints=0)
    fleet.own("theirs", "other")
    troubled = Troubled(fleet.perform)
    found = run(listed("me"), troubled.perform)
    assert {str(item["connection_id"]) for item in found} == {f"c{number}" for number in range(1_005)}
    assert [type(request) for request in troubled.performed] == [Query, Query]


@pytest.mark.parametrize("mode", LeaseMode)
def test_what_is_ours_and_runs_nowhere_is_given_up_with_its_position_kept(mode: LeaseMode) -> None:
    fleet = Fleet()
    fleet.own("c1", "me", mode)
    fleet.edit("c1", position={"sequence": 9}, last_sequence="9")
    found = plan.audit(run(listed("me"), fleet.perform), running={})
    assert found.unknown == ("c1",)
    assert run(release_unknown("me", "c1"), fleet.perform) is True
    after = fleet.connection("c1")
    assert (after.lease_owner, after.lease_expires_at_ms, after.position) == (None, 0, Position(9))


def test_what_has_meanwhile_become_somebody_elses_is_left_alone() -> None:
    fleet = Fleet(lagging=True)
    fleet.own("c1", "other")
    before = fleet.item("c1")
    assert run(release_unknown("me", "c1"), fleet.perform) is False
    assert run(release_unknown("me", "gone"), fleet.perform) is False
    assert fleet.item("c1") == before


def test_a_running_connection_is_looked_at_again_only_for_news() -> None:
    fleet = Fleet()
    fleet.own("c1", "me", LeaseMode.WORKER)
    assert run(look_again("me", "c1", 1), fleet.perform) is None
    assert run(look_again("me", "gone", 1), fleet.perform) is None
    assert run(look_again("other", "c1", 0), fleet.perform) is None
    fleet.perform(control(fleet.connection("c1"), Change(spec={"b": 1}), shard="STARTED", now_ms=1, updated_by="x"))
    assert run(look_again("me", "c1", 1), fleet.perform) == fleet.connection("c1")


def test_a_stop_is_news_even_where_its_version_is_known() -> None:
    """A claim that was read back takes the version of then; the audit is what is left to tell it."""
    fleet = Fleet()
    fleet.own("c1", "me", LeaseMode.WORKER)
    fleet.stop("c1")
    version = fleet.connection("c1").spec_version
    found = plan.audit(run(listed("me"), fleet.perform), running={"c1": version})
    assert found.outdated == ("c1",)
    seen = run(look_again("me", "c1", version), fleet.perform)
    assert seen is not None
    assert seen.desired_state is DesiredState.STOPPED


def test_an_item_that_cannot_be_read_is_reported_and_kept() -> None:
    fleet = Fleet()
    fleet.own("c1", "me")
    fleet.edit("c1", crashes="none")
    before = fleet.store.item(Table.CONNECTIONS, "c1")
    for flow in (release_unknown("me", "c1"), look_again("me", "c1", 1)):
        with pytest.raises(Malformed, match="'c1': crashes"):
            run(flow, fleet.perform)
    assert fleet.item("c1") == before
