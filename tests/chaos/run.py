"""One fleet through its faults, from its start to the verdict."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from streamlease.flows import control
from streamlease.model import DesiredState, LeaseMode
from tests.chaos.arena import SPEC, TIMING, Arena, Fleet, until
from tests.chaos.attempts import What
from tests.chaos.checks import Violation, duplicates, violations
from tests.chaos.evidence import Evidence, Stop, read_sink
from tests.chaos.faults import Kind
from tests.chaos.history import batched
from tests.chaos.inject import Tally, disturb

STREAMING_WITHIN_S = 60.0
SWEEP_S = 3.0
"""A sweep is due about once a second, by a clock that two of three workers share; and some for what it takes."""
DIAL_S = 3.0
"""With the feed's longest wait of a second before it, and the next record after it."""
RECOVERED_WITHIN_S = (TIMING.lease_ms + TIMING.skew_ms) / 1000 + SWEEP_S + DIAL_S
CLOSED_WITHIN_S = 2 * TIMING.heartbeat_ms / 1000 + 1.5
"""Two heartbeats, the half second that an upstream has for its side of the close, and one for a busy machine."""
DELIVERED_WITHIN_S = 20.0
QUIET_STOPS = 4
EVERY_LIVE = 6
"""Of so many feeds one does not resume."""
AFTERWARDS_S = 60.0
"""What recovers later than it should is waited for, so that the rest can be checked."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a fleet's run came to."""

    mode: LeaseMode
    hits: Mapping[Kind, int]
    misses: Mapping[Kind, int]
    violations: tuple[Violation, ...]
    duplicates: int
    stale: int
    torn: int
    records: int
    attempts: int
    claims: int
    recovered_s: float
    """From the end of the faults until the last connection delivered something new."""
    exit_codes: Mapping[str, int]
    took_s: float

    def counted(self, *what: str) -> int:
        return sum(found.what in what for found in self.violations)


@dataclass(slots=True)
class Play:
    """A fleet's run, as its parts come to be known."""

    arena: Arena
    fleet: Fleet
    names: list[str]
    say: Callable[[str], None]
    found: list[Violation] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)


def play(
    arena: Arena,
    mode: LeaseMode,
    *,
    faults: int,
    seed: int,
    workers: int,
    connections: int,
    say: Callable[[str], None],
) -> Outcome:
    """Raises LocalFault, AssertionError where there is nothing to judge."""
    began_s = time.monotonic()
    with arena.fleet(mode.value, mode, workers) as fleet:
        names = [f"{mode.value}-{number:02}" for number in range(connections)]
        part = Play(arena, fleet, names, say)
        _connect(part)
        say(f"{mode.value} mode: {workers} workers, {connections} connections; seed {seed}")
        tally = Tally(faults, say)
        part.stops += disturb(arena, fleet, seed, tally)
        recovered_s = _recover(part)
        _stop_some(part, seed)
        _deliver_all(part)
        codes = _drain(part)
        evidence = _evidence(part)
        part.found += violations(evidence)
        for violation in part.found[:20]:
            say(str(violation))
        arena.remove(names)
    return Outcome(
        mode=mode,
        hits=tally.hits,
        misses=tally.misses,
        violations=tuple(part.found),
        duplicates=duplicates(evidence),
        stale=evidence.sink.stale,
        torn=evidence.sink.torn,
        records=len(evidence.sink.records),
        attempts=sum(told.what is What.BEGAN for told in evidence.told),
        claims=sum(one.event == "CLAIMED" for one in evidence.written),
        recovered_s=recovered_s,
        exit_codes=codes,
        took_s=time.monotonic() - began_s,
    )


def _connect(part: Play) -> None:
    arena, fleet = part.arena, part.fleet
    live = set(_live(part.names))
    resuming = [name for name in part.names if name not in live]
    record = SPEC["record"]
    arena.add(fleet, resuming[::2])
    arena.add(fleet, resuming[1::2], record={**record, "contiguous": True, "unique": True})
    arena.add(fleet, sorted(live), live_only=True)
    arena.loop.call(fleet.upstream.publish())
    until(
        lambda: arena.loop.call(fleet.upstream.connected()) == set(part.names), STREAMING_WITHIN_S, "all are connected"
    )


def _live(names: list[str]) -> list[str]:
    return names[EVERY_LIVE - 1 :: EVERY_LIVE]


