"""Shards, shares, offers and audits: who should do what, as values."""

from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import plan
from streamlease.errors import Malformed
from streamlease.model import FleetSummary, LastEvent, Member, MemberState, Offer
from streamlease.plan import Candidate, Discrepancies, Notice
from streamlease.write import Item
from tests.core.strategies import MEMBERS, NAMES

NOW_MS = 1_800_000_000_000
COUNTS = st.integers(0, 5_000)
FLEETS = st.builds(
    FleetSummary, at_ms=st.just(NOW_MS), live=st.integers(0, 50), owned=COUNTS, unowned=COUNTS, shards=COUNTS
)


# --- shards --------------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=30), st.integers(0, 64), st.integers(0, 64), st.integers(0, 64))
def test_every_sweep_covers_what_was_written_under_any_earlier_number_of_shards(
    connection_id: str, written: int, configured: int, later: int
) -> None:
    """`ever` is raised before anything is written over so many, and only grows."""
    ever = max(written, later)
    assert plan.shard(connection_id, written) in plan.sweep_shards(configured, ever)


@given(st.integers(0, 64), st.integers(0, 64))
def test_a_sweep_asks_each_key_once(configured: int, ever: int) -> None:
    keys = plan.sweep_shards(configured, ever)
    assert len(set(keys)) == len(keys)
    assert len(keys) == 1 + (max(configured, ever) if max(configured, ever) > 1 else 0)
    assert plan.BARE_SHARD in keys


def test_a_single_shard_has_no_number() -> None:
    assert plan.sweep_shards(1, 0) == plan.sweep_shards(0, 1) == plan.sweep_shards(1, 1) == ("STARTED",)
    assert plan.sweep_shards(2, 1) == ("STARTED", "STARTED#0", "STARTED#1")


@given(NAMES, st.integers(2, 64))
def test_a_shard_is_the_crc_of_the_id(connection_id: str, shards: int) -> None:
    assert plan.shard(connection_id, shards) == f"STARTED#{crc32(connection_id.encode()) % shards}"
    assert plan.shard(connection_id, 1) == "STARTED"


def test_shards_are_even() -> None:
    counts: dict[str, int] = {}
    for number in range(10_000):
        key = plan.shard(f"connection-{number}", 16)
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 16
    assert max(counts.values()) < 1.25 * min(counts.values())


# --- shares --------------------------------------------------------------------------------------


def members(*owned: int) -> list[Member]:
    return [
        Member(f"w{number}", MemberState.LIVE, 1, NOW_MS + 5_000, 0, 100, count, 0)
        for number, count in enumerate(owned)
    ]


@given(st.lists(MEMBERS, max_size=6), COUNTS)
def test_only_the_living_count_in_the_summary(everybody: list[Member], unowned: int) -> None:
    fleet = plan.summary(everybody, unowned=unowned, shards=16, now_ms=NOW_MS)
    running = [m for m in everybody if m.lease_expires_at_ms >= NOW_MS]
    live = [m for m in running if m.state is MemberState.LIVE]
    draining = [m for m in running if m.state is MemberState.DRAINING]
    assert plan.live(everybody, now_ms=NOW_MS) == tuple(live)
    expected = FleetSummary(NOW_MS, len(live), sum(m.owned for m in live + draining), unowned, 16)
    assert replace(fleet, shares=None) == expected


def test_a_member_lives_up_to_the_millisecond_of_its_expiry() -> None:
    (last,) = (replace(each, lease_expires_at_ms=NOW_MS) for each in members(7))
    assert plan.live([last], now_ms=NOW_MS) == (last,)
    assert plan.live([last], now_ms=NOW_MS + 1) == ()
    assert plan.summary([last], unowned=0, shards=1, now_ms=NOW_MS).owned == 7
    assert plan.summary([last], unowned=0, shards=1, now_ms=NOW_MS + 1).owned == 0


def test_a_summary_goes_on_from_the_one_before() -> None:
    """Twenty that one counts no more are still shared for a while: somebody has just taken them."""
    before = plan.summary(members(60, 100), unowned=0, shards=1, now_ms=NOW_MS - 1_000)
    following = plan.summary(members(40, 100), unowned=0, shards=1, now_ms=NOW_MS, before=before)
    alone = plan.summary(members(40, 100), unowned=0, shards=1, now_ms=NOW_MS)
    assert following.shares is not None
    assert alone.shares is not None
    assert (following.shares.total, alone.shares.total) == (160, 140)


