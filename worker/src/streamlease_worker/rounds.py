"""What a worker does again and again, each at its own pace and never twice at once: receive, sweep, read the fleet
summary, audit. Part of the supervisor."""

from streamlease import plan
from streamlease.errors import Fault
from streamlease.flows.sweep import Sweep
from streamlease.model import FleetSummary, MemberState
from streamlease.shares import silent
from streamlease.timing import Instant, Timing
from streamlease_worker.jitter import draw
from streamlease_worker.supervisor_events import Command, ListOwned, ReadFleet, Receive, Recount, SweepNow

MOST_CANDIDATES = 1_000
"""More than this are not listed by one sweep: the next one comes soon enough."""
MOST_TURNS = 1 << 16
RECEIVE_AT_ONCE = 10
URGENCY = 4.0
"""While somebody seems to be dying, the fleet sweeps so many times as often."""
AFTER_FAULT_S = 2.0
FIRST_SWEEP_S = 0.5
"""A newcomer's first sweep is what divides the connections up anew; several that join at once do not march in step."""
READ_FLEET_S = 0.25
"""In a fleet of up to `SMALL_FLEET` workers. Somebody's drain shows in the summary, and makes room elsewhere."""
SMALL_FLEET = 10
LONGEST_READ_FLEET_S = 10.0
AUDIT_S = 60.0
APART_S = 0.02
"""So far apart, on the average, the living sweep in the moment in which somebody may be buried."""
SEEN_WITHIN_MS = 1_000
"""A lease that has run out shows in a sweep within this, while sweeps come sooner."""


class Rounds:
    """Mutable, owned by one `Supervisor`."""

    def __init__(self, worker_id: str, now: Instant) -> None:
        self._worker_id = worker_id
        self._round = 0
        self._receiving = self._sweeping = self._reading = self._listing = False
        self._receive_at_s = now.mono_s
        self._sweep_at_s = now.mono_s + FIRST_SWEEP_S * draw(worker_id)
        self._read_at_s = now.mono_s
        self._audit_at_s = now.mono_s + AUDIT_S * (0.5 + draw(worker_id, "audit"))
        self._farewell = False

    def due(self, now: Instant, *, wanted: int, room: int) -> list[Command]:
        """What is to begin now. `wanted`: offers that would be of use; `room`: what capacity alone would allow."""
        out = self.receive(now, wanted=wanted)
        if not self._sweeping and now.mono_s >= self._sweep_at_s:
            self._sweeping = True
            self._round += 1
            turn = int(draw(self._worker_id, "turn", self._round) * MOST_TURNS)
            out.append(SweepNow(min(MOST_CANDIDATES, 2 * room), turn))
        elif not self._sweeping and not self._reading and now.mono_s >= self._read_at_s:
            self._reading = True
            out.append(ReadFleet())
        if not self._listing and now.mono_s >= self._audit_at_s:
            self._listing = True
            out.append(ListOwned())
        return out

    def receive(self, now: Instant, *, wanted: int) -> list[Command]:
        if self._receiving or wanted <= 0 or now.mono_s < self._receive_at_s:
            return []
        self._receiving = True
        return [Receive(min(RECEIVE_AT_ONCE, wanted))]

    def received(self, now: Instant, *, fault: bool) -> None:
        self._receiving = False
        if fault:
            self._receive_at_s = now.mono_s + AFTER_FAULT_S * (0.5 + self._draw())

    def swept(
        self,
        fleet: FleetSummary | None,
        now: Instant,
        *,
        fault: bool = False,
        urgent: bool = False,
        ends_in_s: float | None = None,
    ) -> list[Command]:
        """`fleet`: the newest that is known. `urgent`: more will soon be found. `ends_in_s`: until somebody who is
        silent may be buried, which is a moment that nobody has to come upon by chance."""
        self._sweeping = False
        delay_s = plan.sweep_delay_s(fleet, self._draw()) / (URGENCY if urgent else 1.0)
        if ends_in_s is not None:
            delay_s = min(delay_s, ends_in_s + APART_S * (fleet.live if fleet else 1) * self._draw())
        self._sweep_at_s = now.mono_s + delay_s + (AFTER_FAULT_S if fault else 0.0)
        self._read_later(fleet, now)
        if self._farewell:
            self._farewell = False
            return self.farewell()
        return []

    @property
    def receiving(self) -> bool:
        return self._receiving

    @property
    def owes_farewell(self) -> bool:
        """Whether a sweep is under way that began before the farewell was asked for."""
        return self._farewell

    def farewell(self) -> list[Command]:
        """The fleet summary counts this worker no longer once somebody counts again: so do, and wait for no turn."""
        if self._sweeping:
            self._farewell = True
            return []
        self._sweeping = True
        return [Recount()]

    def fleet_read(self, fleet: FleetSummary | None, now: Instant) -> None:
        self._reading = False
        self._read_later(fleet, now)

    def _read_later(self, fleet: FleetSummary | None, now: Instant) -> None:
        every_s = _read_every_s(fleet.live if fleet is not None else 1)
        self._read_at_s = now.mono_s + every_s * (0.5 + self._draw())

    def listed(self, outcome: object, now: Instant) -> None:
        self._listing = False
        every_s = AFTER_FAULT_S if isinstance(outcome, Fault) else AUDIT_S
        self._audit_at_s = now.mono_s + every_s * (0.5 + self._draw())

    def audit_soon(self, now: Instant) -> None:
        """The last had more to settle than it might, or could not read what it was to settle."""
        self._audit_at_s = now.mono_s + AFTER_FAULT_S * (0.5 + self._draw())

    def _draw(self) -> float:
        self._round += 1
        return draw(self._worker_id, self._round)


