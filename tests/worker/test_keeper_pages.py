"""In worker mode positions are saved on pages: only when they advance, one unit for many, and nothing is lost by it."""

import itertools
from collections.abc import Callable
from random import Random

import pytest

from streamlease import pages
from streamlease.errors import Throttled, Unreachable
from streamlease.flow import Batch, run
from streamlease.flows.bury import bury_expired
from streamlease.flows.pages import items_of, saved_position
from streamlease.flows.sweep import members
from streamlease.lease import Claimed
from streamlease.model import LeaseMode, Position, Saved, StatusState
from streamlease.write import Always, Item, Table, Update
from streamlease_worker.keeper_events import (
    Heartbeat,
    PositionAdvanced,
    Release,
    ReleaseRequested,
    Save,
    SavePages,
    VersionSeen,
)
from tests.fakes.trouble import Landing
from tests.worker.keeping import TIMING, WORKER, Bench, at


class Pages(Bench):
    """A keeper in worker mode; checkpoints at most once a second."""

    def __init__(self) -> None:
        super().__init__(LeaseMode.WORKER)

    def stream(self, *names: str) -> list[Claimed]:
        """Hold them, until each has proven itself and its status is stored."""
        held = [self.hold(name) for name in names]
        for claimed in held:
            self.report(claimed)
        self.live(4_000)
        assert [self.item(name)["checkpoint_no"] for name in names] == [1] * len(names)
        return held

    def advance(self, claimed: Claimed, position: int | Position, every_s: float | None = None) -> None:
        where = at(position) if isinstance(position, int) else position
        version = claimed.lease.spec_version
        self.do(PositionAdvanced(claimed.connection.connection_id, claimed.lease.epoch, version, where, every_s))

    def pages(self) -> tuple[pages.Page, ...]:
        listed = run(items_of(WORKER, pages.PREFIX), self.memory.perform)
        return tuple(pages.page(item) for item in listed)

    def saved(self, name: str = "a") -> Saved | None:
        return run(saved_position(self.seen(name)), self.memory.perform)

    def page_item(self, number: int = 0) -> Item | None:
        return self.memory.item(Table.WORKER_ITEMS, WORKER, f"page#{number}")


# --- when ------------------------------------------------------------------------------------------------------------


def test_a_position_that_advances_is_saved_on_a_page_and_not_in_the_item() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    before = bench.item("a")
    bench.advance(claimed, 7)
    bench.live(2_000)
    assert bench.saved() == Saved("a", claimed.lease.epoch, 2, 1, at(7))
    assert bench.item("a") == before


def test_pages_are_written_only_when_something_has_advanced() -> None:
    bench = Pages()
    first, second = bench.stream("a", "b")
    bench.live(10_000)
    assert bench.all(SavePages) == []
    bench.advance(first, 7)
    bench.live(10_000)
    assert len(bench.all(SavePages)) == 1
    bench.advance(second, 8)
    bench.advance(first, 7)
    bench.live(10_000)
    assert len(bench.all(SavePages)) == 2


def test_a_page_is_written_once_in_an_interval_at_most_with_the_newest_of_each() -> None:
    bench = Pages()
    held = bench.stream("a", "b", "c")
    for sequence in range(100):
        for claimed in held:
            bench.advance(claimed, sequence)
        bench.live(100)
    assert 9 <= len(bench.all(SavePages)) <= 11
    bench.live(2_000)
    assert {bench.saved(name).position for name in "abc"} == {at(99)}  # type: ignore[union-attr]
    assert len(bench.pages()) == 1


def test_a_connection_may_ask_for_its_own_interval_and_the_others_are_not_written_with_it() -> None:
    bench = Pages()
    quick, usual, slow = bench.stream("quick", "usual", "slow")
    for sequence in range(100):
        bench.advance(quick, sequence, 0.5)
        bench.advance(usual, sequence)
        bench.advance(slow, sequence, 4.0)
        bench.live(100)
    written = [page for command in bench.all(SavePages) for page in command.pages]
    times = dict.fromkeys(("quick", "usual", "slow"), 0)
    for page in written:
        assert len({entry.connection_id for entry in page.entries}) == 1
        times[page.entries[0].connection_id] += 1
    assert 17 <= times["quick"] <= 21
    assert 9 <= times["usual"] <= 11
    assert 2 <= times["slow"] <= 3