def test_a_dead_workers_connections_are_counted_once() -> None:
    """They are unowned by now; as its own as well, each survivor could take twice what it should."""
    everybody = [replace(each, capacity=1_000) for each in members(100, 100, 100)]
    everybody[2] = replace(everybody[2], lease_expires_at_ms=NOW_MS - 2_000)
    fleet = plan.summary(everybody, unowned=100, shards=16, now_ms=NOW_MS)
    assert [plan.share(fleet, name) for name in ("w0", "w1")] == [150, 150]
    assert plan.fair_share(fleet) == 150, "so it is for who knows no shares"


@given(FLEETS)
def test_the_living_together_have_room_for_all_and_none_is_given_more_than_one_too_many(fleet: FleetSummary) -> None:
    share = plan.fair_share(fleet)
    total = fleet.owned + fleet.unowned
    if fleet.live == 0 or total == 0:
        assert share is None
        return
    assert share is not None
    assert share * fleet.live >= total
    assert (share - 1) * fleet.live < total


def test_m18_a_cold_fleet_has_a_share_of_what_waits() -> None:
    fleet = plan.summary(members(0, 0, 0), unowned=10, shards=1, now_ms=NOW_MS)
    assert sorted(plan.share(fleet, name) or 0 for name in ("w0", "w1", "w2")) == [3, 3, 4]
    assert plan.fair_share(fleet) == 4
    assert plan.share(None, "w0") is None
    assert plan.fair_share(None) is None


def test_a_summary_that_knows_no_shares_is_divided_evenly() -> None:
    """A release that knows none wrote it."""
    assert plan.share(FleetSummary(NOW_MS, live=2, owned=5, unowned=2, shards=1), "w0") == 4


def test_one_worker_alone_has_a_share_of_all_and_of_a_single_connection_too() -> None:
    assert plan.fair_share(FleetSummary(NOW_MS, live=1, owned=3, unowned=4, shards=1)) == 7
    assert plan.fair_share(FleetSummary(NOW_MS, live=2, owned=0, unowned=1, shards=1)) == 1


def test_a_slow_worker_is_given_the_part_of_a_share_that_it_can_bear() -> None:
    fleet = plan.summary(members(20, 20), unowned=0, shards=1, now_ms=NOW_MS)
    assert plan.share(fleet, "w0") == 20
    assert plan.share(fleet, "w0", pace=50) == 10


def test_where_there_is_nothing_to_share_capacity_alone_decides() -> None:
    """What is made next is anybody's; the first sweep that sees it divides it."""
    assert plan.share(plan.summary(members(0, 0), unowned=0, shards=1, now_ms=NOW_MS), "w0") is None


@given(COUNTS, COUNTS, st.none() | COUNTS, st.booleans())
def test_capacity_bounds_whatever_the_share_says(held: int, capacity: int, share: int | None, stale: bool) -> None:
    free = plan.room(held=held, capacity=capacity, share=share, stale=stale)
    assert 0 <= free <= max(0, capacity - held)
    if share is not None and not stale:
        assert free <= max(0, share - held)


@given(COUNTS, COUNTS, COUNTS)
def test_what_has_waited_is_anybodys_with_capacity(held: int, capacity: int, share: int) -> None:
    assert plan.room(held=held, capacity=capacity, share=share, stale=True) == max(0, capacity - held)


@given(st.integers(-10_000, 20_000))
def test_an_offer_is_stale_after_some_seconds(age_ms: int) -> None:
    offer = Offer("c1", "expired", NOW_MS - age_ms)
    assert plan.is_stale(offer, now_ms=NOW_MS) is (age_ms >= plan.STALE_OFFER_MS)


@given(st.none() | FLEETS, st.floats(0, 1, exclude_max=True))
def test_sweeping_is_a_constant_of_the_fleet(fleet: FleetSummary | None, draw: float) -> None:
    living = max(1, fleet.live if fleet else 1)
    assert 0.5 * living <= plan.sweep_delay_s(fleet, draw) / plan.FLEET_SWEEP_S <= 1.5 * living


# --- candidates, offers --------------------------------------------------------------------------------------


@given(st.lists(st.dictionaries(st.sampled_from(["connection_id", "lease_expires_at_ms"]), st.integers() | NAMES)))
def test_a_page_that_makes_no_sense_in_part_is_used_for_the_rest(found: list[dict[str, Any]]) -> None:
    good: list[Item] = [{"connection_id": "c1", "lease_expires_at_ms": 0}]
    shown = plan.candidates([*found, *good])
    assert shown[-1] == Candidate("c1", 0)
    assert len(shown) == 1 + sum(
        isinstance(row.get("connection_id"), str) and isinstance(row.get("lease_expires_at_ms"), int) for row in found
    )


