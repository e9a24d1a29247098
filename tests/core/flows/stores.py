"""A store in memory filled as the transitions themselves would have, and flows run on it one request at a time."""

from typing import Any

from streamlease import items, lease, membership, plan
from streamlease.flow import Flow, Request, run
from streamlease.flows.reconcile import Report, reconcile
from streamlease.model import Connection, DesiredState, Lease, LeaseMode
from streamlease.timing import Timing
from streamlease.write import Always, Applied, Item, Put, Table
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore

TIMING = Timing()
SHARDS = 4


class Fleet:
    """A `MemoryStore` on a set clock, and short ways to fill and read it."""

    def __init__(self, *, lagging: bool = False) -> None:
        self.clock = SetClock()
        self.store = MemoryStore(self.clock, lagging=lagging)
        self.perform = self.store.perform

    def add(self, connection_id: str, state: DesiredState = DesiredState.STARTED) -> None:
        put = lease.create(
            connection_id,
            upstream_url="wss://up.example",
            spec={},
            labels={},
            desired_state=state,
            shard=plan.shard(connection_id, SHARDS),
            now_ms=self.clock.wall_ms,
            updated_by="me",
        )
        assert isinstance(self.perform(put), Applied)

    def own(
        self, connection_id: str, worker_id: str, mode: LeaseMode = LeaseMode.CONNECTION, *, checkpoints: int = 1
    ) -> Lease:
        """`connection_id`, made and claimed now, with so many checkpoints written."""
        if self.item(connection_id) is None:
            self.add(connection_id)
        sent, nonce = self.clock(), f"{worker_id}/{connection_id}/{self.clock.wall_ms}"
        write = lease.claim(connection_id, worker_id=worker_id, nonce=nonce, sent=sent, timing=TIMING, mode=mode)
        answer = self.perform(write)
        assert isinstance(answer, Applied)
        held = lease.lease_of(self.connection(connection_id), worker_id)
        for number in range(1, checkpoints + 1):
            assert isinstance(self.perform(lease.checkpoint(held, lease.Checkpoint(number))), Applied)
        return held

    def stop(self, connection_id: str) -> None:
        change = lease.Change(DesiredState.STOPPED)
        shard = plan.shard(connection_id, SHARDS)
        seen, now_ms = self.connection(connection_id), self.clock.wall_ms
        write = lease.control(seen, change, shard=shard, now_ms=now_ms, updated_by="me")
        assert isinstance(self.perform(write), Applied)

    def join(self, worker_id: str, *, owned: int = 0, load: dict[str, Any] | None = None) -> None:
        sent = self.clock()
        put = membership.join(
            worker_id, generation=1, capacity=100, zone="a", started_at_ms=0, sent=sent, timing=TIMING
        )
        assert isinstance(
            self.perform(Put(put.table, {**put.item, "owned": owned, "load": load or {}}, put.condition)), Applied
        )

    def beat(self, worker_id: str) -> None:
        member = items.member(self.member(worker_id))
        write = membership.heartbeat(
            worker_id,
            seen=member.heartbeat,
            state=member.state,
            owned=member.owned,
            load=member.load,
            sent=self.clock(),
            timing=TIMING,
        )
        assert isinstance(self.perform(write), Applied)

    def edit(self, connection_id: str, **changes: Any) -> None:
        """By hand, past every condition; None takes an attribute away."""
        item = {**(self.item(connection_id) or {}), **changes}
        kept = {name: value for name, value in item.items() if value is not None}
        self.perform(Put(Table.CONNECTIONS, kept, Always()))

    def item(self, connection_id: str) -> Item | None:
        return self.store.item(Table.CONNECTIONS, connection_id)

    def connection(self, connection_id: str) -> Connection:
        return items.connection(self.item(connection_id) or {})

    def member(self, worker_id: str) -> Item:
        found = self.store.item(Table.MEMBERS, worker_id)
        assert found is not None
        return found

    def offered(self) -> list[str]:
        """The ids offered since the last look."""
        ids = [offer.connection_id for offer in self.store.offers]
        self.store.offers.clear()
        return ids


def steps[T](flow: Flow[T], fleet: Fleet, count: int) -> bool:
    """Carry out `count` requests of `flow`, and drop it there, as a crash does. Returns whether it had ended before."""
    try:
        request: Request = next(flow)
        for _ in range(count):
            request = flow.send(fleet.perform(request))
    except StopIteration:
        return True
    flow.close()
    return False


LATE_MS = TIMING.lease_ms + TIMING.skew_ms + 1_001
"""Also by the whole seconds of a service's `Date`."""


def once(fleet: Fleet, perform: Any = None, *, budget_s: float = 50.0) -> Report:
    return run(reconcile(shards=SHARDS, timing=TIMING, budget_s=budget_s), perform or fleet.perform)


def busy(count: int = 3) -> Fleet:
    """Of each kind `count`: free, expired, owned by the living, owned in worker mode by the dead or by nobody known."""
    fleet = Fleet()
    fleet.join("dead", owned=count)
    for number in range(count):
        fleet.own(f"orphan{number}", "dead", LeaseMode.WORKER)
        fleet.own(f"stray{number}", "never-joined", LeaseMode.WORKER)
        fleet.own(f"expired{number}", "dead")
    fleet.clock.advance(LATE_MS)
    fleet.join("alive", owned=2 * count, load={"streaming": count})
    for number in range(count):
        fleet.own(f"owned{number}", "alive")
        fleet.own(f"held{number}", "alive", LeaseMode.WORKER)
        fleet.add(f"free{number}")
    return fleet


def names(*kinds: str, count: int = 3) -> list[str]:
    return sorted(f"{kind}{number}" for kind in kinds for number in range(count))
