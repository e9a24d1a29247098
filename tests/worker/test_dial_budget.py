"""What a whole fleet of dial gates does to one upstream, with everything going wrong around it."""

import pytest

from streamlease.budget import Limit, credential_budget, host_budget
from streamlease_worker.dial_gate import MOST_UNDER_WAY_TO_A_HOST
from tests.worker.dialling import Fleet, Trouble, Worker, most_in_a_window

S = 1_000
MINUTES = 60 * S
LIMIT = Limit(dials=300, per_ms=5 * MINUTES)
HOST = host_budget("upstream.example", "eu", LIMIT)
BAD_DAY = Trouble(lost=0.05, unanswered=0.1, late=0.05, throttled=0.05)


def test_a_failover_of_1000_connections_keeps_to_300_dials_in_5_minutes() -> None:
    fleet = Fleet((HOST,))
    workers = [fleet.worker(ahead_ms=ahead_ms) for ahead_ms in (-500, 0, 500)]
    for number in range(1_000):
        fleet.at(number * 2, lambda n=number: fleet.want(workers[n % 3]))  # type: ignore[misc]
    fleet.run(25 * MINUTES)
    times_ms = [at_ms for at_ms, _, _ in fleet.dialled]
    assert len(times_ms) == 1_000
    assert most_in_a_window(times_ms, LIMIT.per_ms) == 300
    assert max(times_ms) < 17 * MINUTES, "three windows and what is left over, and hardly more"
    assert most_in_a_window(times_ms, 1 * S) <= 45, "ten a second, more before it is known how many wait"
    assert fleet.writes < 150, "slices, not a write for each dial"


def test_who_has_waited_longest_dials_first_across_the_fleet() -> None:
    fleet = Fleet((HOST,))
    fleet.secrets_ms = lambda: 0
    old, young = fleet.worker(), fleet.worker()
    for number in range(650):
        fleet.at(number, lambda: fleet.want(old))
    for number in range(50):
        fleet.at(30 * S + number, lambda: fleet.want(young))
    fleet.run(25 * MINUTES)
    by_whom = [name for _, _, name in fleet.dialled]
    assert len(by_whom) == 700
    assert by_whom.index("worker-1") >= 600, "its connections came last"


def test_a_dead_workers_place_in_the_queue_is_not_kept_for_long() -> None:
    fleet = Fleet((HOST,))
    dead, alive = fleet.worker(), fleet.worker()
    for number in range(400):
        fleet.at(number, lambda: fleet.want(dead))
    fleet.at(30 * S, lambda: fleet.want(alive))
    fleet.at(60 * S, lambda: _dies(fleet, dead))
    fleet.run(20 * MINUTES)
    (at_ms,) = [at_ms for at_ms, _, name in fleet.dialled if name == "worker-1"]
    assert at_ms < 8 * MINUTES


@pytest.mark.parametrize(("drained", "longest_ms"), [(True, 22 * S), (False, 65 * S)])
def test_free_dials_wait_no_more_than_a_look_for_a_drained_worker_and_a_minute_for_a_dead_one(
    drained: bool, longest_ms: int
) -> None:
    """All that wait are somebody else's now. What is free is not to be kept for who is gone."""
    fleet = Fleet((HOST,))
    gone, stays = fleet.worker(), fleet.worker()
    for number in range(600):
        fleet.at(number, lambda: fleet.want(gone))
    fleet.at(240 * S, lambda: fleet.want(stays))
    fleet.at(304 * S, lambda: fleet.drain(gone) if drained else _dies(fleet, gone))
    fleet.run(20 * MINUTES)
    (at_ms,) = [at_ms for at_ms, _, name in fleet.dialled if name == "worker-1"]
    assert sum(1 for each, _, _ in fleet.dialled if each < 304 * S) <= 420, "there was something free"
    assert at_ms - 304 * S < longest_ms


def _dies(fleet: Fleet, worker: Worker) -> None:
    fleet.crash(worker)


@pytest.mark.parametrize("seed", range(12))
def test_no_window_of_the_fleet_sees_more_dials_than_the_limit_whatever_goes_wrong(seed: int) -> None:
    limit = Limit(dials=(300, 40, 7, 1)[seed % 4], per_ms=(5 * MINUTES, 60 * S, 30 * S, 5 * S)[seed % 4])
    fleet = Fleet((host_budget("upstream.example", "eu", limit),), seed=seed, trouble=BAD_DAY)
    workers = [fleet.worker(ahead_ms=ahead_ms) for ahead_ms in (-500, -200, 0, 300, 500)]
    wanted = 3 * limit.dials + 5
    for number in range(wanted):
        fleet.at(fleet.draws.randrange(2 * limit.per_ms), lambda n=number: want(n))  # type: ignore[misc]

    def want(number: int) -> None:
        worker = workers[number % 5]
        fleet.want(worker if worker.alive else workers[4])

    def crash(number: int) -> None:
        """Another takes over what the dead one had waiting; so the count of dials may be less than was wanted."""
        for _ in range(fleet.crash(workers[number])):
            fleet.want(workers[4])

    fleet.at(limit.per_ms, lambda: crash(0))
    fleet.at(2 * limit.per_ms, lambda: crash(1))
    fleet.run(40 * limit.per_ms + 10 * MINUTES)
    times_ms = [at_ms for at_ms, _, _ in fleet.dialled]
    assert most_in_a_window(times_ms, limit.per_ms) <= limit.dials
    assert sum(len(worker.tickets) for worker in workers) == 0, "everybody has dialled in the end"


