"""Keeps a fleet at its number, as an ECS service does: a worker that ended is followed by a new process."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from streamlease_cli.local.fleet import Fleet, Worker

_STEADY_S = 30.0
"""A worker that lived this long is followed at once; one that did not, after a wait that doubles."""
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class _Place:
    worker: Worker
    since_s: float


class Service:
    """Owns which workers count; the fleet owns their processes."""

    def __init__(self, fleet: Fleet, count: int, now_s: Callable[[], float] = monotonic) -> None:
        """Starts `count` workers and returns once each has joined. Raises LocalFault where one cannot."""
        self._fleet = fleet
        self._now_s = now_s
        self._places = [_Place(worker, now_s()) for worker in fleet.start(count)]
        self._due_s: list[float] = []
        self._hasty = 0

    @property
    def workers(self) -> list[Worker]:
        """Those in place, the newest last; one that has just ended until `tend` is called."""
        return [place.worker for place in self._places]

    def tend(self) -> list[str]:
        """Starts what is to be started now. What happened, a sentence each."""
        now_s = self._now_s()
        said = []
        for place in [place for place in self._places if not place.worker.is_running]:
            self._places.remove(place)
            self._hasty = self._hasty + 1 if now_s - place.since_s < _STEADY_S else 0
            wait_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (self._hasty - 1)) if self._hasty else 0.0
            self._due_s.append(now_s + wait_s)
            process, again = place.worker.process, f"in {wait_s:g} s" if wait_s else "now"
            said.append(f"{process.name} {_ending(process.poll())}; a new one starts {again} (its log: {process.log})")
        for due_s in [due_s for due_s in self._due_s if due_s <= now_s]:
            self._due_s.remove(due_s)
            worker = self._fleet.launch()
            self._places.append(_Place(worker, now_s))
            said.append(f"{worker.name} starts")
        return said


def _ending(code: int | None) -> str:
    return f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with {code}"
