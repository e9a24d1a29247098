"""What an answer, or a reading of the item, means for a held lease. Part of the keeper.

Each function changes its `Held` and returns the commands that follow. A lease that is over is left in `Phase.GONE`.
"""

from streamlease import lease as leases
from streamlease.errors import Conflict, Denied, Fault, Throttled, Unreachable
from streamlease.lease import (
    Changed as SpecChanged,
)
from streamlease.lease import (
    Checkpointed,
    CheckpointOutcome,
    Lost,
    Outrun,
    Renewed,
    RenewOutcome,
    Stopped,
)
from streamlease.model import Connection, DesiredState
from streamlease.timing import Instant, Timing
from streamlease.write import Answer, Refused
from streamlease_worker.faults import Unsteady
from streamlease_worker.held import Held, Phase
from streamlease_worker.jitter import backoff_s
from streamlease_worker.keeper_events import (
    Changed,
    Command,
    Extended,
    Fence,
    FenceReason,
    Renewal,
    Saving,
    Settled,
    StopWanted,
)

FIRST_RELEASE_RETRY_S = 0.1


def blame(fault: Fault) -> FenceReason:
    """The reason a lease is fenced for when this was the last that was heard."""
    match fault:
        case Throttled():
            return "throttled"
        case Conflict():
            return "conflict"
        case Denied():
            return "denied"
        case Unsteady():
            return "clock"
        case _:
            return "unreachable"


def fence(held: Held, reason: FenceReason) -> list[Command]:
    held.phase = Phase.FENCED
    return [Fence(*held.key, reason)]


def extend(held: Held, deadline_s: float) -> list[Command]:
    """Only ever forward, and never for an epoch that may deliver no more."""
    if held.phase is not Phase.HELD or deadline_s <= held.deadline_s:
        return []
    held.deadline_s = deadline_s
    return [Extended(*held.key, deadline_s)]


def renewal(
    held: Held,
    attempt: Renewal,
    answer: Answer | Fault,
    *,
    revision: int,
    sent: Instant,
    now_s: float,
    timing: Timing,
) -> list[Command]:
    if isinstance(answer, Fault):
        return _failed(held, answer, now_s, timing)
    outcome = leases.renewed(answer, lease=attempt.lease, expires_at_ms=timing.expires_at_ms(sent))
    out: list[Command] = []
    if isinstance(outcome, Renewed):
        out += extend(held, timing.deadline_s(sent))
        held.lived_through(sent.mono_s)
    return out + _written(held, outcome, revision, now_s, timing)


def saving(
    held: Held, attempt: Saving, answer: Answer | Fault, *, revision: int, now_s: float, timing: Timing
) -> list[Command]:
    if isinstance(answer, Fault):
        return _failed(held, answer, now_s, timing)
    outcome = leases.checkpointed(answer, lease=attempt.lease, checkpoint=attempt.checkpoint)
    return _written(held, outcome, revision, now_s, timing)


def release(held: Held, answer: Answer | Fault, *, now_s: float, timing: Timing) -> list[Command]:
    """An unsettled release is only ever sent again: it may have landed, and this epoch never delivers again."""
    if isinstance(answer, Fault):
        held.failures += 1
        held.release_unanswered |= isinstance(answer, Unreachable)
        held.due_s = now_s + backoff_s(held.failures, FIRST_RELEASE_RETRY_S, timing.heartbeat_ms / 1000, *held.key)
        return []
    landed = leases.released(answer).landed or (held.release_unanswered and _freed(answer, held))
    held.phase = Phase.GONE
    return [Settled(*held.key, landed=landed)]


def reading(held: Held, found: Connection) -> list[Command]:
    """Act upon an item of ours as somebody has just read it."""
    news = found.spec_version != held.lease.spec_version
    forgotten = held.saw(found)
    if held.phase is not Phase.HELD:
        return []
    if found.desired_state is DesiredState.STOPPED:
        told, held.stop_told = held.stop_told, True
        return [] if told else [StopWanted(*held.key)]
    if not news:
        return []
    held.stop_told = False
    return [Changed(found, held.lease.epoch, forgotten)]


def _written(
    held: Held,
    outcome: RenewOutcome | CheckpointOutcome,
    revision: int,
    now_s: float,
    timing: Timing,
) -> list[Command]:
    match outcome:
        case Renewed() | Checkpointed():
            held.failures = 0
            held.blame = "expired"
            held.stored(revision)
            return []
        case Outrun(found):
            out = reading(held, found)
            held.blame = "clock"
            held.failures += 1
            held.due_s = now_s  # at once the first time: the number is above the stored one now
            if held.failures > 1:
                held.due_s = now_s + _wait_s(held, now_s, timing)
            return out
        case SpecChanged(found):
            held.due_s = now_s
            return reading(held, found)
        case Stopped(connection):
            held.due_s = now_s
            return reading(held, connection) if connection is not None else []
        case Lost(reason):
            return _lost(held, reason)


def _failed(held: Held, fault: Fault, now_s: float, timing: Timing) -> list[Command]:
    held.failures += 1
    held.blame = blame(fault)
    held.due_s = min(held.due_s, now_s + _wait_s(held, now_s, timing))
    return []


def _wait_s(held: Held, now_s: float, timing: Timing) -> float:
    """Soon, jittered, and well before the deadline."""
    heartbeat_s = timing.heartbeat_ms / 1000
    wait_s = backoff_s(held.failures, heartbeat_s / 8, heartbeat_s / 2, *held.key)
    return min(wait_s, max(0.0, held.deadline_s - now_s) / 2)


def _lost(held: Held, reason: FenceReason) -> list[Command]:
    phase, held.phase = held.phase, Phase.GONE
    match phase:
        case Phase.HELD:
            return [Fence(*held.key, reason)]
        case Phase.RELEASING:
            return [Settled(*held.key, landed=False)]
        case _:
            return []


def _freed(answer: Answer, held: Held) -> bool:
    """Whether a refusal shows the lease as an earlier send of its release left it."""
    item = answer.item if isinstance(answer, Refused) else None
    return item is not None and "lease_owner" not in item and item.get("lease_epoch") == held.lease.epoch
