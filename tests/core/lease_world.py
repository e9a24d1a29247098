"""One connection and a few workers with skewed clocks, who pause and crash, lose answers and have requests land late.

They are the most careless workers the protocol allows: they resume after their deadline if a renewal says so, have any
number of requests of one lease in flight and read their clocks with pauses in between. Requests, conditions and answers
are the core's own. All of a walk comes from one random seed, so that a failure is repeated by its seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from streamlease import items, lease, membership
from streamlease.lease import Change, Changed, Checkpoint, Checkpointed, Claimed, Lost, Renewed, Stopped, Unproven
from streamlease.membership import Beat, Behind
from streamlease.model import Connection, DesiredState, Lease, LeaseMode, MemberState, Position, Saved
from streamlease.timing import Instant, Timing
from streamlease.write import Answer, Applied, Item, Write
from tests.core.cells import Cell

TIMING = Timing(heartbeat_ms=3_000, lease_ms=9_000)
HALF_SKEW_MS = TIMING.skew_ms // 2
START_MS = 1_800_000_000_000
NAMES = ("a", "b")


@dataclass(slots=True)
class Running:
    """One lease as its worker sees it."""

    lease: Lease
    mode: LeaseMode
    deadline_s: float
    number: int = 0
    released: bool = False


@dataclass(slots=True)
class Worker:
    """One process. Its id is never used again."""

    worker_id: str
    mode: LeaseMode
    clock_error_ms: int
    running: dict[int, Running] = field(default_factory=dict)
    """By epoch."""
    member_deadline_s: float = float("-inf")
    seen: int = 0
    unanswered: list[Instant] = field(default_factory=list)
    buried: bool = False
    claims_in_flight: set[str] = field(default_factory=set)
    last_claim: tuple[str, Instant] | None = None

    def may_deliver(self, now_s: float) -> list[Lease]:
        """What its last check before a sink attempt would let through."""
        if self.buried or (self.mode is LeaseMode.WORKER and now_s > self.member_deadline_s):
            return []
        return [r.lease for r in self.running.values() if not r.released and now_s <= r.deadline_s]


@dataclass(frozen=True, slots=True)
class InFlight:
    """A request on its way. `heard` is what its sender does with the answer, if it lives and the answer arrives."""

    sender: Worker
    cell: Cell
    write: Write
    heard: Callable[[Answer], None]
    of: Lease | None = None
    """The lease that an owner's write belongs to."""


