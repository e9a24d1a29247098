"""Invariants 1, 2 and 8 where they can be seen in the table: at the instant each write lands."""

from dataclasses import dataclass, field

from streamlease.write import Item, Table, Update
from tests.simulation.beliefs import Beliefs
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import Ledger
from tests.simulation.network import label
from tests.simulation.store import Landing
from tests.simulation.violation import Violated, Violation

INDEX_ATTRIBUTES = ("desired_state_shard", "lease_expires_at_ms", "lease_owner")


@dataclass(slots=True)
class LeaseChecker:
    kernel: Kernel
    beliefs: Beliefs
    ledger: Ledger
    highest: dict[str, int] = field(default_factory=dict)
    owners: dict[tuple[str, int], str] = field(default_factory=dict)
    last_owner: dict[str, str] = field(default_factory=dict)
    stopped_us: dict[str, int] = field(default_factory=dict)
    """Since when nobody wants a connection open, by connection."""

    def observe(self, landing: Landing) -> None:
        if not landing.applied:
            return
        if landing.write.table is Table.MEMBERS:
            self._member(landing)
        elif landing.write.table is Table.CONNECTIONS:
            self._connection(landing)

    def _connection(self, landing: Landing) -> None:
        connection_id, before, after = landing.key[0], landing.before, landing.after
        if self.ledger.tells:
            self._tell(landing)
        if (
            before is not None
            and before.get("lease_owner") is not None
            and (after is None or _claim_of(after) != _claim_of(before))
        ):
            self._taken(landing, before)
        if after is None or after.get("desired_state") != "STARTED":
            self.stopped_us.setdefault(connection_id, self.kernel.now_us)
        else:
            self.stopped_us.pop(connection_id, None)
        if after is None:
            return
        self._epoch(landing, connection_id, before, after)
        if before is not None:
            self._writer(landing, connection_id, before, after)
            self._index(landing, connection_id, before, after)

    def _fail(self, invariant: int, rule: str, connection_id: str, what: str) -> None:
        raise Violated(Violation(invariant, rule, self.kernel.now_us, connection_id, what))

    def _epoch(self, landing: Landing, connection_id: str, before: Item | None, after: Item) -> None:
        epoch, owner = after["lease_epoch"], after.get("lease_owner")
        assert isinstance(epoch, int)
        highest = self.highest.get(connection_id, -1)
        if epoch < highest or (before is None and epoch == highest):
            self._fail(2, "epoch never falls", connection_id, f"{label(landing.write)} made it {epoch} after {highest}")
        self.highest[connection_id] = epoch
        if owner is None:
            return
        if label(landing.write) == "claim" and after.get("desired_state") != "STARTED":
            self._fail(6, "a stopped connection stays closed", connection_id, f"claimed by {landing.origin}")
        known = self.owners.setdefault((connection_id, epoch), f"{owner}/{after.get('lease_nonce')}")
        if known != f"{owner}/{after.get('lease_nonce')}":
            self._fail(2, "an epoch names one owner", connection_id, f"{epoch} was {known}, now {owner}")
        if self.last_owner.get(connection_id) != owner:
            self.last_owner[connection_id] = str(owner)
            self.ledger.count("ownership_changes")

    def _taken(self, landing: Landing, before: Item) -> None:
        """The owner of `before` lost it: by its own release, or once it could not deliver any more."""
        connection_id, owner, epoch = landing.key[0], before["lease_owner"], before["lease_epoch"]
        assert isinstance(epoch, int)
        if self.beliefs.is_of(owner, landing.origin):
            return
        until_us = self.beliefs.entitled_until_us(connection_id, epoch)
        if until_us > self.kernel.now_us:
            self._fail(
                1,
                "nobody takes what its owner may still deliver",
                connection_id,
                f"{label(landing.write)} by {landing.origin} ended epoch {epoch} of {owner}, which may deliver for"
                f" {(until_us - self.kernel.now_us) / 1e3:.0f} ms more",
            )

    def _writer(self, landing: Landing, connection_id: str, before: Item, after: Item) -> None:
        kind = label(landing.write)
        if kind not in ("renew", "checkpoint", "release"):
            return
        assert isinstance(landing.write, Update)
        if not self.beliefs.is_of(before.get("lease_owner"), landing.origin):
            self._fail(
                2,
                "only the owner writes as one",
                connection_id,
                f"{kind} by {landing.origin} changed the item of {before.get('lease_owner')}",
            )
        if landing.stamp is not None and landing.stamp != (before.get("lease_owner"), before.get("lease_epoch")):
            self._fail(
                2,
                "a stale epoch's write changes nothing",
                connection_id,
                f"{kind} of {landing.stamp} changed the item of {before.get('lease_owner')}, epoch"
                f" {before.get('lease_epoch')}",
            )
        if kind == "renew":
            was, now = before.get("lease_expires_at_ms"), after.get("lease_expires_at_ms")
            if isinstance(was, int) and isinstance(now, int) and now < was:
                self._fail(1, "a renewal never shortens a lease", connection_id, f"{was} became {now}")
        elif kind == "checkpoint":
            was, now = before.get("checkpoint_no"), after.get("checkpoint_no")
            is_word = now == was == 0 and before.get("position") == after.get("position")
            if isinstance(was, int) and isinstance(now, int) and now <= was and not is_word:
                self._fail(3, "checkpoints land in order", connection_id, f"number {now} after {was}")

    def _index(self, landing: Landing, connection_id: str, before: Item, after: Item) -> None:
        """Only transitions move index keys; renewals do in connection mode, where the item carries an expiry."""
        if landing.write.table is not Table.CONNECTIONS or all(before.get(n) == after.get(n) for n in INDEX_ATTRIBUTES):
            return
        kind = label(landing.write)
        if kind == "checkpoint" or (kind == "renew" and "lease_expires_at_ms" not in before):
            self._fail(8, "heartbeats write no index", connection_id, f"{kind} by {landing.origin} moved an index key")

    def _member(self, landing: Landing) -> None:
        kind, before, after = label(landing.write), landing.before, landing.after
        worker_id = landing.key[0]
        if self.ledger.tells and kind in ("join", "bury", "forget"):
            self.ledger.say("table", f"{kind} of {worker_id} by {landing.origin} landed")
        if kind == "heartbeat" and before is not None and before.get("state") in ("DEAD", "GONE"):
            self._fail(2, "DEAD is final", "", f"a heartbeat revived {worker_id}")
        if kind == "join" and before is not None:
            self._fail(2, "a join makes a new member", "", f"a join overwrote {worker_id}")
        if kind == "heartbeat" and before is not None and after is not None:
            was, now = before.get("lease_expires_at_ms"), after.get("lease_expires_at_ms")
            if isinstance(was, int) and isinstance(now, int) and now < was:
                self._fail(1, "a heartbeat never shortens a lease", "", f"{worker_id}: {was} became {now}")

    def _tell(self, landing: Landing) -> None:
        before, after = landing.before or {}, landing.after or {}
        changed = {
            name: after.get(name)
            for name in (
                "lease_owner",
                "lease_epoch",
                "lease_expires_at_ms",
                "desired_state",
                "position",
                "spec_version",
            )
            if before.get(name) != after.get(name)
        }
        self.ledger.say("table", f"{label(landing.write)} by {landing.origin} landed: {changed}", landing.key[0])


def _claim_of(item: Item) -> tuple[object, object]:
    return item.get("lease_owner"), item.get("lease_epoch")
