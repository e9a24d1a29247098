"""The supervisor: what this worker takes on, runs and gives up (design §5, §6). A step.

Offers and its own sweeps become claims, claims become runners, the keeper's news stops or restarts them, a drain ends
them all. Who runs it sends a `Tick` every `tick_s` seconds and carries out the commands, in order.
"""

from streamlease import membership, plan
from streamlease.errors import Fault
from streamlease.flows.sweep import Sweep
from streamlease.inbox import Entry
from streamlease.lease import Claimed, Held
from streamlease.membership import Joined
from streamlease.model import LeaseMode
from streamlease.timing import Instant, Timing
from streamlease.write import Item
from streamlease_worker import ownership
from streamlease_worker.balance import WHY, Balance
from streamlease_worker.drain import Drain
from streamlease_worker.intake import Intake
from streamlease_worker.jitter import draw
from streamlease_worker.keeper_events import (
    Accepted,
    Changed,
    DrainBegun,
    Fence,
    LoadReported,
    MemberAlive,
    MemberLost,
    Settled,
    StopWanted,
    VersionSeen,
)
from streamlease_worker.load import Load
from streamlease_worker.notices import Notices
from streamlease_worker.ownership import Ownership, Phase
from streamlease_worker.progress import Progress
from streamlease_worker.rounds import Rounds, dying, ends_in_s
from streamlease_worker.supervisor_events import (
    Buried,
    Bury,
    ClaimAnswered,
    Command,
    DeleteOffer,
    DrainRequested,
    Event,
    FleetRead,
    InboxRead,
    Left,
    Listed,
    LookAgain,
    LookedAgain,
    Measured,
    OffersReceived,
    Received,
    ReleaseUnknown,
    ReturnOffer,
    RunnerEnded,
    SettleNotice,
    Swept,
    TakeReason,
    Tick,
    UnknownSettled,
)

PARALLEL_CLAIMS = 16
AUDIT_AT_ONCE = 100
"""So many of each kind: jobs share their threads with claims and sweeps."""


