"""A worker's keeper through some minutes of its life, in virtual time: every second each of its positions advances, and
whatever it sends is counted and lands at once. Used by `bench.lease_cost`."""

import math
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from streamlease import lease, pages
from streamlease.lease import Claimed
from streamlease.membership import Joined
from streamlease.model import DesiredState, LeaseMode, Position, Status, StatusState
from streamlease.timing import Instant, Timing
from streamlease.write import Answer, Applied, Item, Put, Update, Value, apply
from streamlease_worker.keeper import Keeper
from streamlease_worker.keeper_events import (
    Acquired,
    Answered,
    Command,
    Event,
    Heartbeat,
    HeartbeatAnswered,
    LoopTicked,
    PagesAnswered,
    PositionAdvanced,
    Release,
    Renew,
    Save,
    SavePages,
    StatusChanged,
    Tick,
)

BEGAN_MS = 1_800_000_000_000
WARM_UP_S = 40.0
"""Until each connection has proven itself and has found its page: not counted."""
SPEC: dict[str, Value] = {"record": {"sequence": "time_us"}, "resume": {"query": {"cursor": "{sequence}"}}}

type Positions = Callable[[int, int], Position]
"""The position of a connection at a second."""


def numbers(connection: int, second: int) -> Position:
    """One number each, such as a time in microseconds."""
    return Position(
        sequence=1_764_400_000_000_000 + connection * 7_919_017 + second * 1_000_003, instance="stream.example"
    )


def discord(connection: int, second: int) -> Position:
    """What resuming at Discord takes: a sequence, the session's own URL, and its id."""
    token = f"{uuid.UUID(int=Random(connection).getrandbits(128)).hex}"
    host = f"gateway-us-east1-{'bcd'[connection % 3]}.discord.gg"
    return Position(sequence=connection + second, instance=host, resume_url=f"wss://{host}", token=token)


@dataclass(slots=True)
class Sent:
    """What was sent while it was counted. `page_units`: write units of the pages, by their size."""

    seconds: float
    statements: Counter[str] = field(default_factory=Counter)
    page_units: int = 0
    page_bytes: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    samples: list[Update] = field(default_factory=list)
    """Some of the page writes themselves, to be measured."""


class Shift:
    """One keeper. `begin_s` sets workers apart from each other."""

    def __init__(
        self, worker_id: str, connections: range, *, mode: LeaseMode, timing: Timing, positions: Positions | None
    ) -> None:
        """`positions` None: nothing advances, so that no checkpoint is written."""
        self._worker_id = worker_id
        self.timing = timing
        self._positions = positions
        self._mono_s = 1_000.0
        joined = Joined(timing.deadline_s(self.now()))
        self._keeper = Keeper(worker_id, timing=timing, mode=mode, joined=joined)
        self._sent: Sent | None = None
        self.items: list[Item] = []
        """The connections as they were claimed: what a store holds when the shift begins."""
        self._held = [self._claimed(number, mode) for number in connections]
        self._numbers = list(connections)

    def work(self, seconds: float) -> Sent:
        self.begin()
        return self.go_on(seconds)

    def begin(self) -> None:
        """Nothing of it is counted."""
        for claimed in self._held:
            self._do(Acquired(claimed))
            lease_ = claimed.lease
            status = Status(StatusState.STREAMING, self.now().wall_ms)
            self._do(StatusChanged(lease_.connection_id, lease_.epoch, status))
        self._live(WARM_UP_S)

    def go_on(self, seconds: float) -> Sent:
        self._sent = Sent(seconds)
        self._live(seconds)
        return self._sent

    def _live(self, seconds: float) -> None:
        until_s = self._mono_s + seconds
        advance_at_s = self._mono_s
        while self._mono_s < until_s:
            self._mono_s += self._keeper.tick_s
            if self._mono_s >= advance_at_s and self._positions is not None:
                advance_at_s += 1
                for number, claimed in zip(self._numbers, self._held, strict=True):
                    position = self._positions(number, int(self._mono_s))
                    self._do(PositionAdvanced(claimed.lease.connection_id, claimed.lease.epoch, 1, position))
            self._do(LoopTicked())
            self._do(Tick())

    def _do(self, event: Event) -> None:
        for command in self._keeper.handle(event, self.now()):
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        landed: Answer = Applied()
        match command:
            case Renew(attempts=attempts):
                riding = sum(attempt.checkpoint is not None for attempt in attempts)
                self._count("renewal with a checkpoint", riding)
                self._count("renewal", len(attempts) - riding)
                self._do(self._renew(command))
            case Save(batch, attempts) | Release(batch, attempts):
                self._count("checkpoint of the item", len(attempts))
                self._do(Answered(batch, self.now(), (landed,) * len(attempts)))
            case SavePages():
                self._count_pages(command)
                self._do(PagesAnswered(command.batch, (landed,) * len(command.pages)))
            case Heartbeat():
                self._count("heartbeat", 1)
                self._do(HeartbeatAnswered(self.now(), landed))
            case _:
                pass

    def _renew(self, command: Renew) -> Answered:
        return Answered(command.batch, self.now(), (Applied(),) * len(command.attempts))

    def _count(self, kind: str, times: int) -> None:
        if self._sent is not None:
            self._sent.statements[kind] += times

    def _count_pages(self, command: SavePages) -> None:
        if self._sent is None:
            return
        for page in command.pages:
            self._count("page", 1)
            self._count("page made", int(page.fresh))
            update = pages.write(self._worker_id, page.number, version=page.version, entries=page.entries)
            size = pages.size(self._worker_id, page.number, len(pages.pack(page.entries)))
            self._sent.page_units += math.ceil(size / pages.PAGE_BYTES)
            self._sent.page_bytes.append(size)
            self._sent.entries.append(len(page.entries))
            if len(self._sent.samples) < 20:
                self._sent.samples.append(update)

    def _claimed(self, number: int, mode: LeaseMode) -> Claimed:
        sent = self.now()
        connection_id = connection_named(number)
        item = apply(new_connection(connection_id), None)
        claim = lease.claim(
            connection_id, worker_id=self._worker_id, nonce="n", sent=sent, timing=self.timing, mode=mode
        )
        answer = Applied(apply(claim, item))
        outcome = lease.claimed(answer, worker_id=self._worker_id, nonce="n", sent=sent, timing=self.timing)
        if not isinstance(outcome, Claimed):
            raise TypeError(f"the claim of {connection_id} came to {outcome}")
        self.items += [answer.item] if answer.item else []
        return outcome

    def now(self) -> Instant:
        return Instant(self._mono_s, BEGAN_MS + round(self._mono_s * 1_000))


def connection_named(number: int) -> str:
    """36 characters that do not repeat."""
    return str(uuid.UUID(int=Random(number).getrandbits(128)))


def new_connection(connection_id: str) -> Put:
    draws = Random(connection_id)
    return lease.create(
        connection_id,
        upstream_url="wss://stream.example/subscribe?wantedCollections=app.bsky.feed.post",
        spec=SPEC,
        labels={"team": "feeds"},
        desired_state=DesiredState.STARTED,
        shard="STARTED#7",
        now_ms=BEGAN_MS - draws.randrange(10**9),
        updated_by="bench",
    )
