"""The supervisor under any order of events and answers: what must hold whatever happens."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from streamlease.errors import Denied, Fault, Throttled, Unreachable
from streamlease.flows.claim import Outcome
from streamlease.flows.sweep import Sweep
from streamlease.lease import Claimed, Held, Stopped
from streamlease.model import FleetSummary, Lease, Offer
from streamlease.plan import Candidate
from streamlease.write import Item
from streamlease_worker.keeper_events import (
    Accepted,
    Acquired,
    Changed,
    Fence,
    MemberAlive,
    MemberLost,
    ReleaseRequested,
    Settled,
    StopWanted,
)
from streamlease_worker.supervisor import PARALLEL_CLAIMS
from streamlease_worker.supervisor_events import (
    Buried,
    Bury,
    Claim,
    ClaimAnswered,
    Command,
    DeleteOffer,
    DrainRequested,
    Event,
    Exit,
    FleetRead,
    Leave,
    Left,
    Listed,
    ListOwned,
    LookAgain,
    LookedAgain,
    OffersReceived,
    ReadFleet,
    Receive,
    Received,
    Recount,
    ReleaseUnknown,
    ReturnOffer,
    RunnerEnded,
    Start,
    Stop,
    SweepNow,
    Swept,
    Tick,
    UnknownSettled,
)
from tests.worker.supervising import WORKER, Bench, connection

CAPACITY = 4
NAMES = [f"c{number}" for number in range(8)]
NAME = st.sampled_from(NAMES)


@dataclass(slots=True)
class Holding:
    """One epoch, as the test saw it."""

    name: str
    epoch: int
    accepted: bool = False
    fenced: bool = False
    released: bool = False
    run: int | None = None
    stopping: bool = False


class Supervising(RuleBasedStateMachine):
    """The test is the store, the queue, the keeper and the runners."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(capacity=CAPACITY, stop_timeout_s=30)
        self.open: list[Command] = []
        """Asked for and not answered."""
        self.holdings: dict[tuple[str, int], Holding] = {}
        self.offers: dict[str, bool] = {}
        """Receipt → whether it was deleted or given back."""
        self.next_epoch = 1
        self.draining = False
        self.exited = False

    # --- how --------------------------------------------------------------------------------------------------------

    def do(self, event: Event) -> None:
        for command in self.bench.do(event):
            assert not self.exited, "nothing follows an exit"
            self.see(command)
        assert self.bench.supervisor.owned <= CAPACITY

    def see(self, command: Command) -> None:
        match command:
            case Claim(name):
                assert not self.draining, "nothing is claimed while draining"
                claims = {each.connection_id for each in self.open if isinstance(each, Claim)}
                assert name not in claims
                assert len(claims) < PARALLEL_CLAIMS
                assert not any(each.name == name for each in self.holdings.values())
                assert not any(isinstance(each, ReleaseUnknown) and each.connection_id == name for each in self.open)
                self.open.append(command)
            case DeleteOffer(receipt) | ReturnOffer(receipt):
                assert self.offers[receipt] is False, "an offer is answered once"
                self.offers[receipt] = True
            case Acquired(claimed):
                key = (claimed.lease.connection_id, claimed.lease.epoch)
                self.holdings[key] = Holding(*key)
            case Start(run, found, epoch):
                holding = self.holdings[found.connection_id, epoch]
                assert holding.accepted, "nothing runs before the keeper keeps it"
                assert holding.run is None, "one runner at a time"
                assert not holding.fenced
                assert not holding.released
                holding.run, holding.stopping = run, False
            case Stop(run, name):
                (holding,) = [each for each in self.holdings.values() if each.run == run]
                assert holding.name == name
                holding.stopping = True
            case ReleaseRequested(name, epoch):
                holding = self.holdings[name, epoch]
                assert holding.run is None, "released only after its runner has ended"
                assert not holding.released, "released once"
                holding.released = True
            case Exit():
                self.exited = True
            case Receive() | SweepNow() | Recount() | ReadFleet() | ListOwned():
                assert not any(isinstance(each, type(command)) for each in self.open), "each one at a time"
                self.open.append(command)
            case Bury() | ReleaseUnknown() | LookAgain() | Leave():
                self.open.append(command)
            case _:
                pass

    def holding(self, pick: int) -> Holding | None:
        held = list(self.holdings.values())
        return held[pick % len(held)] if held else None

    # --- what happens -----------------------------------------------------------------------------------------------

    @rule(ms=st.sampled_from([250, 250, 1_000, 7_000]))
    def pass_time(self, ms: int) -> None:
        self.bench.clock.advance(ms)
        self.do(Tick())

    @rule(pick=st.integers(0, 20), names=st.lists(NAME, max_size=6), how=st.integers(0, 9), owned=st.integers(0, 9))
    def answer(self, pick: int, names: list[str], how: int, owned: int) -> None:
        """Something that was asked for is answered, in one way or another."""
        if not self.open:
            return
        command = self.open.pop(pick % len(self.open))
        now_ms = self.bench.clock.wall_ms
        match command:
            case Claim(name):
                lease = Lease(name, WORKER, self.next_epoch, 1, None)
                self.next_epoch += 1
                landed = Claimed(connection(name, lease_epoch=lease.epoch), lease, self.bench.clock.mono_s + 2.5)
                others: list[Outcome | Fault] = [
                    Held("other", now_ms + 3_000),
                    Held(None, None),
                    Stopped(None),
                    Unreachable("x"),
                    Denied("x"),
                ]
                self.do(ClaimAnswered(name, landed if how < 5 else others[how - 5]))
            case Receive(most):
                received = []
                for name in names[:most]:
                    receipt = f"receipt {len(self.offers)}"
                    self.offers[receipt] = False
                    received.append(Received(Offer(name, "control", now_ms - 1_000 * how), receipt))
                self.do(OffersReceived(Throttled("x") if how == 9 else tuple(received)))
                if how == 9:
                    self.offers.update((each.receipt, True) for each in received)
            case SweepNow():
                candidates = tuple(Candidate(name, 0 if how < 5 else now_ms - 9_000) for name in dict.fromkeys(names))
                fleet = FleetSummary(now_ms, 2, owned, len(candidates), 1)
                self.do(Swept(Throttled("x") if how == 9 else Sweep(candidates, fleet, (), ())))
            case ReadFleet():
                self.do(FleetRead(None if how == 9 else FleetSummary(now_ms, 2, owned, 1, 1)))
            case Recount():
                self.do(Swept(Throttled("x")))
            case ListOwned():
                items: list[Item] = [
                    {"connection_id": name, "spec_version": 1, "desired_state": "STARTED"} for name in names
                ]
                self.do(Listed(Throttled("x") if how == 9 else tuple(items)))
            case ReleaseUnknown(name):
                self.do(UnknownSettled(name))
            case LookAgain():
                self.do(LookedAgain(None))
            case Bury():
                self.do(Buried())
            case Leave():
                self.do(Left())
            case _:
                raise AssertionError(command)

    @rule(
        pick=st.integers(0, 9),
        how=st.sampled_from(["accept", "accept", "accept", "fence", "change", "relabel", "stop"]),
    )
    def keeper_says(self, pick: int, how: str) -> None:
        holding = self.holding(pick)
        if holding is None:
            return
        match how:
            case "accept" if not holding.accepted and not holding.fenced:
                holding.accepted = True
                self.do(Accepted(holding.name, holding.epoch))
            case "fence" if not holding.fenced and not holding.released:
                holding.fenced = True
                self.do(Fence(holding.name, holding.epoch, "throttled"))
            case "change" | "relabel" if not holding.fenced and not holding.released:
                url = f"wss://upstream.example/{self.bench.clock.mono_s}" if how == "change" else "wss://same.example/"
                changed = connection(holding.name, lease_epoch=holding.epoch, version=2, url=url)
                self.do(Changed(changed, holding.epoch, forget_position=pick == 0))
            case "stop" if not holding.fenced and not holding.released:
                self.do(StopWanted(holding.name, holding.epoch))
            case _:
                pass

    @rule(
        pick=st.integers(0, 9),
        outcome=st.sampled_from(["stopped", "stopped", "fatal", "crashed", "fenced", "yielded", "quarantined"]),
    )
    def runner_ends(self, pick: int, outcome: str) -> None:
        holding = self.holding(pick)
        if holding is not None and holding.run is not None:
            run, holding.run = holding.run, None
            self.do(RunnerEnded(holding.name, holding.epoch, run, outcome, "", None))  # type: ignore[arg-type]

    @rule(pick=st.integers(0, 9))
    def release_settles(self, pick: int) -> None:
        holding = self.holding(pick)
        if holding is not None and holding.released:
            del self.holdings[holding.name, holding.epoch]
            self.do(Settled(holding.name, holding.epoch, landed=True))

    @rule(left_s=st.sampled_from([-1.0, 100.0, 1_000.0]))
    def member_lives(self, left_s: float) -> None:
        self.do(MemberAlive(self.bench.clock.mono_s + left_s))

    @precondition(lambda self: not self.draining and len(self.offers) > 8)
    @rule(lost=st.booleans())
    def end(self, *, lost: bool) -> None:
        self.draining = True
        self.do(MemberLost() if lost else DrainRequested("SIGTERM"))

    def teardown(self) -> None:
        """Whatever has happened, a drain ends as soon as everything is answered."""
        self.draining = True
        self.do(DrainRequested("SIGTERM"))
        for _ in range(200):
            if self.exited:
                break
            for holding in list(self.holdings.values()):
                if holding.run is not None and holding.stopping:
                    self.runner_ends(list(self.holdings.values()).index(holding), "stopped")
            for holding in [each for each in self.holdings.values() if each.released]:
                self.release_settles(list(self.holdings.values()).index(holding))
            if self.open:
                self.answer(0, [], 8, 0)
            self.pass_time(250)
        assert self.exited
        assert self.bench.supervisor.owned == 0


TestSupervising = Supervising.TestCase
TestSupervising.settings = settings(max_examples=60, stateful_step_count=60)
