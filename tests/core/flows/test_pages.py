"""A dead worker's positions outlive it: sealed, then carried by the orphaning, whoever dies at whatever step."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import inbox, lease, membership, pages
from streamlease.errors import Throttled, Unreachable
from streamlease.flow import Batch, Request, run
from streamlease.flows import pages as flows
from streamlease.flows.bury import Burials, bury_expired, orphan_all
from streamlease.flows.pages import PageWrite
from streamlease.flows.sweep import members
from streamlease.lease import Checkpoint
from streamlease.model import Lease, LeaseMode, Position, Saved
from streamlease.pages import Unwritable, Written
from streamlease.plan import Notice
from streamlease.write import Applied, Item, Refused, Table, Update
from tests.core.flows.stores import LATE_MS, TIMING, Fleet, steps
from tests.fakes.trouble import Landing, Troubled

WORKER = LeaseMode.WORKER


def saved(held: Lease, checkpoint_no: int, sequence: int, *, spec_version: int = 1) -> Saved:
    return Saved(held.connection_id, held.epoch, checkpoint_no, spec_version, Position(sequence))


def save(fleet: Fleet, worker_id: str, number: int, version: int, *entries: Saved) -> None:
    write = PageWrite(number, version, entries, fresh=True)
    answers = run(flows.save(worker_id, (write,)), fleet.perform)
    assert [pages.written(answer) for answer in answers if not isinstance(answer, Exception)] == [Written()]


def bury(fleet: Fleet, perform: Any = None) -> Burials:
    everybody = run(members(), fleet.perform).members
    return run(bury_expired(everybody, timing=TIMING), perform or fleet.perform)


def positions(fleet: Fleet) -> Mapping[str, tuple[int, object]]:
    found = {}
    for item in fleet.store.items(Table.CONNECTIONS):
        seen = fleet.connection(str(item["connection_id"]))
        found[seen.connection_id] = (seen.checkpoint_no, seen.position.sequence if seen.position else None)
    return found


def dead_with_pages(count: int = 3) -> Fleet:
    """c0 has a newer position in a page; c1 was saved in a page only; c2 is newest in its item; then as c0 again."""
    fleet = Fleet()
    fleet.join("dead")
    held = [fleet.own(f"c{n}", "dead", WORKER, checkpoints=0 if n == 1 else 1) for n in range(count)]
    save(fleet, "dead", 0, 1, saved(held[0], 2, 100), saved(held[1], 1, 101))
    if count > 2:
        save(fleet, "dead", 1, 1, saved(held[2], 2, 102), *(saved(each, 2, 200) for each in held[3:]))
        fleet.perform(lease.checkpoint(held[2], Checkpoint(3, Position(302))))
    fleet.clock.advance(LATE_MS)
    return fleet


CARRIED = {"c0": (2, 100), "c1": (1, 101), "c2": (3, 302)}

# --- carried ---------------------------------------------------------------------------------------------------------


def test_the_orphaning_carries_the_newer_position_and_counts_no_crash_for_it() -> None:
    fleet = dead_with_pages()
    assert bury(fleet) == Burials(buried=1, orphaned=3, untaken_offers=0, malformed=())
    assert positions(fleet) == CARRIED
    assert [fleet.connection(name).crashes for name in CARRIED] == [0, 0, 0]
    assert fleet.item("c0") == {**(fleet.item("c0") or {}), "last_sequence": "100", "lease_expires_at_ms": 0}


def test_a_page_of_an_earlier_epoch_is_not_carried() -> None:
    fleet = Fleet()
    fleet.join("dead")
    first = fleet.own("c0", "dead", WORKER)
    save(fleet, "dead", 0, 1, saved(first, 9, 100))
    fleet.perform(lease.release(first, checkpoint=Checkpoint(10, Position(110)), now_ms=fleet.clock.wall_ms))
    fleet.own("c0", "dead", WORKER, checkpoints=0)
    fleet.clock.advance(LATE_MS)
    assert bury(fleet).orphaned == 1
    assert positions(fleet) == {"c0": (0, 110)}
    assert fleet.connection("c0").crashes == 1, "the epoch that died had written none, in item or page"


def test_no_read_comes_before_the_first_write_and_a_hundred_go_together() -> None:
    fleet = dead_with_pages(120)
    fleet.own("c120", "dead", WORKER, checkpoints=0)
    troubled = Troubled(fleet.perform)
    swept = run(orphan_all("dead"), troubled.perform)
    assert len(swept.offers) == 121
    kinds = [type(request).__name__ for request in troubled.performed]
    assert "Read" not in kinds
    batches = [len(r.writes) for r in troubled.performed if isinstance(r, Batch)]
    assert batches == [2, 100, 2, 21], "two seals; then c2 and c120, by what their refusals showed"


def test_a_position_that_was_forgotten_since_is_not_brought_back() -> None:
    fleet = Fleet()
    fleet.join("dead")
    for name in ("told", "untold"):
        held = fleet.own(name, "dead", WORKER)
        seen, forget = fleet.connection(name), lease.Change(forget_position=True)
        fleet.perform(lease.control(seen, forget, shard="STARTED#1", now_ms=1, updated_by="me"))
        save(fleet, "dead", 0 if name == "told" else 1, 1, saved(held, 5, 100, spec_version=2 if name == "told" else 1))
    fleet.clock.advance(LATE_MS)
    assert bury(fleet).orphaned == 2
    assert positions(fleet) == {"told": (5, 100), "untold": (5, None)}
    assert fleet.connection("untold").crashes == 0, "it had lived to tell of it all the same"


def test_a_change_that_forgets_nothing_keeps_the_pages_position() -> None:
    fleet = Fleet()
    fleet.join("dead")
    held = fleet.own("c0", "dead", WORKER)
    save(fleet, "dead", 0, 1, saved(held, 5, 100))
    fleet.stop("c0")
    fleet.clock.advance(LATE_MS)
    assert bury(fleet).orphaned == 1
    assert positions(fleet) == {"c0": (5, 100)}


def test_a_page_that_cannot_be_read_is_told_and_hides_no_other() -> None:
    fleet = dead_with_pages()
    item = fleet.store.item(Table.WORKER_ITEMS, "dead", "page#0")
    assert item is not None
    key = {"worker_id": "dead", "item": "page#0"}
    fleet.perform(Update(Table.WORKER_ITEMS, key, pages.seal(item).condition, set={"packed": b"by hand"}))
    done = bury(fleet)
    assert done.orphaned == 3
    assert [problem.where for problem in done.malformed] == ["page#0 of worker 'dead'"]
    assert positions(fleet)["c2"] == (3, 302)


# --- sealed ----------------------------------------------------------------------------------------------------------


def test_every_page_is_sealed_before_anything_is_orphaned() -> None:
    fleet = dead_with_pages()
    for name in ("page#0", "page#1"):
        assert "sealed" not in (fleet.store.item(Table.WORKER_ITEMS, "dead", name) or {})

    def perform(request: Request) -> object:
        writes = request.writes if isinstance(request, Batch) else ()
        if any(each.table is Table.CONNECTIONS for each in writes):
            assert all("sealed" in item for item in fleet.store.items(Table.WORKER_ITEMS))
        return fleet.perform(request)

    assert bury(fleet, perform).orphaned == 3


def test_a_zombies_late_write_changes_nothing() -> None:
    fleet = dead_with_pages()
    bury(fleet)
    before = fleet.store.items(Table.WORKER_ITEMS)
    late = PageWrite(0, 99, (Saved("c0", 1, 999, 1, Position(-1)),), fresh=True)
    [answer] = run(flows.save("dead", (late,)), fleet.perform)
    assert isinstance(answer, Refused)
    assert pages.written(answer) == Unwritable("sealed")
    assert fleet.store.items(Table.WORKER_ITEMS) == before


def test_a_page_write_that_lands_just_before_the_seal_is_carried() -> None:
    fleet = dead_with_pages()
    held = Lease("c0", "dead", fleet.connection("c0").lease_epoch, 1, None)
    landed = False

    def perform(request: Request) -> object:
        nonlocal landed
        if isinstance(request, Batch) and not landed:
            landed = True
            save(fleet, "dead", 0, 7, saved(held, 8, 108))
        return fleet.perform(request)

    bury(fleet, perform)
    assert positions(fleet)["c0"] == (8, 108)


def test_a_page_that_appears_after_the_seal_is_sealed_by_the_next_sweep_and_still_of_use() -> None:
    """Index lag of minutes: the connection shows up late, and so did the page that its owner wrote last."""
    fleet = Fleet(lagging=True)
    fleet.join("dead")
    held = fleet.own("c0", "dead", WORKER)
    fleet.clock.advance(LATE_MS)
    assert bury(fleet).orphaned == 0, "the index shows nothing yet"
    save(fleet, "dead", 0, 1, saved(held, 4, 104))
    fleet.clock.advance(3 * 60_000)
    fleet.store.catch_up()
    assert bury(fleet).orphaned == 1
    assert positions(fleet) == {"c0": (4, 104)}
    assert "sealed" in (fleet.store.item(Table.WORKER_ITEMS, "dead", "page#0") or {})


# --- whoever dies, at whatever step ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(16))
def test_a_reaper_may_die_between_any_two_steps(count: int) -> None:
    fleet = dead_with_pages(5)
    everybody = run(members(), fleet.perform).members
    steps(bury_expired(everybody, timing=TIMING), fleet, count)
    fleet.clock.advance(1_000)
    bury(fleet)
    assert positions(fleet) == {**CARRIED, "c3": (2, 200), "c4": (2, 200)}
    for number in range(5):
        seen = fleet.connection(f"c{number}")
        assert (seen.lease_owner, seen.lease_expires_at_ms, seen.crashes) == (None, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 14), st.sampled_from(Landing)), max_size=5), st.booleans())
def test_several_reapers_with_lost_and_late_writes_end_in_the_same(
    lives: list[tuple[int, Landing]], late: bool
) -> None:
    """Each goes on until one of its writes has no answer, and dies of it. What is on its way lands later, or last."""
    fleet = dead_with_pages(5)
    everybody = run(members(), fleet.perform).members
    reapers = [Troubled(fleet.perform) for _ in lives]
    for (count, landing), reaper in zip(lives, reapers, strict=True):
        reaper.trouble(Unreachable("no answer"), when=_the(count, reaper), landing=landing)
        with contextlib.suppress(Unreachable):
            run(bury_expired(everybody, timing=TIMING), reaper.perform)
        if not late:
            reaper.land()
    bury(fleet)
    for reaper in reapers:
        reaper.land()
    assert positions(fleet) == {**CARRIED, "c3": (2, 200), "c4": (2, 200)}
    assert all(fleet.connection(f"c{number}").lease_owner is None for number in range(5))


def _the(number: int, troubled: Troubled) -> Callable[[Request], bool]:
    return lambda _: len(troubled.performed) == number + 1


# --- forgotten -------------------------------------------------------------------------------------------------------


def items_of(fleet: Fleet, worker_id: str) -> list[Item]:
    return [item for item in fleet.store.items(Table.WORKER_ITEMS) if item["worker_id"] == worker_id]


@pytest.mark.parametrize("count", range(9))
def test_what_is_left_of_a_worker_goes_before_it_is_forgotten(count: int) -> None:
    """Also where whoever does it dies: a member that is GONE leaves nothing behind."""
    fleet = dead_with_pages()
    fleet.perform(inbox.put(Notice("dead", "c0", 4)))
    save(fleet, "alive", 0, 1)
    bury(fleet)
    assert len(items_of(fleet, "dead")) == 3
    fleet.clock.advance(membership.GONE_AFTER_MS)
    everybody = run(members(), fleet.perform).members
    steps(bury_expired(everybody, timing=TIMING), fleet, count)
    state = fleet.member("dead")["state"]
    assert state == "DEAD" or not items_of(fleet, "dead")
    bury(fleet)
    assert fleet.member("dead")["state"] == "GONE"
    assert items_of(fleet, "dead") == []
    assert len(items_of(fleet, "alive")) == 1


# --- written ---------------------------------------------------------------------------------------------------------


def test_each_page_has_its_own_answer() -> None:
    fleet = Fleet()
    save(fleet, "w1", 0, 5)
    writes = (PageWrite(0, 5, (), fresh=False), PageWrite(1, 1, (), fresh=True), PageWrite(2, 1, (), fresh=False))
    first, second, third = run(flows.save("w1", writes), fleet.perform)
    assert isinstance(first, Refused)
    assert isinstance(second, Applied)
    assert isinstance(third, Refused)
    assert pages.written(third) == Unwritable("missing")


def test_a_page_that_could_not_be_made_costs_no_other() -> None:
    fleet = Fleet()
    troubled = Troubled(fleet.perform)
    troubled.trouble(Throttled("slow down"))
    writes = (PageWrite(0, 1, (), fresh=True), PageWrite(1, 1, (), fresh=True))
    first, second = run(flows.save("w1", writes), troubled.perform)
    assert isinstance(first, Throttled)
    assert isinstance(second, Applied)


@pytest.mark.parametrize("landing", [Landing.NEVER, Landing.BEFORE])
def test_a_page_that_was_made_without_an_answer_is_written_the_next_time(landing: Landing) -> None:
    fleet = Fleet()
    troubled = Troubled(fleet.perform)
    troubled.trouble(Unreachable("no answer"), landing=landing)
    writes = tuple(PageWrite(number, 1, (), fresh=True) for number in range(25))
    with pytest.raises(Unreachable):
        run(flows.save("w1", writes), troubled.perform)
    assert len(troubled.performed) == 1, "where one has no answer, the rest would wait in vain as long again"
    [answer] = run(flows.save("w1", (PageWrite(0, 2, (), fresh=True),)), troubled.perform)
    assert isinstance(answer, Applied)


# --- read by people --------------------------------------------------------------------------------------------------


def test_a_running_connections_newest_position_is_its_pages() -> None:
    fleet = Fleet()
    held = fleet.own("c0", "w1", WORKER)
    assert run(flows.saved_position(fleet.connection("c0")), fleet.perform) is None
    save(fleet, "w1", 0, 1, saved(held, 4, 104))
    assert run(flows.saved_position(fleet.connection("c0")), fleet.perform) == saved(held, 4, 104)
    fleet.perform(lease.checkpoint(held, Checkpoint(4, Position(104))))
    assert run(flows.saved_position(fleet.connection("c0")), fleet.perform) is None, "the item is as new"


def test_what_is_owned_by_an_expiry_or_by_nobody_has_no_page() -> None:
    fleet = Fleet()
    fleet.add("c0")
    fleet.own("c1", "w1")
    troubled = Troubled(fleet.perform)
    for name in ("c0", "c1"):
        assert run(flows.saved_position(fleet.connection(name)), troubled.perform) is None
    assert troubled.performed == []
