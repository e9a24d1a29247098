"""Who should do what: shards, shares, offers, audits. Pure: every answer is a value to act upon (design §5)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from zlib import crc32

from streamlease.errors import Malformed
from streamlease.model import DesiredState, FleetSummary, LastEvent, Member, MemberState, Offer, OfferReason
from streamlease.shares import WHOLE_PACE, divide, target
from streamlease.write import Item

STALE_OFFER_MS = 5_000
"""An offer unclaimed for this long is anybody's with capacity, whatever the shares say."""
FLEET_SWEEP_S = 1.0
"""About one full sweep a second for the whole fleet, however many workers take turns."""
STALE_SUMMARY_MS = 15_000

# --- shards ----------------------------------------------------------------------------------------------------------

BARE_SHARD = "STARTED"


def shard(connection_id: str, shards: int) -> str:
    """The `desired_state_shard` of a started connection."""
    return BARE_SHARD if shards <= 1 else f"{BARE_SHARD}#{crc32(connection_id.encode()) % shards}"


def sweep_shards(configured: int, ever: int) -> tuple[str, ...]:
    """Every key that a started connection may stand under, when `ever` is the most shards ever written."""
    most = max(configured, ever)
    numbered = tuple(f"{BARE_SHARD}#{number}" for number in range(most)) if most > 1 else ()
    return (BARE_SHARD, *numbered)


# --- shares ----------------------------------------------------------------------------------------------------------


def live(members: Iterable[Member], *, now_ms: int) -> tuple[Member, ...]:
    """The members that may be given connections."""
    return tuple(m for m in members if m.state is MemberState.LIVE and m.lease_expires_at_ms >= now_ms)


def summary(
    members: Collection[Member], *, unowned: int, shards: int, now_ms: int, before: FleetSummary | None = None
) -> FleetSummary:
    """What is known of the fleet. An expired member's connections are, or will soon be, among the unowned: counted with
    the owned as well, they would raise everybody's share. `before`: the summary that this one follows."""
    running = [m for m in members if m.state in (MemberState.LIVE, MemberState.DRAINING)]
    divided = divide(
        members,
        unowned=unowned,
        before=before.shares if before else None,
        before_ms=before.at_ms if before else 0,
        now_ms=now_ms,
    )
    return FleetSummary(
        at_ms=now_ms,
        live=len(live(members, now_ms=now_ms)),
        owned=sum(m.owned for m in running if m.lease_expires_at_ms >= now_ms),
        unowned=unowned,
        shards=shards,
        shares=divided,
    )


def share(fleet: FleetSummary | None, worker_id: str, *, pace: int = WHOLE_PACE) -> int | None:
    """What this worker is to weigh; None where nothing is known, and capacity alone decides."""
    if fleet is None or fleet.shares is None:
        return fair_share(fleet)
    return target(fleet.shares, worker_id, own_pace=pace) if fleet.shares.whole else None


