"""One change of a connection, handed on or not."""

from typing import Any

import pytest

from streamlease.errors import Malformed, Throttled, Unreachable
from streamlease.flow import SendOffers, run
from streamlease.flows.stream import react
from streamlease.model import LeaseMode, Offer
from streamlease.plan import Notice
from streamlease.write import Table
from tests.core.flows.stores import Fleet
from tests.fakes.trouble import Landing, Troubled, is_write


def test_a_free_connection_is_offered_and_nothing_is_written() -> None:
    fleet = Fleet()
    fleet.add("c1")
    offer = Offer("c1", "control", fleet.clock.wall_ms)
    assert run(react(fleet.item("c1")), fleet.perform) == offer
    assert fleet.store.offers == [offer]
    assert fleet.store.items(Table.WORKER_ITEMS) == ()


def test_what_asks_for_nothing_makes_no_request_but_for_the_time() -> None:
    fleet = Fleet()
    fleet.own("c1", "w1")
    troubled = Troubled(fleet.perform)
    assert run(react(fleet.item("c1")), troubled.perform) is None
    assert run(react(None), troubled.perform) is None
    assert len(troubled.performed) == 2


def test_an_owner_in_worker_mode_finds_a_notice_in_its_inbox() -> None:
    fleet = Fleet()
    fleet.own("c1", "w1", LeaseMode.WORKER)
    fleet.stop("c1")
    assert run(react(fleet.item("c1")), fleet.perform) == Notice("w1", "c1", 2)
    entry = fleet.store.item(Table.WORKER_ITEMS, "w1", "inbox#c1")
    assert entry == {"schema": 1, "worker_id": "w1", "item": "inbox#c1", "spec_version": 2}


@pytest.mark.parametrize(("versions", "kept"), [((2, 2), 2), ((2, 5), 5), ((5, 2), 5)])
def test_m13_a_notice_is_never_replaced_by_an_older_one(versions: tuple[int, int], kept: int) -> None:
    fleet = Fleet()
    fleet.own("c1", "w1", LeaseMode.WORKER)
    fleet.stop("c1")
    for version in versions:
        run(react({**(fleet.item("c1") or {}), "spec_version": version}), fleet.perform)
    entry = fleet.store.item(Table.WORKER_ITEMS, "w1", "inbox#c1")
    assert entry is not None
    assert entry["spec_version"] == kept


def test_a_queue_that_does_not_take_the_offer_is_a_fault() -> None:
    fleet = Fleet()
    fleet.add("c1")
    fleet.store.full = True
    with pytest.raises(Unreachable, match="did not take the offer of connection 'c1'"):
        run(react(fleet.item("c1")), fleet.perform)


@pytest.mark.parametrize("when", [is_write, lambda request: isinstance(request, SendOffers)])
def test_a_fault_is_raised_and_handing_on_again_is_harmless(when: Any) -> None:
    fleet = Fleet()
    fleet.own("c1", "w1", LeaseMode.WORKER)
    fleet.stop("c1")
    fleet.add("c2")
    troubled = Troubled(fleet.perform)
    troubled.trouble(Throttled("too much"), when=when, landing=Landing.BEFORE)
    struck = "c1" if when is is_write else "c2"
    with pytest.raises(Throttled):
        run(react(fleet.item(struck)), troubled.perform)
    for connection_id in ("c1", "c2"):
        run(react(fleet.item(connection_id)), troubled.perform)
    assert set(fleet.offered()) == {"c2"}
    assert len(fleet.store.items(Table.WORKER_ITEMS)) == 1


def test_a_poisoned_image_is_refused_before_anything_is_sent() -> None:
    fleet = Fleet()
    with pytest.raises(Malformed):
        run(react({"connection_id": "c1"}), fleet.perform)
    assert fleet.store.offers == []