def test_a_changed_interval_takes_a_connection_to_another_page_and_nothing_of_it_is_lost_on_the_way() -> None:
    bench = Pages()
    [claimed, _] = bench.stream("a", "b")
    bench.advance(claimed, 1)
    bench.live(2_000)
    bench.advance(claimed, 2, 60.0)
    bench.live(20_000)
    assert bench.saved() == Saved("a", claimed.lease.epoch, 2, 1, at(1)), (
        "as last stored, until the new page has landed"
    )
    bench.advance(claimed, 3, 0.5)
    bench.live(1_500)
    saved = bench.saved()
    assert saved is not None
    assert saved.position == at(3)
    bench.advance(claimed, 4)
    bench.live(2_500)
    saved = bench.saved()
    assert saved is not None
    assert saved.position == at(4)


def test_a_crash_loses_no_more_than_the_last_interval() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    for sequence in range(60):
        bench.advance(claimed, sequence)
        bench.live(100)
        saved = bench.saved()
        if sequence > 12:
            assert saved is not None
            assert isinstance(saved.position.sequence, int)
            assert saved.position.sequence >= sequence - 12, "an interval, and the ticks around it"


def test_a_changed_status_goes_into_the_item_and_takes_the_position_along() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    bench.advance(claimed, 7)
    bench.report(claimed, StatusState.BACKOFF)
    bench.live(3_000)
    item = bench.seen("a")
    assert item.status is not None
    assert (item.status.state, item.position) == (StatusState.BACKOFF, at(7))


def test_the_newest_position_goes_with_the_release_and_its_place_is_free() -> None:
    bench = Pages()
    first, second = bench.stream("a", "b")
    bench.advance(first, 7)
    bench.live(2_000)
    bench.advance(first, 9)
    bench.do(ReleaseRequested("a", first.lease.epoch))
    bench.live(1_000)
    assert bench.seen("a").position == at(9)
    assert bench.seen("a").lease_owner is None
    bench.advance(second, 3)
    bench.live(2_000)
    [page] = bench.pages()
    assert [entry.connection_id for entry in page.entries] == ["b"]


def test_nothing_is_saved_of_a_feed_that_has_not_proven_itself() -> None:
    """M17: a checkpoint says that its owner lives to tell of it."""
    bench = Pages()
    claimed = bench.hold("a")
    bench.advance(claimed, 7)
    bench.live(5_000)
    assert bench.all(SavePages) == []


def test_a_position_that_a_person_forgot_is_not_saved_again() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    bench.advance(claimed, 7)
    bench.live(2_000)
    assert bench.saved() is not None
    bench.change("a", forget_position=True)
    assert bench.saved() is None, "what the page says is of an older version"
    bench.do(VersionSeen(bench.seen("a")))
    bench.advance(claimed, 8)
    bench.live(3_000)
    assert bench.saved() is None
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 2, at(1)))
    bench.live(3_000)
    saved = bench.saved()
    assert saved is not None
    assert (saved.position, saved.spec_version) == (at(1), 2)


# --- how many --------------------------------------------------------------------------------------------------------


def named(number: int) -> str:
    return f"7d3f0c5a-0000-4000-8000-{number * 7_919:012d}"


def test_many_share_a_page_and_a_call_carries_many_pages() -> None:
    bench = Pages()
    held = bench.stream(*map(named, range(60)))
    for claimed in held:
        bench.advance(claimed, 1_764_400_000_000_000)
    bench.live(3_000)
    assert 2 <= len(bench.pages()) <= 4
    assert len(bench.all(SavePages)) <= len(bench.pages())
    for page in bench.pages():
        item = bench.page_item(page.number)
        assert item is not None
        packed = item["packed"]
        assert isinstance(packed, bytes)
        assert pages.size(WORKER, page.number, len(packed)) <= pages.PAGE_BYTES


