"""Carry out what a scenario plans, and count a fault when it hits a request on its way or the holder of a lease."""

from dataclasses import dataclass, replace

from streamlease import lease
from streamlease.model import LeaseMode
from streamlease.timing import Instant, Timing
from tests.simulation.clock import true_ms
from tests.simulation.fleet import Fleet, Shell
from tests.simulation.kernel import Kernel, S
from tests.simulation.ledger import Ledger
from tests.simulation.network import Cut, Network, RequestFault, Service, Throttling, label
from tests.simulation.offers import Mischief
from tests.simulation.operators import People
from tests.simulation.process import Place, Process, Trap
from tests.simulation.scenario import (
    BUSIEST,
    Act,
    Befall,
    BlockLoop,
    Crash,
    Deploy,
    IndexLag,
    LateClaim,
    OffersTrouble,
    Partition,
    Pause,
    Planned,
    Scale,
    ScheduleTrouble,
    SinkFault,
    StepClock,
    StreamTrouble,
    Throttle,
    UpstreamTrouble,
)
from tests.simulation.schedule import Firing, ReconcileSchedule
from tests.simulation.sink import Sink, SinkTrouble
from tests.simulation.store import Landing
from tests.simulation.stream import StreamFunction, Trouble
from tests.simulation.upstream import Upstream

LONG_DEAD = "long-dead"
"""A worker id that no member item speaks of any more."""


