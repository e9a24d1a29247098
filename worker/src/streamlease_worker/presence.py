"""The member item's heartbeat, as a step: when it is due, and what its answer means. Part of the keeper.

Single-flight. A heartbeat whose answer was lost may have landed; which of several did cannot be told, so that a later
success that only shows the number moved is credited to the earliest of them (design §3).
"""

from collections.abc import Mapping

from streamlease import membership
from streamlease.errors import Fault, Unreachable
from streamlease.membership import Ahead, Beat, Behind, Buried
from streamlease.model import MemberState
from streamlease.timing import Instant, Timing
from streamlease.write import Answer, Value
from streamlease_worker import verdicts
from streamlease_worker.jitter import backoff_s, draw
from streamlease_worker.keeper_events import FenceReason, Heartbeat, MemberAlive, MemberLost

CHANGED_BEAT_S = 1.0
"""A change of what is owned is told this soon: the fair shares of the fleet go by it."""


class Presence:
    """One worker's membership, from its join on."""

    def __init__(self, worker_id: str, *, timing: Timing, deadline_s: float) -> None:
        self.worker_id = worker_id
        self.deadline_s = deadline_s
        self.lost = False
        self._timing = timing
        self._heartbeat_s = timing.heartbeat_ms / 1000
        self._state = MemberState.LIVE
        self._seen = 0
        self.in_flight = False
        self._unanswered: list[Instant] = []
        self._sent_s = deadline_s - (timing.lease_ms - timing.margin_ms) / 1000
        self._due_s = self._sent_s + self._heartbeat_s * (0.5 + draw(worker_id) / 2)
        self._told = 0
        self._told_state = MemberState.LIVE
        self._load: Mapping[str, Value] = {}
        self._failures = 0
        self.blame: FenceReason = "expired"
        """What became of the last heartbeat, where it renewed nothing."""

    @property
    def credited_s(self) -> float:
        """When the send went out that the present deadline counts from."""
        return self.deadline_s - (self._timing.lease_ms - self._timing.margin_ms) / 1000

    def drain(self, now_s: float) -> None:
        self._state = MemberState.DRAINING
        self._due_s = min(self._due_s, now_s)

    def report(self, load: Mapping[str, Value]) -> None:
        self._load = load

    def doubt(self, now_s: float) -> None:
        """Something says that this worker was buried: ask at once."""
        self._due_s = min(self._due_s, now_s)

    def due(self, now_s: float, *, loop_ticked_s: float, owned: int) -> bool:
        """Whether a heartbeat is to go out now. Only if the event loop has ticked since the last one."""
        if self.lost or self.in_flight or loop_ticked_s <= self._sent_s:
            return False
        changed = owned != self._told and self._failures == 0
        due_s = min(self._due_s, self._sent_s + CHANGED_BEAT_S) if changed else self._due_s
        return due_s <= now_s

    def beat(self, now_s: float, *, owned: int, streaming: int) -> Heartbeat:
        self.in_flight = True
        self._sent_s = now_s
        self._told = owned
        self._told_state = self._state
        # Somewhat early: it goes out with the first tick after this.
        self._due_s = now_s + self._heartbeat_s * (0.8 + draw(self.worker_id, self._seen) / 10)
        return Heartbeat(self.worker_id, self._seen, self._state, owned, streaming, self._load)

    def answered(self, sent: Instant, answer: Answer | Fault, now_s: float) -> MemberAlive | MemberLost | None:
        """None: no news, it is tried again."""
        self.in_flight = False
        if isinstance(answer, Fault):
            if isinstance(answer, Unreachable):
                self._unanswered.append(sent)
            self._again_soon(verdicts.blame(answer), now_s)
            return None
        match membership.beaten(answer, seen=self._seen):
            case Beat(seen, drain_requested):
                drains = self._told_state is MemberState.DRAINING
                return self._alive(seen, sent, drain_requested, draining=drains)
            case Behind(seen):
                # One of ours had landed unanswered; the store holds the expiry of any of them, so count on the least.
                self._due_s = now_s
                return self._alive(seen, min([*self._unanswered, sent], key=lambda instant: instant.mono_s))
            case Ahead() if now_s < self.deadline_s:
                self._again_soon("clock", now_s)
                return None
            case Ahead():
                # It has run out: what a clock that was ahead had written cannot be renewed for as long as that was.
                self.lost = True
                return MemberLost()
            case Buried(drain_requested):
                self.lost = True
                return MemberLost(drain_requested)

    def _again_soon(self, blame: FenceReason, now_s: float) -> None:
        self._failures += 1
        self.blame = blame
        wait_s = backoff_s(self._failures, self._heartbeat_s / 8, self._heartbeat_s / 2, self.worker_id)
        self._due_s = min(self._due_s, now_s + wait_s)

    def _alive(
        self, seen: int, credited: Instant, drain_requested: str | None = None, *, draining: bool = False
    ) -> MemberAlive:
        self._seen = seen
        self._unanswered.clear()
        self._failures = 0
        self.blame = "expired"
        self.deadline_s = max(self.deadline_s, self._timing.deadline_s(credited))
        return MemberAlive(self.deadline_s, drain_requested, draining)
