"""The life of a member: it joins once, beats, is buried once, and never comes back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import items, membership
from streamlease.membership import GONE_AFTER_MS, GONE_KEPT_S, Ahead, Beat, Behind, Buried
from streamlease.model import FLEET_ID, FleetSummary, Member, MemberState
from streamlease.timing import Instant, Timing
from streamlease.write import Absent, Applied, Refused, Update, holds
from tests.core.cells import Cell

NOW_MS = 1_800_000_000_000
TIMING = Timing()
LIVING = (MemberState.LIVE, MemberState.DRAINING)


def at(ms: int) -> Instant:
    return Instant(50.0 + ms / 1000, NOW_MS + ms)


def joined(zone: str = "a") -> Cell:
    cell = Cell()
    put = membership.join("w1", generation=3, capacity=9, zone=zone, started_at_ms=7, sent=at(0), timing=TIMING)
    assert isinstance(cell.put(put), Applied)
    return cell


def beat(cell: Cell, seen: int, ms: int, state: MemberState = MemberState.LIVE) -> object:
    write = membership.heartbeat(
        "w1", seen=seen, state=state, owned=seen, load={"streaming": seen}, sent=at(ms), timing=TIMING
    )
    return membership.beaten(cell.put(write), seen=seen)


def found(cell: Cell) -> Member:
    assert cell.item is not None
    return items.member(cell.item)


@given(st.text(max_size=3))
def test_a_member_that_has_joined_can_be_read(zone: str) -> None:
    member = found(joined(zone))
    lease_ms = TIMING.lease_ms
    assert member == Member("w1", MemberState.LIVE, 0, NOW_MS + lease_ms, 3, 9, 0, 7, zone, lease_ms=lease_ms)


def test_m6_a_doubled_join_resets_nothing_and_revives_nobody() -> None:
    cell = joined()
    beat(cell, 0, 1_000)
    for state in (MemberState.LIVE, MemberState.DEAD, MemberState.GONE):
        cell.item = {**(cell.item or {}), "state": state.value}
        before = cell.item
        again = membership.join(
            "w1", generation=3, capacity=9, zone="a", started_at_ms=7, sent=at(2_000), timing=TIMING
        )
        assert isinstance(cell.put(again), Refused)
        assert cell.item == before


@given(st.sampled_from(LIVING))
def test_a_heartbeat_says_what_the_worker_is_and_has(state: MemberState) -> None:
    cell = joined()
    assert beat(cell, 0, 10_000) == Beat(1)
    assert beat(cell, 1, 20_000, state) == Beat(2)
    member = found(cell)
    assert (member.state, member.heartbeat, member.owned, member.load) == (state, 2, 1, {"streaming": 1})
    assert member.lease_expires_at_ms == NOW_MS + 50_000
    assert (member.generation, member.capacity, member.zone, member.started_at_ms) == (3, 9, "a", 7)


def test_a_heartbeat_of_a_clock_that_was_set_back_shortens_nothing() -> None:
    """Its lease would end, by the table, before its owner stops counting on it."""
    cell = joined()
    beat(cell, 0, 10_000)
    assert beat(cell, 1, 10_000) == Ahead()
    assert beat(cell, 1, 5_000) == Ahead()
    assert found(cell).lease_expires_at_ms == NOW_MS + 40_000
    assert beat(cell, 1, 10_001) == Beat(2)


def test_a_heartbeat_that_meets_its_own_earlier_send_is_behind_and_not_buried() -> None:
    """M5: it is credited from the earliest unanswered send; here only the number is told."""
    cell = joined()
    beat(cell, 0, 10_000)
    assert beat(cell, 0, 11_000) == Behind(1)
    assert found(cell).lease_expires_at_ms == NOW_MS + 40_000, "the late one does not count"


def test_a_worker_reads_that_it_is_to_drain_in_the_answer_to_its_heartbeat() -> None:
    cell = joined()
    beat(cell, 0, 10_000)
    assert isinstance(cell.put(membership.request_drain("w1", asked_by="somebody")), Applied)
    assert beat(cell, 1, 20_000) == Beat(2, "somebody")
    assert beat(cell, 2, 30_000, MemberState.DRAINING) == Beat(3, "somebody"), "it stays, whoever missed it"


@pytest.mark.parametrize("end", [membership.leave("w1", now_ms=NOW_MS), None], ids=["gone", "never there"])
def test_nobody_who_has_ended_is_asked_to_drain(end: Update | None) -> None:
    cell = joined() if end else Cell()
    if end:
        cell.put(end)
    assert isinstance(cell.put(membership.request_drain("w1", asked_by="somebody")), Refused)


@pytest.mark.parametrize(
    "item",
    [
        None,
        {"worker_id": "w1", "state": "DEAD", "heartbeat": 5, "lease_expires_at_ms": NOW_MS},
        {"worker_id": "w1", "state": "GONE", "heartbeat": 5, "lease_expires_at_ms": NOW_MS},
        {"worker_id": "w1", "state": "LIVE", "heartbeat": 0, "lease_expires_at_ms": NOW_MS},
        {"worker_id": "w1", "state": "LIVE", "heartbeat": "5", "lease_expires_at_ms": NOW_MS},
    ],
    ids=["removed", "dead", "gone", "set back by hand", "unreadable"],
)
def test_a_worker_whose_item_says_anything_else_takes_itself_for_buried(item: Any) -> None:
    assert membership.beaten(Refused(item), seen=3) == Buried()


@given(st.integers(-(10**6), 10**6))
def test_a_member_is_buried_only_when_it_has_run_out_on_every_clock(late_ms: int) -> None:
    cell = joined()
    member, now_ms = found(cell), NOW_MS + TIMING.lease_ms + late_ms
    due = late_ms > TIMING.skew_ms
    assert membership.expired(member, now_ms=now_ms, timing=TIMING) is due
    assert isinstance(cell.put(membership.bury(member, now_ms=now_ms, timing=TIMING)), Applied) is due


def test_a_member_that_has_beaten_since_it_was_seen_is_not_buried() -> None:
    cell = joined()
    seen = found(cell)
    beat(cell, 0, 29_000)
    late_ms = NOW_MS + TIMING.lease_ms + TIMING.skew_ms + 1
    assert isinstance(cell.put(membership.bury(seen, now_ms=late_ms, timing=TIMING)), Refused)


@given(
    st.lists(
        st.tuples(st.sampled_from(["beat", "drain", "bury", "leave", "forget", "join"]), st.integers(0, 60_000)),
        max_size=12,
    )
)
def test_dead_is_final_whatever_is_tried_afterwards(steps: list[tuple[str, int]]) -> None:
    cell, ms, died = joined(), 0, False
    for name, later_ms in steps:
        ms += later_ms
        member = found(cell)
        match name:
            case "beat" | "drain":
                state = MemberState.LIVE if name == "beat" else MemberState.DRAINING
                outcome = beat(cell, member.heartbeat, ms, state)
                assert not died or isinstance(outcome, Buried)
            case "bury":
                cell.put(membership.bury(member, now_ms=NOW_MS + ms, timing=TIMING))
            case "leave":
                cell.put(membership.leave("w1", now_ms=NOW_MS + ms))
            case "forget":
                cell.put(membership.forget(member, now_ms=NOW_MS + ms))
            case "join":
                cell.put(
                    membership.join(
                        "w1", generation=9, capacity=1, zone="", started_at_ms=0, sent=at(ms), timing=TIMING
                    )
                )
        after = found(cell)
        died |= after.state not in LIVING
        assert not died or after.state in (MemberState.DEAD, MemberState.GONE)
        assert after.heartbeat >= member.heartbeat
        assert not died or after.buried_at_ms is not None
        assert ("ttl" in (cell.item or {})) is (after.state is MemberState.GONE)


def test_a_burial_counts_its_worker_as_owning_nothing_and_is_dated() -> None:
    cell = joined()
    beat(cell, 0, 1_000)
    cell.put(membership.leave("w1", now_ms=NOW_MS + 2_000))
    member = found(cell)
    assert (member.state, member.owned, member.buried_at_ms) == (MemberState.DEAD, 0, NOW_MS + 2_000)
    assert not membership.expired(member, now_ms=NOW_MS + 10**9, timing=TIMING), "once is enough"


def test_a_burial_is_forgotten_a_quarter_of_an_hour_later_and_removed_a_day_after_that() -> None:
    """M12: by a sweep that *began* that late; index lag and late requests are outlived."""
    cell = joined()
    assert not membership.may_forget(found(cell), sweep_began_ms=NOW_MS + 10**9), "the living are not forgotten"
    cell.put(membership.leave("w1", now_ms=NOW_MS))
    assert not membership.may_forget(found(cell), sweep_began_ms=NOW_MS + GONE_AFTER_MS - 1)
    assert membership.may_forget(found(cell), sweep_began_ms=NOW_MS + GONE_AFTER_MS)
    cell.put(membership.forget(found(cell), now_ms=NOW_MS + GONE_AFTER_MS))
    assert (cell.item or {})["ttl"] == (NOW_MS + GONE_AFTER_MS) // 1000 + GONE_KEPT_S


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=10))
def test_the_fleet_summary_never_goes_back_and_its_shards_only_grow(steps: list[tuple[bool, int]]) -> None:
    cell = Cell()
    latest = shards = 0
    for is_summary, number in steps:
        if is_summary:
            write = membership.summarise(FleetSummary(number, live=number, owned=number, unowned=0, shards=99))
            latest = max(latest, number)
        else:
            write = membership.raise_shards(number)
            shards = max(shards, number)
        assert write.key == {"worker_id": FLEET_ID}
        cell.put(write)
        assert cell.item is not None
        assert items.fleet_summary(cell.item) == FleetSummary(latest, latest, latest, 0, shards)


def test_a_first_summary_needs_nothing_to_be_there() -> None:
    assert holds(membership.summarise(FleetSummary(1, 0, 0, 0, 0)).condition, None)
    assert holds(membership.raise_shards(1).condition, None)
    assert holds(Absent("worker_id"), None)
