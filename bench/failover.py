"""How long connections are without a stream: a worker killed, one drained, a whole fleet deployed anew; in each mode.

    python -m bench.failover [--mode connection|worker|both] [--heartbeat 1s] [--lease 3s] [--connections 60]
                             [--workers 3] [--rate 20] [--logs FOLDER] [--json] [--keep FILE]

The template in the embedded AWS, real worker processes, a third party's relay that is being written to, as in `make
demo`. A gap runs from the kill, or from the close of the old socket, to the readiness of the new one. Intervals are the
mode's own unless they are given. One line for each mode; exit code 1 if a goal was missed.
"""

import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.kept import circumstances, parser, progress, some, tell
from streamlease.model import LeaseMode
from streamlease.settings import TIMINGS
from streamlease.spec import units
from streamlease.timing import SKEW_MS, Timing
from streamlease_cli.local import feeds
from streamlease_cli.local.checkout import find_checkout
from streamlease_cli.local.evidence import Departure, Evidence, Happened, WorkerEvent, read_sink
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.fleet import Fleet, Worker
from streamlease_cli.local.publisher import Publisher, start_publisher
from streamlease_cli.local.relay import Relay, launch_relay
from streamlease_cli.local.report import Report, report
from streamlease_cli.local.system import Leases, deployed
from streamlease_cli.local.watch import Watch

KILL_OVER_S = 2.0
"""A kill's p99 is to stay within lease + skew + this: a sweep and a dial."""
SHORT_LEASE_S, SHORT_KILL_S = 3.0, 5.0
"""Of the shortest lease more is asked."""
DRAIN_P99_S = 1.0
DEPLOY_MOVES = 1
WITHIN_S = 120.0
CALM_S = 5.0
"""Before anything is done to the fleet, it has streamed, moved nothing and been even for so long. Even, because a
newcomer after a drain waits some seconds for its share: a deployment meanwhile would count those moves as its own."""


@dataclass(frozen=True, slots=True)
class Wanted:
    mode: LeaseMode
    timing: Timing
    connections: int
    workers: int
    rate: float


@dataclass(slots=True)
class Acts:
    """What was done to the fleet, and when."""

    killed: Departure | None = None
    drained: Departure | None = None
    deploy_from_ms: int = 0
    deploy_until_ms: int = 0
    complaints: list[str] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    asking = parser("failover", __doc__)
    asking.add_argument("--mode", choices=[*(mode.value for mode in LeaseMode), "both"], default="both")
    asking.add_argument("--heartbeat", type=units.seconds, metavar="DURATION", help="of the mode's own where not given")
    asking.add_argument("--lease", type=units.seconds, metavar="DURATION")
    asking.add_argument("--connections", type=some, default=60)
    asking.add_argument("--workers", type=some, default=3)
    asking.add_argument("--logs", type=Path, metavar="FOLDER", help="leave each mode's logs and records there")
    asking.add_argument("--rate", type=float, default=20.0, help="notes published a second, over all connections")
    asked = asking.parse_args(arguments)
    modes = list(LeaseMode) if asked.mode == "both" else [LeaseMode(asked.mode)]
    met = True
    for mode in modes:
        where = circumstances("failover", arguments)
        usual = TIMINGS[mode]
        heartbeat_ms = round(asked.heartbeat * 1_000) if asked.heartbeat else usual.heartbeat_ms
        lease_ms = round(asked.lease * 1_000) if asked.lease else max(usual.lease_ms, 3 * heartbeat_ms)
        timing = Timing(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms)
        wanted = Wanted(mode, timing, asked.connections, asked.workers, asked.rate)
        if asked.logs is None:
            with tempfile.TemporaryDirectory(prefix="streamlease-failover-") as folder:
                line = measured(wanted, Path(folder))
        else:
            line = measured(wanted, _made(asked.logs / f"{mode}-{_now_ms()}"))
        met = met and not line["unmet"]
        tell(line, asked, where)
    return 0 if met else 1


def measured(wanted: Wanted, folder: Path) -> dict[str, Any]:
    """One mode: the bench's line. `folder` takes logs and records."""
    with ExitStack() as stack:
        checkout = find_checkout()
        relay = stack.enter_context(launch_relay(checkout, folder / "relay.log"))
        system = stack.enter_context(deployed(checkout, folder, Leases(wanted.mode, wanted.timing), Spoken()))
        sink = folder / "records.jsonl"
        environment = system.worker_environment(sink=f"jsonl:{sink}", capacity=wanted.connections)
        generation = int(environment["STREAMLEASE_GENERATION"])
        old = stack.enter_context(Fleet(_made(folder / "old"), environment))
        new_environment = {**environment, "STREAMLEASE_GENERATION": str(generation + 1)}
        new = stack.enter_context(Fleet(_made(folder / "new"), new_environment))
        old.start(wanted.workers)
        publisher = stack.enter_context(
            start_publisher(checkout, relay.when_ready(), wanted.connections, wanted.rate, folder / "publisher.log")
        )
        authors = feeds.connection_ids(publisher.feeds)
        feeds.write_feeds(folder / "feeds.yaml", relay.url, authors)
        feeds.apply(system.session(), folder / "feeds.yaml")
        play = Play(wanted, old, new, relay, publisher, sink)
        acts = play.play(authors)
        evidence = play.evidence(authors, acts)
    return figures(wanted, evidence, acts)


