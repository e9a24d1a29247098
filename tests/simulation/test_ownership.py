"""What users of like systems reported of ownership, done to this one. The ids are those of the project's fault list.

Each test sets one fault into a small fleet; every invariant is checked throughout (`Stage.violations`). The rest of
that list needs real processes and sockets, and is tested with them.
"""

import pytest

from streamlease import pages
from streamlease.model import LeaseMode
from tests.simulation.kernel import MS, S
from tests.simulation.network import Service, Twist
from tests.simulation.scenario import (
    BUSIEST,
    Act,
    Befall,
    BlockLoop,
    Crash,
    Deploy,
    OffersTrouble,
    Partition,
    Pause,
    Planned,
    Scale,
    ScheduleTrouble,
    StepClock,
    StreamTrouble,
    Throttle,
)
from tests.simulation.staged import BEGINS_US, CONNECTION, WORKER, Stage, play, scenario

LEASE_US = {LeaseMode.CONNECTION: CONNECTION.lease_ms * MS, LeaseMode.WORKER: WORKER.lease_ms * MS}
SKEW_US = 1 * S
both = pytest.mark.parametrize("mode", list(LeaseMode))


def _twists(twist: Twist, *labels: str, times: int = 6, delay_us: int = 45 * S) -> tuple[Planned, ...]:
    """The same, again and again, to the next requests of each kind."""
    return tuple(Befall(BEGINS_US + n * 3 * S, twist, label, "*", delay_us) for n in range(times) for label in labels)


def _taken_over(stage: Stage, mode: LeaseMode, at_us: int) -> int:
    """How long after `at_us` the last claim over a lost lease landed."""
    claims = stage.writes("claim", after_us=at_us)
    assert claims, f"nothing was claimed in {mode} mode"
    return claims[-1].at_us - at_us


@both
def test_l1_a_reconcile_run_killed_in_the_middle_leads_to_nobody_being_left_alone(mode: LeaseMode) -> None:
    dying = tuple(ScheduleTrouble(0, False, False, n, 0.0) for n in (1, 3, 5, 7))
    stage = play(scenario(mode, *dying, Crash(BEGINS_US, BUSIEST), StreamTrouble(0, 60 * S, 1.0, 0)))
    assert stage.violations == []
    assert _taken_over(stage, mode, BEGINS_US) <= LEASE_US[mode] + SKEW_US + 5 * S


@both
def test_l2_a_lease_is_judged_by_its_stored_expiry_and_not_by_how_long_somebody_has_watched(mode: LeaseMode) -> None:
    """Nobody who watched is left: all processes are new, and the function keeps no memory."""
    stage = play(scenario(mode, *(Crash(BEGINS_US, f"w{n}") for n in range(3))))
    assert stage.violations == []
    assert _taken_over(stage, mode, BEGINS_US) <= LEASE_US[mode] + SKEW_US + 12 * S


@both
def test_l3_after_a_takeover_a_third_worker_can_take_over_again(mode: LeaseMode) -> None:
    crashes = (Crash(BEGINS_US + n * 25 * S, BUSIEST) for n in range(3))
    stage = play(scenario(mode, *crashes, connections=3, lasts_us=90 * S))
    assert stage.violations == []
    assert any(len(set(stage.epochs(f"c{n}"))) >= 3 for n in range(3))


@both
def test_l4_a_balanced_fleet_takes_what_a_dead_worker_leaves(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Crash(BEGINS_US, BUSIEST), workers=3, connections=9))
    assert stage.violations == []
    assert _taken_over(stage, mode, BEGINS_US) <= LEASE_US[mode] + SKEW_US + 8 * S


@both
def test_l7_of_many_first_claims_at_once_one_wins(mode: LeaseMode) -> None:
    stage = play(scenario(mode, OffersTrouble(0, 30 * S, 0.0, 1.0, 0), workers=5, connections=12))
    assert stage.violations == []
    firsts = [each.key[0] for each in stage.writes("claim") if each.at_us < BEGINS_US]
    assert len(set(firsts)) == 12


@both
def test_l9_a_write_that_the_sdk_repeats_after_it_landed_is_known_as_ours(mode: LeaseMode) -> None:
    stage = play(scenario(mode, *_twists(Twist.TWICE, "claim", "renew", "heartbeat", "release"), Scale(BEGINS_US, -1)))
    assert stage.violations == []
    assert "retried by the SDK after it had landed" in stage.simulation.ledger.faults.values()


@both
def test_l10_checkpoints_and_renewals_side_by_side_refuse_each_other_nothing_for_good(mode: LeaseMode) -> None:
    slow = _twists(Twist.SLOW, "renew", "checkpoint", delay_us=900 * MS)
    stage = play(scenario(mode, *slow, *_twists(Twist.LANDS_LATE, "renew", "checkpoint", delay_us=2 * S)))
    assert stage.violations == []
    late = [each for each in stage.landed if each.at_us > BEGINS_US + 30 * S and each.after]
    if mode is LeaseMode.CONNECTION:
        stored = {each.key[0] for each in late if each.after and "position" in each.after}
    else:
        found = [pages.page(each.after) for each in late if each.after and pages.is_page(each.after)]
        stored = set(pages.newest(found))
    assert stored == {f"c{n}" for n in range(6)}


