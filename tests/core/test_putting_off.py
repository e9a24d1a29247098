"""A release that puts a connection off: nobody claims it, no sweep lists it, until its time or somebody's word."""

import pytest

from streamlease import items, lease, plan
from streamlease.flow import run
from streamlease.flows import control
from streamlease.flows.claim import Claimer, claim
from streamlease.flows.sweep import sweep
from streamlease.lease import Change, Checkpoint, Claimed, Done, Held, release
from streamlease.model import Connection, DesiredState, LeaseMode, Position, Status, StatusState
from streamlease.timing import Timing
from streamlease.write import Item, Table
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore

TIMING = Timing(heartbeat_ms=1_000, lease_ms=3_000)
OPERATOR = control.Operator("somebody", 1, TIMING)
OFF_MS = 300_000
BOTH = pytest.mark.parametrize("mode", LeaseMode)


class Bench:
    def __init__(self, mode: LeaseMode) -> None:
        self.mode = mode
        self.clock = SetClock()
        self.store = MemoryStore(self.clock)
        run(
            control.create(
                "a",
                upstream_url="wss://upstream.example/",
                spec={},
                labels={},
                desired_state=DesiredState.STARTED,
                operator=OPERATOR,
            ),
            self.store.perform,
        )

    def claim(self, by: str = "worker-1") -> Claimed | Held:
        claimer = Claimer(by, TIMING, self.mode)
        outcome = run(claim("a", nonce=f"nonce of {by} {self.clock.wall_ms}", claimer=claimer), self.store.perform)
        assert isinstance(outcome, Claimed | Held)
        return outcome

    def put_off(self) -> Status:
        claimed = self.claim()
        assert isinstance(claimed, Claimed)
        return self.put_off_by(claimed.connection)

    def put_off_by(self, owned: Connection) -> Status:
        now_ms = self.clock.wall_ms
        status = Status(StatusState.QUARANTINED, now_ms, "nothing came", now_ms + OFF_MS)
        assert owned.lease_owner is not None
        parting = Checkpoint(1, Position(7), status)
        self.store.perform(release(lease.lease_of(owned, owned.lease_owner), checkpoint=parting, now_ms=now_ms))
        return status

    def change(self, **wanted: object) -> object:
        return run(control.change("a", Change(**wanted), operator=OPERATOR), self.store.perform)  # type: ignore[arg-type]

    def free(self) -> list[str]:
        found = run(sweep(shards=1, timing=TIMING, enough=10, turn=0), self.store.perform)
        return [candidate.connection_id for candidate in found.candidates]

    @property
    def item(self) -> Item:
        found = self.store.item(Table.CONNECTIONS, "a")
        assert found is not None
        return found

    @property
    def connection(self) -> Connection:
        return items.connection(self.item)


@BOTH
def test_what_is_put_off_is_claimed_by_nobody_and_listed_by_no_sweep_before_its_time(mode: LeaseMode) -> None:
    bench = Bench(mode)
    status = bench.put_off()
    assert bench.connection.status == status
    assert bench.claim("worker-2") == Held(None, status.until_ms)
    bench.clock.advance(OFF_MS)
    assert bench.claim("worker-2") == Held(None, status.until_ms)
    assert bench.free() == []
    bench.clock.advance(TIMING.skew_ms + 1)
    assert bench.free() == ["a"]
    claimed = bench.claim("worker-2")
    assert isinstance(claimed, Claimed)
    assert claimed.connection.status == status, "the next owner sees what it was put off for"
    assert claimed.connection.position == Position(7)
    assert claimed.connection.not_before_ms is None


@BOTH
@pytest.mark.parametrize("wanted", [{"again": True}, {"spec": {"record": {}}}, {"labels": {"team": "a"}}])
def test_what_is_put_off_is_free_again_at_somebodys_word_and_the_next_sweep_sees_it(
    mode: LeaseMode, wanted: dict[str, object]
) -> None:
    bench = Bench(mode)
    bench.put_off()
    bench.change(**wanted)
    assert bench.free() == ["a"]
    assert isinstance(bench.claim("worker-2"), Claimed)


@BOTH
def test_what_was_stopped_while_it_was_put_off_starts_at_once(mode: LeaseMode) -> None:
    bench = Bench(mode)
    bench.put_off()
    bench.change(desired_state=DesiredState.STOPPED)
    assert bench.free() == []
    bench.change(desired_state=DesiredState.STARTED)
    assert bench.free() == ["a"]


@BOTH
def test_asking_again_writes_nothing_where_it_is_being_tried(mode: LeaseMode) -> None:
    bench = Bench(mode)
    bench.claim()
    before = bench.item
    assert isinstance(bench.change(desired_state=DesiredState.STARTED, again=True), Done)
    assert bench.item == before


@BOTH
def test_asking_again_moves_the_version_of_what_failed_so_that_its_owner_tries_it(mode: LeaseMode) -> None:
    bench = Bench(mode)
    claimed = bench.claim()
    assert isinstance(claimed, Claimed)
    failed = {**bench.item, **items.status_attributes(Status(StatusState.FAILED, 1, "HTTP 403 is final"))}
    bench.store._tables[Table.CONNECTIONS]["a",] = failed
    bench.change(again=True)
    assert bench.connection.spec_version == 2
    assert bench.connection.lease_owner == "worker-1"
    assert bench.item.get("lease_expires_at_ms") == failed.get("lease_expires_at_ms")


@BOTH
def test_a_word_that_comes_just_after_the_claim_does_not_end_the_new_owners_lease(mode: LeaseMode) -> None:
    bench = Bench(mode)
    bench.put_off()
    seen = bench.connection
    bench.clock.advance(OFF_MS + TIMING.skew_ms + 1)
    bench.claim("worker-2")
    taken = bench.item
    late = lease.control(
        seen, Change(again=True), shard=plan.shard("a", 1), now_ms=bench.clock.wall_ms, updated_by="somebody"
    )
    assert isinstance(lease.controlled(bench.store._write(late)), lease.Changed)
    assert bench.item == taken
    bench.change(spec={"record": {}})
    assert bench.item.get("lease_expires_at_ms") == taken.get("lease_expires_at_ms")


@BOTH
def test_a_change_that_crosses_the_release_that_puts_off_is_made_of_what_is_put_off(mode: LeaseMode) -> None:
    """Else it would be due, and hidden from every sweep for as long as it had been put off."""
    bench = Bench(mode)
    bench.claim()
    seen = bench.connection
    bench.put_off_by(seen)
    put_off = bench.item
    late = lease.control(
        seen, Change(labels={"team": "a"}), shard=plan.shard("a", 1), now_ms=bench.clock.wall_ms, updated_by="somebody"
    )
    assert isinstance(lease.controlled(bench.store._write(late)), lease.Changed)
    assert bench.item == put_off
    assert isinstance(bench.change(labels={"team": "a"}), Done)
    assert bench.free() == ["a"]


@BOTH
def test_what_is_hidden_though_nobody_put_it_off_is_free_again_at_somebodys_word(mode: LeaseMode) -> None:
    bench = Bench(mode)
    bench.put_off()
    left = {name: value for name, value in bench.item.items() if name != "not_before_ms"}
    bench.store._tables[Table.CONNECTIONS]["a",] = left
    assert bench.free() == []
    bench.change(again=True)
    assert bench.free() == ["a"]
