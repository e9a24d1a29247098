"""What a worker gives up so that others have their share (design §6). Part of the supervisor.

It goes by what it holds at this very moment, against a share that says the same to all: so a second look at the same
summary, or a late one, gives up nothing more.
"""

from collections.abc import Iterable
from math import ceil

from streamlease import shares
from streamlease.model import FleetSummary
from streamlease.timing import Instant
from streamlease_worker.load import Load
from streamlease_worker.ownership import Ownership, Phase

FRESH_MS = 5_000
"""A summary older than this moves nothing."""
LEAST_PER_ROUND = 16
SHARE_PER_ROUND = 0.25
"""So much of what a worker holds it gives up at once, and the next only when all of that has been settled."""
GIVE_WITHIN_S = 10.0
"""A sink that takes nothing keeps no connection from moving: what is pending then is read again by its next owner."""
NOT_BACK_S = 10.0
"""What a worker gave up it does not take again for so long, unless it waits."""
WHY = "others have less: it moves for balance"


class Balance:
    """Mutable, owned by one `Supervisor`."""

    def __init__(self, worker_id: str, *, generation: int) -> None:
        self._worker_id = worker_id
        self._generation = generation
        self._looked_at_ms = 0
        self._giving: dict[str, float] = {}
        self._given: dict[str, float] = {}

    def choose(
        self, fleet: FleetSummary | None, owned: Iterable[Ownership], load: Load, *, claims: int, now: Instant
    ) -> list[Ownership]:
        """What to give up now. `claims`: how many are in flight, and will perhaps be held."""
        if fleet is None or fleet.shares is None or fleet.at_ms <= self._looked_at_ms or self._giving:
            return []
        self._looked_at_ms = fleet.at_ms
        if abs(now.wall_ms - fleet.at_ms) > FRESH_MS or fleet.shares.generation > self._generation:
            return []
        staying = [ours for ours in owned if not ours.leaving]
        extra = sum(load.extra_of(ours.connection_id) for ours in staying)
        excess = shares.too_many(
            fleet.shares,
            self._worker_id,
            weighs=len(staying) + claims + extra,
            own_pace=load.pace,
            band=load.band,
        )
        most = max(LEAST_PER_ROUND, ceil(SHARE_PER_ROUND * len(staying)))
        chosen: list[Ownership] = []
        # The heaviest that fit, so that few move; among equals what is here for longest, so that nothing moves often.
        for ours in sorted(staying, key=lambda ours: -load.extra_of(ours.connection_id)):
            weighs = 1 + load.extra_of(ours.connection_id)
            if weighs <= excess and len(chosen) < most and ours.phase is Phase.RUNNING:
                chosen.append(ours)
                excess -= weighs
        for ours in chosen:
            self._giving[ours.connection_id] = now.mono_s + GIVE_WITHIN_S
            self._given[ours.connection_id] = now.mono_s + NOT_BACK_S
        return chosen

    def was_given(self, connection_id: str, now: Instant) -> bool:
        """Whether this worker gave it up a moment ago, so that others are to have it."""
        return self._given.get(connection_id, now.mono_s) > now.mono_s

    def settled(self, connection_id: str) -> None:
        """It is here no longer, or stays after all."""
        self._giving.pop(connection_id, None)

    def overdue(self, now: Instant) -> list[str]:
        """What has been flushing for too long. Each is named once."""
        self._given = {name: until_s for name, until_s in self._given.items() if until_s > now.mono_s}
        late = [name for name, by_s in self._giving.items() if by_s <= now.mono_s]
        self._giving.update(dict.fromkeys(late, float("inf")))
        return late