def test_a_large_position_has_a_page_of_its_own_and_grows_onto_it_without_a_gap() -> None:
    bench = Pages()
    held = bench.stream("a", "b")
    for claimed in held:
        bench.advance(claimed, 1)
    bench.live(2_000)
    assert len(bench.pages()) == 1
    large = Position(2, "host", "wss://resume.example/", Random(1).randbytes(800).hex())
    bench.advance(held[0], large)
    saved = []
    for _ in range(60):
        bench.live(100)
        saved.append(bench.saved("a"))
    numbers = [each.checkpoint_no for each in saved if each is not None]
    assert len(numbers) == len(saved), "at no moment is there none"
    assert numbers == sorted(numbers)
    assert saved[-1] is not None
    assert saved[-1].position == large
    bench.advance(held[1], 2)
    bench.live(3_000)
    by_page = {page.number: [entry.connection_id for entry in page.entries] for page in bench.pages()}
    assert by_page == {0: ["b"], 1: ["a"]}


def test_what_outgrew_its_page_stays_there_as_it_was_until_it_has_landed_on_another() -> None:
    """Its old page is written meanwhile, for the sake of others."""
    bench = Pages()
    held = bench.stream("a", "b")
    for claimed in held:
        bench.advance(claimed, 1)
    bench.live(2_000)
    bench.store.trouble(Throttled("slow down"), when=_is_write_of("page#1"), times=12)
    bench.advance(held[0], Position(2, "host", "wss://resume.example/", Random(1).randbytes(800).hex()))
    versions = set()
    for sequence in range(2, 60):
        bench.advance(held[1], sequence)
        bench.live(100)
        versions.add(bench.pages()[0].version)
        saved = bench.saved("a")
        assert saved is not None, "a crash now would lose more than the last interval"
        assert saved.position.sequence in (1, 2)
    assert len(versions) > 3
    last = bench.saved("a")
    assert last is not None
    assert last.position.sequence == 2
    assert {page.number: [e.connection_id for e in page.entries] for page in bench.pages()} == {0: ["b"], 1: ["a"]}


def test_places_that_were_freed_are_used_again() -> None:
    bench = Pages()
    for round_ in range(6):
        held = bench.stream(*(named(round_ * 100 + number) for number in range(15)))
        for claimed in held:
            bench.advance(claimed, 5)
        bench.live(2_000)
        for claimed in held:
            bench.do(ReleaseRequested(claimed.connection.connection_id, claimed.lease.epoch))
        bench.live(2_000)
    assert len(bench.pages()) == 1


def test_what_is_freed_before_it_was_ever_written_takes_no_room() -> None:
    bench = Pages()
    for number in range(60):
        [claimed] = bench.stream(named(number))
        bench.advance(claimed, 5)
        bench.tick()
        bench.do(ReleaseRequested(claimed.connection.connection_id, claimed.lease.epoch))
        bench.live(500)
    [claimed] = bench.stream("last")
    bench.advance(claimed, 5)
    bench.live(3_000)
    assert [page.number for page in bench.pages()] == [0]


# --- when it fails ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("landing", list(Landing))
@pytest.mark.parametrize("at_request", range(4))
def test_a_write_without_an_answer_is_made_good_by_a_later_one(landing: Landing, at_request: int) -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    asked = itertools.count()
    bench.store.trouble(
        Unreachable("no answer"),
        when=lambda request: _is_page(request) and next(asked) == at_request,
        landing=landing,
    )
    for sequence in range(5):
        bench.advance(claimed, sequence)
        bench.live(1_000)
    bench.store.land()
    bench.live(2_000)
    saved = bench.saved()
    assert saved is not None
    assert saved.position == at(4)


def test_a_page_that_was_throttled_is_tried_again_soon() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    bench.store.trouble(Throttled("slow down"), when=_is_page, times=2)
    bench.advance(claimed, 4)
    bench.live(2_000)
    assert len(bench.all(SavePages)) == 3
    assert bench.saved() is not None


