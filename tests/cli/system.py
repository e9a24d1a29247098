"""The command line in front of a store in memory: no AWS, no terminal, and a clock that only sleeping moves."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from click.testing import CliRunner, Result

from streamlease import flow, lease, membership, plan
from streamlease.flow import Request
from streamlease.flows import control
from streamlease.flows.claim import Claimer
from streamlease.flows.claim import claim as claiming
from streamlease.flows.control import Operator
from streamlease.lease import Checkpoint, Claimed
from streamlease.model import DesiredState, LeaseMode, Member, MemberState
from streamlease.settings import Settings
from streamlease.timing import Timing
from streamlease.write import Applied, Item, Put, Table, Value
from streamlease_cli.commandline import cli
from streamlease_cli.configuration import Target
from streamlease_cli.invocation import Invocation
from streamlease_cli.session import Session
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore
from tests.fakes.trouble import Troubled

ARN = "arn:aws:iam::123456789012:user/ada"
TIMING = Timing(heartbeat_ms=3_000, lease_ms=9_000)
SETTINGS = Settings(
    tables={table: f"test-{table}" for table in Table},
    offers_queue_url="https://sqs.test/offers",
    records_stream=None,
    mode=LeaseMode.CONNECTION,
    timing=TIMING,
    shards=4,
)


class System:
    """One system, and the command line that works with it. `while_sleeping` is what the world does meanwhile."""

    def __init__(self) -> None:
        self.settings = SETTINGS
        self.clock = SetClock()
        self.store = MemoryStore(self.clock)
        self.troubled = Troubled(self.store.perform)
        self.terminal = False
        self.callers = 0
        self.targets: list[Target] = []
        self.while_sleeping: Callable[[], None] = lambda: None

    # --- the command ---

    def run(self, *arguments: str, typed: str | None = None) -> Result:
        invocation = Invocation(
            open_session=self._open,
            sleep=self._sleep,
            monotonic_s=lambda: self.clock.mono_s,
            stdin_is_terminal=lambda: self.terminal,
        )
        return CliRunner().invoke(cli, arguments, input=typed, obj=invocation, catch_exceptions=False)

    def json(self, *arguments: str, typed: str | None = None) -> list[dict[str, Any]]:
        """The JSON lines that the command prints."""
        result = self.run(*arguments, "--json", typed=typed)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def _open(self, target: Target) -> Session:
        self.targets.append(target)
        return Session(self.settings, self._perform, self._caller, "the test system")

    def _perform(self, request: Request) -> object:
        return self.troubled.perform(request)

    def _caller(self) -> str:
        self.callers += 1
        return ARN

    def _sleep(self, seconds: float) -> None:
        self.clock.advance(round(seconds * 1_000))
        self.while_sleeping()

    # --- the world ---

    def add(
        self,
        *ids: str,
        state: DesiredState = DesiredState.STARTED,
        labels: Mapping[str, str] | None = None,
        url: str = "wss://feed.example/stream",
        spec: Mapping[str, Value] | None = None,
    ) -> None:
        operator = Operator("arn:aws:iam::123456789012:user/grace", SETTINGS.shards, TIMING)
        for connection_id in ids:
            flow.run(
                control.create(
                    connection_id,
                    upstream_url=url,
                    spec=spec or {},
                    labels=labels or {},
                    desired_state=state,
                    operator=operator,
                ),
                self.store.perform,
            )

    def claim(self, connection_id: str, worker_id: str = "worker-a", mode: LeaseMode = LeaseMode.CONNECTION) -> Claimed:
        claimer = Claimer(worker_id, TIMING, mode)
        claimed = flow.run(claiming(connection_id, nonce=f"nonce-{worker_id}", claimer=claimer), self.store.perform)
        assert isinstance(claimed, Claimed)
        return claimed

    def checkpoint(self, claimed: Claimed, checkpoint: Checkpoint) -> None:
        self.store.perform(lease.checkpoint(claimed.lease, checkpoint))

    def release(self, claimed: Claimed) -> None:
        self.store.perform(lease.release(claimed.lease, checkpoint=Checkpoint(9), now_ms=self.clock.wall_ms))

    def join(
        self,
        worker_id: str,
        *,
        capacity: int = 100,
        owned: int = 0,
        heartbeats: int = 0,
        generation: int = 7,
        load: Mapping[str, Value] | None = None,
    ) -> None:
        self.store.perform(
            membership.join(
                worker_id,
                generation=generation,
                capacity=capacity,
                zone="eu-west-1a",
                started_at_ms=self.clock.wall_ms,
                sent=self.clock(),
                timing=TIMING,
            )
        )
        for seen in range(heartbeats):
            self.clock.advance(1)
            beat = self.store.perform(
                membership.heartbeat(
                    worker_id,
                    seen=seen,
                    state=MemberState.LIVE,
                    owned=owned,
                    load={"streaming": owned, **(load or {})},
                    sent=self.clock(),
                    timing=TIMING,
                )
            )
            assert isinstance(beat, Applied)

    def summarise(self, members: tuple[Member, ...], unowned: int, *, long_so: bool = False) -> None:
        """`long_so`: as many connections as a minute ago, so that they may move."""
        now_ms = self.clock.wall_ms
        fleet = plan.summary(members, unowned=unowned, shards=SETTINGS.shards, now_ms=now_ms)
        if long_so and fleet.shares is not None:
            before = replace(fleet, shares=replace(fleet.shares, grew_at_ms=now_ms - 60_000))
            fleet = plan.summary(members, unowned=unowned, shards=SETTINGS.shards, now_ms=now_ms, before=before)
        self.store.perform(membership.summarise(fleet))

    def put(self, item: Item) -> None:
        """An item as a stranger may write it."""
        from streamlease.write import Always

        self.store.perform(Put(Table.CONNECTIONS, item, Always()))

    def connection(self, connection_id: str) -> Item:
        item = self.store.item(Table.CONNECTIONS, connection_id)
        assert item is not None, f"there is no connection {connection_id!r}"
        return item

    def has(self, connection_id: str) -> bool:
        return self.store.item(Table.CONNECTIONS, connection_id) is not None
