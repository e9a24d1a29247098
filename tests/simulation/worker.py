"""One worker process: the real keeper and supervisor, in a shell that carries out what they ask for.

Two threads, as in the container: the keeper's, which renews and fences, and the event loop's, with the supervisor and
the runners. A pause stops both; a blocked loop only the second.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random
from typing import Literal

from streamlease import plan
from streamlease.errors import Denied, Fault, Malformed, Unreachable
from streamlease.feed.events import Finished, Report
from streamlease.flow import Batch, Flow
from streamlease.flow import SendOffers as SendRequest
from streamlease.flows import audit, inbox
from streamlease.flows.bury import bury_expired
from streamlease.flows.claim import Claimer, claim
from streamlease.flows.sweep import Sweep, recount, stored_fleet, sweep
from streamlease.membership import Joined
from streamlease.model import FleetSummary, LeaseMode, Position, Status
from streamlease.timing import Instant, Timing
from streamlease_worker import keeper_events as ke
from streamlease_worker import supervisor_events as se
from streamlease_worker.clock import ClockWatch, Reading, Unread
from streamlease_worker.faults import Unsteady
from streamlease_worker.fence import Fence
from streamlease_worker.joining import Applicant, join, leave
from streamlease_worker.keeper import Keeper
from streamlease_worker.runs import GIVEN_UP
from streamlease_worker.supervisor import Supervisor
from tests.simulation.beliefs import Beliefs
from tests.simulation.check_dials import DialChecker
from tests.simulation.dialling import Dialling
from tests.simulation.drive import drive
from tests.simulation.kernel import MS, Kernel, S
from tests.simulation.network import Network, Service
from tests.simulation.offers import Delivery
from tests.simulation.process import Process
from tests.simulation.runner import Runner, Told
from tests.simulation.sink import Sink
from tests.simulation.upstream import Upstream
from tests.simulation.violation import Violated, Violation

LOOP_TICK_US = 250 * MS
RECEIVE_WAIT_US = 20 * S
CLOCK_MEASURED_US = 16 * S
CLOCK_READ_US = 15 * S
CLOCK_AGAIN_US = 2 * S
MEASURE_US = 5 * S


@dataclass(frozen=True, slots=True)
class Deployed:
    """What one deployment says to its workers."""

    mode: LeaseMode
    timing: Timing
    shards: int
    capacity: int
    generation: int
    clock: Literal["unwatched", "dates", "metadata"]
    """How its workers watch their clocks: not at all, by the services' `Date`, or by `ClockDrift` too."""


@dataclass(slots=True)
class World:
    """What is around every worker."""

    kernel: Kernel
    network: Network
    sink: Sink
    upstreams: dict[str, Upstream]
    beliefs: Beliefs
    dials: DialChecker


