"""The dial gate's shell: a turn for each dial, slices of budgets taken on threads, and a timer. For one event loop."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import Executor

from streamlease.budget import Budget, Later, Limit, Taken, credential_budget, host_budget
from streamlease.errors import Denied, Fault, Malformed, Unreachable
from streamlease.feed.feed import DialLimit
from streamlease.flow import Request, run
from streamlease.flows.budget import take
from streamlease.timing import Instant
from streamlease_worker.dial_gate import Allow, Command, DialGate, Take, Tell
from streamlease_worker.log import Log, Problems

type Hear = Callable[[str], None]
"""What a dial waits for, in words, once that is worth telling."""


class Turn:
    """One dial's: wanted, then allowed, then over, whatever became of it."""

    __slots__ = ("_ended", "_now_s", "allowed", "hear", "until_s")

    def __init__(self, ended: Callable[[], None], now_s: Callable[[], float], hear: Hear) -> None:
        self.allowed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.until_s = float("inf")
        self.hear = hear
        self._ended: Callable[[], None] | None = ended
        self._now_s = now_s

    @property
    def lapsed(self) -> bool:
        """Whether its time has passed: what it may spend counts no longer. To be asked in the last line before."""
        return self._now_s() >= self.until_s

    def over(self) -> None:
        """The dial has opened, has failed, or will not be."""
        if self._ended is not None:
            self._ended()
            self._ended = None


type NextTurn = Callable[[], Awaitable[Turn]]
"""Waits for a turn; each that is got is to be over, sooner or later."""


class Turns:
    """`perform` is called on a thread of `threads`."""

    def __init__(
        self,
        worker_id: str,
        *,
        egress_group: str,
        perform: Callable[[Request], object],
        threads: Executor,
        now: Callable[[], Instant],
        log: Log,
        problems: Problems,
    ) -> None:
        self._gate = DialGate(worker_id)
        self._egress_group = egress_group
        self._perform = perform
        self._threads = threads
        self._now = now
        self._log = log
        self._problems = problems
        self._turns: dict[int, Turn] = {}
        self._numbers = 0
        self._taking: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return self._gate.waiting

    def fleet(self, live: int) -> None:
        """So many workers live, as far as is known."""
        self._gate.fleet(live)

    def want(self, host: str, limits: Collection[DialLimit], references: Collection[str], hear: Hear) -> Turn:
        """A turn to dial `host`, which may be allowed already. `references`: of the secrets that are used with it."""
        self._numbers += 1
        number, since = self._numbers, self._now()
        turn = self._turns[number] = Turn(lambda: self._over(number), lambda: self._now().mono_s, hear)
        wanted = [self._budget(limit, host, references) for limit in limits]
        self._carry_out(self._gate.want(number, host, wanted, since, since))
        return turn

    def _budget(self, limit: DialLimit, host: str, references: Collection[str]) -> Budget:
        counted = Limit(limit.dials, round(limit.per_s * 1000))
        if limit.by == "credential":
            return credential_budget(references, counted)
        return host_budget(host, self._egress_group, counted)

    def _over(self, number: int) -> None:
        self._turns.pop(number, None)
        self._carry_out(self._gate.gone(number, self._now()))

    def _tick(self) -> None:
        self._timer = None
        self._carry_out(self._gate.tick(self._now()))

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Allow(number, until_s):
                    turn = self._turns.get(number)
                    if turn is not None and not turn.allowed.done():
                        turn.until_s = until_s
                        turn.allowed.set_result(None)
                case Tell(number, reason):
                    if number in self._turns:
                        self._turns[number].hear(reason)
                case Take():
                    task = asyncio.create_task(self._take(command))
                    self._taking.add(task)
                    task.add_done_callback(self._taking.discard)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._gate.due_s is not None:
            wait_s = max(0.0, self._gate.due_s - self._now().mono_s)
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    async def _take(self, command: Take) -> None:
        outcome = await asyncio.get_running_loop().run_in_executor(self._threads, self._slice, command)
        if isinstance(outcome, Taken):
            limit = command.budget.limit
            self._log.info(
                "dial_slice", budget=command.budget.name, dials=outcome.dials, limit=limit.dials, per_ms=limit.per_ms
            )
        self._carry_out(self._gate.answered(command.budget, outcome, self._now()))

    def _slice(self, command: Take) -> Taken | Later | Fault:
        """On a thread. One outcome, whatever goes wrong."""
        try:
            return run(take(command.budget, command.ask, command.seen), self._perform)
        except Fault as fault:
            self._problems.say("store_fault", str(fault))
            return fault
        except Malformed as problem:
            self._problems.say("item_malformed", f"{problem}: delete it, and the budget is counted anew")
            return Denied(str(problem))
        except Exception as error:  # noqa: BLE001  # a take without an answer would never be asked for again
            self._log.crashed("job_crashed", error)
            return Unreachable(f"a fault in this worker's own code ({type(error).__name__})")
