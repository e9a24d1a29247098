"""Take one lease, with every doubtful answer settled by a consistent read of epoch and nonce."""

from dataclasses import dataclass

from streamlease import lease
from streamlease.errors import Unreachable
from streamlease.flow import Flow, now, read, write
from streamlease.lease import Claimed, Held, Stopped, Unproven
from streamlease.model import LeaseMode
from streamlease.timing import Timing
from streamlease.write import Read, Table


@dataclass(frozen=True, slots=True)
class Claimer:
    """Who claims, and under which terms."""

    worker_id: str
    timing: Timing
    mode: LeaseMode


type Outcome = Claimed | Held | Stopped


def claim(connection_id: str, *, nonce: str, claimer: Claimer) -> Flow[Outcome]:
    """Claim `connection_id`. `nonce` is fresh for each call.

    A claim whose answer was lost is read back; where the read does not show it, it is still in flight and may land
    later: the answer is then the fault itself, and the worker's audit releases what it finds it owns. Raises Fault,
    Malformed.
    """
    outcome = yield from _attempt(connection_id, None, nonce, claimer)
    if not isinstance(outcome, Unproven):
        return outcome
    seen = outcome.connection
    if seen.crashes + 1 >= lease.CRASHES_BEFORE_POSTPONEMENT:
        instant = yield from now()
        yield from write(lease.postpone(seen, now_ms=instant.wall_ms, timing=claimer.timing))
        return Held(None, lease.postponed_until_ms(seen.crashes + 1, instant.wall_ms))
    outcome = yield from _attempt(connection_id, outcome, nonce, claimer)
    return Held(seen.lease_owner, None) if isinstance(outcome, Unproven) else outcome


def _attempt(connection_id: str, unproven: Unproven | None, nonce: str, claimer: Claimer) -> Flow[Outcome | Unproven]:
    worker_id, timing, mode = claimer.worker_id, claimer.timing, claimer.mode
    sent = yield from now()
    if unproven is None:
        request = lease.claim(connection_id, worker_id=worker_id, nonce=nonce, sent=sent, timing=timing, mode=mode)
    else:
        request = lease.claim_after_crash(
            unproven.connection, worker_id=worker_id, nonce=nonce, sent=sent, timing=timing, mode=mode
        )
    try:
        answer = yield from write(request)
    except Unreachable:
        item = yield from read(Read(Table.CONNECTIONS, {"connection_id": connection_id}))
        settled = lease.settled(item, worker_id=worker_id, nonce=nonce, sent=sent, timing=timing)
        if settled is None:
            raise
        return settled
    return lease.claimed(answer, worker_id=worker_id, nonce=nonce, sent=sent, timing=timing)
