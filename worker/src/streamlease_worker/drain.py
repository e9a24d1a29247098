"""How a worker ends: all connections side by side, within its time, then the membership (design §6). Part of the
supervisor."""

from collections.abc import Collection
from typing import Literal

from streamlease.timing import Instant
from streamlease_worker import ownership
from streamlease_worker.ownership import Ownership
from streamlease_worker.supervisor_events import Command, DrainsItself, Exit, Leave

MOST_RESERVE_S = 10.0
"""Kept back from the stop timeout for releasing without a flush."""
FAREWELL_S = 1.0
"""So long a drainer that had something waits for the summary that no longer counts it: who is to take over goes by
that; and for an answer of the offers queue, which may be its own offers, to be given back."""
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
        self._began_s = 0.0
        self._member: Literal["joined", "leaving", "gone", "lost"] = "joined"
        self._outcome: Literal["drained", "lost"] = "drained"

    def begin(self, reason: str, owned: Collection[Ownership], now: Instant) -> list[Command]:
        """By a signal. For a second time: in a hurry. A first one while it drains by itself changes nothing: the time
        that the platform then gives is as long as all of the drain's own."""
        again, self._signalled = self._signalled, True
        if self.begun and self._outcome == "drained":
            return self._hurry(owned) if again else []
        self._outcome = "drained"
        return self._begin(reason, owned, now)

    def begin_itself(self, reason: str, owned: Collection[Ownership], now: Instant) -> list[Command]:
        """Without a signal: somebody asked for it by command, or it gets nowhere."""
        if self.begun:
            return []
        return [DrainsItself(reason, self._all_s), *self._begin(reason, owned, now)]

    def lose_member(self, owned: Collection[Ownership], now: Instant) -> list[Command]:
        """The fleet took this worker for dead: give up what is held, to begin again under another id."""
        self._member = "lost"
        if self.begun:
            return []
        self._outcome = "lost"
        return self._begin("the fleet took this worker for dead", owned, now)

    def told_fleet(self) -> bool:
        """A heartbeat was answered. True once: of the first after the drain began, which says DRAINING."""
        first = self.begun and not self._told_fleet
        self._told_fleet |= self.begun
        return first

    def swept(self) -> None:
        """A sweep has been answered, which began when the fleet had been told, if that was so."""
        if self._told_fleet:
            self._bids_farewell = False

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
        return []

    def _begin(self, reason: str, owned: Collection[Ownership], now: Instant) -> list[Command]:
        self.begun = True
        self.reason = reason
        self._had = self._bids_farewell = bool(owned)
        self._began_s = now.mono_s
        return [command for ours in owned for command in ownership.stop(ours, reason, flush=True)]

    def _hurry(self, owned: Collection[Ownership]) -> list[Command]:
        self._hurried = True
        return [command for ours in owned for command in ownership.stop(ours, self.reason, flush=False)]

    def _exit(self, outcome: Literal["drained", "lost", "unfinished"], reason: str) -> list[Command]:
        self.exited = True
        return [Exit(outcome, reason)]
