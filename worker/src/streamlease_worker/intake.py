"""What a worker may take on: offers and swept candidates against its room (design §5). Part of the supervisor.

An offer is a hint, so each is either tried, deleted because its question has an answer here, or given back. Swept
candidates need no such care: the next sweep shows them again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streamlease import plan
from streamlease.errors import Denied, Fault, Malformed
from streamlease.flows.claim import Outcome
from streamlease.flows.sweep import Sweep
from streamlease.lease import Claimed, Held
from streamlease.model import FleetSummary
from streamlease.plan import Candidate
from streamlease.timing import Instant, Timing
from streamlease_worker.jitter import draw
from streamlease_worker.load import Load
from streamlease_worker.supervisor_events import Claim, Command, DeleteOffer, Received, ReturnOffer

STALE_S = plan.STALE_OFFER_MS / 1000
LONGEST_DEFERRAL_S = 60.0
LEFT_BY_OTHERS_S = 10.0
LONGEST_LEFT_BY_OTHERS_S = 600.0
"""Who took over its share what others had left waiting gives nothing up to them for so long, each time twice as long:
they may leave it again."""
LEFT_S = 60.0
"""Others sweep about once a second; if none of them has room, or there is none, it comes back."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """A claim had an answer: it need not be tried before `until_s`, unless news of after `learned_ms` is heard."""

    until_s: float
    learned_ms: int


class Intake:
    """Mutable, owned by one `Supervisor`. `taken` is always what the worker holds, claims in flight included."""

    def __init__(
        self,
        worker_id: str,
        *,
        generation: int,
        capacity: int,
        timing: Timing,
        joined_ms: int,
        load: Load,
        was_given: Callable[[str, Instant], bool],
    ) -> None:
        """`was_given`: what this worker gave up a moment ago, so that others are to have it."""
        self.fleet: FleetSummary | None = None
        self._worker_id = worker_id
        self._generation = generation
        self._capacity = capacity
        self._timing = timing
        self._joined_ms = joined_ms
        self._load = load
        self._was_given = was_given
        self._offers: deque[Received] = deque()
        self._candidates: deque[tuple[Candidate, bool]] = deque()
        self._first_seen_s: dict[str, float] = {}
        self._deferrals: dict[str, Deferral] = {}
        self._left_until_s: dict[str, float] = {}
        self._sweeps = 0
        self._left_by_others_until_s = float("-inf")
        self._left_by_others = 0
        self._has_looked = False

    def room(self, taken: int, now: Instant, *, stale: bool = False) -> int:
        """How many more may be taken. `stale` ones are anybody's with capacity."""
        if not self._has_looked:
            return 0
        known = self.fleet
        if known is not None and now.wall_ms - known.at_ms > plan.STALE_SUMMARY_MS:
            known = None
        if known is not None and known.at_ms < self._joined_ms and not stale:
            return 0  # its shares are those of the others, until somebody has seen this worker
        if known is not None and known.shares is not None and known.shares.generation > self._generation and not stale:
            return 0
        share = plan.share(known, self._worker_id, pace=self._load.pace)
        if share is not None:
            share -= self._load.extra
        return plan.room(held=taken, capacity=self._capacity, share=share, stale=stale)

    def others_leave_it(self, now: Instant) -> bool:
        """Whether those who have less took nothing when something waited."""
        return now.mono_s < self._left_by_others_until_s

    def looked(self) -> None:
        """The first question about the fleet has had its answer, or a fault: until then nothing is taken on, or
        everybody who joins would take what is for the others."""
        self._has_looked = True

    def read(self, fleet: FleetSummary) -> None:
        """Somebody's summary, read from the table."""
        if self.fleet is None or fleet.at_ms > self.fleet.at_ms:
            self.fleet = fleet

    def wanted(self, taken: int, now: Instant) -> int:
        """How many more offers would be of use."""
        return max(0, self.room(taken, now) - len(self._offers))

    def offered(self, offers: Iterable[Received], is_mine: Callable[[str], bool], now: Instant) -> list[Command]:
        """`is_mine`: of ids held here, or being claimed or settled."""
        out: list[Command] = []
        waiting = {received.offer.connection_id for received in self._offers}
        for received in offers:
            connection_id = received.offer.connection_id
            if is_mine(connection_id) or connection_id in waiting or self._known(received, now):
                out.append(DeleteOffer(received.receipt))
            else:
                waiting.add(connection_id)
                self._offers.append(received)
        return out

    def swept(self, sweep: Sweep, now: Instant) -> None:
        self._sweeps += 1
        self.fleet = sweep.fleet
        seen = {each.connection_id: each for each in sweep.candidates}
        self._first_seen_s = {name: self._first_seen_s.get(name, now.mono_s) for name in seen}
        self._deferrals = {name: each for name, each in self._deferrals.items() if each.until_s > now.mono_s}
        order = sorted(seen, key=lambda name: draw(self._worker_id, self._sweeps, name))
        self._candidates = deque((seen[name], self._is_stale(seen[name], now)) for name in order)

    def choose(
        self, taken: int, slots: int, is_mine: Callable[[str], bool], now: Instant
    ) -> tuple[list[Claim], dict[str, str], list[Command]]:
        """Up to `slots` claims, the receipts of those that an offer asked for, and what to do about other offers."""
        claims: list[Claim] = []
        receipts: dict[str, str] = {}
        out: list[Command] = []
        chosen: set[str] = set()
        while self._offers and len(claims) < slots:
            received = self._offers.popleft()
            connection_id = received.offer.connection_id
            stale = plan.is_stale(received.offer, now_ms=now.wall_ms)
            if is_mine(connection_id) or connection_id in chosen or self._is_left(connection_id, now):
                out.append(DeleteOffer(received.receipt))
            elif self.room(taken + len(claims), now, stale=stale) > 0 and (
                stale or not self._was_given(connection_id, now)
            ):
                self._takes(taken + len(claims), now)
                chosen.add(connection_id)
                receipts[connection_id] = received.receipt
                claims.append(Claim(connection_id, received.offer.reason))
            else:
                out.append(ReturnOffer(received.receipt))
        while self._candidates and len(claims) < slots:
            candidate, stale = self._candidates.popleft()
            connection_id = candidate.connection_id
            if is_mine(connection_id) or connection_id in chosen or self._deferred(connection_id, now):
                continue
            if not stale and self._was_given(connection_id, now):
                continue
            if self._is_left(connection_id, now):
                continue
            if self.room(taken + len(claims), now, stale=stale) > 0:
                self._takes(taken + len(claims), now)
                chosen.add(connection_id)
                claims.append(Claim(connection_id, "expired" if candidate.lease_expires_at_ms else "released"))
        return claims, receipts, out

    def answered(self, connection_id: str, outcome: Outcome | Fault | Malformed, now: Instant) -> None:
        """Remember what a claim was told, so that sweeps do not ask again and again."""
        wait_s = 1.0
        match outcome:
            case Claimed():
                self._deferrals.pop(connection_id, None)
                return
            case Held(_, until_ms) if until_ms is not None:
                wait_s = (until_ms - now.wall_ms) / 1000
            case Malformed() | Denied():
                wait_s = LONGEST_DEFERRAL_S
            case _:
                pass
        until_s = now.mono_s + min(max(wait_s, 0.1), LONGEST_DEFERRAL_S)
        self._deferrals[connection_id] = Deferral(until_s, now.wall_ms)

    def leave(self, connection_id: str, now: Instant) -> None:
        """It was given up for another worker to try; where nobody else does, it is taken again after a while."""
        self._left_until_s = {name: at_s for name, at_s in self._left_until_s.items() if at_s > now.mono_s}
        self._left_until_s[connection_id] = now.mono_s + LEFT_S

    def close(self) -> list[Command]:
        """Take nothing more: offers that wait here are for others."""
        out: list[Command] = [ReturnOffer(received.receipt) for received in self._offers]
        self._offers.clear()
        self._candidates.clear()
        return out

    def _takes(self, taken: int, now: Instant) -> None:
        if self.room(taken, now) > 0 or self.others_leave_it(now):
            return
        for_s = LEFT_BY_OTHERS_S * 2.0 ** min(self._left_by_others, 16)
        self._left_by_others_until_s = now.mono_s + min(for_s, LONGEST_LEFT_BY_OTHERS_S)
        self._left_by_others += 1

    def _known(self, received: Received, now: Instant) -> bool:
        """Whether a claim was answered after the offer was made, by any two clocks within the allowance."""
        deferral = self._deferrals.get(received.offer.connection_id)
        if deferral is None or deferral.until_s <= now.mono_s:
            return False
        return received.offer.offered_at_ms + self._timing.skew_ms < deferral.learned_ms

    def _deferred(self, connection_id: str, now: Instant) -> bool:
        deferral = self._deferrals.get(connection_id)
        return deferral is not None and deferral.until_s > now.mono_s

    def _is_left(self, connection_id: str, now: Instant) -> bool:
        return self._left_until_s.get(connection_id, now.mono_s) > now.mono_s

    def _is_stale(self, candidate: Candidate, now: Instant) -> bool:
        waited_s = now.mono_s - self._first_seen_s[candidate.connection_id]
        expires_at_ms = candidate.lease_expires_at_ms
        if expires_at_ms:
            waited_s = max(waited_s, (self._timing.expired_before_ms(now.wall_ms) - expires_at_ms) / 1000)
        return waited_s >= STALE_S