@both
def test_l14_two_leases_of_throttled_writes_end_no_process_and_lose_no_record(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Throttle(BEGINS_US, "*", 2 * LEASE_US[mode])))
    assert stage.violations == []
    assert len(stage.simulation.fleet.everybody) == 3


@both
def test_l16_who_loses_its_lease_while_it_cannot_renew_is_told_to_stop(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Partition(BEGINS_US, BUSIEST, Service.STORE, 3 * LEASE_US[mode], answers_only=False)))
    assert stage.violations == []
    assert _taken_over(stage, mode, BEGINS_US) > LEASE_US[mode]


@both
@pytest.mark.parametrize("by_ms", [3_600_000.0, -3_600_000.0])
@pytest.mark.parametrize("clock", ["dates", "metadata"])
def test_l17_a_clock_that_steps_by_an_hour_makes_no_two_owners(mode: LeaseMode, by_ms: float, clock: str) -> None:
    steps = (StepClock(BEGINS_US + n * 30 * S, BUSIEST, None, by_ms, 20 * S) for n in range(3))
    stage = play(
        scenario(mode, *steps, Scale(BEGINS_US + 5 * S, 1), Act(BEGINS_US + 8 * S, "c1", "replace"), clock=clock)
    )
    assert [each for each in stage.violations if each.invariant in (1, 2)] == []


@both
def test_l19_a_worker_that_stood_still_for_three_leases_delivers_nothing_when_it_goes_on(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Pause(BEGINS_US, BUSIEST, 3 * LEASE_US[mode], None)))
    assert stage.violations == []
    assert _taken_over(stage, mode, BEGINS_US) <= LEASE_US[mode] + SKEW_US + 5 * S + 3 * LEASE_US[mode]


@both
def test_l20_a_send_held_up_behind_its_check_is_dropped_by_the_reader(mode: LeaseMode) -> None:
    pauses = (Pause(BEGINS_US + n * S, BUSIEST, 2 * LEASE_US[mode], "check") for n in range(3))
    stage = play(scenario(mode, *pauses, workers=3))
    assert stage.violations == []
    assert sum(reader.stale for reader in stage.simulation.sink.readers.values()) > 0


@both
def test_l21_a_blocked_event_loop_loses_its_leases_and_ends_its_process(mode: LeaseMode) -> None:
    stage = play(scenario(mode, BlockLoop(BEGINS_US, BUSIEST, 4 * LEASE_US[mode])))
    assert stage.violations == []
    first = stage.simulation.fleet.everybody[0]
    assert not all(shell.process.alive for shell in stage.simulation.fleet.everybody), first.process.name


@both
def test_l24_what_an_old_epoch_sent_changes_nothing_when_it_lands_minutes_later(mode: LeaseMode) -> None:
    late = _twists(Twist.LANDS_LATE, "renew", "checkpoint", "release", "claim", "heartbeat", delay_us=75 * S)
    stage = play(scenario(mode, *late, Crash(BEGINS_US + 12 * S, BUSIEST), lasts_us=100 * S))
    assert stage.violations == []


@both
def test_l25_a_release_that_lands_after_the_takeover_frees_nobody(mode: LeaseMode) -> None:
    late = Befall(BEGINS_US, Twist.LANDS_LATE, "release", "*", 30 * S)
    acts = [Act(BEGINS_US + 1 * S, f"c{n}", "stop") for n in range(6)]
    starts = [Act(BEGINS_US + 6 * S, f"c{n}", "start") for n in range(6)]
    stage = play(scenario(mode, late, *acts, *starts, lasts_us=100 * S))
    assert stage.violations == []


@both
def test_l26_a_renewal_in_flight_neither_revives_nor_breaks_a_release(mode: LeaseMode) -> None:
    slow = _twists(Twist.SLOW, "renew", "heartbeat", "checkpoint", delay_us=900 * MS, times=12)
    failing = _twists(Twist.THROTTLED, "release", times=3)
    stage = play(scenario(mode, *slow, *failing, Deploy(BEGINS_US + 4 * S, mode, 2 * S), lasts_us=80 * S))
    assert stage.violations == []
    assert len(stage.writes("release", after_us=BEGINS_US)) >= 6


