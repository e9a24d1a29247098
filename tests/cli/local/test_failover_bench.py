"""What the failover bench makes of the workers' logs."""

from dataclasses import replace

from bench.failover import Acts, Deployment, Wanted, deployment, rank, unmet
from streamlease.model import LeaseMode
from streamlease.timing import Timing
from streamlease_cli.local.evidence import Happened, WorkerEvent
from streamlease_cli.local.report import Move, Report, Seconds

ACTS = Acts(deploy_from_ms=1_000, deploy_until_ms=9_000)


def event(happened: Happened, epoch: int, worker_id: str, at_ms: int, connection_id: str = "c") -> WorkerEvent:
    return WorkerEvent(happened, connection_id, epoch, worker_id, at_ms)


def move(epoch: int, closed_ms: int, ready_ms: int, connection_id: str = "c") -> list[WorkerEvent]:
    return [
        event(Happened.CLOSED, epoch, "from", closed_ms, connection_id),
        event(Happened.CLAIMED, epoch + 1, "to", ready_ms - 10, connection_id),
        event(Happened.READY, epoch + 1, "to", ready_ms, connection_id),
    ]


def test_every_claim_within_a_deployment_is_a_move_and_its_gap_begins_with_the_close() -> None:
    found = deployment([*move(1, 2_000, 2_500), *move(1, 3_000, 3_100, "d"), *move(2, 4_000, 5_000, "d")], ACTS)
    assert found == Deployment(most_moves=2, moved_twice=1, gaps_s=(0.1, 0.5, 1.0))


def test_what_happened_before_or_after_is_none_of_the_deployments() -> None:
    assert deployment([*move(1, 500, 900), *move(2, 9_100, 9_500)], ACTS) == Deployment(0, 0, ())


def test_a_close_that_nothing_follows_has_no_gap() -> None:
    assert deployment([event(Happened.CLOSED, 1, "from", 2_000)], ACTS).gaps_s == ()


def test_ranks_are_the_nearest() -> None:
    assert rank((), 0.99) is None
    assert rank(tuple(float(number) for number in range(1, 101)), 0.99) == 99.0


def reported(kill_s: float | None, drain_s: float | None, missing: int = 0, overlaps: int = 0) -> Report:
    def went(gap_s: float | None) -> Move:
        return Move(10, Seconds(gap_s, gap_s, gap_s), 0 if gap_s is not None else 10)

    return Report(
        connections=10,
        workers=3,
        kill=went(kill_s),
        drain=went(drain_s),
        published=100,
        delivered=100 - missing,
        missing=missing,
        duplicates=0,
        unexplained=0,
        gap_records=0,
        torn_lines=0,
        most_moves=3,
        overlaps=overlaps,
        rows=(),
    )


WANTED = Wanted(LeaseMode.WORKER, Timing(heartbeat_ms=2_000, lease_ms=6_000), 10, 3, 20.0)


def test_goals_that_are_kept_to_leave_nothing_to_say() -> None:
    assert unmet(WANTED, reported(9.0, 1.0), Deployment(1, 0, (0.5,))) == []


def test_of_the_shortest_lease_five_seconds_are_asked() -> None:
    short = replace(WANTED, timing=Timing(heartbeat_ms=1_000, lease_ms=3_000))
    assert unmet(short, reported(5.0, 1.0), Deployment(1, 0, ())) == []
    assert unmet(short, reported(5.1, 1.0), Deployment(1, 0, ())) != []


def test_each_goal_that_is_missed_is_said() -> None:
    said = unmet(WANTED, reported(9.1, None, missing=2, overlaps=1), Deployment(3, 4, ()))
    assert said == [
        "the kill's p99 gap is 9.1 s (0 without an end), over 9",
        "the drain's p99 gap is None s (10 without an end), over 1",
        "the deployment moved 4 connections more than once, one 3 times",
        "2 of 100 records are missing at the sink",
        "1 records were delivered by an older epoch after a newer one",
    ]
