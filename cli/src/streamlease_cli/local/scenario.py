"""What the demonstration does to a running system, and the evidence it leaves.

All connections stream; one worker is killed; later another is drained, when a new one has joined, as a rolling
deployment does it; the publisher stops; what is on its way arrives; everybody drains.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamlease_cli.local.emulator import Emulator
from streamlease_cli.local.evidence import Departure, Evidence, SinkRecords, read_sink
from streamlease_cli.local.fault import LocalFault
from streamlease_cli.local.fleet import Fleet, Worker
from streamlease_cli.local.progress import Picture, Progress
from streamlease_cli.local.publisher import Publisher
from streamlease_cli.local.relay import Relay, StoredEvent
from streamlease_cli.local.report import Limits
from streamlease_cli.local.watch import Watch

_LOOK_EVERY_S = 0.1
_CLAIMED_WITHIN_S = 60.0
_JOINED_WITHIN_S = 60.0
_DRAINED_WITHIN_S = 30.0
_SETTLED_WITHIN_S = 60.0
_OVER_S = 10.0
"""A recovery that is over its limit is still waited for this long, so that the report can say how long it took."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`seconds` from when all connections stream until the publisher stops, or longer where a recovery takes longer."""

    seconds: float
    limits: Limits

    @property
    def kill_at_s(self) -> float:
        return 0.2 * self.seconds

    @property
    def drain_at_s(self) -> float:
        return 0.6 * self.seconds


@dataclass(frozen=True, slots=True)
class Setting:
    """What runs when the scenario begins. The fleet's workers have joined, the publisher publishes."""

    emulator: Emulator
    relay: Relay
    publisher: Publisher
    fleet: Fleet
    sink: Path
    feeds: dict[str, str]


@dataclass(frozen=True, slots=True)
class Played:
    """`complaints`: what went wrong and is in no number, a sentence each."""

    evidence: Evidence
    complaints: tuple[str, ...]


