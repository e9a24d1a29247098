"""Nobody is indispensable: whoever has something in hand dies, or never does it at all, and others do it (L1, L40)."""

import pytest

from streamlease.model import LeaseMode
from tests.simulation.kernel import MS, S
from tests.simulation.network import label
from tests.simulation.scenario import BUSIEST, Crash, OffersTrouble, Scale, ScheduleTrouble, StreamTrouble
from tests.simulation.staged import BEGINS_US, CONNECTION, WORKER, Stage, play, scenario
from tests.simulation.store import Landing
from tests.simulation.worker import Worker

both = pytest.mark.parametrize("mode", list(LeaseMode))
LEASE_US = {LeaseMode.CONNECTION: CONNECTION.lease_ms * MS, LeaseMode.WORKER: WORKER.lease_ms * MS}
ONE_LEASE_US = {mode: lease_us + 1 * S + 8 * S for mode, lease_us in LEASE_US.items()}
"""A lease, the skew, and some sweeps of a fleet that has just shrunk."""


class Killer:
    """Kills the worker whose write of this kind has just landed, at that very instant: it never hears of it."""

    def __init__(self, kind: str, times: int) -> None:
        self.killed: list[str] = []
        self._kind, self._times = kind, times

    def __call__(self, stage: Stage) -> None:
        def observe(landing: Landing) -> None:
            if (
                landing.at_us < BEGINS_US
                or len(self.killed) == self._times
                or not label(landing.write).startswith(self._kind)
            ):
                return
            for shell in stage.simulation.fleet.living():
                if shell.process.name == landing.origin:
                    self.killed.append(landing.origin)
                    stage.simulation.kernel.after(0, lambda shell=shell: shell.crash("SIGKILL"))  # type: ignore[misc]

        stage.simulation.store.observers.append(observe)


@both
def test_l1_whoever_sweeps_may_die_as_it_tells_what_it_saw(mode: LeaseMode) -> None:
    """Three times, while a dead worker's connections wait for a sweep."""
    killer = Killer("summary", 3)
    stage = play(scenario(mode, Crash(BEGINS_US, BUSIEST), workers=5, connections=10), killer)
    assert stage.violations == []
    assert len(killer.killed) == 3


@both
def test_l1_without_the_function_the_stream_and_the_queue_workers_find_it_all(mode: LeaseMode) -> None:
    skipped = tuple(ScheduleTrouble(0, skip=True, double=False, dies_after=None, clock_off_ms=0.0) for _ in range(5))
    nothing = (StreamTrouble(0, 300 * S, 1.0, 0), OffersTrouble(0, 300 * S, 1.0, 0.0, 0))
    stage = play(scenario(mode, *skipped, *nothing, Crash(BEGINS_US, BUSIEST), Scale(BEGINS_US + 25 * S, -1)))
    assert stage.violations == []
    claims = [each for each in stage.writes("claim", after_us=BEGINS_US) if each.at_us < BEGINS_US + 25 * S]
    assert claims
    assert claims[-1].at_us - BEGINS_US <= ONE_LEASE_US[mode]


@pytest.mark.parametrize("step", ["bury", "page", "orphan"])
def test_l1_whoever_buries_may_die_after_any_step_of_it(step: str) -> None:
    """Two of them, one after the other, each at the instant at which its write has landed."""
    killer = Killer(step, 2)
    stage = play(scenario(LeaseMode.WORKER, Crash(BEGINS_US, BUSIEST), workers=5, connections=10), killer)
    assert stage.violations == []
    assert killer.killed


@both
def test_l40_a_keeper_that_stands_still_holds_nothing_and_its_process_works_again_afterwards(mode: LeaseMode) -> None:
    """The event loop goes on, so that all looks well but for what the keeper does not do: renew."""
    stood: list[Worker] = []

    def stop_keeper(stage: Stage) -> None:
        def strike() -> None:
            shell = stage.worker(stage.simulation.fleet.busiest())
            assert isinstance(shell, Worker)
            shell.stop_keeper(30 * S)
            stood.append(shell)

        stage.simulation.kernel.at(BEGINS_US, strike)

    stage = play(scenario(mode), stop_keeper)
    assert stage.violations == []
    claims = stage.writes("claim", after_us=BEGINS_US)
    taken = [each for each in claims if each.origin != stood[0].process.name]
    assert taken
    assert LEASE_US[mode] - CONNECTION.heartbeat_ms * MS < taken[0].at_us - BEGINS_US <= ONE_LEASE_US[mode]
    assert stood[0].process.alive
