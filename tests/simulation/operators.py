"""People: they create, start, stop, edit and delete connections meanwhile, with the procedures of the real CLI."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from streamlease.errors import Fault
from streamlease.flow import Flow
from streamlease.flows import control
from streamlease.flows.control import Operator
from streamlease.lease import Absentee, Busy, Change, Changed, Done
from streamlease.model import DesiredState, Seek
from streamlease.timing import Timing
from tests.simulation.clock import Clock
from tests.simulation.drive import drive
from tests.simulation.kernel import MS, Kernel, S
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.scenario import Act
from tests.simulation.upstream import Upstream

TIMEOUT_US = 5 * S
AGAIN_US = 3 * S
FLURRY: tuple[Literal["create", "start", "edit"], ...] = ("create", "start", *("edit",) * 14)
FLURRY_APART_US = 150 * MS
FLURRY_REST_US = 3 * S
"""Stopped for so long before, so that the flurry meets a claim."""


@dataclass(slots=True)
class People:
    kernel: Kernel
    network: Network
    operator: Operator
    upstreams: dict[str, Upstream]
    edits: int = 0
    acts: dict[str, int] = field(default_factory=dict)
    """When somebody last asked something of a connection, by connection; true microseconds."""
    _process: Process = field(init=False)
    _draws: Random = field(init=False)

    def __post_init__(self) -> None:
        self._draws = self.kernel.draws("people")
        self._process = Process("operator", self.kernel, Clock(booted_s=5_000.0), "operator")

    def create_all(self, ids: tuple[str, ...]) -> None:
        """Before any worker is there: the shards are recorded, then one create after the other."""
        self._run(control.prepare(self.operator), lambda _: None)
        for number, connection_id in enumerate(ids):
            self.kernel.at(number * 20 * MS, lambda c=connection_id: self.act(Act(0, c, "create")))  # type: ignore[misc]

    def act(self, act: Act) -> None:
        """Ask; where there was no answer, ask again a little later, as the command line's users do."""
        self.acts[act.connection_id] = self.kernel.now_us
        if act.what not in ("create", "delete"):
            self.network.ledger.count(f"changes of {act.connection_id}")
        if act.what == "replace":
            self._replace(act.connection_id, "stop")
            return
        if act.what == "flurry":
            self.act(Act(act.at_us, act.connection_id, "stop"))
            for number, what in enumerate(FLURRY):
                each = Act(act.at_us, act.connection_id, what)
                at_us = self.kernel.now_us + FLURRY_REST_US + number * FLURRY_APART_US
                self.kernel.at(at_us, lambda e=each: self.act(e))  # type: ignore[misc]
            return
        self._run(self._flow(act), lambda outcome: self._after(act, outcome))

    def _replace(self, connection_id: str, step: Literal["stop", "delete", "create"]) -> None:
        """Stop, delete as soon as nobody holds it, create at once. Gives up where it has been started meanwhile."""

        def after(outcome: object) -> None:
            self.acts[connection_id] = self.kernel.now_us
            self.network.ledger.say("operator", f"{step}: {outcome}", connection_id)
            match outcome:
                case Busy(reason="owned") | Fault():
                    self.kernel.after(S, lambda: self._replace(connection_id, step))
                case Done() | Absentee() if step != "create":
                    self._replace(connection_id, "delete" if step == "stop" else "create")
                case _:
                    pass

        self._run(self._flow(Act(self.kernel.now_us, connection_id, step)), after)

    def _flow(self, act: Act) -> Flow[Any]:
        connection_id, operator = act.connection_id, self.operator
        match act.what:
            case "create":
                return control.create(
                    connection_id,
                    upstream_url=self._url(connection_id),
                    spec={"edit": 0},
                    labels={},
                    desired_state=DesiredState.STARTED,
                    operator=operator,
                )
            case "start":
                return control.change(connection_id, Change(desired_state=DesiredState.STARTED), operator=operator)
            case "stop":
                return control.change(connection_id, Change(desired_state=DesiredState.STOPPED), operator=operator)
            case "edit":
                self.edits += 1
                return control.change(connection_id, Change(spec={"edit": self.edits}), operator=operator)
            case "forget":
                self.edits += 1
                wanted = Change(spec={"edit": self.edits}, forget_position=True)
                return control.change(connection_id, wanted, operator=operator)
            case "seek":
                return control.change(connection_id, Change(seek=self._somewhere(connection_id)), operator=operator)
            case "move":
                return control.change(connection_id, Change(upstream_url=self._url(connection_id)), operator=operator)
            case "delete" | "replace" | "flurry":
                return control.delete(connection_id, operator=operator)

    def _somewhere(self, connection_id: str) -> Seek:
        """Live, from the beginning, or from the middle of what the upstream has said so far."""
        upstream = self.upstreams[connection_id]
        said = [each.sequence for each in upstream.emitted if each.instance == upstream.instance]
        match self._draws.choice(("live", "beginning", "position")):
            case "position" if said:
                return Seek("position", said[len(said) // 2])
            case "beginning":
                return Seek("beginning")
            case _:
                return Seek("live")

    def _url(self, connection_id: str) -> str:
        return f"wss://{self.upstreams[connection_id].host}/"

    def _run(self, flow: Flow[Any], done: Callable[[Any], None]) -> None:
        drive(flow, self._process.thread(), self.network, timeout_us=TIMEOUT_US, done=done)

    def _after(self, act: Act, outcome: object) -> None:
        self.acts[act.connection_id] = self.kernel.now_us
        self.network.ledger.say("operator", f"{act.what}: {outcome}", act.connection_id)
        if isinstance(outcome, Fault | Changed):
            self.kernel.after(AGAIN_US, lambda: self.act(act))


def operator(shards: int, timing: Timing) -> Operator:
    return Operator(updated_by="people", shards=shards, timing=timing)