def _read_every_s(living: int) -> float:
    return min(READ_FLEET_S * max(1.0, living / SMALL_FLEET), LONGEST_READ_FLEET_S)


def read_within_s(living: int) -> float:
    """How long a summary is written, at most, before each of so many workers has begun to read it."""
    return 1.5 * _read_every_s(living)


def ends_in_s(sweep: Sweep, now: Instant, timing: Timing) -> float | None:
    """Until the first of those that have missed two heartbeats may be buried; None: there is none that is not yet."""
    left_ms = [
        member.lease_expires_at_ms + 1 - timing.expired_before_ms(now.wall_ms)
        for member in sweep.members
        if member.state in (MemberState.LIVE, MemberState.DRAINING) and silent(member, now_ms=now.wall_ms)
    ]
    return min((left / 1000 for left in left_ms if left > 0), default=None)


def dying(sweep: Sweep, now: Instant, timing: Timing) -> bool:
    """Whether more leases will run out soon: one did lately under its owner, a member has missed a heartbeat, or a dead
    one's connections may stand yet, renewed up to a heartbeat after its membership was. What lies there for longer (an
    item nobody can read, say) is no reason to hurry for ever."""
    spare_ms = timing.lease_ms - 2 * timing.heartbeat_ms
    outlived_ms = timing.expired_before_ms(now.wall_ms) - timing.heartbeat_ms - SEEN_WITHIN_MS
    lately_ms = timing.expired_before_ms(now.wall_ms) - 2 * timing.lease_ms - SEEN_WITHIN_MS
    for member in sweep.members:
        expires_at_ms = member.lease_expires_at_ms
        # By its own lease, where it says it: a worker of another mode has another.
        overdue_ms = now.wall_ms + (member.lease_ms // 3 if member.lease_ms else spare_ms)
        if member.state in (MemberState.LIVE, MemberState.DRAINING) and lately_ms < expires_at_ms < overdue_ms:
            return True
        if member.state is MemberState.DEAD and expires_at_ms > outlived_ms:
            return True
    return any(candidate.lease_expires_at_ms > lately_ms for candidate in sweep.candidates)
