"""An owner reads its inbox, and deletes what it has acted on."""

from typing import Any

import pytest

from streamlease import inbox
from streamlease.errors import Unreachable
from streamlease.flow import run
from streamlease.flows import inbox as flows
from streamlease.flows.stream import react
from streamlease.inbox import Entry
from streamlease.model import LeaseMode
from streamlease.plan import Notice
from streamlease.write import Delete, Query
from tests.core.flows.stores import Fleet
from tests.fakes.trouble import Landing, Troubled


def read(fleet: Fleet, worker_id: str = "w1", perform: Any = None) -> tuple[Entry, ...]:
    return run(flows.read_inbox(worker_id), perform or fleet.perform)


def test_a_stop_of_a_connection_held_in_worker_mode_reaches_its_owners_inbox() -> None:
    fleet = Fleet()
    fleet.own("c1", "w1", LeaseMode.WORKER)
    fleet.stop("c1")
    assert run(react(fleet.item("c1")), fleet.perform) == Notice("w1", "c1", 2)
    assert read(fleet) == (Entry("c1", 2),)
    assert read(fleet, "w2") == ()


def test_the_whole_inbox_is_read_page_by_page() -> None:
    fleet = Fleet()
    for number in range(1_005):
        fleet.perform(inbox.put(Notice("w1", f"c{number:04d}", 2)))
    troubled = Troubled(fleet.perform)
    assert len(read(fleet, perform=troubled.perform)) == 1_005
    assert sum(isinstance(request, Query) for request in troubled.performed) == 2


def test_what_was_acted_on_is_forgotten_unless_something_newer_has_come() -> None:
    fleet = Fleet()
    fleet.perform(inbox.put(Notice("w1", "c1", 2)))
    fleet.perform(inbox.put(Notice("w1", "c1", 3)))
    run(flows.forget("w1", "c1", 2), fleet.perform)
    assert read(fleet) == (Entry("c1", 3),)
    run(flows.forget("w1", "c1", 3), fleet.perform)
    assert read(fleet) == ()


def test_an_entry_of_what_is_anothers_or_nobodys_is_only_deleted() -> None:
    fleet = Fleet()
    fleet.own("c1", "w2", LeaseMode.WORKER)
    fleet.add("c2")
    before = [fleet.item(name) for name in ("c1", "c2")]
    for name in ("c1", "c2", "gone"):
        fleet.perform(inbox.put(Notice("w1", name, 2)))
        assert run(flows.settle("w1", name, 2), fleet.perform) is False
    assert read(fleet) == ()
    assert [fleet.item(name) for name in ("c1", "c2")] == before


def test_m10_an_entry_of_what_is_ours_and_runs_nowhere_gives_it_up() -> None:
    fleet = Fleet()
    fleet.own("c1", "w1", LeaseMode.WORKER)
    fleet.perform(inbox.put(Notice("w1", "c1", 2)))
    assert run(flows.settle("w1", "c1", 2), fleet.perform) is True
    assert fleet.connection("c1").lease_owner is None
    assert read(fleet) == ()


@pytest.mark.parametrize("landing", list(Landing))
def test_an_entry_whose_release_has_no_answer_stays(landing: Landing) -> None:
    fleet = Fleet()
    fleet.own("c1", "w1", LeaseMode.WORKER)
    fleet.perform(inbox.put(Notice("w1", "c1", 2)))
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"), landing=landing)
    with pytest.raises(Unreachable):
        run(flows.settle("w1", "c1", 2), troubled.perform)
    assert not any(isinstance(request, Delete) for request in troubled.performed)
    assert read(fleet) == (Entry("c1", 2),)