def fair_share(fleet: FleetSummary | None) -> int | None:
    """ceil((owned + unowned) / live members), where no sweep has divided it up; None where nothing is known.

    The unowned count, or a cold fleet would compute a share of nothing and nobody would take anything.
    """
    if fleet is None or fleet.live <= 0 or fleet.owned + fleet.unowned <= 0:
        return None
    return -(-(fleet.owned + fleet.unowned) // fleet.live)


def room(*, held: int, capacity: int, share: int | None, stale: bool) -> int:
    """How many more connections a worker may take that holds (or is claiming) `held`.

    `stale`: the candidates have waited long enough to be anybody's, so that capacity alone decides.
    """
    limit = capacity if stale or share is None else min(capacity, share)
    return max(0, limit - held)


def is_stale(offer: Offer, *, now_ms: int) -> bool:
    return now_ms - offer.offered_at_ms >= STALE_OFFER_MS


def sweep_delay_s(fleet: FleetSummary | None, draw: float) -> float:
    """Until a worker's next sweep: its turn among the living, jittered by half. `draw` is uniform in [0, 1)."""
    living = max(1, fleet.live if fleet else 1)
    return FLEET_SWEEP_S * living * (0.5 + draw)


# --- candidates ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A started connection that an index answer shows as free or expired. Only the base table decides."""

    connection_id: str
    lease_expires_at_ms: int


def candidates(index_items: Iterable[Item]) -> tuple[Candidate, ...]:
    """What one page of `by_expiry` shows; items that make no sense are left out (the owner walk reports them)."""
    found = []
    for item in index_items:
        connection_id, expires_at_ms = item.get("connection_id"), item.get("lease_expires_at_ms")
        if isinstance(connection_id, str) and isinstance(expires_at_ms, int):
            found.append(Candidate(connection_id, expires_at_ms))
    return tuple(found)


def offers(found: Iterable[Candidate], *, now_ms: int) -> tuple[Offer, ...]:
    """One offer per candidate. An expiry of 0 was freed by somebody; any other ran out under its owner."""
    return tuple(offer(c.connection_id, "expired" if c.lease_expires_at_ms else "released", now_ms) for c in found)


def offer(connection_id: str, reason: OfferReason, now_ms: int) -> Offer:
    return Offer(connection_id, reason, now_ms)


# --- the stream ------------------------------------------------------------------------------------------------------

_REASONS: Mapping[str, OfferReason] = {
    LastEvent.CONTROL.value: "control",
    LastEvent.RELEASED.value: "released",
    LastEvent.ORPHANED.value: "orphaned",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """The owner of a connection should look at it again: an inbox entry, naming the version to be seen."""

    worker_id: str
    connection_id: str
    spec_version: int


def reaction(image: Item | None, *, now_ms: int) -> Offer | Notice | None:
    """What the new image of a changed connection asks for; None for an item removed, stopped, renewed or claimed.

    A `Notice` is for owners in worker mode: their item carries no expiry, and no renewal of it would tell them.
    Raises Malformed for an image that names no connection or desired state, or to its owner no version.
    """
    if image is None:
        return None
    connection_id, event = image.get("connection_id"), image.get("last_event")
    desired_state = image.get("desired_state")
    if not isinstance(connection_id, str) or not connection_id:
        raise Malformed("stream record", "its image has no connection_id")
    if desired_state not in (DesiredState.STARTED.value, DesiredState.STOPPED.value):
        raise Malformed(f"connection {connection_id!r}", f"desired_state is {desired_state!r}")
    owner, spec_version = image.get("lease_owner"), image.get("spec_version")
    if isinstance(owner, str):
        mode_has_no_renewal = "lease_expires_at_ms" not in image
        if event != LastEvent.CONTROL.value or not mode_has_no_renewal:
            return None
        if not isinstance(spec_version, int):
            raise Malformed(f"connection {connection_id!r}", f"spec_version is {spec_version!r}")
        return Notice(owner, connection_id, spec_version)
    reason = _REASONS.get(str(event))
    if reason is None or desired_state != DesiredState.STARTED.value:
        return None
    return offer(connection_id, reason, now_ms)


# --- the minute's audit ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Discrepancies:
    """What `by_owner(me)` and this worker's running leases disagree on; each is settled by a consistent read."""

    unknown: tuple[str, ...]
    """In the index as ours, not running: a claim that landed late, perhaps."""
    outdated: tuple[str, ...]
    """Running, with a version or a STOPPED this worker was never told of."""


def audit(index_items: Iterable[Item], running: Mapping[str, int]) -> Discrepancies:
    """`running`: connection id → the spec version this worker acts upon (claims in flight included)."""
    unknown, outdated = [], []
    for item in index_items:
        connection_id = item.get("connection_id")
        if not isinstance(connection_id, str):
            continue
        version = running.get(connection_id)
        if version is None:
            unknown.append(connection_id)
        elif item.get("spec_version") != version or item.get("desired_state") == DesiredState.STOPPED.value:
            outdated.append(connection_id)
    return Discrepancies(tuple(unknown), tuple(outdated))
