"""How a worker enters the fleet, and leaves it. Procedures, as in `streamlease.flows`."""

from dataclasses import dataclass

from streamlease import flow, membership
from streamlease.errors import Fault, Unreachable
from streamlease.flow import Flow
from streamlease.flows import audit, sweep
from streamlease.membership import Joined
from streamlease.timing import Instant, Timing
from streamlease.write import Applied, Query, Table

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Applicant:
    """Who joins."""

    worker_id: str
    generation: int
    capacity: int
    zone: str
    timing: Timing


def look_around(worker_id: str) -> Flow[None]:
    """Read once from everything a worker works with, so that what is missing or denied is said before it takes anything
    on. Raises Fault, Malformed."""
    yield from sweep.stored_fleet()
    yield from audit.listed(worker_id)
    yield from flow.page(Query(Table.WORKER_ITEMS, worker_id, limit=1))


def join(applicant: Applicant) -> Flow[Joined]:
    """Raises Fault: the last one, where no attempt had an answer.

    The id is fresh, so an item in the way is this worker's own earlier attempt, whose answer was lost: the lease then
    counts from the earliest of them.
    """
    unanswered: Instant | None = None
    fault: Fault | None = None
    for _ in range(ATTEMPTS):
        sent = yield from flow.now()
        request = membership.join(
            applicant.worker_id,
            generation=applicant.generation,
            capacity=applicant.capacity,
            zone=applicant.zone,
            started_at_ms=sent.wall_ms,
            sent=sent,
            timing=applicant.timing,
        )
        try:
            answer = yield from flow.write(request)
        except Unreachable as error:
            unanswered, fault = unanswered or sent, error
            continue
        credited = sent if isinstance(answer, Applied) or unanswered is None else unanswered
        return Joined(applicant.timing.deadline_s(credited))
    raise fault or Unreachable("joining the fleet was not tried")


def leave(worker_id: str) -> Flow[None]:
    """Raises Fault; the member then expires by itself."""
    instant = yield from flow.now()
    yield from flow.write(membership.leave(worker_id, now_ms=instant.wall_ms))
