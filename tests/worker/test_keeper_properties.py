"""The keeper under any order of events and answers: what must hold whatever happens."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamlease import flow
from streamlease.errors import Denied, Fault, Throttled, Unreachable
from streamlease.flow import run
from streamlease.flows.claim import Claimer, claim
from streamlease.lease import Claimed
from streamlease.model import LeaseMode, Saved, StatusState
from streamlease.timing import Instant
from streamlease.write import Always, Answer, Applied, Table, Update
from streamlease_worker.keeper_events import (
    Acquired,
    Answered,
    Command,
    Event,
    Extended,
    Fence,
    Heartbeat,
    HeartbeatAnswered,
    LoopTicked,
    OffersAnswered,
    PagesAnswered,
    PositionAdvanced,
    Release,
    ReleaseRequested,
    Renew,
    Save,
    SavePages,
    SendOffers,
    Settled,
    Tick,
    heartbeat_write,
    page_flow,
    writes,
)
from tests.worker.keeping import TIMING, WORKER, Bench, at

NAMES = st.sampled_from("abc")
LOST = st.sampled_from([Throttled("slow down"), Unreachable("no answer"), Denied("no permission")])
type Sent = Renew | Save | Release


def size(command: Sent | SavePages | Heartbeat) -> int:
    """How many answers it has."""
    match command:
        case Heartbeat():
            return 1
        case SavePages():
            return len(command.pages)
        case _:
            return len(command.attempts)


@dataclass(slots=True)
class Epoch:
    """What the test knows of one lease, from what it saw alone."""

    name: str
    number: int
    proven_until_s: float
    """The latest deadline that an applied write of this epoch proves."""
    until_s: float = float("-inf")
    in_flight: int = 0
    last_number: int = 0
    fenced: bool = False
    release_sent: bool = False
    release_asked: bool = False
    settled: bool = False


@dataclass(slots=True)
class OnTheWay:
    """A request that has left; it lands when a rule lets it."""

    command: Sent | SavePages | Heartbeat
    sent: Instant
    answers: tuple[Answer | Fault, ...] = ()
    landed: bool = False


class Keeping(RuleBasedStateMachine):
    """One keeper, a store with an honest taker beside it, requests that land and are answered at any time or never."""

    mode = LeaseMode.CONNECTION

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.mode)
        self.epochs: dict[tuple[str, int], Epoch] = {}
        self.on_the_way: list[OnTheWay] = []
        self.takings = 0
        self.versions: dict[int, int] = {}
        self.entries: set[Saved] = set()
        """Everything that a page was ever to hold."""
        self.member_proven_until_s = TIMING.deadline_s(self.bench.clock())

    # --- what happens -----------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        self.do(LoopTicked())

    @rule(name=NAMES)
    def take_on(self, name: str) -> None:
        """Claim what is free; nobody claims what it still handles."""
        if any(each.name == name and not each.settled for each in self.epochs.values()):
            return
        if self.bench.memory.item(Table.CONNECTIONS, name) is None:
            claimed = self.bench.claim(name)
        else:
            claimer = Claimer(WORKER, TIMING, self.mode)
            nonce = f"{len(self.epochs)}"
            outcome = run(claim(name, nonce=nonce, claimer=claimer), self.bench.memory.perform)
            if not isinstance(outcome, Claimed):
                return
            claimed = outcome
        key = (name, claimed.lease.epoch)
        proven_s = claimed.deadline_s if self.mode is LeaseMode.CONNECTION else self.member_proven_until_s
        self.epochs[key] = Epoch(name, claimed.lease.epoch, proven_s)
        self.do(Acquired(claimed))

    @rule(ms=st.sampled_from([1, 50, 100, 100, 100, 250, 700, 3_100]), loop=st.booleans())
    def pass_time(self, ms: int, *, loop: bool) -> None:
        self.bench.clock.advance(ms)
        if loop:
            self.do(LoopTicked())
        self.do(Tick())

    @rule()
    def live_a_while(self) -> None:
        """A second and a half in which everything works."""
        for _ in range(6):
            self.pass_time(250, loop=True)
            for way in [each for each in self.on_the_way if not each.landed]:
                way.landed = True
                self.answer(way, self.carry_out(way))

    @rule(pick=st.integers(0, 9), data=st.data(), answered=st.booleans())
    def land(self, pick: int, data: st.DataObject, *, answered: bool) -> None:
        """One of the requests on their way reaches the store, and its answer the keeper, or is lost."""
        waiting = [each for each in self.on_the_way if not each.landed]
        if not waiting:
            return
        way = waiting[pick % len(waiting)]
        answers = self.carry_out(way)
        way.landed = True
        if answered:
            self.answer(way, answers)
        elif data.draw(st.booleans()):
            self.answer(way, (Unreachable("the answer was lost"),) * len(answers))

    @rule(pick=st.integers(0, 9), fault=LOST)
    def fail(self, pick: int, fault: Fault) -> None:
        """One of the requests on their way is answered by a fault; where that leaves it open, it may land yet."""
        waiting = [each for each in self.on_the_way if each.answers == ()]
        if waiting:
            way = waiting[pick % len(waiting)]
            if way.landed:  # of what has landed, no service says that it refused it
                fault = Unreachable("the answer was lost")
            self.answer(way, (fault,) * size(way.command))
            if not isinstance(fault, Unreachable):
                way.landed = True

    @rule(name=NAMES, sequence=st.integers(1, 9))
    def advance(self, name: str, sequence: int) -> None:
        for key, epoch in self.epochs.items():
            if epoch.name == name and not epoch.release_asked:
                self.do(PositionAdvanced(*key, 1, at(sequence)))

    @rule(name=NAMES)
    def report(self, name: str) -> None:
        for epoch in self.epochs.values():
            if epoch.name == name:
                self.bench.report_of(name, epoch.number, StatusState.STREAMING)

    @rule(name=NAMES)
    def edit(self, name: str) -> None:
        if self.bench.memory.item(Table.CONNECTIONS, name) is not None:
            self.takings += 1
            self.bench.change(name, labels={"edit": str(self.takings)})

    @rule(name=NAMES)
    def be_taken(self, name: str) -> None:
        """An honest other claims it, where its expiry and the allowance are past."""
        if self.bench.memory.item(Table.CONNECTIONS, name) is not None:
            self.takings += 1
            claimer = Claimer("other", TIMING, LeaseMode.CONNECTION)
            run(claim(name, nonce=f"other {self.takings}", claimer=claimer), self.bench.memory.perform)

    @rule(name=NAMES)
    def ask_for_release(self, name: str) -> None:
        for key, epoch in self.epochs.items():
            if epoch.name == name and not epoch.release_asked:
                epoch.release_asked = True
                self.do(ReleaseRequested(*key))

    @rule()
    def be_buried(self) -> None:
        """Somebody buries this worker, where its lease and the allowance are past."""
        member = self.bench.memory.item(Table.MEMBERS, WORKER)
        assert member is not None
        expires_at_ms = member["lease_expires_at_ms"]
        assert isinstance(expires_at_ms, int)
        if expires_at_ms < TIMING.expired_before_ms(self.bench.clock.wall_ms):
            change = Update(Table.MEMBERS, {"worker_id": WORKER}, Always(), set={"state": "DEAD"})
            self.bench.memory.perform(change)
            for item in self.bench.memory.items(Table.CONNECTIONS):
                if item.get("lease_owner") == WORKER and "lease_expires_at_ms" not in item:
                    key = {"connection_id": str(item["connection_id"])}
                    free = Update(
                        Table.CONNECTIONS, key, Always(), set={"lease_expires_at_ms": 0}, remove=("lease_owner",)
                    )
                    self.bench.memory.perform(free)

    # --- how --------------------------------------------------------------------------------------------------------

    def do(self, event: Event) -> None:
        for command in self.bench.do(event):
            self.see(command)

    def see(self, command: Command) -> None:
        match command:
            case Renew() | Save() | Release():
                for attempt in command.attempts:
                    epoch = self.epochs[attempt.lease.connection_id, attempt.lease.epoch]
                    assert epoch.in_flight == 0, "single-flight per lease"
                    assert not epoch.settled, "nothing is sent for a lease that is over"
                    epoch.in_flight += 1
                    if attempt.checkpoint is not None:
                        assert attempt.checkpoint.number > epoch.last_number, "a checkpoint number is used once"
                        epoch.last_number = attempt.checkpoint.number
                    if isinstance(command, Release):
                        assert epoch.release_asked, "a release is sent only when asked for"
                        epoch.release_sent = True
                        epoch.until_s = float("-inf")
                    else:
                        assert not epoch.release_sent, "a release is only ever followed by itself"
                        assert not epoch.fenced, "a fenced lease is never renewed"
                self.on_the_way.append(OnTheWay(command, self.bench.clock()))
            case Heartbeat():
                beats = [each for each in self.on_the_way if isinstance(each.command, Heartbeat)]
                assert all(each.answers for each in beats), "one heartbeat at a time"
                self.on_the_way.append(OnTheWay(command, self.bench.clock()))
            case SavePages():
                self.see_pages(command)
                self.on_the_way.append(OnTheWay(command, self.bench.clock()))
            case SendOffers():
                self.do(OffersAnswered())
            case Extended(connection_id, number, deadline_s):
                epoch = self.epochs[connection_id, number]
                assert not epoch.fenced, "a fenced epoch never delivers again"
                assert not epoch.release_asked, "an epoch to be released never delivers again"
                assert deadline_s > epoch.until_s, "a deadline only grows"
                assert deadline_s <= epoch.proven_until_s, "a deadline is that of a send that landed"
                epoch.until_s = deadline_s
            case Fence(connection_id, number):
                epoch = self.epochs[connection_id, number]
                assert not epoch.fenced, "fenced once"
                epoch.fenced = True
                epoch.until_s = float("-inf")
            case Settled(connection_id, number):
                epoch = self.epochs[connection_id, number]
                assert epoch.release_asked
                assert not epoch.settled, "settled once"
                epoch.settled = True
                epoch.until_s = float("-inf")
            case _:
                pass

    def see_pages(self, command: SavePages) -> None:
        asked = [each.command for each in self.on_the_way if not each.answers]
        in_flight = {page.number for each in asked if isinstance(each, SavePages) for page in each.pages}
        for page in command.pages:
            assert page.number not in in_flight, "one write of a page at a time"
            assert page.version > self.versions.get(page.number, 0), "a version is used once"
            self.versions[page.number] = page.version
            for entry in page.entries:
                epoch = self.epochs[entry.connection_id, entry.epoch]
                assert not epoch.settled, "what is over is freed"
                if entry not in self.entries:
                    assert entry.checkpoint_no > epoch.last_number, "a checkpoint number is used once"
                    assert not epoch.fenced, "a fenced lease saves nothing"
                    assert not epoch.release_asked, "the release carries the newest"
                    epoch.last_number = entry.checkpoint_no
                self.entries.add(entry)

    def carry_out(self, way: OnTheWay) -> tuple[Answer | Fault, ...]:
        perform = self.bench.memory.perform
        if isinstance(way.command, Heartbeat):
            beaten = run(flow.write(heartbeat_write(way.command, sent=way.sent, timing=TIMING)), perform)
            if isinstance(beaten, Applied):
                self.member_proven(TIMING.deadline_s(way.sent))
            return (beaten,)
        if isinstance(way.command, SavePages):
            return run(page_flow(way.command), perform)
        answers = run(flow.batch(writes(way.command, sent=way.sent, timing=TIMING)), perform)
        if isinstance(way.command, Renew):
            for attempt, answer in zip(way.command.attempts, answers, strict=True):
                if isinstance(answer, Applied):
                    epoch = self.epochs[attempt.lease.connection_id, attempt.lease.epoch]
                    epoch.proven_until_s = max(epoch.proven_until_s, TIMING.deadline_s(way.sent))
        return answers

    def member_proven(self, until_s: float) -> None:
        self.member_proven_until_s = max(self.member_proven_until_s, until_s)
        if self.mode is LeaseMode.WORKER:
            for epoch in self.epochs.values():
                epoch.proven_until_s = self.member_proven_until_s

    def answer(self, way: OnTheWay, answers: tuple[Answer | Fault, ...]) -> None:
        """Once; what it was answered before stands."""
        if way.answers:
            return
        way.answers = answers
        if isinstance(way.command, Heartbeat):
            self.do(HeartbeatAnswered(way.sent, answers[0]))
            return
        if isinstance(way.command, SavePages):
            self.do(PagesAnswered(way.command.batch, answers))
            return
        for attempt in way.command.attempts:
            self.epochs[attempt.lease.connection_id, attempt.lease.epoch].in_flight -= 1
        self.do(Answered(way.command.batch, way.sent, answers))

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def who_may_deliver_owns(self) -> None:
        now_s = self.bench.clock.mono_s
        for epoch in self.epochs.values():
            if epoch.until_s > now_s:
                item = self.bench.memory.item(Table.CONNECTIONS, epoch.name)
                assert item is not None
                assert (item.get("lease_owner"), item["lease_epoch"]) == (WORKER, epoch.number)


class KeepingInWorkerMode(Keeping):
    mode = LeaseMode.WORKER

    @invariant()
    def who_may_deliver_is_a_member(self) -> None:
        member = self.bench.memory.item(Table.MEMBERS, WORKER)
        assert member is not None
        may = any(epoch.until_s > self.bench.clock.mono_s for epoch in self.epochs.values())
        assert not may or member["state"] != "DEAD"


TestKeeping = Keeping.TestCase
TestKeeping.settings = settings(max_examples=60, stateful_step_count=50)
TestKeepingInWorkerMode = KeepingInWorkerMode.TestCase
TestKeepingInWorkerMode.settings = settings(max_examples=60, stateful_step_count=50)
