"""Invariants 1 and 2 at the sink, and 3 where a position lands in the table."""

from dataclasses import dataclass, field

from streamlease.timing import SKEW_MS
from streamlease.write import Item, Table
from tests.simulation.beliefs import Beliefs
from tests.simulation.clock import true_ms
from tests.simulation.continuity import may_be_missing
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import Ledger
from tests.simulation.network import label
from tests.simulation.sink import Attempt, Sink
from tests.simulation.store import Landing, Store
from tests.simulation.upstream import FIRST_NUMBER, Upstream
from tests.simulation.violation import Violated, Violation


def instance_of(sequence: int) -> int:
    """Which instance of an upstream numbers so."""
    return FIRST_NUMBER.bit_length() - sequence.bit_length()


@dataclass(slots=True)
class DeliveryChecker:
    kernel: Kernel
    store: Store
    sink: Sink
    beliefs: Beliefs
    ledger: Ledger
    upstreams: dict[str, Upstream]
    delivering: dict[str, int] = field(default_factory=dict)
    """The highest epoch that has begun a delivery, by connection."""
    promised: dict[str, int] = field(default_factory=dict)
    """Number (in `Upstream.emitted`) of the first record that a stored position has promised, by connection."""
    forgotten: dict[str, int] = field(default_factory=dict)
    """The spec version with which somebody asked for a start from nowhere, by connection."""

    def on_begin(self, attempt: Attempt) -> None:
        """A sink attempt begins: its sender has just found its deadline ahead."""
        connection_id, epoch = attempt.connection_id, attempt.epoch
        if self.ledger.tells:
            self.ledger.say(attempt.worker, f"begins a delivery in epoch {epoch}", connection_id)
        if (connection_id, epoch) in self.beliefs.released:
            self._fail(1, "a released epoch never delivers again", attempt, "its release had been sent")
        highest = self.delivering.get(connection_id, 0)
        if epoch < highest:
            self._fail(1, "one worker at a time begins deliveries", attempt, f"epoch {highest} has begun before")
        self.delivering[connection_id] = epoch
        item = self.store.connection(connection_id)
        if (
            item is None
            or not self.beliefs.is_of(item.get("lease_owner"), attempt.worker)
            or item["lease_epoch"] != epoch
        ):
            self._fail(
                1,
                "who delivers holds the lease",
                attempt,
                "there is no item"
                if item is None
                else f"the item says {item.get('lease_owner')}, epoch {item['lease_epoch']}",
            )
            return
        if "lease_expires_at_ms" not in item:
            member = self.store.member(str(item["lease_owner"]))
            if member is None or member.get("state") not in ("LIVE", "DRAINING"):
                self._fail(1, "who delivers is a living member", attempt, f"member: {member and member.get('state')}")

    def on_extend(self, connection_id: str, epoch: int, worker_id: str) -> None:
        """Whoever believes to hold a lease has it in writing, for at least as long as nobody may take it."""
        item = self.store.connection(connection_id)
        if item is None or item.get("lease_owner") != worker_id or item["lease_epoch"] != epoch:
            return  # Taken meanwhile: whether that was right is judged where it was taken.
        holder = item if "lease_expires_at_ms" in item else self.store.member(worker_id)
        written_ms = (holder or {}).get("lease_expires_at_ms")
        believed_ms = true_ms(self.beliefs.entitled_until_us(connection_id, epoch))
        if not isinstance(written_ms, int) or believed_ms > written_ms + SKEW_MS // 2:
            what = f"{worker_id} counts on epoch {epoch} until {believed_ms}, but {written_ms} is written"
            raise Violated(Violation(1, "a lease is held in writing", self.kernel.now_us, connection_id, what))

    def observe(self, landing: Landing) -> None:
        if landing.write.table is not Table.CONNECTIONS or not landing.applied:
            return
        before, after = landing.before, landing.after
        if after is None or (before is not None and "position" not in after):
            self._forget(landing, after)
            return
        if after.get("position") is not None and (before or {}).get("position") != after["position"]:
            self._position(landing, before or {}, after)

    def _forget(self, landing: Landing, after: Item | None) -> None:
        """Somebody deleted the connection, or asked for a start from nowhere: what was promised is void, and so is what
        the feed of before still stores, until one has been started since."""
        connection_id, version = landing.key[0], (after or {}).get("spec_version")
        self.promised.pop(connection_id, None)
        if after is None:
            self.beliefs.started.pop(connection_id, None)
            self.forgotten.pop(connection_id, None)
        elif label(landing.write) == "control" and isinstance(version, int):
            self.forgotten[connection_id] = version

    def _is_of_before(self, connection_id: str) -> bool:
        return self.beliefs.started.get(connection_id, 0) < self.forgotten.get(connection_id, 0)

    def _position(self, landing: Landing, before: Item, after: Item) -> None:
        connection_id = landing.key[0]
        sequence, was = _sequence(after), _sequence(before)
        if self._is_of_before(connection_id):
            return
        if sequence is None and was is not None and connection_id not in self.forgotten:
            self._position_fails(landing, "a position never falls", f"{was} became none")
        if sequence is None:
            self.promised.pop(connection_id, None)
            return
        upstream = self.upstreams[connection_id]
        if was is not None:
            falls = instance_of(sequence) < instance_of(was) or (
                instance_of(sequence) == instance_of(was) and sequence < was
            )
            if falls:
                self._position_fails(landing, "a position never falls", f"{was} became {sequence}")
        first = self.promised.get(connection_id)
        if first is None:
            self.promised[connection_id] = self._promise(connection_id, sequence)
            return
        reader = self.sink.reader(connection_id)
        for record in upstream.emitted[first:]:
            if record.instance != instance_of(sequence) or record.sequence >= sequence:
                continue
            if was is not None and instance_of(was) == record.instance and record.sequence < was:
                continue
            if record.record_id not in reader.records and not may_be_missing(record, upstream, reader):
                self._position_fails(
                    landing,
                    "a position never passes a record that is not durable",
                    f"{sequence} passes {record.sequence} ({record.record_id})",
                )

    def _promise(self, connection_id: str, sequence: int) -> int:
        """Where the promise begins: at the first record after the first stored position. What came before it was never
        promised, nor what shares its sequence: the feed had begun somewhere among those."""
        for number, record in enumerate(self.upstreams[connection_id].emitted):
            if record.instance == instance_of(sequence) and record.sequence > sequence:
                return number
        return len(self.upstreams[connection_id].emitted)

    def _position_fails(self, landing: Landing, rule: str, what: str) -> None:
        what = f"{label(landing.write)} by {landing.origin}: {what}"
        raise Violated(Violation(3, rule, self.kernel.now_us, landing.key[0], what))

    def _fail(self, invariant: int, rule: str, attempt: Attempt, what: str) -> None:
        what = f"{attempt.worker} began a delivery in epoch {attempt.epoch}; {what}"
        raise Violated(Violation(invariant, rule, self.kernel.now_us, attempt.connection_id, what))


def _sequence(item: Item) -> int | None:
    """None also of a position from before somebody asked for a start from nowhere: nobody goes on from that."""
    position = item.get("position")
    if not isinstance(position, dict):
        return None
    made_by, since = position.get("spec_version"), item.get("positions_since_version")
    if isinstance(made_by, int) and isinstance(since, int) and made_by < since:
        return None
    found = position.get("sequence")
    return int(found) if isinstance(found, int | float) else None