class Spoken:
    """Progress as lines."""

    def say(self, line: str) -> None:
        progress(line)

    def show(self, picture: object) -> None:
        """Lines say enough."""

    def clear(self) -> None:
        """Nor is anything drawn."""


class Play:
    """What is done to the fleet."""

    def __init__(self, wanted: Wanted, old: Fleet, new: Fleet, relay: Relay, publisher: Publisher, sink: Path) -> None:
        self._wanted = wanted
        self._old = old
        self._new = new
        self._relay = relay
        self._publisher = publisher
        self._sink = sink
        self._watch = Watch(sink, progress)

    def play(self, authors: dict[str, str]) -> Acts:
        acts = Acts()
        self._calm("all connections stream")
        acts.killed = self._old.kill(worker := self._old.running[0])
        worker.process.wait(WITHIN_S)
        self._calm("after the kill")
        self._join(self._old)
        self._calm("its successor has joined")
        acts.drained = self._old.terminate(worker := self._old.running[0])
        self._end_of(worker, acts)
        self._calm("after the drain")
        self._join(self._old)
        self._calm("its successor has joined")
        self._deploy(acts)
        self._publisher.stop()
        if not self._until(lambda: self._all_arrived(authors), 30.0):
            progress("not every record arrived in 30 s")
        return acts

    def _deploy(self, acts: Acts) -> None:
        """As ECS does it with room for both: the new generation starts, then the old workers are told to go in turn."""
        leaving = self._old.running
        acts.deploy_from_ms = _now_ms()
        self._new.start(len(leaving))
        progress(f"{len(leaving)} workers of a new generation have joined")
        for worker in leaving:
            self._old.terminate(worker)
            self._end_of(worker, acts)
        self._calm("after the deployment")
        acts.deploy_until_ms = _now_ms()

    def _join(self, fleet: Fleet) -> None:
        fleet.start(1)

    def _end_of(self, worker: Worker, acts: Acts) -> None:
        code = worker.process.wait(WITHIN_S)
        if code != 0:
            acts.complaints.append(f"{worker.name} ended with {code}, not 0, when it drained")

    def _calm(self, what: str) -> None:
        """Returns when everything streams, evenly, and nothing has moved for a while. Raises LocalFault."""
        began_s = calm_from_s = time.monotonic()
        before: tuple[int, ...] = ()
        while True:
            now_s = time.monotonic()
            state = self._state()
            if state != before or state[0] != self._wanted.connections or not self._is_even():
                calm_from_s, before = now_s, state
            if now_s - calm_from_s >= CALM_S:
                progress(f"{what}: calm since {calm_from_s - began_s:.1f} s")
                return
            if now_s - began_s > WITHIN_S + 2 * self._wanted.timing.lease_ms / 1_000:
                raise LocalFault(
                    f"{what}: {state[0]} of {self._wanted.connections} stream after {now_s - began_s:.0f} s,"
                    f" and workers own {', '.join(map(str, state[1:]))}"
                )
            time.sleep(0.25)

    def _state(self) -> tuple[int, ...]:
        """How many connections stream, and how many each worker owns: both stand still in a calm."""
        workers = [*self._old.workers, *self._new.workers]
        self._watch.look(workers)
        return self._watch.streaming(workers), *(self._watch.row(worker).owned for worker in workers)

    def _is_even(self) -> bool:
        owned = [self._watch.row(worker).owned for worker in (*self._old.running, *self._new.running)]
        return max(owned) - min(owned) <= 1

    def _until(self, holds: Callable[[], bool], within_s: float) -> bool:
        deadline_s = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.5)
        return True

    def _all_arrived(self, authors: dict[str, str]) -> bool:
        ids = {author: connection_id for connection_id, author in authors.items()}
        with self._sink.open(errors="replace") as lines:
            arrived = {(each.connection_id, each.record_id) for each in read_sink(lines).deliveries}
        return all((ids[note.author], note.event_id) in arrived for note in self._relay.stored())

    def _events(self) -> Iterable[WorkerEvent]:
        for log in (*self._old.logs, *self._new.logs):
            yield from self._watch.events(log, log.read_text(errors="replace").splitlines())

    def evidence(self, authors: dict[str, str], acts: Acts) -> Evidence:
        """Ends the workers. Raises LocalFault where the play did not come so far."""
        for fleet in (self._old, self._new):
            fleet.stop()
        if acts.killed is None or acts.drained is None:
            raise LocalFault("nobody was killed or drained")
        with self._sink.open(errors="replace") as lines:
            records = read_sink(lines)
        return Evidence(
            workers=self._wanted.workers,
            feeds=authors,
            stored=tuple(self._relay.stored()),
            sink=records,
            events=tuple(self._events()),
            killed=acts.killed,
            drained=acts.drained,
        )