def _recover(part: Play) -> float:
    """The faults are over. Until every connection has delivered a record that was published after that."""
    arena, fleet = part.arena, part.fleet
    for place in fleet.places:
        place.launch()
    over_s = arena.now_s()
    before = arena.loop.call(fleet.upstream.published())
    waits = {name: _postponed_s(arena, name) for name in part.names}
    fleet.journals.read_on()
    back: dict[str, float] = {}

    def all_back() -> bool:
        for told in fleet.journals.read_on():
            if told.what is What.DURABLE and told.last is not None and told.last > before[told.connection_id]:
                back.setdefault(told.connection_id, told.until_s - over_s)
        return len(back) == len(part.names)

    longest_s = RECOVERED_WITHIN_S + max(waits.values())
    try:
        until(all_back, longest_s + AFTERWARDS_S, "everything streams again")
    except AssertionError:
        part.say("not everything streams again")
    for name in part.names:
        took_s = back.get(name, longest_s + AFTERWARDS_S)
        if took_s > RECOVERED_WITHIN_S + waits[name]:
            part.found.append(Violation(4, "late", f"{name} delivered nothing new for {took_s:.1f} s after the faults"))
    recovered_s = max(back.values(), default=0.0)
    part.say(f"all faults are over; everything streams again after {recovered_s:.1f} s")
    return recovered_s


def _postponed_s(arena: Arena, name: str) -> float:
    """How long nobody may take it yet, as it was taken for what kills its owners."""
    found = arena.session.run(control.find(name))
    assert found is not None
    return max(0.0, ((found.not_before_ms or 0) - arena.session.now_ms()) / 1000)


def _stop_some(part: Play, seed: int) -> None:
    """With nothing in the way, what is stopped is closed within two heartbeats."""
    arena = part.arena
    chosen = Random(f"{seed}/quiet").sample(part.names, min(QUIET_STOPS, len(part.names)))
    began = {}
    for name in chosen:
        arena.switch(name, DesiredState.STOPPED)
        began[name] = arena.now_s()
    time.sleep(CLOSED_WITHIN_S + 1.0)
    for name in chosen:
        part.stops.append(Stop(name, began[name], arena.now_s(), CLOSED_WITHIN_S, disturbed=False))
        arena.switch(name, DesiredState.STARTED)


def _deliver_all(part: Play) -> None:
    """Nothing more is published; until the sink has everything, or for as long as that may take."""
    fleet, loop = part.fleet, part.arena.loop
    loop.call(fleet.upstream.stop_publishing())
    last = loop.call(fleet.upstream.published())
    for name in _live(part.names):
        del last[name]

    def delivered() -> bool:
        fleet.journals.read_on()
        for told in fleet.journals.told:
            if told.what is What.DURABLE and told.last is not None and told.last == last.get(told.connection_id):
                del last[told.connection_id]
        return not last

    try:
        until(delivered, DELIVERED_WITHIN_S, "everything that was published is delivered")
    except AssertionError as late:
        part.say(f"{late}: {sorted(last)}")


def _drain(part: Play) -> dict[str, int]:
    """SIGTERM to all. How processes ended, by exit code, over the whole run."""
    for place in part.fleet.places:
        if not place.is_there():
            part.found.append(Violation(4, "gone", f"{place.name} is not there, long after the faults"))
        codes = place.fleet.stop(within_s=15.0)
        if codes[place.worker.name] != os.EX_OK:
            part.found.append(Violation(4, "not_drained", f"{place.name} ended with {codes[place.worker.name]}"))
    ended = Counter(_named(code) for place in part.fleet.places for code in place.exit_codes())
    return dict(sorted(ended.items()))


def _named(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else str(code)


def _evidence(part: Play) -> Evidence:
    arena, fleet = part.arena, part.fleet
    names = set(part.names)
    fleet.journals.read_on()
    links = [place.links["dynamodb"] for place in fleet.places]
    return Evidence(
        mode=fleet.mode,
        timing=TIMING,
        published=arena.loop.call(fleet.upstream.published()),
        live=frozenset(_live(part.names)),
        told=fleet.journals.told,
        workers={pid: ids for place in fleet.places for pid, ids in place.workers_by_pid().items()},
        written=[one for one in arena.connections_written() if one.connection.connection_id in names],
        batched=[each for link in links for each in batched(link.batches) if each.connection_id in names],
        members=arena.members_written(),
        visits=arena.loop.call(fleet.upstream.all_visits()),
        stops=part.stops,
        sink=read_sink(fleet.records.read_bytes()),
    )