@both
def test_l27_a_conflict_at_sigterm_is_tried_again(mode: LeaseMode) -> None:
    stage = play(scenario(mode, *_twists(Twist.CONFLICT, "release", times=4), Scale(BEGINS_US + 10 * S, -1)))
    assert stage.violations == []
    leaver = stage.simulation.fleet.leaving[0].process
    assert not leaver.alive
    assert "conflict" in stage.simulation.ledger.faults.values()
    released = [each.key[0] for each in stage.writes("release") if each.origin == leaver.name]
    assert len(released) == len(set(released)) > 0
    owners = {item.get("lease_owner") for item in stage.simulation.store.connections()}
    assert not any(stage.simulation.beliefs.is_of(owner, leaver.name) for owner in owners)


@both
def test_l28_a_clean_deployment_hands_each_connection_on_within_two_seconds(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Deploy(BEGINS_US, mode, 5 * S)))
    assert stage.violations == []
    for release in stage.writes("release", after_us=BEGINS_US):
        claims = [each for each in stage.writes("claim", after_us=release.at_us) if each.key == release.key]
        assert claims[0].at_us - release.at_us <= 2 * S


@both
def test_l29_a_draining_worker_claims_nothing(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Scale(BEGINS_US, -1), Crash(BEGINS_US + 50 * MS, "w0")))
    assert stage.violations == []
    leaver = stage.simulation.fleet.leaving[0].process.name
    assert [each for each in stage.writes("claim", after_us=BEGINS_US + 1) if each.origin == leaver] == []


@both
@pytest.mark.parametrize("crash_after_ms", [5, 20, 60, 250])
@pytest.mark.parametrize("side", ["old", "new"])
def test_l30_a_handoff_in_which_either_side_dies_is_over_within_one_timeout(
    mode: LeaseMode, crash_after_ms: int, side: str
) -> None:
    crash_us = BEGINS_US + crash_after_ms * MS

    def crash(stage: Stage) -> None:
        def strike() -> None:
            fleet = stage.simulation.fleet
            for shell in fleet.leaving if side == "old" else [fleet.running(fleet.busiest())]:
                if shell is not None:
                    shell.crash("SIGKILL")

        stage.simulation.kernel.at(crash_us, strike)

    stage = play(scenario(mode, Scale(BEGINS_US, -1)), crash)
    assert stage.violations == []
    assert stage.writes("claim", after_us=crash_us + LEASE_US[mode] + 8 * S) == []


@both
def test_l31_a_drain_stores_the_newest_position_with_the_release_itself(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Deploy(BEGINS_US, mode, 2 * S)))
    assert stage.violations == []
    readers = stage.simulation.sink.readers
    moves = len(stage.writes("claim")) - len(readers)
    assert sum(reader.duplicates for reader in readers.values()) <= moves, "at most the last one again"


@both
def test_l33_a_third_worker_joins_and_the_fleet_comes_to_rest(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Scale(BEGINS_US, 1), workers=2, connections=9))
    assert stage.violations == []
    assert stage.writes("claim", after_us=BEGINS_US + 60 * S) == []


@both
def test_l34_a_newcomer_is_a_member_before_it_has_won_anything(mode: LeaseMode) -> None:
    stage = play(scenario(mode, Scale(BEGINS_US, 1), workers=2))
    assert stage.violations == []
    newcomer = stage.simulation.fleet.everybody[-1]
    joins = [each for each in stage.writes("join", after_us=BEGINS_US) if each.origin == newcomer.process.name]
    claims = [each for each in stage.writes("claim", after_us=BEGINS_US) if each.origin == newcomer.process.name]
    assert len(joins) == 1
    assert all(claim.at_us > joins[0].at_us for claim in claims)


@both
def test_l36_a_cold_start_claims_side_by_side(mode: LeaseMode) -> None:
    stage = play(scenario(mode, workers=2, connections=32, lasts_us=10 * S))
    assert stage.violations == []
    assert max(each.at_us for each in stage.writes("claim")) <= 10 * S


def test_l38_in_worker_mode_heartbeats_move_no_index_key() -> None:
    stage = play(scenario(LeaseMode.WORKER, lasts_us=60 * S))
    assert stage.violations == []
    quiet = [each for each in stage.landed if each.at_us > BEGINS_US]
    assert len([each for each in quiet if each.key[0].startswith("w")]) > 60
    keys = ("desired_state_shard", "lease_expires_at_ms", "lease_owner")
    connections = [each for each in quiet if each.key[0].startswith("c") and each.before and each.after]
    assert all(each.before.get(key) == each.after.get(key) for each in connections for key in keys)  # type: ignore[union-attr]


def test_l39_an_idle_fleet_writes_one_renewal_a_lease_and_heartbeat_and_refuses_nothing() -> None:
    stage = play(scenario(LeaseMode.CONNECTION, workers=2, connections=10, lasts_us=60 * S))
    assert stage.violations == []
    renewals = [each for each in stage.writes("renew") if BEGINS_US < each.at_us <= BEGINS_US + 60 * S]
    assert 10 * 20 <= len(renewals) <= 10 * 20 * 1.35
    assert stage.writes("claim", after_us=BEGINS_US) == []