def test_each_of_two_budgets_is_kept_where_a_dial_counts_by_both() -> None:
    credential = credential_budget(["env:TOKEN"], Limit(dials=5, per_ms=20 * S))
    fleet = Fleet((host_budget("upstream.example", "eu", Limit(dials=50, per_ms=60 * S)), credential), seed=3)
    workers = [fleet.worker(), fleet.worker(ahead_ms=400)]
    for number in range(60):
        fleet.at(number, lambda n=number: fleet.want(workers[n % 2]))  # type: ignore[misc]
    fleet.run(30 * MINUTES)
    times_ms = [at_ms for at_ms, _, _ in fleet.dialled]
    assert len(times_ms) == 60
    assert most_in_a_window(times_ms, 20 * S) <= 5
    assert most_in_a_window(times_ms, 60 * S) <= 50


def test_dials_that_wait_for_another_budget_keep_nobody_from_the_one_they_have_in_common() -> None:
    """The credential's are older, and each of them would want a token of the host's at once, and for ever."""
    host = host_budget("upstream.example", "eu", Limit(dials=20, per_ms=60 * S))
    credential = credential_budget(["env:TOKEN"], Limit(dials=1, per_ms=5 * MINUTES))
    fleet = Fleet((host, credential))
    blocked, other = fleet.worker(), fleet.worker()
    for number in range(50):
        fleet.at(number, lambda: fleet.want(blocked, host, credential))
    for number in range(20):
        fleet.at(5 * S + number, lambda: fleet.want(other, host))
    fleet.run(20 * MINUTES)
    times_ms = [at_ms for at_ms, _, name in fleet.dialled if name == "worker-1"]
    assert len(times_ms) == 20
    assert max(times_ms) < 2 * MINUTES
    assert len(fleet.dialled) - 20 == 4, "and the others are held up by nobody either"
    assert fleet.writes + fleet.reads < 400, "nor is anything taken in vain"


def test_dials_that_need_two_budgets_keep_their_turn_in_both_where_others_want_either() -> None:
    """Whose turn at the one is near is in the other's queue, or would find it taken by who came later."""
    host = host_budget("upstream.example", "eu", Limit(dials=1, per_ms=60 * S))
    credential = credential_budget(["env:TOKEN"], Limit(dials=20, per_ms=5 * MINUTES))
    fleet = Fleet((host, credential))
    both, one, other = fleet.worker(), fleet.worker(), fleet.worker()
    for number in range(20):
        fleet.at(number, lambda: fleet.want(other, credential))
    for number in range(5):
        fleet.at(1 * S + number, lambda: fleet.want(both, host, credential))
    for number in range(100):
        fleet.at(5 * S + number, lambda: fleet.want(other, credential))
    for number in range(5):
        fleet.at(5 * S + number, lambda: fleet.want(one, host))
    fleet.run(30 * MINUTES)
    times_ms = [at_ms for at_ms, _, name in fleet.dialled if name == "worker-0"]
    assert len(times_ms) == 5
    assert max(times_ms) < 10 * MINUTES, "a window of the one, then each minute"


def test_a_dial_that_needs_two_budgets_has_its_turn_where_each_token_alone_is_wanted_by_many_on_the_same_worker() -> (
    None
):
    """It is the oldest of all, and yet both tokens would hardly ever lie there together."""
    host = host_budget("upstream.example", "eu", Limit(dials=1, per_ms=60 * S))
    credential = credential_budget(["env:TOKEN"], Limit(dials=1, per_ms=60 * S + 1))
    fleet = Fleet((host, credential))
    fleet.secrets_ms, fleet.dial_ms = lambda: 0, lambda: 50
    worker, other = fleet.worker(), fleet.worker()
    fleet.want(other, host)
    fleet.want(other, credential)
    fleet.at(1 * S, lambda: fleet.want(worker, host, credential))
    for number in range(20):
        fleet.at(5 * S + number, lambda: fleet.want(worker, host))
        fleet.at(5 * S + number, lambda: fleet.want(worker, credential))
    fleet.run(30 * MINUTES)
    at_ms = next(at_ms for at_ms, since_ms, _ in fleet.dialled if since_ms == 1 * S)
    assert at_ms < 3 * MINUTES


def test_while_the_table_cannot_be_reached_what_is_left_of_a_slice_is_spent_and_no_more() -> None:
    fleet = Fleet((host_budget("upstream.example", "eu", Limit(dials=1_000, per_ms=5 * MINUTES)),))
    fleet.secrets_ms, fleet.dial_ms = lambda: 0, lambda: 3_000
    worker = fleet.worker()
    for _ in range(100):
        fleet.want(worker)
    fleet.run(200)
    assert len(fleet.dialled) == MOST_UNDER_WAY_TO_A_HOST, "a slice of the rest is there, but no more go out"
    fleet.trouble = Trouble(lost=1.0)
    for _ in range(40):
        fleet.want(worker)
    fleet.run(4 * MINUTES)
    assert len(fleet.dialled) == 100
    fleet.trouble = Trouble()
    fleet.run(5 * MINUTES)
    assert len(fleet.dialled) == 140


def test_who_waits_is_told_for_what_and_about_how_long_and_not_at_every_turn() -> None:
    fleet = Fleet((HOST,))
    workers = [fleet.worker(), fleet.worker(), fleet.worker()]
    for number in range(1_000):
        fleet.at(number // 10, lambda n=number: fleet.want(workers[n % 3]))  # type: ignore[misc]
    fleet.run(40 * S)
    newest = max(tell.ticket for tell in workers[0].told)
    said = [tell.reason for tell in workers[0].told if tell.ticket == newest]
    assert said[-1] == "waiting for the dial budget of upstream.example (300 in 5 min), about 16 min"
    fleet.run(20 * MINUTES)
    told = sum(len(worker.told) for worker in workers)
    assert told < 4 * 700, "each of those that waited was told a few times at most"