class Supervisor:
    """The state of one worker id's connections. Not safe for threads: one caller at a time."""

    def __init__(
        self,
        worker_id: str,
        *,
        capacity: int,
        generation: int,
        timing: Timing,
        joined: Joined,
        now: Instant,
        stop_timeout_s: float = 120.0,
        mode: LeaseMode = LeaseMode.CONNECTION,
    ) -> None:
        self.tick_s = min(0.25, timing.heartbeat_ms / 4_000)
        self._worker_id = worker_id
        self._timing = timing
        self._load = Load()
        self._balance = Balance(worker_id, generation=generation)
        self._intake = Intake(
            worker_id,
            generation=generation,
            capacity=capacity,
            timing=timing,
            joined_ms=now.wall_ms,
            load=self._load,
            was_given=self._balance.was_given,
        )
        self._progress = Progress(worker_id)
        self._rounds = Rounds(worker_id, now)
        self._drain = Drain(stop_timeout_s)
        self._notices = Notices()
        self._mode = mode
        self._owned: dict[str, Ownership] = {}
        self._claims: dict[str, TakeReason] = {}
        self._settling: set[str] = set()
        self._receipts: dict[str, str] = {}
        self._runs = 0
        self._fresh_until_s = timing.fresh_until_s(joined.deadline_s)
        self._burying = False

    @property
    def owned(self) -> int:
        """How many connections this worker holds, claims in flight included."""
        return len(self._owned) + len(self._claims)

    def handle(self, event: Event, now: Instant) -> list[Command]:
        """What is to be done about `event`, in this order. `now` never goes back on its monotonic side."""
        if self._drain.exited:
            return []
        out = self._happened(event, now)
        out += self._take(now)
        unsettled = len(self._claims) + len(self._settling)
        return out + self._drain.step(
            self._owned.values(), unsettled=unsettled, receiving=self._rounds.receiving, now=now
        )

    def _happened(self, event: Event, now: Instant) -> list[Command]:
        match event:
            case Tick():
                return self._tick(now)
            case OffersReceived(offers):
                return self._offers_received(offers, now)
            case ClaimAnswered():
                return self._claim_answered(event, now)
            case Swept(sweep):
                return self._swept(sweep, now)
            case Buried():
                self._burying = False
            case FleetRead(fleet):
                self._intake.looked()
                if fleet is not None and not isinstance(fleet, Fault):
                    self._intake.read(fleet)
                self._rounds.fleet_read(self._intake.fleet, now)
                self._progress.looked(fault=isinstance(fleet, Fault), now_s=now.mono_s)
                return [*self._give(now), *self._receive(now)]
            case Listed(items):
                self._rounds.listed(items, now)
                return [] if isinstance(items, Fault) else self._audit(items, now)
            case UnknownSettled(connection_id, fault):
                self._settling.discard(connection_id)
                self._audit_after(fault, now)
            case InboxRead(entries):
                return self._inbox_read(entries)
            case LookedAgain(connection):
                self._notices.looked()
                if isinstance(connection, Fault):
                    self._audit_after(connection, now)
                    return []
                return [VersionSeen(connection)] if connection is not None else []
            case RunnerEnded():
                return self._runner_ended(event, now)
            case Measured():
                self._load.measured(event, now.mono_s, unfit=self._progress.unfit(now.mono_s))
                return [LoadReported(self._load.said())]
            case DrainRequested(reason):
                return self._ending(self._drain.begin(reason, self._owned.values(), living=self._living, now=now))
            case MemberLost(drain_requested):
                asked = [] if drain_requested is None else self._drain_itself(_asked_by(drain_requested), now)
                return [*asked, *self._ending(self._drain.lose_member(self._owned.values(), now))]
            case Left():
                self._drain.left()
            case MemberAlive(deadline_s, drain_requested, draining):
                self._fresh_until_s = self._timing.fresh_until_s(deadline_s)
                if self._drain.begun:
                    return self._rounds.farewell() if draining and self._drain.told_fleet() else []
                if drain_requested is not None:
                    return self._drain_itself(_asked_by(drain_requested), now)
                return self._notices.heartbeat() if self._mode is LeaseMode.WORKER else []
            case Accepted() | Fence() | Changed() | StopWanted() | Settled():
                return self._noticed(event, now)
        return []

    # --- taking on ------------------------------------------------------------------------------------------------

    def _tick(self, now: Instant) -> list[Command]:
        out: list[Command] = []
        for ours in self._owned.values():
            if ours.restart_at_s is not None and ours.restart_at_s <= now.mono_s and ours.phase is Phase.RESTING:
                out += ownership.start(ours, self._next_run(), now, "again")
        for name in self._balance.overdue(now):
            if name in self._owned:
                out += ownership.stop(self._owned[name], WHY, flush=False)
        if self._taking(now):
            wanted, room = self._intake.wanted(self.owned, now), self._intake.room(self.owned, now, stale=True)
            out += self._rounds.due(now, wanted=wanted, room=room)
        return out

    def _taking(self, now: Instant) -> bool:
        """Only a member whose heartbeats are answered in time takes anything on, or looks for it: a store that is
        behind with them is asked for nothing else, and what is claimed near the end of a lease is lost with it."""
        return not self._drain.begun and now.mono_s < self._fresh_until_s

    def _receive(self, now: Instant) -> list[Command]:
        """Ask for offers as soon as there is room: somebody's drain has just made some, and its connections wait."""
        return self._rounds.receive(now, wanted=self._intake.wanted(self.owned, now)) if self._taking(now) else []

    def _take(self, now: Instant) -> list[Command]:
        """Claim what is wanted and fits, a bounded number at a time."""
        slots = PARALLEL_CLAIMS - len(self._claims)
        if slots <= 0 or not self._taking(now):
            return []
        claims, receipts, out = self._intake.choose(self.owned, slots, self._is_mine, now)
        self._claims.update((claim.connection_id, claim.reason) for claim in claims)
        self._receipts.update(receipts)
        return [*out, *claims]

    def _is_mine(self, connection_id: str) -> bool:
        """Held here, being claimed, or being settled: not to be claimed now."""
        return connection_id in self._owned or connection_id in self._claims or connection_id in self._settling

    def _offers_received(self, offers: tuple[Received, ...] | Fault, now: Instant) -> list[Command]:
        fault = isinstance(offers, Fault)
        self._rounds.received(now, fault=fault)
        if isinstance(offers, Fault):
            return []
        if not self._taking(now):
            return [ReturnOffer(received.receipt) for received in offers]
        out = self._intake.offered(offers, self._is_mine, now)
        if offers:
            out += self._receive(now)
        return out

    def _claim_answered(self, event: ClaimAnswered, now: Instant) -> list[Command]:
        connection_id, outcome = event.connection_id, event.outcome
        reason = self._claims.pop(connection_id, None)
        if reason is None:
            return []
        self._intake.answered(connection_id, outcome, now)
        self._progress.claimed(fault=isinstance(outcome, Fault), now_s=now.mono_s)
        receipt = self._receipts.pop(connection_id, None)
        out: list[Command] = []
        if receipt is not None and not isinstance(outcome, Fault):
            out.append(DeleteOffer(receipt))
        if isinstance(outcome, Held) and outcome.owner == self._worker_id and not self._is_mine(connection_id):
            # An earlier claim of ours has landed after all. The audit would find it, a minute later.
            self._settling.add(connection_id)
            out.append(ReleaseUnknown(connection_id))
        if isinstance(outcome, Claimed):
            self._owned[connection_id], acquired = ownership.take(outcome, reason)
            out += acquired
            if self._drain.begun:
                out += ownership.release(self._owned[connection_id])
        return out

    def _swept(self, sweep: Sweep | Fault, now: Instant) -> list[Command]:
        self._progress.looked(fault=isinstance(sweep, Fault), now_s=now.mono_s)
        self._intake.looked()
        if not self._rounds.owes_farewell:
            self._drain.swept(others=1 if isinstance(sweep, Fault) else sweep.fleet.live, now=now)
        if isinstance(sweep, Fault):
            return self._rounds.swept(self._intake.fleet, now, fault=True)
        self._intake.swept(sweep, now)
        urgent, ends = dying(sweep, now, self._timing), ends_in_s(sweep, now, self._timing)
        out = self._rounds.swept(sweep.fleet, now, urgent=urgent, ends_in_s=ends)
        expired = tuple(m for m in sweep.members if membership.expired(m, now_ms=now.wall_ms, timing=self._timing))
        dead = expired or tuple(m for m in sweep.members if membership.buried_lately(m, now_ms=now.wall_ms))
        out += [*self._give(now), *self._receive(now)]
        stuck = self._progress.swept(plan.live(sweep.members, now_ms=now.wall_ms), now.mono_s)
        if stuck is not None and not self._drain.begun:
            return out + self._drain_itself(stuck, now)
        if not dead or self._burying or self._drain.begun:
            return out
        self._burying = True
        return [*out, Bury(dead)]

    def _give(self, now: Instant) -> list[Command]:
        """What others lack is given up here, where there is too much."""
        if not self._taking(now) or self._intake.others_leave_it(now):
            return []
        owned, claims = self._owned.values(), len(self._claims)
        chosen = self._balance.choose(self._intake.fleet, owned, self._load, claims=claims, now=now)
        return [command for ours in chosen for command in ownership.stop(ours, WHY, flush=True)]

    # --- what is held -----------------------------------------------------------------------------------------------

    def _noticed(self, event: Accepted | Fence | Changed | StopWanted | Settled, now: Instant) -> list[Command]:
        connection_id = event.connection.connection_id if isinstance(event, Changed) else event.connection_id
        ours = self._owned.get(connection_id)
        if ours is None or ours.epoch != event.epoch:
            return []
        match event:
            case Accepted():
                if ours.phase is not Phase.ACCEPTING:
                    return []
                return ownership.start(ours, self._next_run(), now, ours.reason)
            case Fence(reason=reason):
                return ownership.stop(ours, f"its lease is lost ({reason})", flush=False)
            case Changed():
                return ownership.changed(ours, event, self._next_run(), now)
            case StopWanted():
                return ownership.stop(ours, "it was stopped", flush=True)
            case Settled():
                del self._owned[connection_id]
                self._balance.settled(connection_id)
                self._load.forget(connection_id)
                return []

    def _runner_ended(self, event: RunnerEnded, now: Instant) -> list[Command]:
        ours = self._owned.get(event.connection_id)
        if ours is None or ours.run != event.run or ours.phase not in (Phase.RUNNING, Phase.STOPPING):
            return []
        if event.outcome == "yielded":
            self._intake.leave(event.connection_id, now)
        out = ownership.ended(ours, event, self._next_run(), now)
        if self._drain.begun and not ours.leaving:  # it streams no longer, and need not wait for its turn
            out += ownership.stop(ours, self._drain.reason, flush=True)
        return out

    def _next_run(self) -> int:
        self._runs += 1
        return self._runs

    @property
    def _living(self) -> int:
        """How many workers there are, as far as is known."""
        return self._intake.fleet.live if self._intake.fleet is not None else 1

    def _drain_itself(self, reason: str, now: Instant) -> list[Command]:
        return self._ending(self._drain.begin_itself(reason, self._owned.values(), living=self._living, now=now))

    def _ending(self, stops: list[Command]) -> list[Command]:
        return [DrainBegun(), *self._intake.close(), *stops]

    def _audit(self, items: tuple[Item, ...], now: Instant) -> list[Command]:
        """Against what is held at this very moment. What a claim or release is in flight for settles by itself. What is
        too much for one audit is for the next, which then is soon."""
        found = plan.audit(items, dict.fromkeys(self._claims, 0) | self._versions())
        unknown = [name for name in dict.fromkeys(found.unknown) if name not in self._settling]
        standing = (Phase.RUNNING, Phase.RESTING)
        named = [self._owned[name] for name in found.outdated if name in self._owned]
        outdated = [ours for ours in named if ours.phase in standing]
        if max(len(unknown), len(outdated)) > AUDIT_AT_ONCE:
            self._rounds.audit_soon(now)
            # Others each time: what nobody can read is not settled by it, and may be many.
            unknown.sort(key=lambda name: draw(name, now.wall_ms))
            outdated.sort(key=lambda ours: draw(ours.connection_id, now.wall_ms))
        self._settling.update(unknown[:AUDIT_AT_ONCE])
        return [
            *(ReleaseUnknown(name) for name in unknown[:AUDIT_AT_ONCE]),
            *(LookAgain(ours.connection_id, ours.connection.spec_version) for ours in outdated[:AUDIT_AT_ONCE]),
        ]

    def _audit_after(self, fault: Fault | None, now: Instant) -> None:
        """What could not be settled may be what nothing else tells of, and would wait for another minute."""
        if fault is not None and fault.retryable:
            self._rounds.audit_soon(now)

    def _inbox_read(self, entries: tuple[Entry, ...] | Fault) -> list[Command]:
        if isinstance(entries, Fault):
            self._notices.unread()
            return []
        out = self._notices.read(entries, self._owned, lambda name: name in self._claims or name in self._settling)
        self._settling.update(command.connection_id for command in out if isinstance(command, SettleNotice))
        return out

    def _versions(self) -> dict[str, int]:
        return {name: ours.connection.spec_version for name, ours in self._owned.items()}


def _asked_by(who: str) -> str:
    return f"{who} asked for it"
