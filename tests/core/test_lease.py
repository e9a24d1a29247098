"""What each transition writes, and what its answer means."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import items, lease
from streamlease.errors import Malformed
from streamlease.lease import (
    Absentee,
    Busy,
    Change,
    Changed,
    Checkpoint,
    Claimed,
    Done,
    Exists,
    Held,
    Stopped,
    Unproven,
)
from streamlease.model import DesiredState, Lease, LeaseMode, Position, Status, StatusState
from streamlease.write import INDEX_ATTRIBUTES, Applied, Index, Item, Refused
from tests.core.cells import NOW_MS, TIMING, Cell, at, change, claim, fresh, owned
from tests.core.strategies import JSON

# --- create, control, delete ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", DesiredState)
def test_a_new_connection_stands_in_the_expiry_index_as_soon_as_it_is_wanted(state: DesiredState) -> None:
    """M14: with an expiry of 0, a lost event still leaves it where every sweep looks."""
    item = fresh(state).item
    assert item is not None
    assert item["lease_expires_at_ms"] == 0
    assert item.get("desired_state_shard") == ("STARTED#3" if state is DesiredState.STARTED else None)
    assert item["last_event"] == "CONTROL"
    assert items.connection(item).lease_epoch == NOW_MS


def test_l7_of_two_creates_one_wins() -> None:
    cell = fresh()
    put = lease.create(
        "c1",
        upstream_url="wss://other.example",
        spec={},
        labels={},
        desired_state=DesiredState.STARTED,
        shard="STARTED",
        now_ms=NOW_MS,
        updated_by="you",
    )
    assert lease.created(cell.put(put)) == Exists()
    assert cell.item is not None
    assert cell.item["upstream_url"] == "wss://up.example"


@given(
    state=st.none() | st.sampled_from(DesiredState),
    url=st.none() | st.just("wss://new.example"),
    spec=st.none() | st.dictionaries(st.sampled_from(["a", "b"]), JSON),
    labels=st.none() | st.dictionaries(st.sampled_from(["a", "b"]), st.just("x")),
    forget=st.booleans(),
)
def test_a_change_leaves_every_attribute_of_the_owners_alone(
    state: DesiredState | None, url: str | None, spec: Any, labels: Any, forget: bool
) -> None:
    cell, held = owned()
    cell.put(lease.checkpoint(held, Checkpoint(1, Position(7), Status(StatusState.STREAMING, NOW_MS))))
    before = cell.item
    assert before is not None
    change(cell, Change(state, url, spec, labels, forget_position=forget))
    after = cell.item
    assert after is not None
    owners = {"lease_owner", "lease_epoch", "lease_nonce", "lease_expires_at_ms", "checkpoint_no", "status"}
    assert {name: after[name] for name in owners} == {name: before[name] for name in owners}
    assert after.get("position") == (None if forget else before["position"])
    assert ("last_sequence" in after) is not forget
    assert after["spec_version"] == 2
    assert after["upstream_url"] == (url or before["upstream_url"])
    assert after["spec"] == (before["spec"] if spec is None else spec)
    assert after["labels"] == (before["labels"] if labels is None else labels)
    assert ("desired_state_shard" in after) is (after["desired_state"] == "STARTED")
    assert (after["last_event"], after["updated_by"]) == ("CONTROL", "you")


def test_a_change_forgives_crashes() -> None:
    cell = fresh()
    cell.item = {**(cell.item or {}), "crashes": 5, "not_before_ms": NOW_MS + 10**6}
    change(cell, Change(spec={}))
    assert cell.item["crashes"] == 0
    assert "not_before_ms" not in cell.item


def test_a_change_of_a_version_that_has_passed_says_what_is_there() -> None:
    cell = fresh()
    seen = items.connection(cell.item or {})
    change(cell, Change(spec={"b": 1}))
    late = lease.control(seen, Change(spec={"a": 1}), shard="STARTED", now_ms=NOW_MS, updated_by="me")
    outcome = lease.controlled(cell.put(late))
    assert isinstance(outcome, Changed)
    assert outcome.connection.spec == {"b": 1}


def test_a_change_of_nothing_is_told() -> None:
    assert lease.controlled(Refused(None)) == Absentee()
    assert lease.controlled(Applied(None)) == Done(None)


def test_a_started_or_owned_connection_is_not_deleted() -> None:
    """M7: an old owner may still run, and a recreated id would meet it."""
    cell, _ = owned()
    delete = lease.delete("c1", now_ms=NOW_MS + 5_000, timing=TIMING)
    assert lease.deleted(cell.put(delete)) == Busy("started")
    change(cell, Change(DesiredState.STOPPED))
    assert lease.deleted(cell.put(delete)) == Busy("owned", NOW_MS + 31_000)
    late = lease.delete("c1", now_ms=NOW_MS + 31_000 + TIMING.skew_ms + 1, timing=TIMING)
    assert lease.deleted(cell.put(late)) == Done()
    assert lease.deleted(cell.put(late)) == Absentee()


def test_a_connection_owned_in_worker_mode_is_deleted_only_when_it_is_let_go() -> None:
    cell, held = owned(mode=LeaseMode.WORKER)
    change(cell, Change(DesiredState.STOPPED))
    delete = lease.delete("c1", now_ms=NOW_MS + 10**9, timing=TIMING)
    assert lease.deleted(cell.put(delete)) == Busy("owned", None)
    cell.put(lease.release(held, checkpoint=Checkpoint(1), now_ms=NOW_MS))
    assert lease.deleted(cell.put(delete)) == Done()


# --- claim ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", LeaseMode)
def test_a_claim_rewrites_all_of_the_ownership_in_one_write(mode: LeaseMode) -> None:
    """L3: nothing of an earlier owner is left for a third to read."""
    cell, held = owned("w1")
    cell.put(lease.checkpoint(held, Checkpoint(9, Position(1))))
    assert cell.item is not None
    cell.item = {**cell.item, "not_before_ms": NOW_MS}
    outcome = claim(cell, "w2", 40_000, mode, nonce="fresh")
    assert isinstance(outcome, Claimed)
    item = cell.item
    assert (item["lease_owner"], item["lease_nonce"], item["checkpoint_no"]) == ("w2", "fresh", 0)
    assert item["lease_epoch"] == held.epoch + 1
    assert item.get("lease_expires_at_ms") == (NOW_MS + 70_000 if mode is LeaseMode.CONNECTION else None)
    assert "not_before_ms" not in item
    assert outcome.lease == Lease("c1", "w2", held.epoch + 1, 1, item.get("lease_expires_at_ms"))  # type: ignore[arg-type]
    assert outcome.connection == items.connection(item)
    assert outcome.deadline_s == TIMING.deadline_s(at(40_000))


def test_a_worker_mode_lease_stands_in_no_expiry_index() -> None:
    cell, _ = owned(mode=LeaseMode.WORKER)
    assert cell.item is not None
    assert not all(name in cell.item for name in INDEX_ATTRIBUTES[Index.BY_EXPIRY])


def test_l2_a_lease_is_judged_by_its_stored_expiry_and_not_by_how_often_one_looks() -> None:
    """A stateless poller that looks again and again neither waits anew each time nor takes early."""
    cell, held = owned("w1")
    cell.put(lease.checkpoint(held, Checkpoint(1)))
    for ms in range(1_000, 32_001, 1_000):
        outcome = claim(cell, "w2", ms)
        assert outcome == Held("w1", NOW_MS + 31_000 + TIMING.skew_ms)
    assert isinstance(claim(cell, "w2", 32_001), Claimed)


def test_what_a_refused_claim_is_told() -> None:
    assert claim(Cell(), "w1", 0) == Stopped(None)
    assert isinstance(claim(fresh(DesiredState.STOPPED), "w1", 0), Stopped)
    cell = fresh()
    cell.item = {**(cell.item or {}), "not_before_ms": NOW_MS + 7}
    assert claim(cell, "w1", 0) == Held(None, NOW_MS + 7)
    assert claim(owned(mode=LeaseMode.WORKER)[0], "w2", 10**9) == Held("w1", None)
    assert isinstance(claim(owned()[0], "w2", 10**6), Unproven)


def test_l9_a_claim_that_meets_its_own_retry_is_kept() -> None:
    cell = fresh()
    first = claim(cell, "w1", 0, nonce="n")
    assert isinstance(first, Claimed)
    assert claim(cell, "w1", 0, nonce="n") == first
    assert claim(cell, "w1", 0, nonce="another") == Held("w1", NOW_MS + 30_000 + TIMING.skew_ms)


def test_l9_a_claim_whose_answer_was_lost_is_told_by_owner_and_nonce() -> None:
    cell = fresh()
    settle = {"worker_id": "w1", "nonce": "n", "sent": at(0), "timing": TIMING}
    assert lease.settled(None, **settle) is None  # type: ignore[arg-type]
    assert lease.settled(cell.item, **settle) is None  # type: ignore[arg-type]
    first = claim(cell, "w1", 0, nonce="n")
    assert lease.settled(cell.item, **settle) == first  # type: ignore[arg-type]
    assert lease.settled(cell.item, **{**settle, "nonce": "m"}) is None  # type: ignore[arg-type]
    assert lease.settled(cell.item, **{**settle, "worker_id": "w2"}) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("item", [None, {"connection_id": "c1", "desired_state": "STARTED", "lease_epoch": "7"}])
def test_a_claim_of_what_cannot_be_read_is_reported(item: Item | None) -> None:
    for answer in (Applied(item), Refused({"connection_id": "c1", "desired_state": "STARTED", "lease_epoch": "7"})):
        with pytest.raises(Malformed):
            lease.claimed(answer, worker_id="w1", nonce="n", sent=at(0), timing=TIMING)


# --- crashes ----------------------------------------------------------------------------------------------------------


def test_m17_a_connection_that_kills_its_owners_is_put_down_for_longer_and_longer() -> None:
    cell, ms = fresh(), 1_000
    assert isinstance(claim(cell, "w0", ms), Claimed)
    waits = []
    for number in range(1, 16):
        ms += 60_000
        outcome = claim(cell, f"w{number}", ms)
        assert isinstance(outcome, Unproven)
        if outcome.connection.crashes + 1 < lease.CRASHES_BEFORE_POSTPONEMENT:
            request = lease.claim_after_crash(
                outcome.connection, worker_id="w", nonce="n", sent=at(ms), timing=TIMING, mode=LeaseMode.CONNECTION
            )
            assert isinstance(cell.put(request), Applied)
            continue
        assert isinstance(cell.put(lease.postpone(outcome.connection, now_ms=NOW_MS + ms, timing=TIMING)), Applied)
        found = items.connection(cell.item or {})
        assert found.lease_owner is None
        assert found.not_before_ms is not None
        waits.append(found.not_before_ms - NOW_MS - ms)
        assert claim(cell, "early", ms + waits[-1]) == Held(None, found.not_before_ms)
        ms += waits[-1] + 1
        assert isinstance(claim(cell, f"x{number}", ms), Claimed)
    assert waits[:4] == [5_000, 10_000, 20_000, 40_000]
    assert waits == sorted(waits)
    assert waits[-1] == lease.LONGEST_POSTPONEMENT_MS


@given(st.integers(2, 10**9), st.integers(0, 10**12))
def test_a_postponement_is_between_five_seconds_and_a_quarter_of_an_hour(crashes: int, now_ms: int) -> None:
    assert 5_000 <= lease.postponed_until_ms(crashes, now_ms) - now_ms <= 15 * 60_000


def test_one_checkpoint_ends_a_row_of_crashes() -> None:
    cell, held = owned()
    cell.item = {**(cell.item or {}), "crashes": 1}
    cell.put(lease.checkpoint(held, Checkpoint(1)))
    assert items.connection(cell.item).crashes == 0
    assert isinstance(claim(cell, "w2", 60_000), Claimed)


@pytest.mark.parametrize(("checkpoint_no", "crashes", "after"), [(0, 0, 1), (0, 1, 2), (3, 0, 0), (3, 5, 0)])
def test_an_orphaning_counts_a_crash_where_the_epoch_wrote_no_checkpoint(
    checkpoint_no: int, crashes: int, after: int
) -> None:
    cell, _ = owned(mode=LeaseMode.WORKER)
    cell.item = {**(cell.item or {}), "checkpoint_no": checkpoint_no, "crashes": crashes}
    seen = items.connection(cell.item)
    assert isinstance(cell.put(lease.orphan(seen, dead_worker_id="w1", now_ms=NOW_MS)), Applied)
    found = items.connection(cell.item)
    assert (found.lease_owner, found.lease_expires_at_ms, found.crashes) == (None, 0, after)
    postponed = lease.postponed_until_ms(after, NOW_MS) if after >= 2 else None
    assert found.not_before_ms == postponed
    assert cell.item["last_event"] == "ORPHANED"
    assert "lease_nonce" not in cell.item


def test_a_dead_owners_last_word_does_not_stand_as_the_status() -> None:
    cell, held = owned(mode=LeaseMode.WORKER)
    cell.put(lease.checkpoint(held, Checkpoint(1, None, Status(StatusState.STREAMING, NOW_MS - 10**7))))
    seen = items.connection(cell.item or {})
    cell.put(lease.orphan(seen, dead_worker_id="w1", now_ms=NOW_MS + 5))
    assert items.connection(cell.item or {}).status == Status(StatusState.RELEASED, NOW_MS + 5, "its worker died")


def test_an_orphaning_leaves_a_checkpoint_that_came_between_alone() -> None:
    cell, held = owned(mode=LeaseMode.WORKER)
    seen = items.connection(cell.item or {})
    cell.put(lease.checkpoint(held, Checkpoint(1, Position(5))))
    assert isinstance(cell.put(lease.orphan(seen, dead_worker_id="w1", now_ms=NOW_MS)), Refused)
