"""Draw a scenario from a seed. Each seed takes some kinds of fault only, so that rare combinations come undiluted."""

from dataclasses import dataclass
from random import Random

from streamlease.budget import Limit
from streamlease.flows.reconcile import OWNER_WALK_EVERY_MS
from streamlease.model import LeaseMode
from streamlease.timing import SKEW_MS, Timing
from tests.simulation.kernel import MINUTE, MS, S
from tests.simulation.network import Service, Twist
from tests.simulation.operators import FLURRY_REST_US
from tests.simulation.process import Place
from tests.simulation.scenario import (
    BUSIEST,
    SETTLE_US,
    Act,
    Befall,
    BlockLoop,
    Crash,
    Deploy,
    IndexLag,
    LateClaim,
    OffersTrouble,
    Partition,
    Pause,
    Planned,
    Scale,
    Scenario,
    ScheduleTrouble,
    SinkFault,
    StepClock,
    StreamTrouble,
    Throttle,
    UpstreamTrouble,
)
from tests.simulation.upstream import Nature

HALF_SKEW_MS = SKEW_MS / 2
LONGEST_SETTLING_US = 100 * S
"""After the last fault: one audit (a minute, and half of it for jitter) and what follows, beside lease and skew."""
LONG_ONES = 0.02
"""Of the runs with workers in worker mode, so many last for a quarter of an hour more."""
PROCESSES = 40
"""Clocks are drawn for so many; later processes begin again from the first."""

TWISTED = (
    *("claim", "renew", "heartbeat", "release") * 2,
    *("checkpoint", "join", "orphan", "bury", "page", "inbox", "control", "offer", "dials", "*"),
)
"""Labels of the requests that faults wait for: the protocol's own writes far more often than chance would meet them."""

DOUBTFUL = (Twist.ANSWER_LOST, Twist.LANDS_LATE, Twist.LANDS_LATE)
"""Drawn more often than other twists: what they leave behind is what the protocol is about."""

KINDS = (
    *("befall",) * 3,
    *("pause", "act") * 2,
    *("crash", "block", "partition", "throttle", "step", "lag", "stream", "offers", "schedule", "upstream", "sink"),
    "mute",
    *("deploy", "scale"),
)
MOST_DEPLOYS = 2
STALE_AFTER_S = 15.0
"""Longer than any upstream here is silent while it is well."""
SPARING = ("act", "scale", "schedule", "deploy", "stream")
MOST_SPARING = 25
"""Entries of kinds that count as no fault, or seldom as one: beyond so many, others are drawn."""


