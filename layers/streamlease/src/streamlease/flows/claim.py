"""Take one lease, with every doubtful answer settled by a consistent read of epoch and nonce."""

from dataclasses import dataclass

from streamlease import lease
from streamlease.errors import Unreachable
from streamlease.flow import Flow, now, read, write
from streamlease.lease import Checkpoint, Claimed, Held, Stopped, Unproven
from streamlease.model import DesiredState, LeaseMode
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
    later: the answer is then the fault itself, and the worker's audit releases what it finds it owns. A lease that
    turns out to be of a connection stopped meanwhile is given back here: nothing would tell its owner. Raises Fault,
    Malformed.
    """
    outcome = yield from _attempt(connection_id, None, nonce, claimer)
    if not isinstance(outcome, Unproven):
        return (yield from _still_wanted(outcome))
    seen = outcome.connection
    if seen.crashes + 1 >= lease.CRASHES_BEFORE_POSTPONEMENT:
        instant = yield from now()
        yield from write(lease.postpone(seen, now_ms=instant.wall_ms, timing=claimer.timing))
        return Held(None, lease.postponed_until_ms(seen.crashes + 1, instant.wall_ms))
    outcome = yield from _attempt(connection_id, outcome, nonce, claimer)
    return Held(seen.lease_owner, None) if isinstance(outcome, Unproven) else (yield from _still_wanted(outcome))


def _still_wanted(outcome: Outcome) -> Flow[Outcome]:
    """A claim read back after a lost answer shows the item of now, not of the claim: its version counts as seen, so no
    renewal would ever be refused for a STOPPED that came between."""
    if not isinstance(outcome, Claimed) or outcome.connection.desired_state is DesiredState.STARTED:
        return outcome
    instant = yield from now()
    number = Checkpoint(outcome.connection.checkpoint_no + 1)
    yield from write(lease.release(outcome.lease, checkpoint=number, now_ms=instant.wall_ms))
    return Stopped(outcome.connection)


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
