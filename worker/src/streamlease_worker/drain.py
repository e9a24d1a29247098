"""How a worker ends: it tells the fleet, hands its connections over as fast as the others take them, within its time,
and then gives up the membership (design §6). Part of the supervisor.

A connection streams until its turn comes: what waits for others to make room, or in a queue, waits with a socket.
"""

from collections import deque
from collections.abc import Collection
from typing import Literal

from streamlease.flow import BATCH_OFFERS
from streamlease.timing import Instant
from streamlease_worker import ownership
from streamlease_worker.ownership import Ownership, Phase
from streamlease_worker.rounds import read_within_s
from streamlease_worker.supervisor_events import Command, DrainsItself, Exit, Leave

MOST_RESERVE_S = 10.0
"""Kept back from the stop timeout for releasing without a flush."""
FAREWELL_S = 1.0
"""So long a drainer that had something waits for the summary that no longer counts it: who is to take over goes by
that; and for an answer of the offers queue, which may be its own offers, to be given back."""
TELL_WITHIN_S = 1.0
"""So long at most it goes on until the fleet's shares are those without it. They are read a little later."""
AT_ONCE = 20
"""So many are on their way at a time: a store that answers slowly has no more to answer."""
TOGETHER = BATCH_OFFERS
"""So many have their turn together: their releases are one call, and so are their offers."""
A_SECOND = 40
"""Beyond the first, so many have their turn in each second: two or three workers on a core or two take so many over
before the next come. All at once, the last would wait for all the others' claims and dials."""
OF_ITS_TIME = 0.5
"""In this part of the time that it has for flushing the last is to have its turn, whatever becomes of the others: a
sink that does not flush keeps nobody."""
LAST_S = 2.0
"""Kept back from the stop timeout for the exit itself."""