@dataclass(slots=True)
class Injector:
    kernel: Kernel
    ledger: Ledger
    network: Network
    fleet: Fleet
    people: People
    stream: StreamFunction
    schedule: ReconcileSchedule
    sink: Sink
    upstreams: dict[str, Upstream]
    quiet_us: int

    def plan(self, entries: tuple[Planned, ...]) -> None:
        for cause, entry in enumerate(entries, start=1):
            self.kernel.at(entry.at_us, lambda e=entry, c=cause: self._do(e, c))  # type: ignore[misc]
        self.kernel.at(self.quiet_us, self._calm)
        self.network.calm_from_us = self.quiet_us

    def _calm(self) -> None:
        """Faults stop: nothing that waits will strike any more, and what lies over a span of time ends."""
        self.network.waiting.clear()
        self.network.cuts.clear()
        self.network.throttlings.clear()
        self.network.store.lag.extra_us = 0
        self.network.queue.mischief = Mischief()
        self.stream.trouble = Trouble()
        self.sink.trouble = SinkTrouble()
        self.schedule.firings.clear()
        for shell in self.fleet.everybody:
            shell.process.traps.clear()
        for upstream in self.upstreams.values():
            upstream.refuses_until_us = upstream.mute_until_us = 0
            upstream.poisonous = False
            if upstream.instance:
                self.people.act(Act(self.quiet_us, upstream.connection_id, "move"))

    def _do(self, entry: Planned, cause: int) -> None:
        now_us = self.kernel.now_us
        if isinstance(entry, Pause | Crash | BlockLoop | Partition | StepClock | Befall) and entry.who == BUSIEST:
            entry = replace(entry, who=self.fleet.busiest())
        match entry:
            case Befall(twist=twist, label=label, who=who, delay_us=delay_us):
                self.network.waiting.append(RequestFault(twist, label, who, delay_us, cause))
            case Throttle(who=who, length_us=length_us):
                self.network.throttlings.append(Throttling(who, now_us + length_us, cause))
            case IndexLag(length_us=length_us, extra_us=extra_us):
                lag = self.network.store.lag
                lag.extra_us, lag.cause, self.network.store.lagging = extra_us, cause, 0
                self.kernel.after(length_us, self._index_catches_up)
            case StreamTrouble(length_us=length_us, drop=drop, delay_us=delay_us):
                self.stream.trouble = Trouble(now_us + length_us, drop, delay_us, cause)
            case OffersTrouble(length_us=length_us, loss=loss, double=double, delay_us=delay_us):
                self.network.queue.mischief = Mischief(now_us + length_us, loss, double, delay_us, cause)
            case ScheduleTrouble(skip=skip, double=double, dies_after=dies_after, clock_off_ms=off_ms):
                self.schedule.firings.append(Firing(skip, double, dies_after, off_ms, cause))
            case UpstreamTrouble():
                self._upstream(entry, cause)
            case SinkFault(length_us=length_us, fails=fails, answer_lost=answer_lost, slow_us=slow_us):
                self.sink.trouble = SinkTrouble(now_us + length_us, fails, answer_lost, slow_us, cause)
            case Deploy(mode=mode, apart_us=apart_us):
                self.ledger.say("fleet", f"deployment to {mode} mode begins")
                self.fleet.deploy(mode, apart_us)
            case Scale(delta=delta):
                self.fleet.scale(delta)
            case Act():
                self.people.act(entry)
            case LateClaim(connection_id=connection_id):
                self.network.store.observers.append(lambda landing: self._claim_late(landing, connection_id, cause))
            case Pause() | Crash() | BlockLoop() | Partition() | StepClock():
                shell = self.fleet.running(entry.who)
                if shell is not None:
                    self._worker(entry, shell, cause)

    def _claim_late(self, landing: Landing, connection_id: str, cause: int) -> None:
        after = landing.after or {}
        started = landing.applied and landing.key == (connection_id,) and label(landing.write) == "control"
        if (
            not started
            or after.get("desired_state") != "STARTED"
            or "lease_owner" in after
            or cause in self.ledger.faults
        ):
            return
        self.ledger.hit("claim of the long dead", connection_id, LONG_DEAD, cause)
        sent = Instant(0.0, true_ms(self.kernel.now_us))
        mode, timing = LeaseMode.WORKER, Timing()
        write = lease.claim(connection_id, worker_id=LONG_DEAD, nonce="late", sent=sent, timing=timing, mode=mode)

        def land() -> None:
            self.network.store.write(write, LONG_DEAD)

        self.kernel.at(self.kernel.now_us, land)

    def _worker(self, entry: Pause | Crash | BlockLoop | Partition | StepClock, shell: Shell, cause: int) -> None:
        now_us, process, held = self.kernel.now_us, shell.process, shell.holds() > 0
        match entry:
            case Pause(place=None, length_us=length_us):
                if held:
                    self.ledger.hit("pause", f"{length_us / 1e6:.1f} s", process.name, cause)
                self.ledger.count("pauses")
                process.pause(length_us)
            case Pause(place=place, length_us=length_us):
                assert place is not None
                process.on_pause = self._paused
                process.traps.setdefault(place, []).append(Trap(length_us, cause))
            case Crash():
                if held:
                    self.ledger.hit("crash", f"holding {shell.holds()}", process.name, cause)
                shell.crash("SIGKILL")
            case BlockLoop(length_us=length_us):
                if held:
                    self.ledger.hit("event loop blocked", f"{length_us / 1e6:.1f} s", process.name, cause)
                shell.block(length_us)
            case Partition(service=service, length_us=length_us, answers_only=answers_only):
                if service is Service.UPSTREAM:
                    if held:
                        self.ledger.hit("upstream cut", f"{length_us / 1e6:.1f} s", process.name, cause)
                    shell.cut_off(now_us + length_us)
                else:
                    self.network.cuts.append(Cut(entry.who, service, now_us + length_us, answers_only, cause))
            case StepClock(to_ms=to_ms, by_ms=by_ms, back_after_us=back_after_us):
                if held:
                    how = f"to {to_ms} ms" if to_ms is not None else f"by {by_ms} ms"
                    self.ledger.hit("clock step", how, process.name, cause)
                if to_ms is not None:
                    process.clock.set(to_ms, now_us)
                else:
                    process.clock.stray(by_ms, now_us)
                    self.kernel.after(back_after_us, lambda: process.clock.stray(-by_ms, self.kernel.now_us))

    def _paused(self, process: Process, place: Place, trap: Trap) -> None:
        self.ledger.count("pauses")
        self.ledger.hit(f"pause at {place}", f"{trap.length_us / 1e6:.1f} s", process.name, trap.cause)

    def _index_catches_up(self) -> None:
        self.network.store.lag.extra_us = 0

    def _upstream(self, entry: UpstreamTrouble, cause: int) -> None:
        if entry.who == BUSIEST:
            entry = replace(entry, who=self.fleet.busiest())
        upstream = self.upstreams[entry.connection_id]
        match entry.what:
            case "drop":
                if upstream.drop("1006"):
                    self.ledger.hit("socket dropped", entry.connection_id, "upstream", cause)
            case "refuse":
                upstream.refuses_until_us = self.kernel.now_us + entry.length_us
                upstream.refusal_cause = cause
            case "mute":
                if upstream.nature.stale_after_s is not None and upstream.mute(entry.who, entry.length_us):
                    self.ledger.hit("upstream mute", f"{entry.connection_id} to {entry.who}", "upstream", cause)
            case "reset":
                if upstream.sockets:
                    self.ledger.hit("upstream reset", entry.connection_id, "upstream", cause)
                upstream.reset()
                act = Act(self.kernel.now_us, entry.connection_id, "move")
                self.kernel.after(2 * S, lambda: self.people.act(act))
