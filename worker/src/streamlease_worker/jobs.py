"""The supervisor's requests, carried out on threads: each ends in exactly one event, whatever goes wrong."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import batched
from typing import Protocol

from streamlease.errors import Denied, Fault, Malformed, Unreachable
from streamlease.flow import BATCH_OFFERS, Flow, Request, run
from streamlease.flows import inbox
from streamlease.flows.audit import listed, look_again, release_unknown
from streamlease.flows.bury import bury_expired
from streamlease.flows.claim import Claimer, Outcome, claim
from streamlease.flows.sweep import Sweep, recount, stored_fleet, sweep
from streamlease.lease import Claimed
from streamlease.settings import Settings
from streamlease_worker import supervisor_events as supervisor
from streamlease_worker.joining import leave
from streamlease_worker.log import Log, Problems
from streamlease_worker.protection import Protect, unprotected
from streamlease_worker.supervisor_events import (
    Buried,
    Bury,
    Claim,
    ClaimAnswered,
    DeleteOffer,
    DrainsItself,
    FleetRead,
    ForgetNotice,
    InboxRead,
    Leave,
    Left,
    Listed,
    ListOwned,
    LookAgain,
    LookedAgain,
    OffersReceived,
    ReadFleet,
    ReadInbox,
    Receive,
    Received,
    Recount,
    ReleaseUnknown,
    ReturnOffer,
    SettleNotice,
    SweepNow,
    Swept,
    TakeReason,
    UnknownSettled,
)


@dataclass(frozen=True, slots=True)
class _Delete:
    receipts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Return:
    receipts: tuple[str, ...]


type Job = (
    Receive
    | Claim
    | SweepNow
    | Recount
    | Bury
    | ReadFleet
    | ListOwned
    | ReleaseUnknown
    | LookAgain
    | ReadInbox
    | SettleNotice
    | ForgetNotice
    | DrainsItself
    | Leave
    | DeleteOffer
    | ReturnOffer
)
type Work = (
    Receive
    | Claim
    | SweepNow
    | Recount
    | Bury
    | ReadFleet
    | ListOwned
    | ReleaseUnknown
    | LookAgain
    | ReadInbox
    | SettleNotice
    | ForgetNotice
    | DrainsItself
    | Leave
    | _Delete
    | _Return
)


class Offers(Protocol):
    """The offers queue, as `offers_queue.OffersQueue` is. Blocking calls, for a thread."""

    def receive(self, most: int) -> tuple[Received, ...]: ...

    def delete(self, receipts: Sequence[str]) -> None: ...

    def give_back(self, receipts: Sequence[str]) -> None: ...


class Jobs:
    """For one event loop. `happened` is called on it."""

    def __init__(
        self,
        worker_id: str,
        settings: Settings,
        *,
        perform: Callable[[Request], object],
        offers: Offers,
        threads: Executor,
        happened: Callable[[supervisor.Event], None],
        log: Log,
        problems: Problems,
        protect: Protect = unprotected,
    ) -> None:
        self._worker_id = worker_id
        self._settings = settings
        self._claimer = Claimer(worker_id, settings.timing, settings.mode)
        self._perform = perform
        self._offers = offers
        self._threads = threads
        self._happened = happened
        self._log = log
        self._problems = problems
        self._protect = protect
        self._running: set[asyncio.Task[None]] = set()
        self._done_with: list[str] = []
        self._deleting = False
        self._not_for_us: list[str] = []

    def begin(self, job: Job) -> None:
        match job:
            case DeleteOffer(receipt):
                self._done_with.append(receipt)
                asyncio.get_running_loop().call_soon(self._delete_offers)
            case ReturnOffer(receipt):
                if not self._not_for_us:
                    asyncio.get_running_loop().call_soon(self._return_offers)
                self._not_for_us.append(receipt)
            case _:
                self._start(job)

    def _delete_offers(self) -> None:
        """One call at a time: nobody waits for it, and what has gathered by its end goes out together."""
        if self._done_with and not self._deleting:
            self._deleting = True
            group, self._done_with = self._done_with[:BATCH_OFFERS], self._done_with[BATCH_OFFERS:]
            self._start(_Delete(tuple(group)))

    def _return_offers(self) -> None:
        """Others wait for these: at once, those of one turn of the loop together."""
        for group in batched(self._not_for_us, BATCH_OFFERS, strict=False):
            self._start(_Return(group))
        self._not_for_us.clear()

    def _start(self, job: Work) -> None:
        task = asyncio.create_task(self._follow(job))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _follow(self, job: Work) -> None:
        try:
            event = await asyncio.get_running_loop().run_in_executor(self._threads, self._carry_out, job)
        finally:
            if isinstance(job, _Delete):
                self._deleting = False
                self._delete_offers()
        if event is not None:
            self._happened(event)

    # --- on a thread ------------------------------------------------------------------------------------------------

    def _carry_out(self, job: Work) -> supervisor.Event | None:
        match job:
            case Receive(most):
                return OffersReceived(self._quietly(lambda: self._offers.receive(most)))
            case _Delete(receipts):
                self._offers.delete(receipts)
                return None
            case _Return(receipts):
                self._offers.give_back(receipts)
                return None
            case Claim(connection_id, reason):
                return ClaimAnswered(connection_id, self._claim(connection_id, reason))
            case SweepNow(enough, turn):
                shards, timing = self._settings.shards, self._settings.timing
                return Swept(self._sweep(sweep(shards=shards, timing=timing, enough=enough, turn=turn)))
            case Recount():
                return Swept(self._sweep(recount(shards=self._settings.shards)))
            case Bury(members):
                self._quietly(lambda: self._run(bury_expired(members, timing=self._settings.timing)))
                return Buried()
            case ReadFleet():
                return FleetRead(self._quietly(lambda: self._run(stored_fleet())))
            case ListOwned():
                return Listed(self._quietly(lambda: self._run(listed(self._worker_id))))
            case ReleaseUnknown(connection_id):
                landed = self._quietly(lambda: self._run(release_unknown(self._worker_id, connection_id)))
                self._log.warning("unknown_released", connection_id=connection_id, landed=landed is True)
                return UnknownSettled(connection_id, _fault_of(landed))
            case LookAgain(connection_id, version):
                return LookedAgain(
                    self._quietly(lambda: self._run(look_again(self._worker_id, connection_id, version)))
                )
            case ReadInbox():
                return InboxRead(self._quietly(lambda: self._run(inbox.read_inbox(self._worker_id))))
            case SettleNotice(connection_id, version):
                landed = self._quietly(lambda: self._run(inbox.settle(self._worker_id, connection_id, version)))
                if landed is True:
                    self._log.warning("unknown_released", connection_id=connection_id, landed=True)
                return UnknownSettled(connection_id, _fault_of(landed))
            case ForgetNotice(connection_id, version):
                self._quietly(lambda: self._run(inbox.forget(self._worker_id, connection_id, version)))
                return None
            case DrainsItself(within_s=within_s):
                self._quietly(lambda: self._protect(within_s))
                return None
            case Leave():
                self._quietly(lambda: self._run(leave(self._worker_id)))
                return Left()

    def _claim(self, connection_id: str, reason: TakeReason) -> Outcome | Fault | Malformed:
        nonce = secrets.token_hex(16)
        try:
            outcome = self._or_fault(lambda: self._run(claim(connection_id, nonce=nonce, claimer=self._claimer)))
        except Malformed as problem:
            self._problems.say("connection_malformed", str(problem))
            return problem
        if isinstance(outcome, Claimed):
            epoch = outcome.lease.epoch
            self._log.info("claimed", connection_id=connection_id, epoch=epoch, reason=reason)
        return outcome

    def _sweep(self, flow: Flow[Sweep]) -> Sweep | Fault:
        found = self._or_fault(lambda: self._run(flow))
        for problem in [] if isinstance(found, Fault) else found.malformed:
            self._problems.say("member_malformed", str(problem))
        return found

    def _quietly[T](self, call: Callable[[], T]) -> T | Fault:
        """Where one malformed item has no one to be handed to."""
        try:
            return self._or_fault(call)
        except Malformed as problem:
            self._problems.say("item_malformed", str(problem))
            return Denied(str(problem))

    def _or_fault[T](self, call: Callable[[], T]) -> T | Fault:
        """Raises Malformed only."""
        try:
            return call()
        except Fault as fault:
            self._problems.say("store_fault", str(fault))
            return fault
        except Malformed:
            raise
        except Exception as error:  # noqa: BLE001  # a job without an answer would never be asked for again
            self._log.crashed("job_crashed", error)
            return Unreachable(f"a fault in this worker's own code ({type(error).__name__})")

    def _run[T](self, flow: Flow[T]) -> T:
        return run(flow, self._perform)


def _fault_of(outcome: object) -> Fault | None:
    return outcome if isinstance(outcome, Fault) else None