def test_an_offer_says_whether_the_lease_ran_out_or_was_given_up() -> None:
    found = [Candidate("freed", 0), Candidate("expired", NOW_MS - 5_000)]
    assert plan.offers(found, now_ms=NOW_MS) == (
        Offer("freed", "released", NOW_MS),
        Offer("expired", "expired", NOW_MS),
    )


# --- the stream --------------------------------------------------------------------------------------


def image(**changes: Any) -> Item:
    base = {
        "connection_id": "c1",
        "desired_state": "STARTED",
        "last_event": "CONTROL",
        "spec_version": 4,
        "lease_expires_at_ms": 0,
    }
    return {name: value for name, value in {**base, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("last_event", "reason"),
    [("CONTROL", "control"), ("RELEASED", "released"), ("ORPHANED", "orphaned")],
)
def test_a_started_connection_without_owner_is_offered(last_event: str, reason: Any) -> None:
    assert plan.reaction(image(last_event=last_event), now_ms=NOW_MS) == Offer("c1", reason, NOW_MS)
    assert plan.reaction(image(last_event=last_event, desired_state="STOPPED"), now_ms=NOW_MS) is None


@pytest.mark.parametrize("state", ["STARTED", "STOPPED"])
def test_an_owner_in_worker_mode_is_told_of_a_change(state: str) -> None:
    changed = image(lease_owner="w1", lease_expires_at_ms=None, desired_state=state)
    assert plan.reaction(changed, now_ms=NOW_MS) == Notice("w1", "c1", 4)


@given(st.sampled_from(LastEvent), st.booleans(), st.booleans(), st.sampled_from(["STARTED", "STOPPED"]))
def test_nothing_else_asks_for_anything(last_event: LastEvent, owned: bool, expires: bool, state: str) -> None:
    changed = image(
        last_event=last_event.value,
        desired_state=state,
        lease_owner="w1" if owned else None,
        lease_expires_at_ms=5 if expires else None,
    )
    found = plan.reaction(changed, now_ms=NOW_MS)
    if last_event in (LastEvent.RENEWED, LastEvent.CHECKPOINT, LastEvent.CLAIMED):
        assert found is None
    assert isinstance(found, Notice) is (owned and not expires and last_event is LastEvent.CONTROL)
    assert not (isinstance(found, Offer) and (owned or state == "STOPPED"))


def test_a_removed_item_asks_for_nothing() -> None:
    assert plan.reaction(None, now_ms=NOW_MS) is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"connection_id": None}, "stream record: its image has no connection_id"),
        ({"connection_id": ""}, "stream record: its image has no connection_id"),
        ({"connection_id": 7}, "stream record: its image has no connection_id"),
        ({"desired_state": None}, "connection 'c1': desired_state is None"),
        ({"desired_state": "RUNNING"}, "connection 'c1': desired_state is 'RUNNING'"),
        (
            {"lease_owner": "w1", "lease_expires_at_ms": None, "spec_version": "4"},
            "connection 'c1': spec_version is '4'",
        ),
    ],
)
def test_a_poisoned_image_is_named(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(Malformed, match=f"^{problem}$"):
        plan.reaction(image(**changes), now_ms=NOW_MS)


# --- the audit --------------------------------------------------------------------------------------


@given(
    st.dictionaries(NAMES, st.tuples(st.integers(1, 3), st.sampled_from(["STARTED", "STOPPED"])), max_size=6),
    st.dictionaries(NAMES, st.integers(1, 3), max_size=6),
)
def test_the_audit_finds_every_difference_and_nothing_that_agrees(
    index: dict[str, tuple[int, str]], running: dict[str, int]
) -> None:
    rows: list[Item] = [
        {"connection_id": name, "spec_version": version, "desired_state": state}
        for name, (version, state) in index.items()
    ]
    found = plan.audit(rows, running)
    assert set(found.unknown) == index.keys() - running.keys()
    assert set(found.outdated) == {
        name
        for name, (version, state) in index.items()
        if name in running and (running[name] != version or state == "STOPPED")
    }


def test_the_audit_leaves_out_what_has_no_id_and_goes_on() -> None:
    rows: list[Item] = [{"spec_version": 1}, {"connection_id": 7}, {"connection_id": "c1", "spec_version": 1}]
    assert plan.audit(rows, {}) == Discrepancies(("c1",), ())
