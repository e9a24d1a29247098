"""The keeper: what a worker has to do, and when, to keep what it owns, and when it must let go (design §3, §4). A step.

It owns every lease from the claim on. Single-flight per lease; deadlines count from before a send, and a late answer
never extends one; nothing is renewed unless the event loop has ticked since the last renewal; a lease is fenced once;
a release goes out when nothing else of its lease is in flight, and is only ever sent again until it has an answer.
Who runs it sends a `Tick` every `tick_s` seconds and carries out the commands, in order.
"""

from collections.abc import Iterable
from itertools import batched

from streamlease.errors import Fault
from streamlease.flow import BATCH_OFFERS
from streamlease.lease import Claimed
from streamlease.membership import Joined
from streamlease.model import Connection, DesiredState, LeaseMode
from streamlease.timing import Instant, Timing
from streamlease.write import Answer
from streamlease_worker import verdicts
from streamlease_worker.held import Held, Phase, take
from streamlease_worker.jitter import draw
from streamlease_worker.keeper_events import (
    Accepted,
    Acquired,
    Answered,
    Command,
    DrainBegun,
    EndProcess,
    Event,
    Extended,
    FenceReason,
    HeartbeatAnswered,
    LoadReported,
    LoopTicked,
    MemberAlive,
    OffersAnswered,
    PagesAnswered,
    PositionAdvanced,
    Release,
    ReleaseRequested,
    ReleasesRequested,
    Renew,
    Save,
    SendOffers,
    Settled,
    StatusChanged,
    Tick,
    VersionSeen,
)
from streamlease_worker.outbox import InFlight, Outbox
from streamlease_worker.paging import Paging
from streamlease_worker.presence import Presence

EARLY = 0.1
"""A renewal may go this share of its interval early: for jitter, and to fill a batch."""
CHECKPOINT_S = 10.0
"""Worker mode: a connection's status, and its position where its spec says nothing else, is written this often at
most."""
GRACE_S = 1.0
"""A silent event loop is given this much of the keeper's own running time, so that a pause of the whole process is not
taken for a blocked loop."""


