"""Invariants 4, 5 and 6 at the end of a run, when faults have stopped for long enough."""

from dataclasses import dataclass

from streamlease.model import StatusState
from streamlease.write import Item
from tests.simulation.check_delivery import DeliveryChecker
from tests.simulation.clock import true_ms
from tests.simulation.continuity import may_be_missing
from tests.simulation.kernel import Kernel, S
from tests.simulation.ledger import Ledger
from tests.simulation.sink import Sink
from tests.simulation.store import Store
from tests.simulation.upstream import Upstream
from tests.simulation.violation import Violation

MOST_KILLED = 8
"""Crashes are put off by 5 s from the second on, then twice that each time: so many fit into a run."""
HOUR_MS = 3_600_000
CLOSING_US = 3 * S
"""For what waits to be flushed, and for the socket to close."""
ON_ITS_WAY_US = 10 * S
"""A record this young may still be between its upstream and the sink."""


@dataclass(frozen=True, slots=True)
class Streaming:
    """Who streams a connection now, as its own process says."""

    worker: str
    epoch: int
    state: StatusState | None
    spec: Item


@dataclass(slots=True)
class EndChecker:
    kernel: Kernel
    store: Store
    sink: Sink
    ledger: Ledger
    delivery: DeliveryChecker
    upstreams: dict[str, Upstream]
    bound_us: int
    """How long a healthy fleet may take for anything."""
    asked_us: dict[str, int]
    """When people last asked something of a connection."""
    stopped_us: dict[str, int]
    """Since when nobody wants a connection open."""
    two_heartbeats_us: tuple[int, int]
    """Of connection mode, where the renewal hears of a stop, and of worker mode, where the inbox does."""

    def violations(self, streaming: dict[str, list[Streaming]]) -> list[Violation]:
        found: list[Violation] = []
        for connection_id, upstream in self.upstreams.items():
            item = self.store.connection(connection_id)
            found += self._kills(connection_id)
            if self.kernel.now_us - self.asked_us.get(connection_id, 0) < self.bound_us:
                found += self._closed_soon(connection_id, upstream, item)
                continue
            if item is None or item.get("desired_state") != "STARTED":
                found += self._closed(connection_id, upstream, item)
            elif not self._postponed(item) and not self._outlasts(item):
                found += self._alive(connection_id, item, streaming.get(connection_id, []))
                found += self._lost(connection_id, upstream)
        return found

    def _kills(self, connection_id: str) -> list[Violation]:
        """A connection that kills its owners is put off for longer and longer; a change by people starts it afresh."""
        killed = self.ledger.counts[f"killed by {connection_id}"]
        changes = self.ledger.counts[f"changes of {connection_id}"]
        if killed <= MOST_KILLED * (1 + changes):
            return []
        what = f"it has killed {killed} processes, with {changes} changes meanwhile"
        return [Violation(7, "one connection does not kill the fleet", self.kernel.now_us, connection_id, what)]

    def _postponed(self, item: Item) -> bool:
        """Put off because it has cost its owners: not to be streaming yet."""
        not_before_ms = item.get("not_before_ms")
        late_ms = self.bound_us // 1_000
        return isinstance(not_before_ms, int) and not_before_ms + late_ms > true_ms(self.kernel.now_us)

    def _outlasts(self, item: Item) -> bool:
        """Whether the lease was written by a clock an hour ahead, whose owner then died: safe, but long."""
        expiry = item.get("lease_expires_at_ms")
        if "lease_owner" in item and expiry is None:
            expiry = (self.store.member(str(item["lease_owner"])) or {}).get("lease_expires_at_ms")
        return isinstance(expiry, int) and expiry > true_ms(self.kernel.now_us) + HOUR_MS / 2

    def _alive(self, connection_id: str, item: Item, running: list[Streaming]) -> list[Violation]:
        now_us = self.kernel.now_us
        owned = [r for r in running if r.epoch == item["lease_epoch"]]
        if len(owned) == 1 and owned[0].state is StatusState.STREAMING:
            if owned[0].spec == item["spec"]:
                return []
            what = f"the item's spec is {item['spec']}, and {owned[0]} runs"
            return [Violation(4, "what people change is heard of", now_us, connection_id, what)]
        lease = {name: item.get(name) for name in ("lease_owner", "lease_epoch", "lease_expires_at_ms", "crashes")}
        what = f"the item says {lease}; running: {running}"
        return [Violation(4, "every started connection streams again", now_us, connection_id, what)]

    def _closed_soon(self, connection_id: str, upstream: Upstream, item: Item | None) -> list[Violation]:
        """Of a healthy fleet, two heartbeats are asked."""
        in_worker_mode = item is not None and "lease_expires_at_ms" not in item
        elapsed_us = self.kernel.now_us - self.stopped_us.get(connection_id, self.kernel.now_us)
        if elapsed_us < self.two_heartbeats_us[in_worker_mode] + CLOSING_US:
            return []
        return self._closed(connection_id, upstream, item)

    def _closed(self, connection_id: str, upstream: Upstream, item: Item | None) -> list[Violation]:
        if not upstream.sockets:
            return []
        state = "there is no item" if item is None else "STOPPED"
        what = f"{state}, but {', '.join(s.who for s in upstream.sockets)} is connected"
        return [Violation(6, "a stopped connection's socket is closed", self.kernel.now_us, connection_id, what)]

    def _lost(self, connection_id: str, upstream: Upstream) -> list[Violation]:
        first = self.delivery.promised.get(connection_id)
        if first is None:
            return []
        reader = self.sink.reader(connection_id)
        until_us = self.kernel.now_us - ON_ITS_WAY_US
        emitted = upstream.emitted[first:]
        missing = [e for e in emitted if e.record_id not in reader.records and e.at_us < until_us]
        unexcused = [e for e in missing if not may_be_missing(e, upstream, reader)]
        if not unexcused:
            return []
        what = f"{len(unexcused)} records, the first {unexcused[0]}, without a gap record"
        return [Violation(5, "no record is lost", self.kernel.now_us, connection_id, what)]