def test_a_page_that_somebody_removed_is_made_again() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    bench.advance(claimed, 4)
    bench.live(2_000)
    for item in run(items_of(WORKER, pages.PREFIX), bench.memory.perform):
        key = {"worker_id": WORKER, "item": str(item["item"])}
        bench.memory.perform(Update(Table.WORKER_ITEMS, key, Always(), set={"sealed": True}))
        bench.memory.perform(pages.remove(item))
    bench.advance(claimed, 5)
    bench.live(4_000)
    saved = bench.saved()
    assert saved is not None
    assert saved.position == at(5)


def test_a_page_that_somebody_wrote_a_higher_version_of_is_written_above_it() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    bench.advance(claimed, 4)
    bench.live(2_000)
    bench.memory.perform(pages.write(WORKER, 0, version=90, entries=()))
    bench.advance(claimed, 5)
    bench.live(3_000)
    [page] = bench.pages()
    assert page.version > 90
    assert bench.saved() is not None


def test_a_sealed_page_makes_its_worker_ask_at_once_whether_it_was_buried() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    bench.advance(claimed, 4)
    bench.live(2_000)
    item = bench.page_item()
    assert item is not None
    bench.memory.perform(pages.seal(item))
    bench.advance(claimed, 5)
    command = bench.wait_for(SavePages)
    beats = len(bench.all(Heartbeat))
    bench.answer(command)
    bench.tick()
    assert len(bench.all(Heartbeat)) == beats + 1
    bench.advance(claimed, 6)
    bench.live(5_000)
    assert len(bench.all(SavePages)) == 2, "it is not tried again"


def test_a_fenced_lease_saves_nothing_more() -> None:
    bench = Pages()
    [claimed] = bench.stream("a")
    bench.store.trouble(Unreachable("partition"), times=100)
    bench.live(4_000)
    assert bench.keeper.owned == 0
    written = len(bench.all(SavePages))
    bench.advance(claimed, 5)
    bench.live(2_000)
    assert len(bench.all(SavePages)) == written


def test_what_a_dead_worker_had_saved_is_where_the_next_one_begins() -> None:
    bench = Pages()
    held = bench.stream("a", "b")
    for claimed in held:
        bench.advance(claimed, 41)
    bench.live(2_000)
    late = PositionAdvanced("a", held[0].lease.epoch, 1, at(42))
    bench.do(late)
    on_its_way = bench.wait_for(SavePages)
    bench.clock.advance(TIMING.lease_ms + TIMING.skew_ms + 1)
    everybody = run(members(), bench.memory.perform).members
    burials = run(bury_expired(everybody, timing=TIMING), bench.memory.perform)
    assert (burials.buried, burials.orphaned) == (1, 2)
    before = bench.memory.items(Table.WORKER_ITEMS), bench.memory.items(Table.CONNECTIONS)
    bench.answer(on_its_way)
    assert (bench.memory.items(Table.WORKER_ITEMS), bench.memory.items(Table.CONNECTIONS)) == before
    for name in "ab":
        assert bench.seen(name).position == at(41)
        assert bench.seen(name).crashes == 0


def test_release_and_page_may_cross() -> None:
    """A page that lands after the release, or the next owner's claim, is of an epoch that is over."""
    bench = Pages()
    [claimed] = bench.stream("a")
    bench.advance(claimed, 7)
    on_its_way = bench.wait_for(SavePages)
    bench.do(ReleaseRequested("a", claimed.lease.epoch))
    [release] = [command for command in bench.asked if isinstance(command, Release)]
    bench.answer(release)
    bench.answer(on_its_way)
    assert bench.seen("a").position == at(7)
    assert bench.saved() is None
    assert not bench.all(Save)[1:]


def _is_write_of(name: str) -> Callable[[object], bool]:
    return lambda request: isinstance(request, Update) and request.key.get("item") == name


def _is_page(request: object) -> bool:
    return isinstance(request, Batch) and request.writes[0].table is Table.WORKER_ITEMS