def scenario(seed: int, mode: LeaseMode | None = None) -> Scenario:
    """The scenario of a seed. With a `mode`, its fleet is in that mode throughout; without, in the seed's own, and it
    may be redeployed into the other."""
    draws = Random(f"scenario/{seed}")
    own = draws.choice((LeaseMode.CONNECTION, LeaseMode.WORKER))
    timing, worker_timing = _timing(draws, LeaseMode.CONNECTION), _timing(draws, LeaseMode.WORKER)
    workers = draws.randint(3, 5)
    connections = {f"c{n}": _nature(draws) for n in range(draws.randint(8, 20))}
    leases_ms = {LeaseMode.CONNECTION: timing.lease_ms, LeaseMode.WORKER: worker_timing.lease_ms}
    lease_us = (max(leases_ms.values()) if mode is None else leases_ms[mode]) * MS
    quiet_us = SETTLE_US + max(70 * S, min(5 * lease_us, 130 * S))
    clock = draws.choice(("unwatched", "unwatched", "dates", "metadata"))
    most_ms = HALF_SKEW_MS if clock != "metadata" else HALF_SKEW_MS * 0.95  # a bound at the edge is over it at times
    late = frozenset(each for each in connections if draws.random() < 0.15)
    trouble = _Trouble(
        draws=draws,
        mode=mode or own,
        may_change_mode=mode is None,
        watched=tuple(each for each, nature in connections.items() if nature.stale_after_s is not None),
        slots=tuple(f"w{n}" for n in range(workers)),
        ids=tuple(connections),
        late=late,
        lease_us=lease_us,
        quiet_us=quiet_us,
        hour_steps=clock != "unwatched",
        most_off_ms=most_ms,
    )
    plan = trouble.plan()
    end_us = quiet_us + lease_us + SKEW_MS * MS + LONGEST_SETTLING_US
    if mode is not LeaseMode.CONNECTION and draws.random() < LONG_ONES:
        plan, end_us = (*plan, *trouble.claim_of_the_long_dead()), end_us + OWNER_WALK_EVERY_MS * MS
    return Scenario(
        seed=seed,
        mode=mode or own,
        timing=timing,
        worker_timing=worker_timing,
        shards=draws.randint(1, 3),
        workers=workers,
        capacity=draws.choice((len(connections), len(connections) // 2 + 2, 100)),
        page_limit=draws.choice((2, 1_000, 1_000)),
        connections=connections,
        plan=plan,
        quiet_us=quiet_us,
        end_us=end_us,
        offsets_ms=tuple(_offset(draws, most_ms) for _ in range(PROCESSES)),
        rates_ppm=tuple(draws.uniform(-200, 200) for _ in range(PROCESSES)),
        late=late,
        last_acts=tuple(Act(quiet_us, each, "stop") for each in draws.sample(tuple(connections), 2)),
        clock=clock,  # type: ignore[arg-type]  # a choice among texts is a text
        dials=_dials(Random(f"dials/{seed}"), len(connections)),
    )


def _dials(draws: Random, connections: int) -> Limit | None:
    """In a third of the runs a budget that a cold fleet is over at once, and that a healthy one soon has room in."""
    if draws.random() < 2 / 3:
        return None
    return Limit(draws.randint(connections // 2 + 2, connections + 2), draws.choice((3_000, 6_000, 10_000)))


def _timing(draws: Random, mode: LeaseMode) -> Timing:
    if mode is LeaseMode.CONNECTION:
        heartbeat_ms, lease_ms = draws.choice(((10_000, 30_000), (5_000, 15_000), (2_000, 6_000), (3_000, 12_000)))
    else:
        heartbeat_ms, lease_ms = draws.choice(((2_000, 6_000), (2_000, 6_000), (1_000, 3_000), (3_000, 12_000)))
    return Timing(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms)


def _offset(draws: Random, most_ms: float) -> float:
    """Half of the time at the edge of what is allowed: two such clocks differ by the whole allowance."""
    return draws.choice((-most_ms, most_ms, draws.uniform(-most_ms, most_ms), 0.0))


def _nature(draws: Random) -> Nature:
    return Nature(
        resumes=draws.random() < 0.8,
        inclusive=draws.random() < 0.7,
        order=draws.choice(("oldest_first", "oldest_first", "oldest_first", "newest_first")),
        shared=draws.random() < 0.3,
        every_us=draws.randint(3, 9) * S,
        poison=draws.random() < 0.02,
        stale_after_s=draws.choice((None, STALE_AFTER_S)),
    )


@dataclass(slots=True)
class _Trouble:
    """Draws what goes wrong, and what people do meanwhile."""

    draws: Random
    mode: LeaseMode
    may_change_mode: bool
    watched: tuple[str, ...]
    """Connections whose feeds would notice that nothing comes any more."""
    slots: tuple[str, ...]
    ids: tuple[str, ...]
    late: frozenset[str]
    lease_us: int
    quiet_us: int
    hour_steps: bool
    most_off_ms: float

    def plan(self) -> tuple[Planned, ...]:
        """85 to 110 entries of some of the kinds, and a few that wait for the very first requests."""
        draws = self.draws
        kinds = [*draws.sample(KINDS, draws.randint(5, 12)), "befall", "pause"]
        drawn = [draws.choice(kinds) for _ in range(draws.randint(85, 110))]
        sparing = [number for number, kind in enumerate(drawn) if kind in SPARING]
        for number in sparing[MOST_SPARING:]:
            drawn[number] = draws.choice(("befall", "pause"))
        planned = [self._entry(kind) for kind in drawn]
        planned += self._early()
        planned += [self._mute(draws.randrange(SETTLE_US, SETTLE_US + 20 * S)) for _ in range(draws.randint(0, 3))]
        flurries = [self._flurry() for _ in range(draws.randint(1, 4))]
        planned += flurries
        for each in flurries:
            begins_us = each.at_us + FLURRY_REST_US + 50 * MS
            planned += [Befall(begins_us, Twist.SLOW, "claim", "*", delay_us * MS) for delay_us in (500, 800)]
        planned += [Act(draws.randrange(SETTLE_US, self.quiet_us), each, "create") for each in sorted(self.late)]
        kept: list[Planned] = []
        for entry in sorted(planned, key=lambda each: each.at_us):
            if isinstance(entry, Deploy):
                if sum(isinstance(each, Deploy) for each in kept) == MOST_DEPLOYS:
                    continue
                self._choose_mode()
                kept.append(Deploy(entry.at_us, self.mode, entry.apart_us))
            else:
                kept.append(entry)
        return tuple(kept)

    def _flurry(self) -> Act:
        """Half of them about a connection that is not there yet, so that its first claim meets the edits."""
        some = sorted(self.late) if self.late and self.draws.random() < 0.5 else self.ids
        return Act(self.draws.randrange(SETTLE_US, self.quiet_us), self.draws.choice(some), "flurry")

    def claim_of_the_long_dead(self) -> tuple[Planned, ...]:
        """At a time when the walk of all owners has just been done."""
        draws, connection_id = self.draws, self.draws.choice(self.ids)
        at_us = max(62 * S, self.quiet_us - 30 * S)
        return (
            LateClaim(at_us, connection_id),
            Act(at_us, connection_id, "stop"),
            Act(at_us + draws.randint(6, 16) * S, connection_id, "start"),
        )

    def _choose_mode(self) -> None:
        if self.may_change_mode and self.draws.random() < 0.5:
            in_connection_mode = self.mode is LeaseMode.CONNECTION
            self.mode = LeaseMode.WORKER if in_connection_mode else LeaseMode.CONNECTION

    def _early(self) -> list[Planned]:
        draws = self.draws
        labels = draws.sample(("join", "claim", "claim", "heartbeat", "create", "summary"), draws.randint(0, 3))
        twists, slots = tuple(Twist), (*self.slots, "*")
        found: list[Planned] = [
            Befall(0, draws.choice(twists), label, draws.choice(slots), draws.randint(1, 30) * S) for label in labels
        ]
        if draws.random() < 0.2:
            found.append(StreamTrouble(0, 30 * S, 1.0, 0))
        return found

    def _length(self, at_us: int) -> int:
        """From a moment to several leases, evenly by magnitude, and not beyond the end of all faults."""
        draws = self.draws
        length_us = self.lease_us * draws.choice((0.05, 0.2, 0.5, 0.9, 1.1, 1.5, 3.0)) * draws.uniform(0.7, 1.3)
        return min(int(length_us), self.quiet_us - at_us)

    def _entry(self, kind: str) -> Planned:
        draws, at_us = self.draws, self.draws.randrange(SETTLE_US, self.quiet_us)
        who, length_us = draws.choice((*self.slots, BUSIEST, BUSIEST)), self._length(at_us)
        match kind:
            case "pause":
                places: tuple[Place | None, ...] = (None, "clock", "stamp", "send", "check")
                return Pause(at_us, who, length_us, draws.choice(places))
            case "crash":
                return Crash(at_us, who)
            case "block":
                return BlockLoop(at_us, who, length_us)
            case "partition":
                service = draws.choice((Service.STORE, Service.STORE, Service.QUEUE, Service.UPSTREAM))
                return Partition(at_us, who, service, length_us, draws.random() < 0.3)
            case "throttle":
                return Throttle(at_us, draws.choice((*self.slots, "*", "*")), length_us)
            case "step":
                return self._step(at_us, who)
            case "lag":
                return IndexLag(at_us, length_us, draws.choice((1, 3, 10, 30)) * S)
            case "stream":
                return StreamTrouble(at_us, length_us, draws.choice((0.3, 1.0)), draws.choice((0, 5, 30)) * S)
            case "offers":
                loss, double = draws.choice((0.0, 0.5, 1.0)), draws.choice((0.0, 0.5))
                return OffersTrouble(at_us, length_us, loss, double, draws.choice((0, 3, 20)) * S)
            case "schedule":
                off_ms = draws.choice((0.0, 0.0, 5_000.0, -5_000.0))
                dies_after = draws.choice((None, draws.randint(0, 30)))
                return ScheduleTrouble(at_us, draws.random() < 0.2, draws.random() < 0.3, dies_after, off_ms)
            case "upstream":
                what = draws.choice(("drop", "drop", "refuse", "reset"))
                return UpstreamTrouble(at_us, draws.choice(self.ids), what, min(length_us, 20 * S))  # type: ignore[arg-type]
            case "mute":
                return self._mute(at_us)
            case "sink":
                fails, answer_lost = draws.choice((0.0, 0.5)), draws.choice((0.0, 0.3))
                return SinkFault(at_us, length_us, fails, answer_lost, draws.choice((0, 2)) * S)
            case "deploy":
                return Deploy(at_us, self.mode, draws.randint(1, 8) * S)
            case "scale":
                return Scale(at_us, draws.choice((-1, 1)))
            case "act":
                wants = (
                    "start",
                    "stop",
                    "stop",
                    "edit",
                    "delete",
                    "create",
                    "start",
                    "forget",
                    "seek",
                    "replace",
                    "replace",
                )
                return Act(at_us, draws.choice(self.ids), draws.choice(wants))  # type: ignore[arg-type]
            case _:
                delay_us = draws.choice((S // 2, S, 3 * S, self.lease_us, 2 * self.lease_us, 45 * S, MINUTE))
                twist, whom = draws.choice((*Twist, *DOUBTFUL)), draws.choice((who, "*", "*"))
                return Befall(at_us, twist, draws.choice(TWISTED), whom, delay_us)

    def _mute(self, at_us: int) -> UpstreamTrouble:
        """Long enough for a socket, the next one, and another worker's."""
        whom = self.draws.choice((*self.slots, BUSIEST, BUSIEST, "*"))
        length_us = min(4 * int(STALE_AFTER_S * S), self.quiet_us - at_us)
        return UpstreamTrouble(at_us, self.draws.choice(self.watched or self.ids), "mute", length_us, whom)

    def _step(self, at_us: int, who: str) -> StepClock:
        draws = self.draws
        if self.hour_steps and draws.random() < 0.4:
            return StepClock(at_us, who, None, draws.choice((-3_600_000.0, 3_600_000.0)), draws.randint(2, 20) * S)
        return StepClock(at_us, who, _offset(draws, self.most_off_ms))
