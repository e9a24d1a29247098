"""Each transition's condition, clause by clause: what it needs, and that every part of it is needed."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from streamlease import inbox, items, lease, membership, pages
from streamlease.lease import Change, Checkpoint
from streamlease.model import DesiredState, Lease, LeaseMode, Member, MemberState, Position, Saved
from streamlease.timing import Instant, Timing
from streamlease.write import AllOf, Condition, Put, Write, holds

NOW_MS = 1_800_000_000_000
TIMING = Timing()
SENT = Instant(50.0, NOW_MS)
EPOCH = NOW_MS - 1_000_000

type Change_ = Mapping[str, Any]
"""Attributes to set; None takes one away."""


def changed(base: Mapping[str, Any], changes: Change_) -> dict[str, Any]:
    return {name: value for name, value in {**base, **changes}.items() if value is not None}


FREE: dict[str, Any] = {
    "connection_id": "c1",
    "desired_state": "STARTED",
    "desired_state_shard": "STARTED#1",
    "upstream_url": "wss://up.example",
    "spec": {},
    "spec_version": 3,
    "lease_epoch": EPOCH,
    "lease_expires_at_ms": 0,
    "checkpoint_no": 4,
    "crashes": 0,
}
OWNED: dict[str, Any] = {
    **FREE,
    "lease_owner": "w1",
    "lease_nonce": "n1",
    "lease_expires_at_ms": NOW_MS + 20_000,
}
EXPIRED: dict[str, Any] = {**OWNED, "lease_expires_at_ms": NOW_MS - TIMING.skew_ms - 1}
UNPROVEN: dict[str, Any] = {**EXPIRED, "checkpoint_no": 0}
WORKER_MODE = changed(OWNED, {"lease_expires_at_ms": None})
LEASE = Lease("c1", "w1", EPOCH, 3, NOW_MS + 20_000)
SEEN = items.connection(UNPROVEN)
SEEN_BY_REAPER = items.connection(WORKER_MODE)
SAVED = Saved("c1", EPOCH, 9, 3, Position(70))
PAGE: dict[str, Any] = {"worker_id": "w1", "item": "page#3", "version": 7}
LIVE: dict[str, Any] = {
    "worker_id": "w1",
    "state": "LIVE",
    "heartbeat": 7,
    "lease_expires_at_ms": NOW_MS - TIMING.skew_ms - 1,
}
MEMBER = Member("w1", MemberState.LIVE, 7, NOW_MS - TIMING.skew_ms - 1, 0, 10, 3, 0)


def claim() -> Write:
    return lease.claim("c1", worker_id="w2", nonce="n2", sent=SENT, timing=TIMING, mode=LeaseMode.CONNECTION)


def claim_after_crash() -> Write:
    mode = LeaseMode.CONNECTION
    return lease.claim_after_crash(SEEN, worker_id="w2", nonce="n2", sent=SENT, timing=TIMING, mode=mode)


def renew() -> Write:
    return lease.renew(LEASE, sent=SENT, timing=TIMING)


def renew_with_checkpoint() -> Write:
    return lease.renew(LEASE, sent=SENT, timing=TIMING, checkpoint=Checkpoint(5, Position(9)))


def heartbeat() -> Write:
    state = MemberState.LIVE
    return membership.heartbeat("w1", seen=7, state=state, owned=3, load={}, sent=SENT, timing=TIMING)


CASES: list[tuple[str, Callable[[], Write], Mapping[str, Any] | None, list[Change_], list[Change_]]] = [
    # transition, what makes its write, an item it holds of, changes it also holds of, changes that each break it
    (
        "claim of a free one",
        claim,
        FREE,
        [{"checkpoint_no": 0}, {"not_before_ms": NOW_MS - 1}],
        [
            {"desired_state": "STOPPED"},
            {"desired_state": None},
            {"lease_owner": "w1", "lease_expires_at_ms": None},
            {"lease_owner": "w1", "lease_expires_at_ms": NOW_MS},
            {"not_before_ms": NOW_MS},
            {"not_before_ms": "soon"},
            {"lease_epoch": "7"},
            {"lease_epoch": None},
            {"spec_version": "3"},
            {"spec": None},
            {"upstream_url": None},
            {"lease_expires_at_ms": NOW_MS // 1000},
        ],
    ),
    (
        "claim of an expired one",
        claim,
        EXPIRED,
        [{"not_before_ms": NOW_MS - 1}, {"lease_owner": None}],
        [
            {"desired_state": "STOPPED"},
            {"lease_expires_at_ms": NOW_MS - TIMING.skew_ms},
            {"lease_expires_at_ms": None},
            {"lease_expires_at_ms": "0"},
            {"checkpoint_no": 0},
            {"checkpoint_no": None},
            {"not_before_ms": NOW_MS},
            {"lease_epoch": "7"},
            {"spec_version": "3"},
            {"spec": None},
            {"upstream_url": None},
            {"lease_expires_at_ms": NOW_MS // 1000},
        ],
    ),
    (
        "claim after a crash",
        claim_after_crash,
        UNPROVEN,
        [{"checkpoint_no": 4}],
        [
            {"desired_state": "STOPPED"},
            {"lease_expires_at_ms": NOW_MS - TIMING.skew_ms},
            {"lease_expires_at_ms": None},
            {"lease_epoch": EPOCH + 1},
            {"not_before_ms": NOW_MS},
        ],
    ),
    (
        "postponement",
        lambda: lease.postpone(SEEN, now_ms=NOW_MS, timing=TIMING),
        UNPROVEN,
        [],
        [
            {"lease_expires_at_ms": NOW_MS - TIMING.skew_ms},
            {"lease_epoch": EPOCH + 1},
            {"lease_owner": None},
        ],
    ),
    (
        "renewal",
        renew,
        OWNED,
        [{"desired_state": "STOPPED"}, {"checkpoint_no": 99}, EXPIRED],
        [
            {"lease_owner": "w2"},
            {"lease_owner": None},
            {"lease_epoch": EPOCH + 1},
            {"lease_epoch": EPOCH - 1},
            {"spec_version": 4},
            {"lease_expires_at_ms": NOW_MS + TIMING.lease_ms},
            {"lease_expires_at_ms": None},
        ],
    ),
    (
        "renewal with a checkpoint",
        renew_with_checkpoint,
        OWNED,
        [{"checkpoint_no": 0}],
        [
            {"lease_owner": "w2"},
            {"lease_epoch": EPOCH + 1},
            {"spec_version": 4},
            {"lease_expires_at_ms": NOW_MS + TIMING.lease_ms},
            {"checkpoint_no": 5},
            {"checkpoint_no": None},
        ],
    ),
    (
        "checkpoint",
        lambda: lease.checkpoint(LEASE, Checkpoint(5)),
        OWNED,
        [{"spec_version": 4}, EXPIRED, WORKER_MODE],
        [
            {"lease_owner": "w2"},
            {"lease_epoch": EPOCH + 1},
            {"checkpoint_no": 5},
        ],
    ),
    (
        "release",
        lambda: lease.release(LEASE, checkpoint=Checkpoint(5), now_ms=NOW_MS),
        OWNED,
        [{"spec_version": 4}, EXPIRED],
        [
            {"lease_owner": "w2"},
            {"lease_owner": None},
            {"lease_epoch": EPOCH + 1},
        ],
    ),
    (
        "orphaning",
        lambda: lease.orphan(SEEN_BY_REAPER, dead_worker_id="w1", now_ms=NOW_MS),
        WORKER_MODE,
        [{"crashes": 3}],
        [
            {"lease_owner": "w2"},
            {"lease_epoch": EPOCH + 1},
            {"checkpoint_no": 5},
            {"lease_expires_at_ms": 0},
        ],
    ),
    (
        "orphaning with a newer position of a page",
        lambda: lease.orphan(SEEN_BY_REAPER, dead_worker_id="w1", now_ms=NOW_MS, saved=SAVED),
        WORKER_MODE,
        [{"crashes": 3}],
        [
            {"lease_owner": "w2"},
            {"lease_epoch": EPOCH + 1},
            {"checkpoint_no": 5},
            {"lease_expires_at_ms": 0},
            {"spec_version": 4},
        ],
    ),
    (
        "orphaning without a read",
        lambda: lease.orphan_unread("c1", dead_worker_id="w1", now_ms=NOW_MS, saved=None),
        WORKER_MODE,
        [{"crashes": 3}, {"spec_version": 4}, {"lease_epoch": EPOCH + 1}, {"checkpoint_no": 1}],
        [
            {"lease_owner": "w2"},
            {"lease_epoch": "7"},
            {"checkpoint_no": 0},
            {"checkpoint_no": None},
            {"lease_expires_at_ms": 0},
        ],
    ),
    (
        "orphaning without a read, with the position of a page",
        lambda: lease.orphan_unread("c1", dead_worker_id="w1", now_ms=NOW_MS, saved=SAVED),
        WORKER_MODE,
        [{"crashes": 3}, {"checkpoint_no": 0}, {"checkpoint_no": 8}],
        [
            {"lease_owner": "w2"},
            {"lease_epoch": EPOCH + 1},
            {"checkpoint_no": 9},
            {"lease_expires_at_ms": 0},
            {"spec_version": 4},
        ],
    ),
    (
        "page write",
        lambda: pages.write("w1", 3, version=8, entries=[SAVED]),
        PAGE,
        [{"version": 0}],
        [{"version": 8}, {"version": None}, {"sealed": True}],
    ),
    (
        "page seal",
        lambda: pages.seal(PAGE),
        PAGE,
        [{"version": 0}],
        [{"sealed": True}, {"version": None}],
    ),
    (
        "page removal",
        lambda: pages.remove(PAGE),
        {**PAGE, "sealed": True},
        [{"version": 99}],
        [{"sealed": None}],
    ),
    (
        "inbox deletion",
        lambda: inbox.delete("w1", inbox.Entry("c1", 4)),
        {"worker_id": "w1", "item": "inbox#c1", "spec_version": 4},
        [],
        [{"spec_version": 5}, {"spec_version": 3}],
    ),
    (
        "control",
        lambda: lease.control(SEEN, Change(), shard="STARTED", now_ms=NOW_MS, updated_by="me"),
        OWNED,
        [FREE],
        [
            {"spec_version": 4},
            {"spec_version": None},
            {"not_before_ms": NOW_MS + 1},
        ],
    ),
    (
        "delete",
        lambda: lease.delete("c1", now_ms=NOW_MS, timing=TIMING),
        {**FREE, "desired_state": "STOPPED"},
        [
            {"lease_owner": "w1", "lease_expires_at_ms": NOW_MS - TIMING.skew_ms - 1},
        ],
        [
            {"desired_state": "STARTED"},
            {"lease_owner": "w1", "lease_expires_at_ms": NOW_MS - TIMING.skew_ms},
            {"lease_owner": "w1", "lease_expires_at_ms": None},
        ],
    ),
    (
        "heartbeat",
        heartbeat,
        LIVE,
        [{"state": "DRAINING"}],
        [
            {"state": "DEAD"},
            {"state": "GONE"},
            {"state": None},
            {"heartbeat": 8},
            {"heartbeat": 6},
            {"lease_expires_at_ms": NOW_MS + TIMING.lease_ms},
        ],
    ),
    (
        "burial",
        lambda: membership.bury(MEMBER, now_ms=NOW_MS, timing=TIMING),
        LIVE,
        [{"state": "DRAINING"}],
        [
            {"state": "DEAD"},
            {"state": "GONE"},
            {"lease_expires_at_ms": NOW_MS - TIMING.skew_ms - 2},
            {"lease_expires_at_ms": NOW_MS + TIMING.lease_ms},
        ],
    ),
    (
        "leaving",
        lambda: membership.leave("w1", now_ms=NOW_MS),
        LIVE,
        [{"state": "DRAINING"}],
        [
            {"state": "DEAD"},
            {"state": "GONE"},
        ],
    ),
    (
        "forgetting",
        lambda: membership.forget(MEMBER, now_ms=NOW_MS),
        {**LIVE, "state": "DEAD"},
        [],
        [
            {"state": "LIVE"},
            {"state": "DRAINING"},
            {"state": "GONE"},
        ],
    ),
]


@pytest.mark.parametrize(("make", "base", "also", "broken"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_a_condition_holds_of_what_it_is_for_and_breaks_with_any_part(
    make: Callable[[], Write], base: Mapping[str, Any], also: list[Change_], broken: list[Change_]
) -> None:
    write = make()
    assert holds(write.condition, base)
    for changes in also:
        assert holds(write.condition, changed(base, changes)), changes
    for changes in broken:
        assert not holds(write.condition, changed(base, changes)), changes
    assert not holds(write.condition, None), "no item is made by it"


def parts(condition: Condition) -> tuple[Condition, ...]:
    """The clauses that all have to hold."""
    if isinstance(condition, AllOf):
        return tuple(part for term in condition.terms for part in parts(term))
    return (condition,)


ALONE = [case for case in CASES if case[0] != "burial"]


@pytest.mark.parametrize(("make", "base", "broken"), [(c[1], c[2], c[4]) for c in ALONE], ids=[c[0] for c in ALONE])
def test_every_clause_is_the_only_one_to_refuse_something(
    make: Callable[[], Write], base: Mapping[str, Any], broken: list[Change_]
) -> None:
    """So that none can be dropped without a test that fails."""
    write = make()
    alone = {
        clauses[0]
        for changes in broken
        if len(clauses := [p for p in parts(write.condition) if not holds(p, changed(base, changes))]) == 1
    }
    assert alone == set(parts(write.condition))


def test_a_burial_needs_that_the_expiry_seen_has_run_out() -> None:
    """Its one clause that the others imply, for any member that is passed as expired."""
    for expires_at_ms, due in ((NOW_MS - TIMING.skew_ms - 1, True), (NOW_MS - TIMING.skew_ms, False)):
        member = replace(MEMBER, lease_expires_at_ms=expires_at_ms)
        stored = {**LIVE, "lease_expires_at_ms": expires_at_ms}
        assert holds(membership.bury(member, now_ms=NOW_MS, timing=TIMING).condition, stored) is due


@pytest.mark.parametrize("bad", [None, {}, {"connection_id": "c1"}])
def test_a_create_needs_that_there_is_none(bad: Mapping[str, Any] | None) -> None:
    put = lease.create(
        "c1",
        upstream_url="wss://up.example",
        spec={},
        labels={},
        desired_state=DesiredState.STARTED,
        shard="STARTED#1",
        now_ms=NOW_MS,
        updated_by="me",
    )
    assert isinstance(put, Put)
    assert holds(put.condition, bad) is (not bad)


def test_a_join_needs_that_there_is_none_even_a_dead_one() -> None:
    put = membership.join("w1", generation=1, capacity=5, zone="a", started_at_ms=1, sent=SENT, timing=TIMING)
    assert holds(put.condition, None)
    assert not holds(put.condition, LIVE)
    assert not holds(put.condition, {**LIVE, "state": "DEAD"})