class World:
    """One connection, its workers, and what is between them. Every choice is `random`'s."""

    def __init__(self, random: Random, modes: Sequence[LeaseMode]) -> None:
        self.random = random
        self.modes = modes
        self.true_ms = START_MS
        self.connection = Cell()
        self.members: dict[str, Cell] = {}
        self.workers: dict[str, Worker] = {}
        self.in_flight: list[InFlight] = []
        self.answers: list[tuple[InFlight, Answer]] = []
        self.calm = True
        """While it is, requests are answered at once."""
        self.names = 0
        self.recreated = 0
        self.epochs: dict[int, str] = {}
        self.highest_epoch = 0
        self.create()
        for name in NAMES:
            self.start(name, random.choice((-HALF_SKEW_MS, 0, HALF_SKEW_MS)))

    def step(self) -> None:
        weighted = {
            self.act: 50,
            self.land: 20 if self.in_flight else 0,
            self.hear: 20 if self.answers else 0,
            self.wait: 5,
            self.wait_until_something_ends: 12,
            self.change_weather: 5,
            self.disturb: 3,
        }
        self.random.choices(list(weighted), list(weighted.values()))[0]()
        self.check_that_never_two_deliver()
        self.check_that_an_epoch_never_falls_nor_names_two_owners()

    # --- the world ---

    def start(self, name: str, clock_error_ms: int) -> None:
        self.names += 1
        worker = Worker(f"{name}{self.names}", self.random.choice(self.modes), clock_error_ms)
        self.workers[name] = worker
        sent = Instant(self.true_ms / 1000, self.true_ms + clock_error_ms)
        join = membership.join(
            worker.worker_id, generation=0, capacity=9, zone="", started_at_ms=0, sent=sent, timing=TIMING
        )
        self.members[worker.worker_id] = Cell()
        assert isinstance(self.members[worker.worker_id].put(join), Applied)
        worker.member_deadline_s = TIMING.deadline_s(sent)

    def instant(self, worker: Worker) -> Instant:
        """Both clocks, monotonic first; the process may be paused in between (M4)."""
        mono_s = self.true_ms / 1000
        self.true_ms += self.random.choice((0, 0, 0, 600, 4_000))
        return Instant(mono_s, self.true_ms + worker.clock_error_ms)

    def create(self) -> None:
        answer = self.connection.put(
            lease.create(
                "c",
                upstream_url="wss://up",
                spec={},
                labels={},
                desired_state=DesiredState.STARTED,
                shard="STARTED",
                now_ms=self.true_ms,
                updated_by="me",
            )
        )
        assert isinstance(answer, Applied)

    def send(
        self, sender: Worker, cell: Cell, write: Write, heard: Callable[[Answer], None], of: Lease | None = None
    ) -> None:
        request = InFlight(sender, cell, write, heard, of)
        if self.calm:
            heard(self.arrive(request))
        else:
            self.in_flight.append(request)

    def arrive(self, request: InFlight) -> Answer:
        before = request.cell.item
        answer = request.cell.put(request.write)
        self.check_write(request, before, answer)
        return answer

    def wait(self) -> None:
        self.true_ms += self.random.choice((1, 700, 2_500))

    def wait_until_something_ends(self) -> None:
        """To just before or just after it, by the clock that it is judged by."""
        ends: list[int] = []
        for worker in self.workers.values():
            deadlines_s = [r.deadline_s for r in worker.running.values()] + [worker.member_deadline_s]
            ends += [round(each * 1_000) for each in deadlines_s if abs(each) != float("inf")]
        for cell in (self.connection, *self.members.values()):
            expires_at_ms = expiry(cell.item or {})
            if expires_at_ms != float("inf"):
                takeable_ms = int(expires_at_ms) + TIMING.skew_ms
                ends += [takeable_ms - w.clock_error_ms for w in self.workers.values()]
        instants = sorted({end + step for end in ends for step in (-1, 1) if end + step > self.true_ms})
        if instants:
            self.true_ms = self.random.choice(instants[:4])

    def change_weather(self) -> None:
        self.calm = not self.calm

    def land(self) -> None:
        """Requests land in any order, at any time, and answers are lost."""
        request = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
        answer = self.arrive(request)
        if self.random.random() < 0.8:
            self.answers.append((request, answer))

    def hear(self) -> None:
        request, answer = self.answers.pop(self.random.randrange(len(self.answers)))
        if request.sender in self.workers.values():
            request.heard(answer)

    # --- owners ---

    def act(self) -> None:
        """Anything that a worker may do now."""
        worker = self.random.choice(list(self.workers.values()))
        deeds: list[Callable[[], None]] = [
            lambda: self.heartbeat(worker),
            lambda: self.heartbeat(worker),
            lambda: self.bury(worker),
            lambda: self.orphan(worker),
            lambda: self.audit(worker),
            lambda: self.settle(worker),
        ]
        running = self.random.choice([*worker.running.values(), None])
        if running is None:
            deeds += [lambda: self.claim(worker)] * 5
        else:
            deeds.append(lambda: self.release(worker, running))
            if not running.released:
                deeds += [lambda: self.checkpoint(worker, running)] * 2
            if not running.released and worker.mode is LeaseMode.CONNECTION:
                deeds += [lambda: self.renew(worker, running)] * 8
        self.random.choice(deeds)()

    def claim(self, worker: Worker) -> None:
        self.names += 1
        nonce, sent, mode = f"n{self.names}", self.instant(worker), worker.mode
        write = lease.claim("c", worker_id=worker.worker_id, nonce=nonce, sent=sent, timing=TIMING, mode=mode)
        self.send_claim(worker, write, nonce, sent)

    def send_claim(self, worker: Worker, write: Write, nonce: str, sent: Instant) -> None:
        worker.claims_in_flight.add(nonce)

        def heard(answer: Answer) -> None:
            worker.claims_in_flight.discard(nonce)
            outcome = lease.claimed(answer, worker_id=worker.worker_id, nonce=nonce, sent=sent, timing=TIMING)
            match outcome:
                case Claimed():
                    self.run(worker, outcome)
                case Unproven(connection):
                    now = self.instant(worker)
                    if connection.crashes + 1 >= lease.CRASHES_BEFORE_POSTPONEMENT:
                        again: Write = lease.postpone(connection, now_ms=now.wall_ms, timing=TIMING)
                        self.send(worker, self.connection, again, lambda answer: None)
                    else:
                        self.names += 1
                        retry = f"n{self.names}"
                        again = lease.claim_after_crash(
                            connection,
                            worker_id=worker.worker_id,
                            nonce=retry,
                            sent=now,
                            timing=TIMING,
                            mode=worker.mode,
                        )
                        self.send_claim(worker, again, retry, now)
                case _:
                    pass

        self.send(worker, self.connection, write, heard)
        worker.last_claim = nonce, sent

    def run(self, worker: Worker, claimed: Claimed) -> None:
        if claimed.lease.epoch not in worker.running:
            deadline_s = claimed.deadline_s if worker.mode is LeaseMode.CONNECTION else float("inf")
            worker.running[claimed.lease.epoch] = Running(claimed.lease, worker.mode, deadline_s)

    def settle(self, worker: Worker) -> None:
        """The answer of the last claim was given up: a read tells, and it may still land afterwards (M10)."""
        if worker.last_claim is None:
            return
        nonce, sent = worker.last_claim
        found = lease.settled(self.connection.item, worker_id=worker.worker_id, nonce=nonce, sent=sent, timing=TIMING)
        worker.claims_in_flight.discard(nonce)
        if found is not None:
            self.run(worker, found)

    def audit(self, worker: Worker) -> None:
        """What the table says is ours and does not run here is given up, unless a claim is in flight."""
        item = self.connection.item
        if item is None or item.get("lease_owner") != worker.worker_id or worker.claims_in_flight:
            return
        held = lease.lease_of(items.connection(item), worker.worker_id)
        if held.epoch not in worker.running:
            release = lease.release(held, checkpoint=Checkpoint(1), now_ms=self.true_ms)
            worker.running[held.epoch] = Running(held, worker.mode, float("-inf"), released=True)
            self.send(worker, self.connection, release, lambda answer: None, of=held)

    def renew(self, worker: Worker, running: Running) -> None:
        sent = self.instant(worker)
        checkpoint = self.next_checkpoint(running) if self.random.random() < 0.5 else None
        held = running.lease

        def heard(answer: Answer) -> None:
            match lease.renewed(answer, lease=held, expires_at_ms=TIMING.expires_at_ms(sent)):
                case Renewed():
                    running.deadline_s = max(running.deadline_s, TIMING.deadline_s(sent))
                case Changed(connection):
                    running.lease = lease.lease_of(connection, worker.worker_id)
                case Stopped() | Lost():
                    running.released = True
                case _:
                    pass

        write = lease.renew(held, sent=sent, timing=TIMING, checkpoint=checkpoint)
        self.send(worker, self.connection, write, heard, of=held)

    def checkpoint(self, worker: Worker, running: Running) -> None:
        checkpoint, held = self.next_checkpoint(running), running.lease

        def heard(answer: Answer) -> None:
            outcome = lease.checkpointed(answer, lease=held, checkpoint=checkpoint)
            running.released |= isinstance(outcome, Lost)
            assert not isinstance(outcome, Checkpointed) or outcome.checkpoint_no == checkpoint.number

        self.send(worker, self.connection, lease.checkpoint(held, checkpoint), heard, of=held)

    def release(self, worker: Worker, running: Running) -> None:
        """Once sent, this epoch never delivers again, whatever a read may say of it (M2)."""
        running.released = True
        write = lease.release(running.lease, checkpoint=self.next_checkpoint(running), now_ms=self.true_ms)
        self.send(worker, self.connection, write, lambda answer: None, of=running.lease)

    def next_checkpoint(self, running: Running) -> Checkpoint:
        running.number += 1
        return Checkpoint(running.number, Position(f"{running.lease.epoch}/{running.number}"))

    # --- members ---

    def heartbeat(self, worker: Worker) -> None:
        sent, seen = self.instant(worker), worker.seen
        worker.unanswered.append(sent)

        def heard(answer: Answer) -> None:
            match membership.beaten(answer, seen=seen):
                case Beat(now_seen) | Behind(now_seen) if now_seen > worker.seen:
                    earliest = min(worker.unanswered, key=lambda each: each.mono_s)
                    worker.member_deadline_s = max(worker.member_deadline_s, TIMING.deadline_s(earliest))
                    worker.seen = now_seen
                    worker.unanswered.clear()
                case membership.Buried():
                    worker.buried = True
                case _:
                    pass

        state = MemberState.LIVE
        write = membership.heartbeat(
            worker.worker_id, seen=seen, state=state, owned=0, load={}, sent=sent, timing=TIMING
        )
        self.send(worker, self.members[worker.worker_id], write, heard)

    def bury(self, worker: Worker) -> None:
        now_ms = self.true_ms + worker.clock_error_ms
        for cell in self.members.values():
            member = items.member(cell.item or {})
            if membership.expired(member, now_ms=now_ms, timing=TIMING):
                self.send(worker, cell, membership.bury(member, now_ms=now_ms, timing=TIMING), lambda answer: None)

    def orphan(self, worker: Worker) -> None:
        item = self.connection.item
        owner = item.get("lease_owner") if item else None
        if item is None or not isinstance(owner, str) or self.members[owner].item is None:
            return
        if items.member(self.members[owner].item or {}).state is MemberState.DEAD:
            seen = items.connection(item)
            write = lease.orphan(seen, dead_worker_id=owner, now_ms=self.true_ms)
            if self.random.random() < 0.5:
                write = lease.orphan_unread(
                    seen.connection_id, dead_worker_id=owner, now_ms=self.true_ms, saved=self.paged(seen)
                )
            self.send(worker, self.connection, write, lambda answer: None)

    def paged(self, seen: Connection) -> Saved | None:
        """What a page of the dead worker might say: of this epoch or the one before, of a higher number or not."""
        if self.random.random() < 0.5 or seen.position is None:
            return None
        epoch = seen.lease_epoch - self.random.randrange(2)
        number = seen.checkpoint_no + self.random.randrange(2)
        return Saved(seen.connection_id, epoch, number, seen.spec_version, seen.position)

    # --- people ---

    def disturb(self) -> None:
        match self.random.randrange(8):
            case 0:
                name = self.random.choice(NAMES)
                self.start(name, self.workers[name].clock_error_ms)
            case 1 | 2:
                self.delete_and_recreate()
            case 3 | 4:
                self.control(self.random.choice((None, DesiredState.STOPPED)))
            case _:
                self.control(DesiredState.STARTED)

    def control(self, state: DesiredState | None) -> None:
        seen = items.connection(self.connection.item or {})
        change = Change(state, spec={"at": self.true_ms})
        self.connection.put(lease.control(seen, change, shard="STARTED", now_ms=self.true_ms, updated_by="me"))

    def delete_and_recreate(self) -> None:
        """By somebody whose clock is behind, but more than the skew allowance later (M7)."""
        self.connection.put(lease.delete("c", now_ms=self.true_ms - HALF_SKEW_MS, timing=TIMING))
        if self.connection.item is None:
            self.true_ms += 2 * TIMING.skew_ms
            self.create()
            self.recreated += 1

    # --- what holds ---

    def check_write(self, request: InFlight, before: Item | None, answer: Answer) -> None:
        after = request.cell.item
        if request.of is not None and before is not None:
            theirs = (request.of.worker_id, request.of.epoch)
            if (before.get("lease_owner"), before.get("lease_epoch")) != theirs:
                assert after == before, "a stale epoch's write changes nothing"
            elif after is not None and after.get("lease_owner") is not None:
                assert expiry(after) >= expiry(before), "a late renewal does not lower the expiry"
        if before is not None and after is not None and "position" in before and "position" in after:
            assert order(after) >= order(before), "a position does not fall"

    def check_that_never_two_deliver(self) -> None:
        now_s = self.true_ms / 1000
        delivering = [held for worker in self.workers.values() for held in worker.may_deliver(now_s)]
        assert len(delivering) <= 1, delivering

    def check_that_an_epoch_never_falls_nor_names_two_owners(self) -> None:
        item = self.connection.item
        if item is None:
            return
        found = items.connection(item)
        assert found.lease_epoch >= self.highest_epoch
        self.highest_epoch = found.lease_epoch
        if found.lease_nonce is not None:
            who = f"{found.lease_owner} {found.lease_nonce}"
            assert self.epochs.setdefault(found.lease_epoch, who) == who


def expiry(item: Item) -> float:
    found = item.get("lease_expires_at_ms")
    return found if isinstance(found, int) else float("inf")


def order(item: Item) -> tuple[int, ...]:
    """Positions are opaque to the protocol; these say which epoch and checkpoint wrote them."""
    sequence = items.connection(item).position
    assert sequence is not None
    return tuple(int(part) for part in str(sequence.sequence).split("/"))