class Keeper:
    """The state of all leases of one worker id. Not safe for threads: one caller at a time."""

    def __init__(
        self,
        worker_id: str,
        *,
        timing: Timing,
        mode: LeaseMode,
        joined: Joined,
        parallel: int = 3,
        checkpoint_s: float = CHECKPOINT_S,
    ) -> None:
        self.tick_s = min(0.25, timing.heartbeat_ms / 10_000)
        self._worker_id = worker_id
        self._timing = timing
        self._mode = mode
        self._interval_s = timing.heartbeat_ms / 1000 if mode is LeaseMode.CONNECTION else checkpoint_s
        self._presence = Presence(worker_id, timing=timing, deadline_s=joined.deadline_s)
        self._outbox = Outbox(parallel)
        self._paging = Paging(worker_id, every_s=self._interval_s, parallel=parallel)
        self._held: dict[tuple[str, int], Held] = {}
        self._offers: list[str] = []
        self._offering = 0
        self._parallel = parallel
        self._loop_ticked_s = float("-inf")
        self._ticked_s: float | None = None
        self._silent_s = 0.0
        self._ran_out_in_silence = False

    @property
    def owned(self) -> int:
        """How many leases this worker holds and may deliver on."""
        return sum(held.phase is Phase.HELD for held in self._held.values())

    def handle(self, event: Event, now: Instant) -> list[Command]:
        """What is to be done about `event`, in this order. `now` never goes back on its monotonic side."""
        match event:
            case Tick():
                return self._tick(now)
            case LoopTicked(at_s):
                return self._loop_ticked(now, now.mono_s if at_s is None else at_s)
            case Acquired(claimed):
                return self._acquired(claimed, now)
            case PositionAdvanced(connection_id, epoch, spec_version, position, every_s):
                if held := self._held.get((connection_id, epoch)):
                    held.advance(position, spec_version, every_s)
                return []
            case StatusChanged(connection_id, epoch, status):
                if held := self._held.get((connection_id, epoch)):
                    held.report(status, now.mono_s)
                return []
            case VersionSeen(connection):
                return self._version_seen(connection)
            case Answered():
                return self._answered(event, now)
            case PagesAnswered():
                return self._pages_answered(event, now)
            case HeartbeatAnswered(sent, answer):
                return self._heartbeat_answered(sent, answer, now)
            case OffersAnswered():
                self._offering -= 1
                return self._offer()
            case ReleaseRequested():
                return [*self._release_requested(event, now), *self._releases(now.mono_s)]
            case ReleasesRequested(requests):
                settled = [command for each in requests for command in self._release_requested(each, now)]
                return [*settled, *self._releases(now.mono_s)]
            case LoadReported(load):
                self._presence.report(load)
                return []
            case DrainBegun():  # said by the loop, which so is alive
                self._presence.drain(now.mono_s)
                return self._loop_ticked(now, now.mono_s)

    # --- time ----------------------------------------------------------------------------------------------------

    def _tick(self, now: Instant) -> list[Command]:
        if self._ticked_s is not None:
            self._silent_s += min(now.mono_s - self._ticked_s, 2 * self.tick_s)
        self._ticked_s = now.mono_s
        out = self._expire(self._held.values(), now)
        if self._ran_out_in_silence and self._silent_s >= GRACE_S:
            out.append(EndProcess(f"the event loop stood still for {self._silent_s:.1f} s and a lease has run out"))
        return out + self._send_due(now)

    def _loop_ticked(self, now: Instant, at_s: float) -> list[Command]:
        out = self._expire(self._held.values(), now)
        self._loop_ticked_s = at_s
        self._silent_s, self._ran_out_in_silence = 0.0, False
        return out + self._send_due(now)

    def _expire(self, some: Iterable[Held], now: Instant) -> list[Command]:
        out: list[Command] = []
        for held in some:
            if held.phase is Phase.HELD and held.deadline_s <= now.mono_s:
                self._ran_out_in_silence = True
                out += verdicts.fence(held, self._blame(held))
        return out

    def _blame(self, held: Held) -> FenceReason:
        own = held if self._mode is LeaseMode.CONNECTION else self._presence
        waits_for_loop = not own.in_flight and self._silent_s >= self._timing.heartbeat_ms / 2000
        return "loop_blocked" if waits_for_loop else own.blame

    # --- what goes out --------------------------------------------------------------------------------------------

    def _send_due(self, now: Instant) -> list[Command]:
        """Everything that is due and may go out: heartbeat, renewals or checkpoints, releases."""
        out: list[Command] = []
        owned = self.owned
        if self._presence.due(now.mono_s, loop_ticked_s=self._loop_ticked_s, owned=owned):
            streaming = sum(held.streaming and held.phase is Phase.HELD for held in self._held.values())
            out.append(self._presence.beat(now.mono_s, owned=owned, streaming=streaming))
        if self._mode is LeaseMode.CONNECTION:
            out += self._renewals(now.mono_s)
        else:
            out += self._savings(now.mono_s)
            out += self._paging.due(self._held.values(), now.mono_s)
        return out + self._releases(now.mono_s)

    def _renewals(self, now_s: float) -> list[Command]:
        out: list[Command] = []
        early_s = EARLY * self._interval_s
        for group in self._outbox.groups(Renew, self._held.values(), now_s, ready=self._may_renew, early_s=early_s):
            sends = [held.renewal() for held in group]
            command = Renew(self._outbox.number(), tuple(renewal for renewal, _ in sends))
            out.append(self._outbox.begin(command, group, now_s, tuple(revision for _, revision in sends)))
            self._schedule(group, now_s)
        return out

    def _may_renew(self, held: Held) -> bool:
        return held.phase is Phase.HELD and held.sent_s < self._loop_ticked_s

    def _savings(self, now_s: float) -> list[Command]:
        out: list[Command] = []
        early_s = EARLY * self._interval_s
        for group in self._outbox.groups(Save, self._held.values(), now_s, ready=_may_save, early_s=early_s):
            sends = [held.saving() for held in group]
            command = Save(self._outbox.number(), tuple(saving for saving, _ in sends))
            out.append(self._outbox.begin(command, group, now_s, tuple(revision for _, revision in sends)))
            self._schedule(group, now_s)
        return out

    def _releases(self, now_s: float) -> list[Command]:
        out: list[Command] = []
        for group in self._outbox.groups(Release, self._held.values(), now_s, ready=_may_release):
            command = Release(self._outbox.number(), tuple(held.parting() for held in group))
            out.append(self._outbox.begin(command, group, now_s, (0,) * len(group)))
        return out

    def _schedule(self, group: Iterable[Held], now_s: float) -> None:
        for held in group:
            early = EARLY * draw(*held.key, held.number, int(now_s * 1000))
            held.due_s = now_s + (self._interval_s - self.tick_s) * (1 - early)

    def _offer(self) -> list[Command]:
        room = (self._parallel - self._offering) * BATCH_OFFERS
        sent, self._offers = self._offers[:room], self._offers[room:]
        out: list[Command] = [SendOffers(group) for group in batched(sent, BATCH_OFFERS, strict=False)]
        self._offering += len(out)
        return out

    def last_offers(self) -> list[Command]:
        """All that waits its turn, at once: this keeper ends, and who is to take over what it released must not wait
        for a sweep."""
        sent, self._offers = self._offers, []
        return [SendOffers(group) for group in batched(sent, BATCH_OFFERS, strict=False)]

    # --- claims, news, releases -----------------------------------------------------------------------------------

    def _acquired(self, claimed: Claimed, now: Instant) -> list[Command]:
        sent_s = claimed.deadline_s - (self._timing.lease_ms - self._timing.margin_ms) / 1000
        in_worker_mode = self._mode is LeaseMode.WORKER
        held = take(
            claimed,
            deadline_s=self._presence.deadline_s if in_worker_mode else claimed.deadline_s,
            due_s=sent_s + self._interval_s * (0.5 + draw(claimed.lease.connection_id, claimed.lease.epoch) / 2),
            sent_s=sent_s,
        )
        self._held[held.key] = held
        if self._presence.lost:
            return verdicts.fence(held, "buried")
        return self._expire((held,), now) or [Extended(*held.key, held.deadline_s), Accepted(*held.key)]

    def _version_seen(self, connection: Connection) -> list[Command]:
        held = self._held.get((connection.connection_id, connection.lease_epoch))
        if held is None or connection.lease_owner != self._worker_id:
            return []
        return verdicts.reading(held, connection)

    def _release_requested(self, event: ReleaseRequested, now: Instant) -> list[Command]:
        held = self._held.get((event.connection_id, event.epoch))
        if held is None:
            return [Settled(event.connection_id, event.epoch, landed=False)]
        if held.phase is not Phase.RELEASING:
            held.phase = Phase.RELEASING
            held.parting_status = event.status
            held.failures = 0
            held.due_s = now.mono_s
        return []

    # --- answers ---------------------------------------------------------------------------------------------------

    def _answered(self, event: Answered, now: Instant) -> list[Command]:
        ended = self._outbox.end(event.batch)
        if ended is None:
            return []
        out: list[Command] = []
        leases = [attempt.lease for attempt in ended.command.attempts]
        for at, lease in enumerate(leases):
            held = self._held.get((lease.connection_id, lease.epoch))
            if held is None:
                continue
            held.in_flight = False
            out += self._expire((held,), now)
            out += self._judge(held, ended, at, event, now)
            if held.phase is Phase.GONE:
                del self._held[held.key]
                self._paging.free(held.key)
        return out + self._offer() + self._send_due(now)

    def _pages_answered(self, event: PagesAnswered, now: Instant) -> list[Command]:
        out = self._expire(self._held.values(), now)
        if self._paging.answered(event, self._held, now.mono_s) == "sealed":
            self._presence.doubt(now.mono_s)
        return out + self._send_due(now)

    def _judge(self, held: Held, ended: InFlight, at: int, event: Answered, now: Instant) -> list[Command]:
        answer, revision, timing = event.answers[at], ended.revisions[at], self._timing
        match ended.command:
            case Renew(attempts=renewals):
                return verdicts.renewal(
                    held, renewals[at], answer, revision=revision, sent=event.sent, now_s=now.mono_s, timing=timing
                )
            case Save(attempts=savings):
                return verdicts.saving(held, savings[at], answer, revision=revision, now_s=now.mono_s, timing=timing)
            case Release():
                out = verdicts.release(held, answer, now_s=now.mono_s, timing=timing)
                landed = any(isinstance(each, Settled) and each.landed for each in out)
                if landed and held.wanted is DesiredState.STARTED and not held.is_put_off:
                    self._offers.append(held.lease.connection_id)
                return out

    def _heartbeat_answered(self, sent: Instant, answer: Answer | Fault, now: Instant) -> list[Command]:
        out = self._expire(self._held.values(), now)
        news = self._presence.answered(sent, answer, now.mono_s)
        if news is not None and self._mode is LeaseMode.WORKER:
            for held in self._held.values():
                if isinstance(news, MemberAlive):
                    out += verdicts.extend(held, news.deadline_s)
                    if held.lived_through(self._presence.credited_s):
                        # Soon: until its first checkpoint, a death of this worker counts as its doing.
                        held.due_s = min(held.due_s, now.mono_s + 2 * self.tick_s * draw(*held.key))
                elif held.phase is Phase.HELD:
                    out += verdicts.fence(held, "buried")
        return [*out, *([news] if news is not None else []), *self._send_due(now)]


def _may_save(held: Held) -> bool:
    return held.phase is Phase.HELD and held.status_unsaved


def _may_release(held: Held) -> bool:
    return held.phase is Phase.RELEASING
