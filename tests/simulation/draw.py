"""Draw a scenario from a seed. Each seed takes only some kinds of fault, so that rare combinations are met undiluted."""

from random import Random

from streamlease.model import LeaseMode
from streamlease.timing import SKEW_MS, Timing
from tests.simulation.kernel import MINUTE, MS, S
from tests.simulation.network import Service, Twist
from tests.simulation.process import Place
from tests.simulation.scenario import (
    SETTLE_US,
    Act,
    Befall,
    BlockLoop,
    Crash,
    Deploy,
    IndexLag,
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
LONGEST_SETTLING_US = 75 * S
"""After the last fault: one audit (a minute, with jitter) and what follows from it, beside lease and skew."""

HOUR_STEPS = False
"""Whether clocks are also stepped by an hour. Not while the worker does not watch its clock (docs/simulation.md)."""

TWISTED = (
    "claim",
    "claim",
    "renew",
    "renew",
    "heartbeat",
    "heartbeat",
    "release",
    "release",
    "checkpoint",
    "join",
    "orphan",
    "bury",
    "page",
    "inbox",
    "control",
    "offer",
    "*",
)
"""Labels of requests that faults wait for: the protocol's own writes far more often than they would be met by chance."""

KINDS = (
    "befall",
    "befall",
    "befall",
    "pause",
    "pause",
    "crash",
    "block",
    "partition",
    "throttle",
    "step",
    "lag",
    "stream",
    "offers",
    "schedule",
    "upstream",
    "sink",
    "deploy",
    "scale",
    "act",
    "act",
)


def scenario(seed: int, mode: LeaseMode | None = None) -> Scenario:
    """The scenario of a seed; `mode` instead of the seed's own."""
    draws = Random(f"scenario/{seed}")
    drawn = draws.choice((LeaseMode.CONNECTION, LeaseMode.WORKER))
    first = mode or drawn
    timing = _timing(draws, LeaseMode.CONNECTION)
    worker_timing = _timing(draws, LeaseMode.WORKER)
    workers = draws.randint(3, 5)
    connections = {f"c{n}": _nature(draws) for n in range(draws.randint(8, 20))}
    lease_us = max(timing.lease_ms, worker_timing.lease_ms if mode is None else 0) * MS
    if first is LeaseMode.WORKER and mode is not None:
        lease_us = worker_timing.lease_ms * MS
    span_us = max(90 * S, min(6 * lease_us, 180 * S))
    quiet_us = SETTLE_US + span_us
    plan = _plan(draws, first, mode is None, workers, tuple(connections), lease_us, quiet_us)
    end_us = quiet_us + lease_us + SKEW_MS * MS + LONGEST_SETTLING_US
    return Scenario(
        seed=seed,
        mode=first,
        timing=timing,
        worker_timing=worker_timing,
        shards=draws.randint(1, 3),
        workers=workers,
        capacity=draws.choice((len(connections), len(connections) // 2 + 2, 100)),
        page_limit=draws.choice((2, 5, 1_000)),
        connections=connections,
        plan=plan,
        quiet_us=quiet_us,
        end_us=end_us,
        offsets_ms=tuple(_offset(draws) for _ in range(40)),
        rates_ppm=tuple(draws.uniform(-200, 200) for _ in range(40)),
    )


def _timing(draws: Random, mode: LeaseMode) -> Timing:
    if mode is LeaseMode.CONNECTION:
        heartbeat_ms, lease_ms = draws.choice(((10_000, 30_000), (5_000, 15_000), (2_000, 6_000), (3_000, 12_000)))
    else:
        heartbeat_ms, lease_ms = draws.choice(((2_000, 6_000), (2_000, 6_000), (1_000, 3_000), (3_000, 12_000)))
    return Timing(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms)


def _offset(draws: Random) -> float:
    """Half of the time at the edge of what is allowed: two such clocks differ by the whole allowance."""
    return draws.choice((-HALF_SKEW_MS, HALF_SKEW_MS, draws.uniform(-HALF_SKEW_MS, HALF_SKEW_MS), 0.0))


def _nature(draws: Random) -> Nature:
    return Nature(
        resumes=draws.random() < 0.8,
        inclusive=draws.random() < 0.7,
        order=draws.choice(("oldest_first", "oldest_first", "oldest_first", "newest_first")),
        shared=draws.random() < 0.3,
        every_us=draws.randint(3, 9) * S,
        poison=draws.random() < 0.02,
    )


def _plan(
    draws: Random,
    mode: LeaseMode,
    may_change_mode: bool,
    workers: int,
    ids: tuple[str, ...],
    lease_us: int,
    quiet_us: int,
) -> tuple[Planned, ...]:
    """Some 40 to 70 entries of some of the kinds."""
    kinds = draws.sample(KINDS, draws.randint(5, 12)) + ["befall", "pause"]
    slots = tuple(f"w{n}" for n in range(workers))
    planned: list[Planned] = []
    deploys = 0
    for _ in range(draws.randint(45, 80)):
        kind = draws.choice(kinds)
        at_us = draws.randrange(SETTLE_US, quiet_us)
        who = draws.choice(slots)
        if kind == "deploy":
            deploys += 1
            if deploys > 2:
                kind = "befall"
        made = _planned(draws, kind, at_us, who, slots, ids, lease_us, quiet_us, mode, may_change_mode)
        if isinstance(made, Deploy):
            mode = made.mode
        planned.append(made)
    planned += _early(draws, slots)
    return tuple(sorted(planned, key=lambda entry: entry.at_us))


def _early(draws: Random, slots: tuple[str, ...]) -> list[Planned]:
    """What befalls the first joins and claims: faults that wait from the very beginning."""
    some = draws.sample(("join", "claim", "claim", "heartbeat", "create", "summary"), draws.randint(0, 3))
    return [
        Befall(0, draws.choice(tuple(Twist)), label, draws.choice((*slots, "*")), draws.randint(1, 30) * S)
        for label in some
    ]


def _length(draws: Random, lease_us: int) -> int:
    """From a moment to several leases, evenly by magnitude."""
    return int(lease_us * draws.choice((0.05, 0.2, 0.5, 0.9, 1.1, 1.5, 3.0)) * (0.7 + 0.6 * draws.random()))


def _planned(
    draws: Random,
    kind: str,
    at_us: int,
    who: str,
    slots: tuple[str, ...],
    ids: tuple[str, ...],
    lease_us: int,
    quiet_us: int,
    mode: LeaseMode,
    may_change_mode: bool,
) -> Planned:
    left_us = quiet_us - at_us
    length_us = min(_length(draws, lease_us), left_us)
    match kind:
        case "pause":
            places: tuple[Place | None, ...] = (None, "clock", "send", "check")
            return Pause(at_us, who, length_us, draws.choice(places))
        case "crash":
            return Crash(at_us, who)
        case "block":
            return BlockLoop(at_us, who, length_us)
        case "partition":
            service = draws.choice((Service.STORE, Service.STORE, Service.QUEUE, Service.UPSTREAM))
            return Partition(at_us, who, service, length_us, draws.random() < 0.3)
        case "throttle":
            return Throttle(at_us, draws.choice((who, who, "*")), length_us)
        case "step":
            if HOUR_STEPS and draws.random() < 0.25:
                by_ms = draws.choice((-3_600_000.0, 3_600_000.0))
                return StepClock(at_us, who, None, by_ms, draws.randint(2, 20) * S)
            return StepClock(at_us, who, _offset(draws))
        case "lag":
            return IndexLag(at_us, length_us, draws.choice((1, 3, 10, 30)) * S)
        case "stream":
            drop = draws.choice((0.3, 1.0))
            return StreamTrouble(at_us, length_us, drop, draws.choice((0, 5, 30)) * S)
        case "offers":
            return OffersTrouble(
                at_us, length_us, draws.choice((0.0, 0.5, 1.0)), draws.choice((0.0, 0.5)), draws.choice((0, 3, 20)) * S
            )
        case "schedule":
            off_ms = draws.choice((0.0, 0.0, 5_000.0, -5_000.0))
            dies_after = draws.choice((None, draws.randint(0, 30)))
            return ScheduleTrouble(at_us, draws.random() < 0.2, draws.random() < 0.3, dies_after, off_ms)
        case "upstream":
            what = draws.choice(("drop", "drop", "refuse", "reset"))
            return UpstreamTrouble(at_us, draws.choice(ids), what, min(length_us, 20 * S))  # type: ignore[arg-type]
        case "sink":
            return SinkFault(
                at_us, length_us, draws.choice((0.0, 0.5)), draws.choice((0.0, 0.3)), draws.choice((0, 2)) * S
            )
        case "deploy":
            change = may_change_mode and draws.random() < 0.5
            other = LeaseMode.WORKER if mode is LeaseMode.CONNECTION else LeaseMode.CONNECTION
            return Deploy(at_us, other if change else mode, draws.randint(1, 8) * S)
        case "scale":
            return Scale(at_us, draws.choice((-1, 1)))
        case "act":
            what = draws.choice(("start", "stop", "edit", "edit", "delete", "create", "start", "forget"))
            return Act(at_us, draws.choice(ids), what)  # type: ignore[arg-type]
        case _:
            label = draws.choice(TWISTED)
            delay_us = draws.choice((1, 3, lease_us // S, 2 * lease_us // S, 45, MINUTE // S)) * S
            return Befall(at_us, draws.choice(tuple(Twist)), label, draws.choice((who, "*", "*")), delay_us)