# --- figures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Deployment:
    """`gaps_s`: from each old socket's close to the new one's readiness, sorted."""

    most_moves: int
    moved_twice: int
    gaps_s: tuple[float, ...]


def deployment(events: Iterable[WorkerEvent], acts: Acts) -> Deployment:
    """What a deployment did to the connections: an epoch that was claimed during it is a move."""
    of_connection: dict[str, list[WorkerEvent]] = defaultdict(list)
    for event in events:
        if acts.deploy_from_ms <= event.at_ms <= acts.deploy_until_ms:
            of_connection[event.connection_id].append(event)
    moves: list[int] = []
    gaps: list[float] = []
    for found in of_connection.values():
        found.sort(key=lambda event: event.at_ms)
        moves.append(sum(event.happened is Happened.CLAIMED for event in found))
        for closed in found:
            if closed.happened is Happened.CLOSED:
                ready = [e.at_ms for e in found if e.happened is Happened.READY and e.epoch > closed.epoch]
                gaps += [(min(ready) - closed.at_ms) / 1_000] if ready else []
    return Deployment(max(moves, default=0), sum(move > 1 for move in moves), tuple(sorted(gaps)))


def figures(wanted: Wanted, evidence: Evidence, acts: Acts) -> dict[str, Any]:
    found = report(evidence)
    deployed_ = deployment(evidence.events, acts)
    return {
        "mode": wanted.mode.value,
        "lease_s": wanted.timing.lease_ms / 1_000,
        "heartbeat_s": wanted.timing.heartbeat_ms / 1_000,
        "connections": wanted.connections,
        "workers": wanted.workers,
        "kill_connections": found.kill.affected,
        "kill_p50_s": found.kill.gap_seconds.p50,
        "kill_p99_s": found.kill.gap_seconds.p99,
        "kill_max_s": found.kill.gap_seconds.max,
        "drain_connections": found.drain.affected,
        "drain_p50_s": found.drain.gap_seconds.p50,
        "drain_p99_s": found.drain.gap_seconds.p99,
        "drain_max_s": found.drain.gap_seconds.max,
        "deploy_p99_s": rank(deployed_.gaps_s, 0.99),
        "deploy_max_moves": deployed_.most_moves,
        "deploy_moved_more_than_once": deployed_.moved_twice,
        "published": found.published,
        "missing": found.missing,
        "duplicates": found.duplicates,
        "gap_records": found.gap_records,
        "overlaps": found.overlaps,
        "unmet": [*unmet(wanted, found, deployed_), *acts.complaints],
    }


def unmet(wanted: Wanted, found: Report, deployed_: Deployment) -> list[str]:
    """Goals that were missed, a sentence each."""
    lease_s = wanted.timing.lease_ms / 1_000
    limit_s = SHORT_KILL_S if lease_s <= SHORT_LEASE_S else lease_s + SKEW_MS / 1_000 + KILL_OVER_S
    kill_s, drain_s = found.kill.gap_seconds.p99, found.drain.gap_seconds.p99
    sentences = []
    if kill_s is None or kill_s > limit_s or found.kill.unrecovered:
        sentences.append(
            f"the kill's p99 gap is {kill_s} s ({found.kill.unrecovered} without an end), over {limit_s:g}"
        )
    if drain_s is None or drain_s > DRAIN_P99_S or found.drain.unrecovered:
        sentences.append(
            f"the drain's p99 gap is {drain_s} s ({found.drain.unrecovered} without an end), over {DRAIN_P99_S:g}"
        )
    if deployed_.most_moves > DEPLOY_MOVES:
        sentences.append(
            f"the deployment moved {deployed_.moved_twice} connections more than once, one {deployed_.most_moves} times"
        )
    if found.missing:
        sentences.append(f"{found.missing} of {found.published} records are missing at the sink")
    if found.overlaps:
        sentences.append(f"{found.overlaps} records were delivered by an older epoch after a newer one")
    return sentences


def rank(ordered: tuple[float, ...], share: float) -> float | None:
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LocalFault as fault:
        sys.exit(f"failover: {fault}")
