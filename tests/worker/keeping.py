"""A keeper on a store in memory, with a clock that only the test moves. What it asks for is carried out when told."""

from streamlease import items
from streamlease.flow import Batch, run
from streamlease.flows import control
from streamlease.flows.claim import Claimer, claim
from streamlease.lease import Change, Claimed
from streamlease.membership import Joined
from streamlease.model import Connection, DesiredState, LeaseMode, Position, Status, StatusState
from streamlease.timing import Timing
from streamlease.write import Item, Table
from streamlease_worker.joining import Applicant, join
from streamlease_worker.keeper import Keeper
from streamlease_worker.keeper_events import (
    Acquired,
    Answered,
    Command,
    Event,
    Heartbeat,
    HeartbeatAnswered,
    LoopTicked,
    OffersAnswered,
    PagesAnswered,
    Release,
    Renew,
    Save,
    SavePages,
    SendOffers,
    StatusChanged,
    Tick,
    heartbeat_write,
    page_flow,
    writes,
)
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore
from tests.fakes.trouble import Troubled

TIMING = Timing(heartbeat_ms=1_000, lease_ms=3_000)
WORKER = "worker-1"
TICK_MS = 100


class Bench:
    """`said` is everything the keeper has ever asked for, in order."""

    def __init__(self, mode: LeaseMode = LeaseMode.CONNECTION, *, parallel: int = 4) -> None:
        self.mode = mode
        self.clock = SetClock()
        self.memory = MemoryStore(self.clock)
        self.store = Troubled(self.memory.perform)
        self.operator = control.Operator("somebody", 1, TIMING)
        applicant = Applicant(WORKER, generation=1, capacity=10, zone="", timing=TIMING)
        joined: Joined = run(join(applicant), self.memory.perform)
        self.keeper = Keeper(WORKER, timing=TIMING, mode=mode, joined=joined, parallel=parallel, checkpoint_s=1.0)
        self.said: list[Command] = []
        self.asked: list[Command] = []
        """What is not carried out yet."""

    # --- what happens to it -----------------------------------------------------------------------------------------

    def do(self, event: Event) -> list[Command]:
        commands = self.keeper.handle(event, self.clock())
        self.said += commands
        self.asked += commands
        return commands

    def claim(self, connection_id: str = "a", *, create: bool = True) -> Claimed:
        """Create the connection, claim it, and tell nobody yet."""
        if create:
            run(
                control.create(
                    connection_id,
                    upstream_url="wss://upstream.example/",
                    spec={"record": {}},
                    labels={},
                    desired_state=DesiredState.STARTED,
                    operator=self.operator,
                ),
                self.memory.perform,
            )
        claimer = Claimer(WORKER, TIMING, self.mode)
        claimed = run(claim(connection_id, nonce=f"nonce of {connection_id}", claimer=claimer), self.memory.perform)
        assert isinstance(claimed, Claimed)
        return claimed

    def hold(self, connection_id: str = "a") -> Claimed:
        """Create, claim, and give it to the keeper."""
        claimed = self.claim(connection_id)
        self.do(Acquired(claimed))
        return claimed

    def change(self, connection_id: str = "a", **wanted: object) -> None:
        """Somebody edits, stops or starts it."""
        run(control.change(connection_id, Change(**wanted), operator=self.operator), self.memory.perform)  # type: ignore[arg-type]

    def tick(self, *, loop: bool = True) -> list[Command]:
        """A tick's time passes."""
        self.clock.advance(TICK_MS)
        return [*(self.do(LoopTicked()) if loop else []), *self.do(Tick())]

    def live(self, ms: int, *, loop: bool = True) -> list[Command]:
        """Time passes, and everything asked for is carried out and answered at once."""
        said: list[Command] = []
        for _ in range(ms // TICK_MS):
            self.tick(loop=loop)
            while self.asked:
                said.append(self.asked[0])
                self.answer(self.asked[0])
        return said

    def wait_for[C: Command](self, kind: type[C], *, loop: bool = True) -> C:
        """Let time pass until the keeper asks for a `kind`; what else it asks for is answered."""
        for _ in range(100):
            self.tick(loop=loop)
            found = [command for command in self.asked if isinstance(command, kind)]
            for command in [command for command in self.asked if not isinstance(command, kind)]:
                self.answer(command)
            if found:
                return found[0]
        raise AssertionError(f"no {kind.__name__} in ten seconds")

    def answer(self, command: Command) -> list[Command]:
        """Carry a command out and tell the keeper; nothing for those that ask for no answer."""
        if command in self.asked:
            self.asked.remove(command)
        sent = self.clock()
        match command:
            case Renew() | Save() | Release():
                try:
                    answers = self.store.perform(Batch(writes(command, sent=sent, timing=TIMING)))
                except Exception as fault:  # noqa: BLE001 - as the shell does
                    answers = (fault,) * len(command.attempts)
                return self.do(Answered(command.batch, sent, answers))  # type: ignore[arg-type]
            case SavePages():
                try:
                    answers = run(page_flow(command), self.store.perform)
                except Exception as fault:  # noqa: BLE001 - as the shell does
                    answers = (fault,) * len(command.pages)
                return self.do(PagesAnswered(command.batch, answers))  # type: ignore[arg-type]
            case Heartbeat():
                try:
                    answer = self.store.perform(heartbeat_write(command, sent=sent, timing=TIMING))
                except Exception as fault:  # noqa: BLE001 - as the shell does
                    answer = fault
                return self.do(HeartbeatAnswered(sent, answer))  # type: ignore[arg-type]
            case SendOffers():
                return self.do(OffersAnswered())
            case _:
                return []

    def report(self, claimed: Claimed, state: StatusState = StatusState.STREAMING) -> None:
        self.report_of(claimed.connection.connection_id, claimed.lease.epoch, state)

    def report_of(self, connection_id: str, epoch: int, state: StatusState) -> None:
        self.do(StatusChanged(connection_id, epoch, Status(state, self.clock().wall_ms)))

    # --- what came of it ----------------------------------------------------------------------------------------------

    def item(self, connection_id: str = "a") -> Item:
        item = self.memory.item(Table.CONNECTIONS, connection_id)
        assert item is not None
        return item

    def seen(self, connection_id: str = "a") -> Connection:
        """The item, as an audit reads it."""
        return items.connection(self.item(connection_id))

    def all[C: Command](self, kind: type[C]) -> list[C]:
        return [command for command in self.said if isinstance(command, kind)]


def at(sequence: int) -> Position:
    return Position(sequence=sequence, instance="upstream.example")
