"""Carries the faults of a plan out, each lane's on a thread of its own, and counts those that hit something."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from signal import SIGCONT, SIGSTOP, SIGUSR1

from streamlease.model import DesiredState
from tests.chaos.arena import TIMING, Arena, Fleet
from tests.chaos.attempts import What
from tests.chaos.evidence import Stop
from tests.chaos.faults import UPSTREAM, Fault, Kind, plan
from tests.chaos.link import Way
from tests.chaos.place import Place

LEASE_S = TIMING.lease_ms / 1000
SERVER_RESTARTS = 1012
MOST_ROOM_BYTES = 600
HELD_WITHIN_S = 10.0
"""A fault for a worker that holds something waits so long until it does."""
STOPPED_S = 3.0, 9.0
RUNNING_S = 1.0, 3.0


@dataclass(slots=True)
class Tally:
    """How many faults are wanted, and what came of those so far. Safe to share between threads."""

    wanted: int
    say: Callable[[str], None]
    hits: Counter[Kind] = field(default_factory=Counter)
    misses: Counter[Kind] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)
    crashed: list[BaseException] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def count(self) -> int:
        return self.hits.total()

    def add(self, fault: Fault, hits: int) -> None:
        with self._lock:
            (self.hits if hits else self.misses)[fault.kind] += 1
            if self.count >= self.wanted:
                self.over.set()
        self.say(f"{fault.lane} #{fault.number} {fault.kind}: {f'hit {hits}' if hits else 'hit nothing'}")

    def crash(self, error: BaseException) -> None:
        self.crashed.append(error)
        self.over.set()


def disturb(arena: Arena, fleet: Fleet, seed: int, tally: Tally) -> list[Stop]:
    """Until enough faults have hit something; then everything is as it should be again, but what has died is not back.

    Meanwhile connections are stopped and started: what was stopped when. Raises what a lane raised.
    """
    operating = Operating(arena, tuple(sorted(arena.loop.call(fleet.upstream.published()))), seed, tally)
    lanes: list[Callable[[], None]] = [_of_worker(arena, fleet, place, seed, tally) for place in fleet.places]
    lanes += [_of_upstream(arena, fleet, seed, tally), operating.run]
    threads = [threading.Thread(target=_guarded, args=(lane, tally), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if tally.crashed:
        raise tally.crashed[0]
    return operating.stops


def _guarded(lane: Callable[[], None], tally: Tally) -> None:
    try:
        lane()
    except BaseException as error:  # noqa: BLE001  # it is raised by who waits
        tally.crash(error)


# --- a worker's faults -----------------------------------------------------------------------------------------------


def _of_worker(arena: Arena, fleet: Fleet, place: Place, seed: int, tally: Tally) -> Callable[[], None]:
    def lane() -> None:
        for fault in plan(seed, place.name):
            if tally.over.is_set():
                return
            if not place.settle():
                continue
            tally.add(fault, OnWorker(arena, fleet, place, tally.over).befall(fault))
            tally.over.wait(fault.rest * LEASE_S)

    return lane


WAYS = {
    Kind.DYNAMODB_CUT: ("dynamodb", Way.CUT),
    Kind.DYNAMODB_SILENT: ("dynamodb", Way.SILENT),
    Kind.DYNAMODB_SLOW: ("dynamodb", Way.SLOW),
    Kind.DYNAMODB_LATE: ("dynamodb", Way.LATE),
    Kind.DYNAMODB_THROTTLED: ("dynamodb", Way.THROTTLED),
    Kind.DYNAMODB_UNANSWERED: ("dynamodb", Way.UNANSWERED),
    Kind.SQS_CUT: ("sqs", Way.CUT),
    Kind.SQS_SLOW: ("sqs", Way.SLOW),
    Kind.SQS_THROTTLED: ("sqs", Way.THROTTLED),
    Kind.SQS_UNANSWERED: ("sqs", Way.UNANSWERED),
}


@dataclass(frozen=True, slots=True)
class OnWorker:
    """Faults of one place. A method returns what was hit: leases, writes or requests."""

    arena: Arena
    fleet: Fleet
    place: Place
    over: threading.Event

    def befall(self, fault: Fault) -> int:
        match fault.kind:
            case Kind.KILL:
                return self._kill(fault)
            case Kind.PAUSE:
                return self._pause(fault)
            case Kind.BLOCKED_LOOP:
                return self._block(fault)
            case Kind.FULL_DISK:
                return self._fill(fault)
            case _:
                return self._misbehave(fault)

    def _held(self) -> int:
        """Leases, once there are any."""
        until_s = time.monotonic() + HELD_WITHIN_S
        while not self.over.is_set():
            held = self.arena.owned(self.place)
            if held or time.monotonic() > until_s:
                return held
            self.over.wait(0.2)
        return 0

    def _kill(self, fault: Fault) -> int:
        held = self._held()
        self.place.worker.process.kill()
        self.place.worker.process.wait(10.0)
        self.over.wait(fault.lasts * LEASE_S)
        return held

    def _pause(self, fault: Fault) -> int:
        held = self._held()
        self.place.send(SIGSTOP)
        try:
            self.over.wait(fault.lasts * LEASE_S)
        finally:
            self.place.send(SIGCONT)
        return held

    def _block(self, fault: Fault) -> int:
        held = self._held()
        lasts_s = fault.lasts * LEASE_S
        self.place.order(SIGUSR1, f"{lasts_s:.3f}")
        time.sleep(lasts_s)  # whoever waits for the end of the faults waits for this one too
        return held

    def _fill(self, fault: Fault) -> int:
        pid, began_ms = self.place.pid, time.time_ns() // 1_000_000
        with self.place.full_disk(int(fault.share * MOST_ROOM_BYTES)):
            self.over.wait(max(1.0, fault.lasts * LEASE_S))
        new = self.fleet.journals.of(pid)
        return sum(told.what is What.REFUSED and told.wall_ms >= began_ms for told in new)

    def _misbehave(self, fault: Fault) -> int:
        service, way = WAYS[fault.kind]
        link = self.place.links[service]
        spell = self.arena.loop.call(link.begin(way, fault.delay * LEASE_S))
        try:
            self.over.wait(fault.lasts * LEASE_S)
        finally:
            self.arena.loop.call(link.end())
        return spell.hits


# --- the upstream's faults -------------------------------------------------------------------------------------------


def _of_upstream(arena: Arena, fleet: Fleet, seed: int, tally: Tally) -> Callable[[], None]:
    upstream, call = fleet.upstream, arena.loop.call

    def befall(fault: Fault) -> int:
        match fault.kind:
            case Kind.UPSTREAM_RESET:
                return call(upstream.abort(some(fault)))
            case Kind.UPSTREAM_RESTART:
                return call(upstream.hang_up(some(fault), SERVER_RESTARTS))
            case _:
                call(upstream.refuse(refuses=True))
                hits = call(upstream.abort())
                tally.over.wait(fault.lasts * LEASE_S)
                call(upstream.refuse(refuses=False))
                return hits

    def some(fault: Fault) -> Iterable[str]:
        names = sorted(call(upstream.published()))
        return Random(f"{seed}/{fault.number}").sample(names, max(1, round(fault.share * len(names))))

    def lane() -> None:
        for fault in plan(seed, UPSTREAM):
            if tally.over.wait(fault.rest * LEASE_S):
                return
            tally.add(fault, befall(fault))

    return lane


# --- people meanwhile ------------------------------------------------------------------------------------------------


class Operating:
    """Stops a connection now and then, and starts it again. No fault, and not counted as one."""

    def __init__(self, arena: Arena, names: tuple[str, ...], seed: int, tally: Tally) -> None:
        self.stops: list[Stop] = []
        self._arena = arena
        self._names = names
        self._random = Random(f"{seed}/operating")
        self._tally = tally

    def run(self) -> None:
        over = self._tally.over
        while not over.wait(self._random.uniform(*RUNNING_S)):
            name = self._random.choice(self._names)
            self._arena.switch(name, DesiredState.STOPPED)
            from_s = self._arena.now_s()
            over.wait(self._random.uniform(*STOPPED_S))
            until_s = self._arena.now_s()
            self._arena.switch(name, DesiredState.STARTED)
            within_s = (TIMING.lease_ms + TIMING.skew_ms) / 1000
            self.stops.append(Stop(name, from_s, until_s, within_s, disturbed=True))
