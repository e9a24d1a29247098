"""Which leases go out together, and what is in flight. Part of the keeper."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from streamlease.flow import BATCH_WRITES
from streamlease_worker.held import Held
from streamlease_worker.keeper_events import Release, Renew, Save

type Sent = Renew | Save | Release


@dataclass(frozen=True, slots=True)
class InFlight:
    command: Sent
    revisions: tuple[int, ...]
    """What each attempt stores if it lands; see `Held.stored`."""


class Outbox:
    """Up to `parallel` batches of each kind at a time, so that a burst of one kind holds up no other."""

    def __init__(self, parallel: int) -> None:
        self._parallel = parallel
        self._in_flight: dict[int, InFlight] = {}
        self._last = 0

    def groups(
        self,
        kind: type[Sent],
        among: Iterable[Held],
        now_s: float,
        *,
        ready: Callable[[Held], bool],
        early_s: float = 0.0,
    ) -> list[list[Held]]:
        """The due ones among those `ready` and not in flight, soonest to run out first, in batches. The last batch is
        filled with those that are due within `early_s`."""
        slots = self._parallel - sum(isinstance(each.command, kind) for each in self._in_flight.values())
        if slots <= 0:
            return []
        due: list[Held] = []
        near: list[Held] = []
        for held in among:
            if held.due_s <= now_s + early_s and not held.in_flight and ready(held):
                (due if held.due_s <= now_s else near).append(held)
        due.sort(key=lambda held: held.deadline_s)
        near.sort(key=lambda held: held.due_s)
        room = min(-(-len(due) // BATCH_WRITES), slots) * BATCH_WRITES
        chosen = (due + near)[:room]
        return [chosen[at : at + BATCH_WRITES] for at in range(0, len(chosen), BATCH_WRITES)]

    def number(self) -> int:
        """A batch number that was never used."""
        self._last += 1
        return self._last

    def begin[S: Sent](self, command: S, group: Iterable[Held], now_s: float, revisions: tuple[int, ...]) -> S:
        """Note the command as in flight for the leases of `group`."""
        self._in_flight[command.batch] = InFlight(command, revisions)
        for held in group:
            held.in_flight = True
            held.sent_s = now_s
        return command

    def end(self, batch: int) -> InFlight | None:
        """What the batch was; None for one that was answered before."""
        return self._in_flight.pop(batch, None)