class Worker:
    """A process of the service. Joins, works, and exits or is ended; after a lost membership it joins again."""

    def __init__(self, world: World, process: Process, deployed: Deployed, ended: Callable[[], None]) -> None:
        self.world = world
        self.process = process
        self.mode = deployed.mode
        self.deployed = deployed
        self.runners: dict[int, Runner] = {}
        self.worker_id = ""
        self._ended = ended
        self._loop = process.thread()
        self._keeping = process.thread()
        self._draws: Random = world.kernel.draws(f"worker {process.name}")
        self._lives = 0
        self._nonces = 0
        self._terminated = False
        self._cut_until_us = 0
        self._measure_at_us = 0
        self._blocked_us = 0
        self._blocked_until_us = 0
        self._renewed_blocked: Counter[tuple[str, int]] = Counter()
        self._keeper: Keeper | None = None
        self._supervisor: Supervisor | None = None
        self._fences: dict[tuple[str, int], Fence] = {}
        self._dialling: Dialling | None = None
        self.timeout_us = min(2 * S, deployed.timing.heartbeat_ms * MS // 3)

    # --- the life of the process ---

    def start(self) -> None:
        if self.deployed.clock != "unwatched":
            self.process.watch = ClockWatch(self.deployed.timing)
            self._read_clock(self.process.watch)
        self._join()

    def _read_clock(self, watch: ClockWatch) -> None:
        """Ask the task metadata, as the clock reader's thread does."""
        now = self.process.reading(self._keeping.now_us)
        if self.deployed.clock == "dates":
            watch.read(Unread("there is no task metadata"), now, now)
            return
        measured_us = self._keeping.now_us // CLOCK_MEASURED_US * CLOCK_MEASURED_US
        bound_ms, reference_ms = self.process.clock.measured(measured_us)
        watch.read(Reading(bound_ms, reference_ms, synchronised=self.process.clock.alone_since_us is None), now, now)
        again_us = CLOCK_READ_US if watch.judge(now).may_claim else CLOCK_AGAIN_US
        self._keeping.at(self._keeping.now_us + again_us, lambda: self._read_clock(watch))

    def terminate(self) -> None:
        self._terminated = True
        self._loop.event(lambda: self._supervise(se.DrainRequested("SIGTERM")))

    def crash(self, why: str) -> None:
        if not self.process.alive:
            return
        self.world.network.ledger.say(self.process.name, f"ends: {why}")
        self.process.kill()
        for runner in self.runners.values():
            runner.vanish()
        self._ended()

    def block(self, length_us: int) -> None:
        now_us = self.world.kernel.now_us
        if self._blocked_until_us <= now_us:
            self._blocked_us = self._loop.now_us
            self._renewed_blocked.clear()
        self._blocked_until_us = max(self._blocked_until_us, now_us + length_us)
        self._loop.hold(now_us + length_us)

    def stop_keeper(self, length_us: int) -> None:
        """The keeper's thread stands still, the event loop goes on."""
        self._keeping.hold(self.world.kernel.now_us + length_us)

    def holds(self) -> int:
        return self._keeper.owned if self._keeper is not None else 0

    def unwell(self) -> bool:
        watch = self.process.watch
        return watch is not None and not watch.judge(self.process.instant(self._loop)).may_claim

    def cut_off(self, until_us: int) -> None:
        self._cut_until_us = until_us
        for runner in self.runners.values():
            runner.cut()

    def _join(self) -> None:
        self._lives += 1
        worker_id = f"{self.process.name}.{self._lives}"
        self.world.beliefs.processes[worker_id] = self.process
        deployed = self.deployed
        flow = join(Applicant(worker_id, deployed.generation, deployed.capacity, "", deployed.timing))
        drive(
            flow,
            self._loop,
            self.world.network,
            timeout_us=self.timeout_us,
            steady=True,
            done=lambda j: self._joined(worker_id, j),
        )

    def _joined(self, worker_id: str, joined: object) -> None:
        if not isinstance(joined, Joined):
            self._loop.at(self._loop.now_us + self._draws.randint(500, 1_500) * MS, self._join)
            return
        self.worker_id = worker_id
        at = self.process.instant(self._loop)
        self._fences = {}
        self._dialling = Dialling(
            worker_id,
            self._loop,
            self.world.network,
            limit=self.world.dials.limit,
            timeout_us=self.timeout_us,
            on_dial=self.world.dials.on_dial,
        )
        self._keeper = Keeper(worker_id, timing=self.deployed.timing, mode=self.mode, joined=joined)
        self._supervisor = Supervisor(
            worker_id,
            capacity=self.deployed.capacity,
            generation=self.deployed.generation,
            timing=self.deployed.timing,
            joined=joined,
            now=at,
            mode=self.mode,
        )
        self._tick_keeper(self._keeper)
        self._tick_loop(self._supervisor)
        if self._terminated:
            self._supervise(se.DrainRequested("SIGTERM"))

    def _tick_keeper(self, keeper: Keeper) -> None:
        if keeper is self._keeper:
            self._keep(ke.Tick())
            self._keeping.at(self._keeping.now_us + int(keeper.tick_s * S), lambda: self._tick_keeper(keeper))

    def _tick_loop(self, supervisor: Supervisor) -> None:
        if supervisor is self._supervisor:
            self._tell_keeper(ke.LoopTicked(self.process.clock.mono_s(self._loop.now_us)))
            self._supervise(se.Tick())
            if self._loop.now_us >= self._measure_at_us:
                self._measure_at_us = self._loop.now_us + MEASURE_US
                self._supervise(se.Measured({}, 0, "its clock is off" if self.unwell() else None))
            self._loop.at(self._loop.now_us + LOOP_TICK_US, lambda: self._tick_loop(supervisor))

    # --- the keeper's thread ---

    def _tell_keeper(self, event: ke.Event) -> None:
        self._loop.effect(lambda: self._keeping.event(lambda: self._keep(event)))

    def _keep(self, event: ke.Event) -> None:
        keeper = self._keeper
        if keeper is None or not self.process.alive:
            return
        if isinstance(event, ke.ReleaseRequested):
            self._close(event.connection_id, event.epoch, "its lease was given up")
        for command in keeper.handle(event, self.process.instant(self._keeping)):
            self._carry_out_keeping(command)

    def _carry_out_keeping(self, command: ke.Command) -> None:
        beliefs, worker_id = self.world.beliefs, self.worker_id
        match command:
            case ke.Renew() | ke.Save() | ke.Release():
                self._write(command)
            case ke.SavePages():
                self._save_pages(command)
            case ke.Heartbeat():
                self._beat(command)
            case ke.SendOffers(connection_ids=ids):
                wall_ms = self.process.instant(self._keeping).wall_ms
                request = SendRequest(tuple(plan.offer(each, "released", wall_ms) for each in ids))
                self._send_keeping(request, lambda _: ke.OffersAnswered())
            case ke.Extended(connection_id=connection_id, epoch=epoch, deadline_s=deadline_s):
                if fence := self._fences.get((connection_id, epoch)):
                    fence.extend(deadline_s)
                beliefs.extend(connection_id, epoch, worker_id, deadline_s)
            case ke.EndProcess(reason=reason):
                self._keeping.effect(lambda: self.crash(reason))
            case _:
                if isinstance(command, ke.Fence):
                    self._close(command.connection_id, command.epoch, command.reason)
                    beliefs.fence(command.connection_id, command.epoch)
                    self._say(f"fences epoch {command.epoch}: {command.reason}", command.connection_id)
                elif isinstance(command, ke.Settled):
                    beliefs.fence(command.connection_id, command.epoch)
                    self._fences.pop((command.connection_id, command.epoch), None)
                notice: ke.Notice = command
                self._keeping.effect(lambda: self._loop.event(lambda: self._supervise(notice)))

    def _close(self, connection_id: str, epoch: int, reason: str) -> None:
        if fence := self._fences.get((connection_id, epoch)):
            fence.close(reason)

    def _write(self, command: ke.Renew | ke.Save | ke.Release) -> None:
        sent = self.process.instant(self._keeping, "stamp")
        writes = ke.writes(command, sent=sent, timing=self.deployed.timing)
        stamps = tuple((self.worker_id, attempt.lease.epoch) for attempt in command.attempts)
        if isinstance(command, ke.Renew):
            self._check_loop([(attempt.lease.connection_id, attempt.lease.epoch) for attempt in command.attempts])
        if isinstance(command, ke.Release):
            self._check_attempts(command)
            for attempt in command.attempts:
                self.world.beliefs.released.add((attempt.lease.connection_id, attempt.lease.epoch))
        size = len(writes)
        if isinstance(command, ke.Renew) and not self._may_renew(sent):
            self._keep(ke.Answered(command.batch, sent, (Unsteady("the wall clock is off"),) * size))
            return

        def event(answer: object) -> ke.Event:
            if isinstance(answer, Fault):
                return ke.Answered(command.batch, sent, (answer,) * size)
            assert isinstance(answer, tuple)
            return ke.Answered(command.batch, sent, answer)

        self._send_keeping(Batch(writes), event, stamps)

    def _save_pages(self, command: ke.SavePages) -> None:
        keeper = self._keeper

        def done(outcome: object) -> None:
            if self._keeper is keeper:
                answers = (outcome,) * len(command.pages) if isinstance(outcome, Fault) else outcome
                self._keep(ke.PagesAnswered(command.batch, answers))  # type: ignore[arg-type]

        drive(ke.page_flow(command), self._keeping, self.world.network, timeout_us=self.timeout_us, done=done)

    def _beat(self, command: ke.Heartbeat) -> None:
        self._check_loop([("", 0)])
        sent = self.process.instant(self._keeping, "stamp")
        if not self._may_renew(sent):
            self._keep(ke.HeartbeatAnswered(sent, Unsteady("the wall clock is off")))
            return
        request = ke.heartbeat_write(command, sent=sent, timing=self.deployed.timing)

        def event(answer: object) -> ke.Event:
            return ke.HeartbeatAnswered(sent, answer)  # type: ignore[arg-type]

        self._send_keeping(request, event)

    def _check_loop(self, keys: Collection[tuple[str, int]]) -> None:
        """One renewal of each may follow a loop's last tick, and no more while it stands still."""
        now_us = self._keeping.now_us
        if not self._blocked_us <= now_us < self._blocked_until_us:
            return
        self._renewed_blocked.update(keys)
        again = [key for key in keys if self._renewed_blocked[key] > 1]
        if again:
            what = f"{self.worker_id} renews {again[0]}, and its loop stands still since {self._blocked_us / 1e6:.3f} s"
            raise Violated(Violation(1, "a blocked loop keeps nothing", now_us, "", what))

    def _check_attempts(self, command: ke.Release) -> None:
        epochs = {(attempt.lease.connection_id, attempt.lease.epoch) for attempt in command.attempts}
        for runner in self.runners.values():
            if (runner.connection_id, runner.epoch) in epochs and runner.attempting:
                what = f"{self.worker_id} gives epoch {runner.epoch} up while an attempt is under way"
                rule = "a release waits for sink attempts"
                raise Violated(Violation(1, rule, self._keeping.now_us, runner.connection_id, what))

    def _may_renew(self, sent: Instant) -> bool:
        return self.process.watch is None or self.process.watch.judge(sent).may_renew

    def _send_keeping(
        self, request: object, event: Callable[[object], ke.Event], stamps: tuple[tuple[str, int], ...] = ()
    ) -> None:
        keeper = self._keeper

        def heard(answer: object) -> None:
            if self._keeper is keeper:
                self._keep(event(answer))

        self.world.network.send(self._keeping, request, self.timeout_us, heard, stamps)  # type: ignore[arg-type]

    # --- the event loop ---

    def _supervise(self, event: se.Event) -> None:
        supervisor = self._supervisor
        if supervisor is None or not self.process.alive:
            if self._terminated and supervisor is None:
                self._exit("terminated before it had joined")
            return
        for command in supervisor.handle(event, self.process.instant(self._loop)):
            self._carry_out(command)

    def _carry_out(self, command: se.Command) -> None:
        deployed, timing = self.deployed, self.deployed.timing
        match command:
            case se.Receive(most=most):
                self._receive(most)
            case se.DeleteOffer(receipt=receipt):
                self._loop.effect(lambda: self._queue_call(lambda: self.world.network.queue.delete(int(receipt))))
            case se.ReturnOffer(receipt=receipt):
                self._loop.effect(lambda: self._queue_call(lambda: self.world.network.queue.give_back(int(receipt))))
            case se.Claim(connection_id=connection_id):
                self._nonces += 1
                claimer = Claimer(self.worker_id, timing, self.mode)
                flow = claim(connection_id, nonce=f"{self.worker_id}-{self._nonces}", claimer=claimer)
                self._flow(flow, lambda o: se.ClaimAnswered(connection_id, o), says=True)  # type: ignore[arg-type]
            case se.SweepNow(enough=enough, turn=turn):
                flow4 = sweep(shards=deployed.shards, timing=timing, enough=enough, turn=turn)
                self._flow(flow4, lambda found: se.Swept(found))  # type: ignore[arg-type]
            case se.Recount():
                self._flow(recount(shards=deployed.shards), lambda found: se.Swept(found))  # type: ignore[arg-type]
            case se.Bury(members=members):
                self._flow(bury_expired(members, timing=timing), lambda _: se.Buried())
            case se.ReadFleet():
                self._flow(stored_fleet(), lambda fleet: se.FleetRead(fleet))  # type: ignore[arg-type]
            case se.ListOwned():
                self._flow(audit.listed(self.worker_id), lambda items: se.Listed(items))  # type: ignore[arg-type]
            case se.ReleaseUnknown(connection_id=connection_id):
                flow2 = audit.release_unknown(self.worker_id, connection_id)
                self._flow(flow2, lambda landed: se.UnknownSettled(connection_id, _fault_of(landed)))
            case se.LookAgain(connection_id=connection_id, known_version=version):
                self._flow(audit.look_again(self.worker_id, connection_id, version), _looked)
            case se.ReadInbox():
                self._flow(inbox.read_inbox(self.worker_id), lambda entries: se.InboxRead(entries))  # type: ignore[arg-type]
            case se.SettleNotice(connection_id=connection_id, spec_version=version):
                flow3 = inbox.settle(self.worker_id, connection_id, version)
                self._flow(flow3, lambda landed: se.UnknownSettled(connection_id, _fault_of(landed)))
            case se.ForgetNotice(connection_id=connection_id, spec_version=version):
                self._forget(connection_id, version)
            case se.Start():
                self._start(command)
            case se.Stop(run=run, reason=reason, flush=flush):
                runner = self.runners.get(run)
                if runner is not None:
                    runner.stop(reason, flush=flush)
            case se.DrainsItself(reason=reason):
                self._say(f"drains itself: {reason}")
            case se.Leave():
                self._flow(leave(self.worker_id), lambda _: se.Left())
            case se.Exit(outcome=outcome, reason=reason):
                self._finish(outcome, reason)
            case ke.Acquired(claimed=claimed):
                connection_id, epoch = claimed.lease.connection_id, claimed.lease.epoch
                mono_s = self.process.clock.mono_s
                self._fences[connection_id, epoch] = Fence(
                    connection_id, epoch, now_s=lambda: mono_s(self._loop.now_us)
                )
                self._tell_keeper(command)
            case _:
                self._tell_keeper(command)

    def _finish(self, outcome: str, reason: str) -> None:
        self._keeper = self._supervisor = None
        if self._dialling is not None:
            self._dialling.over = True
        for runner in self.runners.values():
            runner.vanish()
        self.runners.clear()
        if outcome == "lost" and not self._terminated:
            self._say(f"lost its membership and joins again: {reason}")
            self._join()
        else:
            self._exit(f"{outcome}: {reason}")

    def _exit(self, why: str) -> None:
        self._loop.effect(lambda: self.crash(why))

    def _flow[T](self, flow: Flow[T], event: Callable[[object], se.Event], *, says: bool = False) -> None:
        """`says`: the supervisor is told what could not be read; else, as in the real shell, that it was refused."""
        supervisor, ledger = self._supervisor, self.world.network.ledger

        def done(outcome: object) -> None:
            for problem in (outcome,) if isinstance(outcome, Malformed) else getattr(outcome, "malformed", ()):
                ledger.report(problem)
            fleet = outcome.fleet if isinstance(outcome, Sweep) else outcome
            if isinstance(fleet, FleetSummary) and self._dialling is not None:
                self._dialling.fleet(fleet.live)
            if isinstance(outcome, Malformed) and not says:
                outcome = Denied(str(outcome))
            if self._supervisor is supervisor:
                self._supervise(event(outcome))

        drive(flow, self._loop, self.world.network, timeout_us=self.timeout_us, done=done, steady=True)

    def _forget(self, connection_id: str, spec_version: int) -> None:
        """Nobody waits for its answer. Stamped with the version that was acted on."""
        flow = inbox.forget(self.worker_id, connection_id, spec_version)
        stamps = ((self.worker_id, spec_version),)
        drive(flow, self._loop, self.world.network, timeout_us=self.timeout_us, done=lambda _: None, stamps=stamps)

    def _queue_call(self, call: Callable[[], None]) -> None:
        """A delete or a return: lost where the queue is out of reach; nobody waits for its answer."""
        if self.world.network.cut(self.process.role, Service.QUEUE) is None:
            self.world.kernel.after(self.world.network.latency_us(), call)

    def _receive(self, most: int) -> None:
        world, supervisor = self.world, self._supervisor

        def heard(answer: tuple[Delivery, ...] | Fault) -> None:
            if self._supervisor is not supervisor:
                return
            if isinstance(answer, Fault):
                self._supervise(se.OffersReceived(answer))
                return
            received = tuple(se.Received(each.offer, str(each.receipt)) for each in answer)
            self._supervise(se.OffersReceived(received))

        def answered(answer: tuple[Delivery, ...] | Fault) -> None:
            world.kernel.after(5 * MS, lambda: self._loop.event(lambda: heard(answer)))

        def leave() -> None:
            cut = world.network.cut(self.process.role, Service.QUEUE)
            if cut is not None:
                world.network.ledger.hit("cut", "sqs receive", self.process.name, cut.cause)
                world.kernel.after(self.timeout_us, lambda: answered(Unreachable("no answer in time")))
            else:
                world.network.queue.receive(most, RECEIVE_WAIT_US, answered)

        self._loop.effect(leave)

    # --- runners ---

    def _start(self, command: se.Start) -> None:
        connection, epoch, run = command.connection, command.epoch, command.run
        connection_id, version = connection.connection_id, connection.spec_version

        def advanced(position: Position) -> None:
            self._tell_keeper(ke.PositionAdvanced(connection_id, epoch, version, position))

        def reported(report: Report) -> None:
            wall_ms = self.process.clock.wall_ms(self._loop.now_us)
            self._tell_keeper(ke.StatusChanged(connection_id, epoch, Status(report.state, wall_ms, report.reason)))

        def finished(end: Finished) -> None:
            runner = self.runners.pop(run)
            outcome: str = "fenced" if runner.fenced else end.outcome
            event = se.RunnerEnded(connection_id, epoch, run, outcome, end.reason, runner.newest_position)  # type: ignore[arg-type]
            self._loop.event(lambda: self._supervise(event))

        assert self._dialling is not None
        runner = Runner(
            connection_id=connection_id,
            epoch=epoch,
            kernel=self.world.kernel,
            thread=self._loop,
            sink=self.world.sink,
            upstream=self.world.upstreams[connection_id],
            url=connection.upstream_url,
            spec=connection.spec,
            position=connection.position,
            fence=self._fences[connection_id, epoch],
            told=Told(advanced, reported, finished, lambda: self._poisoned(connection_id)),
            draws=self._draws,
            cut_until=lambda: self._cut_until_us,
            dialling=self._dialling,
            suspect=connection.status is not None and connection.status.state in GIVEN_UP,
            seek=connection.seek,
        )
        self.runners[run] = runner
        started = self.world.beliefs.started
        started[connection_id] = max(version, started.get(connection_id, 0))
        self._say(f"starts epoch {epoch} from {connection.position}", connection_id)
        if connection.position is None:
            self._check_nothing_is_stored(connection_id, epoch)
        runner.start()

    def _check_nothing_is_stored(self, connection_id: str, epoch: int) -> None:
        """A feed that begins without a position finds none in its item, but one of before a start from nowhere."""
        item = self.world.network.store.connection(connection_id)
        if item is None or item.get("lease_owner") != self.worker_id or item["lease_epoch"] != epoch:
            return
        position, since = item.get("position"), item.get("positions_since_version")
        made_by = position.get("spec_version") if isinstance(position, dict) else None
        is_forgotten = isinstance(made_by, int) and isinstance(since, int) and made_by < since
        if position is not None and not is_forgotten:
            at_us, what = self.world.kernel.now_us, f"{self.worker_id} starts epoch {epoch} without {position}"
            raise Violated(Violation(5, "a feed goes on from its position", at_us, connection_id, what))

    def _poisoned(self, connection_id: str) -> None:
        self.world.network.ledger.count(f"killed by {connection_id}")
        self.crash(f"killed by a record of {connection_id}")

    def _say(self, what: str, connection_id: str = "") -> None:
        self.world.network.ledger.say(self.worker_id or self.process.name, what, connection_id)


def _fault_of(outcome: object) -> Fault | None:
    return outcome if isinstance(outcome, Fault) else None


def _looked(outcome: object) -> se.Event:
    return se.LookedAgain(outcome)  # type: ignore[arg-type]
