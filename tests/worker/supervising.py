"""A supervisor with a clock that only the test moves. The test plays everybody else."""

from dataclasses import replace

from streamlease import plan
from streamlease.flows.sweep import Sweep
from streamlease.lease import Claimed
from streamlease.membership import Joined
from streamlease.model import (
    Connection,
    DesiredState,
    FleetSummary,
    Lease,
    LeaseMode,
    Member,
    MemberState,
    Offer,
    OfferReason,
    Position,
    Status,
)
from streamlease.plan import Candidate
from streamlease.timing import Timing
from streamlease_worker.keeper_events import Accepted, Settled
from streamlease_worker.supervisor import Supervisor
from streamlease_worker.supervisor_events import (
    Claim,
    ClaimAnswered,
    Command,
    Event,
    FleetRead,
    OffersReceived,
    Receive,
    Received,
    RunnerEnded,
    Start,
    SweepNow,
    Swept,
    Tick,
)
from tests.fakes.clock import SetClock

TIMING = Timing(heartbeat_ms=1_000, lease_ms=3_000)
WORKER = "worker-1"
EPOCH = 1_800_000_000_000


def connection(name: str, *, version: int = 1, url: str = "wss://upstream.example/", **more: object) -> Connection:
    values: dict[str, object] = {
        "connection_id": name,
        "desired_state": DesiredState.STARTED,
        "upstream_url": url,
        "spec": {},
        "spec_version": version,
        "lease_epoch": EPOCH,
        "lease_owner": WORKER,
        **more,
    }
    return Connection(**values)  # type: ignore[arg-type]


def member(name: str, *, owned: int = 0, capacity: int = 100, generation: int = 0, left_ms: int = 2_500) -> Member:
    return Member(
        worker_id=name,
        state=MemberState.LIVE,
        heartbeat=1,
        lease_expires_at_ms=SetClock().wall_ms + left_ms,
        generation=generation,
        capacity=capacity,
        owned=owned,
        started_at_ms=0,
        lease_ms=TIMING.lease_ms,
    )


class Bench:
    """`said` is everything the supervisor has ever asked for, in order."""

    def __init__(
        self,
        *,
        capacity: int = 100,
        generation: int = 0,
        stop_timeout_s: float = 20.0,
        mode: LeaseMode = LeaseMode.CONNECTION,
    ) -> None:
        self.clock = SetClock()
        self.said: list[Command] = []
        self.swept = 0
        """How many sweeps have been answered."""
        self.fleet: FleetSummary | None = None
        """What `survey` said last."""
        self.supervisor = Supervisor(
            WORKER,
            capacity=capacity,
            generation=generation,
            timing=TIMING,
            joined=Joined(self.clock.mono_s + 1_000_000),
            now=self.clock(),
            stop_timeout_s=stop_timeout_s,
            mode=mode,
        )
        self.do(FleetRead(None))

    def do(self, event: Event) -> list[Command]:
        commands = self.supervisor.handle(event, self.clock())
        self.said += commands
        return commands

    def wait(self, seconds: float) -> list[Command]:
        """Time passes, a tick at a time; what is asked for meanwhile is answered by nobody."""
        said: list[Command] = []
        for _ in range(round(seconds * 4)):
            self.clock.advance(250)
            said += self.do(Tick())
        return said

    def all[C: Command](self, kind: type[C]) -> list[C]:
        return [command for command in self.said if isinstance(command, kind)]

    # --- what others do -----------------------------------------------------------------------------------------------

    def offer(self, *names: str, reason: OfferReason = "control", age_ms: int = 0) -> list[Command]:
        """Ask for offers if it has not, and give it these."""
        if not self.all(Receive):
            self.wait(0.25)
        offered = tuple(
            Received(Offer(name, reason, self.clock.wall_ms - age_ms), f"receipt of {name}") for name in names
        )
        return self.do(OffersReceived(offered))

    def sweep(
        self,
        *candidates: Candidate,
        members: tuple[Member, ...] = (),
        live: int = 1,
        owned: int = 0,
        unowned: int | None = None,
    ) -> list[Command]:
        """Let it ask for a sweep, and answer it."""
        while len(self.all(SweepNow)) == self.swept:
            self.wait(0.25)
        self.swept = len(self.all(SweepNow))
        count = len(candidates) if unowned is None else unowned
        fleet = FleetSummary(self.clock.wall_ms, live, owned, count, 1)
        return self.do(Swept(Sweep(candidates, fleet, members, ())))

    def survey(self, *members: Member, candidates: tuple[Candidate, ...] = (), unowned: int = 0) -> list[Command]:
        """Let it ask for a sweep, and answer it with these members, seen just now, and what follows from them."""
        while len(self.all(SweepNow)) == self.swept:
            self.wait(0.25)
        self.swept = len(self.all(SweepNow))
        past_ms = self.clock.wall_ms - SetClock().wall_ms
        seen = tuple(replace(m, lease_expires_at_ms=m.lease_expires_at_ms + past_ms) for m in members)
        waiting = max(unowned, len(candidates))
        if self.fleet is None:  # as if it had been so for long
            first = plan.summary(seen, unowned=waiting, shards=1, now_ms=self.clock.wall_ms - 1)
            self.fleet = replace(first, shares=first.shares and replace(first.shares, grew_at_ms=0))
        self.fleet = plan.summary(seen, unowned=waiting, shards=1, now_ms=self.clock.wall_ms, before=self.fleet)
        return self.do(Swept(Sweep(candidates, self.fleet, seen, ())))

    def claimed(
        self, name: str, *, version: int = 1, position: Position | None = None, status: Status | None = None
    ) -> list[Command]:
        """The claim of `name` lands."""
        found = connection(name, version=version, position=position, status=status)
        lease = Lease(name, WORKER, EPOCH, version, None)
        return self.do(ClaimAnswered(name, Claimed(found, lease, self.clock.mono_s + 2.5)))

    def run(self, name: str, **more: object) -> Start:
        """Offer, claim, accept: its runner is started."""
        self.offer(name)
        assert self.all(Claim)[-1].connection_id == name
        self.claimed(name, **more)  # type: ignore[arg-type]
        (start,) = self.do(Accepted(name, EPOCH))
        assert isinstance(start, Start)
        return start

    def end(
        self, start: Start, outcome: str = "stopped", reason: str = "", position: Position | None = None
    ) -> list[Command]:
        """The runner is done."""
        name = start.connection.connection_id
        return self.do(RunnerEnded(name, EPOCH, start.run, outcome, reason, position))  # type: ignore[arg-type]

    def settle(self, name: str) -> list[Command]:
        return self.do(Settled(name, EPOCH, landed=True))
