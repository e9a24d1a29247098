"""Rules of the protocol, broken one at a time. What the simulator does not notice, it does not check.

M1 to M18 are those of the project's list of known holes; the letters tell parts of one line apart. Others are our own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from streamlease import budget, inbox, items, lease, membership, pages, plan, shares
from streamlease.errors import Fault, Unreachable
from streamlease.feed import continuity
from streamlease.feed import ledger as feed_ledger
from streamlease.feed.events import Acknowledged
from streamlease.flow import Flow, now
from streamlease.flows import bury, reconcile
from streamlease.lease import Stopped
from streamlease.model import LeaseMode
from streamlease.timing import Instant, Timing
from streamlease.write import Always, Item, Update
from streamlease_worker import fence, intake, keeper, notices, ownership, presence, supervisor, verdicts
from streamlease_worker import keeper_events as ke
from streamlease_worker.held import Phase
from tests.simulation import process, runner
from tests.simulation.patching import Patch, constantly, lacking, setting, without, writing


@dataclass(frozen=True, slots=True)
class Mutation:
    """`mode`: where the rule lives in one mode only."""

    name: str
    breaks: str
    patches: tuple[Patch, ...]
    mode: LeaseMode | None = None


WORKER, CONNECTION = LeaseMode.WORKER, LeaseMode.CONNECTION


def _resumes_after_release() -> tuple[Patch, ...]:
    def released(original: Callable[..., Any]) -> Callable[..., Any]:
        def release(held: Any, answer: Any, *, now_s: float, timing: Timing) -> Any:
            if isinstance(answer, Unreachable):
                held.phase = Phase.HELD
                connection_id, epoch = held.key
                extended = ke.Extended(connection_id, epoch, now_s + timing.lease_ms / 1000)
                return [extended, ke.Accepted(connection_id, epoch)]
            return original(held, answer, now_s=now_s, timing=timing)

        return release

    def noticed(original: Callable[..., Any]) -> Callable[..., Any]:
        def notice(self: Any, event: Any, now: Instant) -> Any:
            ours = self._owned.get(getattr(event, "connection_id", ""))
            if isinstance(event, ke.Accepted) and ours is not None and ours.phase is ownership.Phase.RELEASING:
                ours.phase = ownership.Phase.ACCEPTING
            return original(self, event, now)

        return notice

    def close(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, reason: None if "given up" in reason else original(self, reason)

    return (
        (verdicts, "release", released),
        (supervisor.Supervisor, "_noticed", noticed),
        (fence.Fence, "close", close),
    )


def _wall_clock_first(_original: Callable[..., Any]) -> Callable[..., Any]:
    def instant(self: process.Process, thread: process.Thread, place: process.Place = "clock") -> Instant:
        wall_ms = self.clock.wall_ms(thread.now_us)
        self.reach(place)
        return Instant(self.clock.mono_s(thread.now_us), wall_ms)

    return instant


def _credits_the_latest(original: Callable[..., Any]) -> Callable[..., Any]:
    def answered(self: presence.Presence, sent: Instant, answer: Any, now_s: float) -> Any:
        if not isinstance(answer, Fault):
            self._unanswered.clear()
        return original(self, sent, answer, now_s)

    return answered


def _counts_from_the_answer(original: Callable[..., Any]) -> Callable[..., Any]:
    def renewal(held: Any, attempt: Any, answer: Any, *, sent: Instant, now_s: float, **rest: Any) -> Any:
        return original(held, attempt, answer, sent=Instant(now_s, sent.wall_ms), now_s=now_s, **rest)

    return renewal


def _beat_counts_from_the_answer(original: Callable[..., Any]) -> Callable[..., Any]:
    def answered(self: presence.Presence, sent: Instant, answer: Any, now_s: float) -> Any:
        return original(self, Instant(now_s, sent.wall_ms), answer, now_s)

    return answered


def _acknowledges_at_once(original: Callable[..., Any]) -> Callable[..., Any]:
    def begin(self: runner.Runner, attempt: Any, number: int) -> None:
        original(self, attempt, number)
        self._feed(Acknowledged(attempt.deliveries[-1].number))

    return begin


def _releases_before_the_runner_ends(original: Callable[..., Any]) -> Callable[..., Any]:
    def stop(ours: Any, reason: str, *, flush: bool) -> Any:
        was_running = ours.phase is ownership.Phase.RUNNING
        out = original(ours, reason, flush=flush)
        return [*ownership.release(ours), *out] if was_running else out

    return stop


def _walks_nowhere(_original: Callable[..., Any]) -> Callable[..., Any]:
    def walk(report: Any, place: Any, *_rest: Any, **_named: Any) -> Flow[Any]:
        yield from now()
        return place

    return walk


def _whatever_expiry(original: Callable[..., Any]) -> Callable[..., Any]:
    def to_free(item: Item | None, dead_worker_id: str) -> Any:
        bare = None if item is None else {k: v for k, v in item.items() if k != "lease_expires_at_ms"}
        return original(bare, dead_worker_id)

    return to_free


def _carries_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **named: original(*args, **{**named, "saved": None})


def _unowned_is_not_counted(original: Callable[..., Any]) -> Callable[..., Any]:
    """Nor is nothing at all any reason to go by capacity."""

    def share(fleet: Any, worker_id: str, **rest: Any) -> int | None:
        found: int | None = original(fleet, worker_id, **rest)
        return 0 if found is None and fleet is not None and fleet.live > 0 else found

    return share


def _waiting_is_not_shared(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda able, waiting: original(able, 0)


def _no_expiry_before_stopped(original: Callable[..., Any]) -> Callable[..., Any]:
    def renewed(answer: Any, **rest: Any) -> Any:
        outcome = original(answer, **rest)
        return lease.Renewed(rest["expires_at_ms"]) if isinstance(outcome, Stopped) else outcome

    return renewed


def _first_shard_only(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda configured, ever: original(configured, ever)[:1]


def _only_freed_candidates(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda found: tuple(c for c in original(found) if c.lease_expires_at_ms == 0)


def _only_expired_candidates(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda found: tuple(c for c in original(found) if c.lease_expires_at_ms > 0)


def _own_clock(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda everybody, **rest: original(everybody, **{**rest, "date_ms": None})


def _free_alone(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return writing(change)


def _without_position(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda item: replace(original(item), position=None)


def _out_of_the_index(write: Update) -> Update:
    kept = {name: value for name, value in write.set.items() if name != "lease_expires_at_ms"}
    return replace(write, set=kept, remove=("lease_expires_at_ms", *write.remove))


def _follows(original: Callable[..., Any]) -> Callable[..., Any]:
    def settle(self: Any) -> Any:
        self._may_follow = True
        return original(self)

    return settle


def _counts_for_a_while(windows: int, skews: int) -> Callable[[Any], Any]:
    def counted(slices: Any, limit: Any, now_ms: int, skew_ms: int) -> int:
        more_ms = windows * limit.per_ms + skews * skew_ms
        return sum(each.dials for each in slices if each.until_ms + more_ms >= now_ms)

    return lambda _original: counted


CLAIM = ("lease_owner", "lease_expires_at_ms", "checkpoint_no", "lease_epoch")
OURS = ("lease_owner", "lease_epoch")
ALWAYS_OURS = writing(lambda write: replace(write, condition=Always()))


def _both(name: str, change: Callable[[Any], Any]) -> tuple[Patch, ...]:
    return tuple((lease, each, change) for each in (name, f"{name}_after_crash"))


def _both_orphans(change: Callable[[Any], Any]) -> tuple[Patch, ...]:
    return ((lease, "orphan", change), (lease, "orphan_unread", change))


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "M1",
        "a renewal asks for an expiry below its own",
        ((lease, "renew", writing(without("lease_expires_at_ms"))),),
        CONNECTION,
    ),
    Mutation("M2", "a released epoch never delivers again", _resumes_after_release()),
    Mutation(
        "M3",
        "the taker waits for the skew allowance",
        ((Timing, "expired_before_ms", lambda _: lambda self, now_ms: now_ms),),
    ),
    Mutation(
        "M4", "the monotonic clock is read before the wall clock", ((process.Process, "instant", _wall_clock_first),)
    ),
    Mutation(
        "M5",
        "a heartbeat in doubt is credited to the earliest send",
        ((presence.Presence, "answered", _credits_the_latest),),
        WORKER,
    ),
    Mutation("M6a", "a join makes a new member only", ((membership, "join", ALWAYS_OURS),)),
    Mutation("M6b", "DEAD is final", ((membership, "heartbeat", writing(without("state"))),)),
    Mutation(
        "M7a",
        "only what nobody holds is deleted",
        ((lease, "delete", writing(without("lease_owner", "lease_expires_at_ms"))),),
    ),
    Mutation("M7b", "a recreated id goes on with higher epochs", ((lease, "create", writing(setting(lease_epoch=0))),)),
    Mutation(
        "M8", "checkpoints are ordered by their number", ((lease, "checkpoint", writing(without("checkpoint_no"))),)
    ),
    Mutation("M9a", "a late page write goes back on nothing", ((pages, "write", writing(without("version"))),), WORKER),
    Mutation("M9b", "a sealed page is closed", ((pages, "write", writing(without("sealed"))),), WORKER),
    Mutation("M9c", "a page is made once", ((pages, "create", ALWAYS_OURS),), WORKER),
    Mutation("M16l", "the orphaning carries the page's position", _both_orphans(_carries_nothing), WORKER),
    Mutation(
        "M10",
        "the minute's audit finds a claim that landed late",
        ((supervisor.Supervisor, "_audit", constantly([])),),
        WORKER,
    ),
    Mutation(
        "M11",
        "the walk of all owners finds what a dead id has claimed",
        ((reconcile, "_walk_owners", _walks_nowhere),),
        WORKER,
    ),
    Mutation(
        "M12", "a burial is swept again until it is old", ((membership, "may_forget", constantly(value=True)),), WORKER
    ),
    Mutation("M13a", "a notice goes on the version acted on", ((inbox, "delete", ALWAYS_OURS),), WORKER),
    Mutation(
        "M13b",
        "a notice waits for the claim in flight",
        ((notices.Notices, "read", lambda original: lambda self, e, o, _: original(self, e, o, lambda _name: False)),),
        WORKER,
    ),
    Mutation(
        "inbox-unread",
        "a stop is heard at the next heartbeat",
        ((notices.Notices, "heartbeat", constantly([])),),
        WORKER,
    ),
    Mutation(
        "M14",
        "a new connection stands in the expiry index",
        ((lease, "create", writing(lacking("lease_expires_at_ms"))),),
    ),
    Mutation(
        "M15",
        "nothing is renewed while the event loop stands still",
        (
            (keeper.Keeper, "_may_renew", lambda _: lambda self, held: held.phase is Phase.HELD),
            (
                presence.Presence,
                "due",
                lambda original: (
                    lambda self, now_s, *, loop_ticked_s, owned: original(self, now_s, loop_ticked_s=now_s, owned=owned)
                ),
            ),
            (keeper, "GRACE_S", lambda _: 1e9),
        ),
    ),
    Mutation("M16a", "a claim raises the epoch", _both("claim", writing(lacking("lease_epoch")))),
    Mutation(
        "M16b",
        "in worker mode a claim removes the expiry",
        _both("claim", writing(lacking("lease_expires_at_ms"))),
        WORKER,
    ),
    Mutation("M16c", "an attempt begins only before the deadline", ((fence.Fence, "check", constantly(None)),)),
    Mutation(
        "M16d", "a renewal counts from before its send", ((verdicts, "renewal", _counts_from_the_answer),), CONNECTION
    ),
    Mutation(
        "M16e",
        "a heartbeat counts from before its send",
        ((presence.Presence, "answered", _beat_counts_from_the_answer),),
        WORKER,
    ),
    Mutation(
        "M16f",
        "heartbeats land in order",
        ((membership, "heartbeat", writing(without("heartbeat", "lease_expires_at_ms"))),),
        WORKER,
    ),
    Mutation(
        "M16g",
        "only an expired member is buried",
        ((membership, "bury", writing(without("lease_expires_at_ms"))),),
        WORKER,
    ),
    Mutation(
        "M16h",
        "only the dead worker's connections are orphaned",
        _both_orphans(writing(without(*OURS, "checkpoint_no"))),
        WORKER,
    ),
    Mutation(
        "M16i",
        "a lease with an expiry of its own outlives its member",
        (*_both_orphans(writing(without("lease_expires_at_ms"))), (bury, "_to_free", _whatever_expiry)),
    ),
    Mutation("M16j", "a release asks for its epoch", ((lease, "release", writing(without("lease_epoch"))),)),
    Mutation("M16k", "a position follows acknowledgements", ((runner.Runner, "_begin", _acknowledges_at_once),)),
    Mutation("M17", "a connection that kills its owners is put off", ((lease, "postponed_until_ms", constantly(0)),)),
    Mutation(
        "M18",
        "the share counts what nobody owns, and the waiting is anybody's",
        (
            (plan, "share", _unowned_is_not_counted),
            (shares, "to_share", _waiting_is_not_shared),
            (plan, "is_stale", constantly(value=False)),
            (intake.Intake, "_is_stale", constantly(value=False)),
        ),
    ),
    Mutation("L7", "one of two first claims wins", _both("claim", writing(without(*CLAIM)))),
    Mutation("L16", "a lost lease is noticed by its renewal", ((lease, "renew", writing(without(*OURS))),), CONNECTION),
    Mutation("L25", "a release asks for its owner and epoch", ((lease, "release", writing(without(*OURS))),)),
    Mutation("claim-stopped", "only what is wanted is claimed", _both("claim", writing(without("desired_state")))),
    Mutation("checkpoint-anybody", "only the owner checkpoints", ((lease, "checkpoint", writing(without(*OURS))),)),
    Mutation(
        "release-keeps-owner",
        "a release names no owner",
        ((lease, "release", writing(lacking("lease_owner"))),),
        WORKER,
    ),
    Mutation(
        "release-no-expiry",
        "a released connection stands in the expiry index",
        ((lease, "release", writing(_out_of_the_index)),),
    ),
    Mutation(
        "orphan-no-expiry",
        "an orphaned connection stands in the expiry index",
        _both_orphans(writing(lacking("lease_expires_at_ms"))),
        WORKER,
    ),
    Mutation(
        "control-version", "a change has a version of its own", ((lease, "control", writing(lacking("spec_version"))),)
    ),
    Mutation("stop-unheard", "a renewal hears of a stop", ((lease, "renewed", _no_expiry_before_stopped),), CONNECTION),
    Mutation(
        "release-early", "a release waits for sink attempts", ((ownership, "stop", _releases_before_the_runner_ends),)
    ),
    Mutation("sweep-one-shard", "a sweep covers every shard", ((plan, "sweep_shards", _first_shard_only),)),
    Mutation(
        "sweep-freed-only", "a sweep finds what expired", ((plan, "candidates", _only_freed_candidates),), CONNECTION
    ),
    Mutation("sweep-expired-only", "a sweep finds what was freed", ((plan, "candidates", _only_expired_candidates),)),
    Mutation(
        "bury-own-clock", "a function buries by the service's clock", ((reconcile, "bury_expired", _own_clock),), WORKER
    ),
    Mutation(
        "heartbeat-lowers",
        "a heartbeat never shortens a lease",
        ((membership, "heartbeat", writing(without("lease_expires_at_ms"))),),
        WORKER,
    ),
    Mutation(
        "no-heartbeats", "a member says that it lives", ((presence.Presence, "due", constantly(value=False)),), WORKER
    ),
    Mutation("position-ignored", "a feed goes on from its position", ((items, "connection", _without_position),)),
    Mutation("gaps-untold", "what may be missing is told", ((continuity.Continuity, "_owe", constantly(None)),)),
    Mutation(
        "siblings-passed",
        "a position waits for records of the same sequence",
        ((feed_ledger.Ledger, "_settle", _follows),),
    ),
    Mutation(
        "put-off-early", "nobody claims before its time what is put off", ((lease, "_due", constantly(Always())),)
    ),
    Mutation("dials-races", "of all who saw a ledger one takes from it", ((budget, "_put", ALWAYS_OURS),)),
    Mutation(
        "dials-window",
        "a slice counts until a window after its end",
        ((budget, "_counted", _counts_for_a_while(0, 0)),),
    ),
    Mutation("dials-skew", "and that on every clock", ((budget, "_counted", _counts_for_a_while(1, 0)),)),
    Mutation("moves-nothing", "who has too much gives up what others lack", ((shares, "too_many", constantly(0)),)),
)