class Drain:
    """Mutable, owned by one `Supervisor`."""

    def __init__(self, stop_timeout_s: float) -> None:
        self.begun = False
        self.exited = False
        self.reason = ""
        self._hurried = False
        self._signalled = False
        self._told_fleet = False
        self._had = self._bids_farewell = False
        self._flush_s = stop_timeout_s - min(MOST_RESERVE_S, stop_timeout_s / 4)
        self._all_s = stop_timeout_s - min(LAST_S, stop_timeout_s / 20)
        self._began_s = self._hand_over_from_s = 0.0
        self._read_within_s = 0.0
        self._waiting: deque[Ownership] = deque()
        self._handed = 0
        self._nobody_takes = False
        self._a_second = self._at_least_a_second = 0.0
        self._member: Literal["joined", "leaving", "gone", "lost"] = "joined"
        self._outcome: Literal["drained", "lost"] = "drained"

    def begin(self, reason: str, owned: Collection[Ownership], *, living: int, now: Instant) -> list[Command]:
        """By a signal. For a second time: in a hurry. A first one while it drains by itself changes nothing: the time
        that the platform then gives is as long as all of the drain's own. `living`: workers, this one among them, as
        far as is known."""
        again, self._signalled = self._signalled, True
        if self.begun and self._outcome == "drained":
            return self._hurry(owned) if again else []
        self._outcome = "drained"
        return self._begin(reason, owned, living, now)

    def begin_itself(self, reason: str, owned: Collection[Ownership], *, living: int, now: Instant) -> list[Command]:
        """Without a signal: somebody asked for it by command, or it gets nowhere."""
        if self.begun:
            return []
        return [DrainsItself(reason, self._all_s), *self._begin(reason, owned, living, now)]

    def lose_member(self, owned: Collection[Ownership], now: Instant) -> list[Command]:
        """The fleet took this worker for dead: give up what is held, to begin again under another id."""
        self._member = "lost"
        if self.begun:
            return self._hand_over(len(self._waiting))
        self._outcome = "lost"
        return self._begin("the fleet took this worker for dead", owned, 1, now)

    def told_fleet(self) -> bool:
        """A heartbeat was answered that said DRAINING. True once."""
        first = self.begun and not self._told_fleet
        self._told_fleet |= self.begun
        return first

    def swept(self, *, others: int, now: Instant) -> None:
        """A sweep has been answered, which began when the fleet had been told, if that was so. `others`: workers that
        live, as far as is known."""
        if self._told_fleet and self._bids_farewell:
            self._bids_farewell = False
            self._nobody_takes = others == 0
            self._hand_over_from_s = min(self._hand_over_from_s, now.mono_s + self._read_within_s)

    def left(self) -> None:
        if self._member == "leaving":
            self._member = "gone"

    def step(self, owned: Collection[Ownership], *, unsettled: int, receiving: bool, now: Instant) -> list[Command]:
        """What the drain's progress, or its time, asks for. `unsettled`: claims and audit releases in flight;
        `receiving`: a question to the offers queue is."""
        if not self.begun or self.exited:
            return []
        spent_s = now.mono_s - self._began_s
        if not owned and not unsettled:
            if self._member == "joined":
                if self._had and (self._bids_farewell or receiving) and spent_s < FAREWELL_S:
                    return []
                self._member = "leaving"
                return [Leave()]
            if self._member != "leaving":
                return self._exit(self._outcome, self.reason)
        if spent_s >= self._all_s:
            if not owned and not unsettled:
                return self._exit(self._outcome, self.reason)
            left = f"{len(owned)} connections and {unsettled} claims could not be given up within {spent_s:.0f} s"
            return self._exit("unfinished", f"{self.reason}; {left}")
        if spent_s >= self._flush_s and not self._hurried:
            return self._hurry(owned)
        if self._nobody_takes:
            return self._hand_over(len(self._waiting))
        if self._waiting and now.mono_s >= self._hand_over_from_s:
            return self._hand_over(self._turns(now.mono_s - self._hand_over_from_s, len(owned)))
        return []

    def _turns(self, for_s: float, owned: int) -> int:
        """How many have their turn now, when those before have been on their way since `for_s` or less."""
        free = AT_ONCE - (owned - len(self._waiting))
        ready = min(free, TOGETHER + int(self._a_second * for_s) - self._handed)
        overdue = int(self._at_least_a_second * for_s) - self._handed
        return max(ready if ready >= min(TOGETHER, len(self._waiting)) else 0, overdue)

    def _begin(self, reason: str, owned: Collection[Ownership], living: int, now: Instant) -> list[Command]:
        """What streams has its turn when there is somebody who can take it, which is then told first."""
        self.begun = True
        self.reason = reason
        self._had = self._bids_farewell = bool(owned)
        self._began_s = now.mono_s
        self._waiting.extend(ours for ours in owned if ours.phase is Phase.RUNNING and living > 1)
        waiting = {ours.connection_id for ours in self._waiting}
        self._at_least_a_second = len(waiting) / (OF_ITS_TIME * self._flush_s)
        self._a_second = max(A_SECOND, self._at_least_a_second)
        self._read_within_s = min(read_within_s(living), self._flush_s / 8)
        self._hand_over_from_s = now.mono_s + min(TELL_WITHIN_S, self._flush_s / 8) + self._read_within_s
        going = (ours for ours in owned if ours.connection_id not in waiting)
        return [command for ours in going for command in ownership.stop(ours, reason, flush=True)]

    def _hand_over(self, most: int) -> list[Command]:
        chosen = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        self._handed += len(chosen)
        return [command for ours in chosen for command in ownership.stop(ours, self.reason, flush=True)]

    def _hurry(self, owned: Collection[Ownership]) -> list[Command]:
        self._hurried = True
        self._waiting.clear()
        return [command for ours in owned for command in ownership.stop(ours, self.reason, flush=False)]

    def _exit(self, outcome: Literal["drained", "lost", "unfinished"], reason: str) -> list[Command]:
        self.exited = True
        return [Exit(outcome, reason)]
