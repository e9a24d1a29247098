"""The keeper's shell: a thread that steps it, a pool that sends for it, and the fences that it writes.

Nothing here is shared with the data path: own clients, own threads. The thread itself never waits for an answer, so it
is also the watchdog: when the event loop stands still and a lease runs out, it ends the process.
"""

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from streamlease import flow, plan
from streamlease.errors import Fault, Unreachable
from streamlease.flow import Request, run
from streamlease.model import Position
from streamlease.timing import Instant, Timing
from streamlease.write import Answer
from streamlease_worker.clock import Verdict
from streamlease_worker.faults import Unsteady
from streamlease_worker.fence import Fence as Cell
from streamlease_worker.keeper import Keeper
from streamlease_worker.keeper_events import (
    Answered,
    Command,
    EndProcess,
    Event,
    Extended,
    Fence,
    Heartbeat,
    HeartbeatAnswered,
    Notice,
    OffersAnswered,
    PagesAnswered,
    PositionAdvanced,
    Release,
    ReleaseRequested,
    ReleasesRequested,
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
from streamlease_worker.log import Log, last_words

ENDED_BY_WATCHDOG = 70
THREADS = 10
GATHER_S = 0.02
"""So long a release waits for others: of sockets that were closed together, the first would each fill a call, and all
the rest wait for their answers."""


def end_process(reason: str) -> None:
    """Without any clean-up: whatever would do it stands still."""
    last_words("ended_by_watchdog", reason=reason)
    os._exit(ENDED_BY_WATCHDOG)


class KeeperThread:
    """`post`, `advance` and `watch` may be called from any thread. `notify` is called on the keeper's."""

    def __init__(
        self,
        keeper: Keeper,
        *,
        perform: Callable[[Request], object],
        timing: Timing,
        now: Callable[[], Instant],
        notify: Callable[[Notice], None],
        log: Log,
        judge: Callable[[Instant], Verdict] | None = None,
        end: Callable[[str], None] = end_process,
    ) -> None:
        """`judge` says whether the wall clock is good enough to write expiries by; None: nobody watches it."""
        self.ticked_s = now().mono_s
        """When the thread last went round, on the leases' clock."""
        self._keeper = keeper
        self._perform = perform
        self._timing = timing
        self._now = now
        self._notify = notify
        self._log = log
        self._judge = judge
        self._end = end
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._positions: dict[tuple[str, int], PositionAdvanced] = {}
        self._positions_lock = threading.Lock()
        self._cells: dict[tuple[str, int], Cell] = {}
        self._requests: list[ReleaseRequested] = []
        self._gather_until_s = float("inf")
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="keeper-send")
        self._heartbeats = ThreadPoolExecutor(1, thread_name_prefix="keeper-heartbeat")
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, after what was posted before. Requests in flight are waited for."""
        self._events.put(None)
        self._thread.join()
        self._pool.shutdown()
        self._heartbeats.shutdown()

    def post(self, event: Event) -> None:
        self._events.put(event)

    def watch(self, cell: Cell) -> None:
        """Write this fence from now on. To be called before its `Acquired` is posted."""
        self._cells[cell.connection_id, cell.epoch] = cell

    def advance(
        self, connection_id: str, epoch: int, spec_version: int, position: Position, every_s: float | None = None
    ) -> None:
        """Only the newest position of each connection is told to the keeper, at its next round."""
        event = PositionAdvanced(connection_id, epoch, spec_version, position, every_s)
        with self._positions_lock:
            self._positions[connection_id, epoch] = event

    # --- the keeper's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._rounds()
        except BaseException as error:  # noqa: BLE001  # a keeper that does not run keeps nothing: better no process
            self._log.crashed("keeper_crashed", error)
            self._end(f"the keeper crashed ({type(error).__name__}: {error})")

    def _rounds(self) -> None:
        next_tick_s = self._now().mono_s
        while True:
            now = self._now()
            self.ticked_s = now.mono_s
            if now.mono_s >= next_tick_s:
                next_tick_s = now.mono_s + self._keeper.tick_s
                self._tell_positions()
                self._step(Tick())
            if now.mono_s >= self._gather_until_s:
                self._release()
            until_s = min(next_tick_s, self._gather_until_s)
            try:
                event = self._events.get(timeout=max(0.0, until_s - self._now().mono_s))
            except queue.Empty:
                continue
            if event is None:
                self._release()
                for command in self._keeper.last_offers():
                    self._carry_out(command)
                return
            if isinstance(event, ReleaseRequested):
                if not self._requests:
                    self._gather_until_s = self._now().mono_s + GATHER_S
                self._requests.append(event)
            else:
                self._step(event)

    def _release(self) -> None:
        requests, self._requests = tuple(self._requests), []
        self._gather_until_s = float("inf")
        if requests:
            self._tell_positions()
            for request in requests:
                self._close(request.connection_id, request.epoch, "its lease was given up")
            self._step(ReleasesRequested(requests))

    def _tell_positions(self) -> None:
        with self._positions_lock:
            positions, self._positions = self._positions, {}
        for event in positions.values():
            self._step(event)

    def _step(self, event: Event) -> None:
        for command in self._keeper.handle(event, self._now()):
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Extended(connection_id, epoch, deadline_s):
                if cell := self._cells.get((connection_id, epoch)):
                    cell.extend(deadline_s)
            case Renew() | Save() | Release():
                self._pool.submit(self._send, command)
            case SavePages():
                self._pool.submit(self._save_pages, command)
            case Heartbeat():
                self._heartbeats.submit(self._beat, command)
            case SendOffers(connection_ids):
                self._pool.submit(self._offer, connection_ids)
            case EndProcess(reason):
                self._end(reason)
            case Fence(connection_id, epoch, reason):
                self._close(connection_id, epoch, reason)
                self._notify(command)
            case Settled(connection_id, epoch):
                self._cells.pop((connection_id, epoch), None)
                self._notify(command)
            case _:
                self._notify(command)

    def _close(self, connection_id: str, epoch: int, reason: str) -> None:
        if cell := self._cells.get((connection_id, epoch)):
            cell.close(reason)

    # --- on a thread of the pool ------------------------------------------------------------------------------------

    def _send(self, command: Renew | Save | Release) -> None:
        sent = self._now()
        answers: tuple[Answer | Fault, ...]
        try:
            if isinstance(command, Renew):
                self._check_clock(sent)
            answers = run(flow.batch(writes(command, sent=sent, timing=self._timing)), self._perform)
        except Exception as error:  # noqa: BLE001  # whatever it is, the write may have landed
            answers = (self._fault(error),) * len(command.attempts)
        self.post(Answered(command.batch, sent, answers))

    def _save_pages(self, command: SavePages) -> None:
        answers: tuple[Answer | Fault, ...]
        try:
            answers = run(page_flow(command), self._perform)
        except Exception as error:  # noqa: BLE001  # as above
            answers = (self._fault(error),) * len(command.pages)
        self.post(PagesAnswered(command.batch, answers))

    def _beat(self, command: Heartbeat) -> None:
        sent = self._now()
        answer: Answer | Fault
        try:
            self._check_clock(sent)
            answer = run(flow.write(heartbeat_write(command, sent=sent, timing=self._timing)), self._perform)
        except Exception as error:  # noqa: BLE001  # as above
            answer = self._fault(error)
        self.post(HeartbeatAnswered(sent, answer))

    def _offer(self, connection_ids: tuple[str, ...]) -> None:
        now_ms = self._now().wall_ms
        offers = tuple(plan.offer(connection_id, "released", now_ms) for connection_id in connection_ids)
        try:
            run(flow.send(offers), self._perform)
        except Exception as error:  # noqa: BLE001  # offers are hints
            self._fault(error)
        self.post(OffersAnswered())

    def _check_clock(self, sent: Instant) -> None:
        """Raises Unsteady: an expiry written now could end before its owner does."""
        verdict = self._judge(sent) if self._judge is not None else None
        if verdict is not None and not verdict.may_renew:
            raise Unsteady(verdict.reason)

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, Fault):
            return error
        self._log.crashed("keeper_send_crashed", error)
        return Unreachable(f"a fault in this worker's own code ({type(error).__name__})")