class Scenario:
    def __init__(self, setting: Setting, plan: Plan, shown: Progress) -> None:
        self._setting = setting
        self._plan = plan
        self._shown = shown
        self._watch = Watch(setting.sink, shown.say)
        self._gone: list[Worker] = []
        self._began_s = time.monotonic()

    def play(self) -> Played:
        """Raises LocalFault where something ended that should not, or nothing can be shown."""
        fleet, plan = self._setting.fleet, self._plan
        workers = len(fleet.workers)
        if not self._until(self._all_stream, "connecting", _CLAIMED_WITHIN_S):
            streaming = self._watch.streaming(fleet.workers)
            raise LocalFault(
                f"only {streaming} of {len(self._setting.feeds)} connections stream after {_CLAIMED_WITHIN_S:g} s:"
                f" see the workers' logs in {self._setting.sink.parent}"
            )
        self._shown.say(f"all {len(self._setting.feeds)} connections stream")
        self._began_s = time.monotonic()
        self._until_s(plan.kill_at_s, "streaming")
        killed = self._kill(fleet.running[0])
        self._until_s(plan.drain_at_s, "streaming, a worker short")
        drained, complaints = self._replace(fleet.running[0])
        self._until_s(plan.seconds, "streaming")
        published = self._setting.publisher.stop()
        self._shown.say("the publisher has stopped")
        if published.refused or published.unanswered:
            complaints.append(
                f"the relay refused {published.refused} notes and did not answer for {published.unanswered}"
            )
        settled = self._until(self._all_delivered, "settling", _SETTLED_WITHIN_S)
        self._shown.say(
            "every record has arrived" if settled else f"not every record arrived in {_SETTLED_WITHIN_S:g} s"
        )
        complaints += self._end()
        self._shown.say("all workers have drained")
        evidence = Evidence(
            workers=workers,
            feeds=self._setting.feeds,
            stored=tuple(self._stored()),
            sink=self._delivered(),
            events=tuple(
                event
                for log in fleet.logs
                for event in self._watch.events(log, log.read_text(errors="replace").splitlines())
            ),
            killed=killed,
            drained=drained,
        )
        return Played(evidence, tuple(complaints))

    # --- acts -----------------------------------------------------------------------------------------------------

    def _kill(self, worker: Worker) -> Departure:
        held = self._watch.row(worker).owned
        self._gone.append(worker)
        since_s = time.monotonic()
        departure = self._setting.fleet.kill(worker)
        worker.process.wait(_DRAINED_WITHIN_S)  # or the next look might still count what it held
        self._shown.say(f"{worker.name} was killed (SIGKILL); it held {held} connections")
        self._recover(
            f"{worker.name} was killed", "all connections stream again", since_s, self._plan.limits.kill_gap_s
        )
        return departure

    def _replace(self, worker: Worker) -> tuple[Departure, list[str]]:
        new = self._setting.fleet.launch()
        if not self._until(new.has_started, f"{new.name} starts", _JOINED_WITHIN_S):
            raise LocalFault(f"{new.name} did not start within {_JOINED_WITHIN_S:g} s: {new.process.last_words()}")
        held = self._watch.row(worker).owned
        self._gone.append(worker)
        self._watch.draining.add(worker.name)
        since_s = time.monotonic()
        departure = self._setting.fleet.terminate(worker)
        self._shown.say(f"{new.name} has joined, so {worker.name} is told to go (SIGTERM); it held {held} connections")
        ended = self._until(lambda: not worker.is_running, f"{worker.name} drains", _DRAINED_WITHIN_S)
        what = f"{worker.name} has drained, all connections stream"
        self._recover(f"{worker.name} drains", what, since_s, _DRAINED_WITHIN_S)
        if not ended:
            return departure, [f"{worker.name} had not drained after {_DRAINED_WITHIN_S:g} s"]
        code = worker.process.poll()
        return departure, [] if code == 0 else [f"{worker.name} ended with {code}, not 0, when it drained"]

    def _end(self) -> list[str]:
        """Everybody drains."""
        codes = self._setting.fleet.stop()
        gone = {worker.name for worker in self._gone}
        return [
            f"{name} ended with {code}, not 0, at the end" for name, code in codes.items() if code and name not in gone
        ]

    def _recover(self, phase: str, what: str, since_s: float, limit_s: float) -> None:
        """`since_s`: when the worker was sent its signal. No connection's gap is longer than what is said here."""
        if self._until(self._all_stream, phase, limit_s + _OVER_S):
            self._shown.say(f"{what}, {time.monotonic() - since_s:.1f} s after the signal")
        else:
            self._shown.say(f"not all connections stream again after {limit_s + _OVER_S:g} s")

    # --- looking --------------------------------------------------------------------------------------------------

    def _until_s(self, elapsed_s: float, phase: str) -> None:
        self._until(lambda: time.monotonic() - self._began_s >= elapsed_s, phase, float("inf"))

    def _until(self, holds: Callable[[], bool], phase: str, within_s: float) -> bool:
        """Whether it held in time. Raises LocalFault when something ends meanwhile that should not."""
        deadline_s = time.monotonic() + within_s
        while True:
            self._look(phase)
            if holds():
                return True
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(_LOOK_EVERY_S)

    def _look(self, phase: str) -> None:
        setting = self._setting
        for name, process in (("the embedded AWS", setting.emulator.process), ("the relay", setting.relay.process)):
            code = process.poll()
            if code is not None:
                raise LocalFault(f"{name} ended with {code}: {process.last_words()}")
        setting.fleet.check(self._gone)
        self._watch.look(setting.fleet.workers)
        picture = Picture(
            elapsed_s=time.monotonic() - self._began_s,
            phase=phase,
            connections=len(setting.feeds),
            workers=tuple(self._watch.row(worker) for worker in setting.fleet.workers),
            published=setting.publisher.published().stored,
            delivered=self._watch.delivered,
        )
        self._shown.show(picture)

    def _all_stream(self) -> bool:
        return self._watch.streaming(self._setting.fleet.workers) == len(self._setting.feeds)

    def _all_delivered(self) -> bool:
        arrived = {(delivery.connection_id, delivery.record_id) for delivery in self._delivered().deliveries}
        connections = {author: connection_id for connection_id, author in self._setting.feeds.items()}
        return all((connections[note.author], note.event_id) in arrived for note in self._stored())

    def _delivered(self) -> SinkRecords:
        if not self._setting.sink.exists():
            return SinkRecords((), (), 0)
        with self._setting.sink.open(errors="replace") as lines:
            return read_sink(lines)

    def _stored(self) -> list[StoredEvent]:
        return self._setting.relay.stored()
