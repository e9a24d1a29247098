"""A worker's dials: the real gate decides which may go out, by real slices of a budget that the whole fleet shares."""

from collections.abc import Callable
from dataclasses import dataclass

from streamlease.budget import Budget, Later, Limit, Taken, credential_budget
from streamlease.errors import Denied, Fault, Malformed
from streamlease.flows.budget import take
from streamlease.timing import Instant
from streamlease_worker.dial_gate import Allow, Command, DialGate, Take, Tell
from tests.simulation.drive import drive
from tests.simulation.network import Network
from tests.simulation.process import Thread

type Begin = Callable[[], None]
"""The dial goes out, at this very instant."""
type Hear = Callable[[str | None], None]
"""The dial has to wait; for what, once that is worth telling."""


def shared_budget(limit: Limit) -> Budget:
    """One credential that every connection of a scenario uses."""
    return credential_budget(("ssm:/simulated/token",), limit)


@dataclass(slots=True)
class _Wish:
    host: str
    since: Instant
    begin: Begin
    hear: Hear


class Dialling:
    """One gate with its timers and requests, on the event loop's thread. Over with its worker id."""

    def __init__(
        self,
        worker_id: str,
        thread: Thread,
        network: Network,
        *,
        limit: Limit | None,
        timeout_us: int,
        on_dial: Callable[[], None],
    ) -> None:
        self._gate = DialGate(worker_id)
        self._thread = thread
        self._network = network
        self._budgets = () if limit is None else (shared_budget(limit),)
        self._timeout_us = timeout_us
        self._on_dial = on_dial
        self._wishes: dict[int, _Wish] = {}
        self._numbers = 0
        self._due_s: float | None = None
        self.over = False

    def fleet(self, live: int) -> None:
        """So many workers live, as far as is known."""
        self._gate.fleet(live)

    def want(self, host: str, begin: Begin, hear: Hear) -> int:
        """`begin` is called once the dial may go out, unless `gone` is first. Returns the wish's number."""
        now = self._now()
        return self._want(_Wish(host, now, begin, hear), now)

    def gone(self, number: int) -> None:
        """The dial has opened or failed, or is wanted no more."""
        self._wishes.pop(number, None)
        self._carry_out(self._gate.gone(number, self._now()))

    def _want(self, wish: _Wish, now: Instant) -> int:
        self._numbers += 1
        number = self._numbers
        self._wishes[number] = wish
        self._carry_out(self._gate.want(number, wish.host, self._budgets, wish.since, now))
        return number

    def _now(self) -> Instant:
        return self._thread.process.reading(self._thread.now_us)

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Allow(ticket=ticket, until_s=until_s):
                    self._thread.effect(lambda t=ticket, u=until_s: self._begin(t, u))  # type: ignore[misc]
                case Take():
                    self._take(command)
                case Tell(ticket=ticket, reason=reason):
                    if (wish := self._wishes.get(ticket)) is not None:
                        wish.hear(reason)
        self._set_timer()

    def _begin(self, ticket: int, until_s: float) -> None:
        """The last look before a dial: its slice may have ended while this thread stood still."""
        wish = self._wishes.get(ticket)
        if self.over or wish is None:
            return
        if self._now().mono_s >= until_s:
            del self._wishes[ticket]
            self._carry_out(self._gate.gone(ticket, self._now()))
            self._want(wish, self._now())
            return
        del self._wishes[ticket]
        self._on_dial()
        wish.begin()

    def _take(self, command: Take) -> None:
        def done(outcome: object) -> None:
            if self.over:
                return
            if isinstance(outcome, Malformed):
                outcome = Denied(str(outcome))
            assert isinstance(outcome, Taken | Later | Fault)
            self._carry_out(self._gate.answered(command.budget, outcome, self._now()))

        flow = take(command.budget, command.ask, command.seen)
        drive(flow, self._thread, self._network, timeout_us=self._timeout_us, done=done, steady=True)

    def _set_timer(self) -> None:
        due_s = self._gate.due_s
        if due_s is None or due_s == self._due_s:
            return
        self._due_s = due_s
        self._thread.at(self._thread.process.clock.true_us(due_s), lambda: self._woke(due_s))

    def _woke(self, due_s: float) -> None:
        if self._due_s == due_s and not self.over:
            self._due_s = None
            self._carry_out(self._gate.tick(self._now()))
