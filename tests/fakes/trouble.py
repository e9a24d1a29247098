"""Trouble in front of a store, any store: requests that never arrive, answers that are lost, writes that land late."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

from streamlease.errors import Fault
from streamlease.flow import Batch, Request
from streamlease.write import Answer, Delete, Put, Update

type Perform = Callable[[Request], object]


class Landing(Enum):
    """What becomes of the request itself."""

    NEVER = auto()
    BEFORE = auto()
    """It landed, and only its answer was lost."""
    LATER = auto()
    """It is on its way, and lands at `land`, whatever has happened meanwhile."""


@dataclass(slots=True)
class _Trouble:
    fault: Fault
    when: Callable[[Request], bool]
    landing: Landing
    times: int


def is_write(request: Request) -> bool:
    return isinstance(request, Put | Update | Delete | Batch)


class Troubled:
    """A store with scripted faults: `Troubled(store.perform)` performs as `store` does but for what `trouble` says.

    A trouble that matches a batch befalls the whole call; one that matches a write befalls that member alone.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._troubles: list[_Trouble] = []
        self._on_their_way: list[Request] = []
        self.performed: list[Request] = []
        """Everything that was asked for, in order, whatever became of it."""

    def trouble(
        self,
        fault: Fault,
        *,
        when: Callable[[Request], bool] = is_write,
        landing: Landing = Landing.NEVER,
        times: int = 1,
    ) -> None:
        """Throw `fault` at the next `times` requests that match."""
        self._troubles.append(_Trouble(fault, when, landing, times))

    def perform(self, request: Request) -> object:
        self.performed.append(request)
        trouble = self._next(request)
        if trouble is not None:
            self._befall(request, trouble)
            raise trouble.fault
        if isinstance(request, Batch):
            return self._batch(request)
        return self._perform(request)

    def land(self) -> list[object]:
        """Let everything that is on its way arrive. Returns the answers that nobody got."""
        arrived, self._on_their_way = self._on_their_way, []
        return [self._perform(request) for request in arrived]

    def _batch(self, batch: Batch) -> tuple[Answer | Fault, ...]:
        struck = {number: self._next(write) for number, write in enumerate(batch.writes)}
        sent = []
        for number, write in enumerate(batch.writes):
            trouble = struck[number]
            if trouble is None:
                sent.append(write)
            else:
                self._befall(Batch((write,)), trouble)
        answers = iter(cast("tuple[Answer | Fault, ...]", self._perform(Batch(tuple(sent))) if sent else ()))
        return tuple(next(answers) if trouble is None else trouble.fault for trouble in struck.values())

    def _next(self, request: Request) -> _Trouble | None:
        for trouble in self._troubles:
            if trouble.when(request):
                trouble.times -= 1
                if trouble.times == 0:
                    self._troubles.remove(trouble)
                return trouble
        return None

    def _befall(self, request: Request, trouble: _Trouble) -> None:
        if trouble.landing is Landing.BEFORE:
            self._perform(request)
        elif trouble.landing is Landing.LATER:
            self._on_their_way.append(request)
