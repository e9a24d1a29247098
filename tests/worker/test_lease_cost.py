"""The bench's own keepers, one of twenty workers with 10,000 connections: what they send stays within the goals."""

import pytest

from bench.lease_cost import GOAL_LEASES, GOAL_WITH_CHECKPOINTS, split
from bench.shift import Positions, Sent, Shift, discord, numbers
from streamlease.model import LeaseMode
from streamlease.settings import TIMINGS

WORKERS = 20
SECONDS = 30


def half_a_minute(mode: LeaseMode, positions: Positions | None) -> Sent:
    worker_id = "0123456789abcdef0123456789abcdef-01234567"
    shift = Shift(worker_id, split(10_000, WORKERS)[3], mode=mode, timing=TIMINGS[mode], positions=positions)
    return shift.work(SECONDS)


def test_a_workers_leases_cost_its_heartbeats_and_no_more() -> None:
    sent = half_a_minute(LeaseMode.WORKER, None)
    assert set(sent.statements) == {"heartbeat"}
    assert 0.5 * SECONDS <= sent.statements["heartbeat"] <= GOAL_LEASES / WORKERS * SECONDS


@pytest.mark.parametrize("positions", [numbers, discord])
def test_checkpoints_of_every_position_each_ten_seconds_stay_within_the_goal(positions: Positions) -> None:
    sent = half_a_minute(LeaseMode.WORKER, positions)
    assert sent.statements["checkpoint of the item"] == 0
    units = sent.page_units + sent.statements["heartbeat"] + sent.statements["page made"]
    assert units <= GOAL_WITH_CHECKPOINTS / WORKERS * SECONDS
    assert sum(sent.entries) >= 500 * (SECONDS / 10 - 1), "each position is saved in each interval"


def test_connection_mode_renews_each_connection_and_its_checkpoint_rides_along() -> None:
    sent = half_a_minute(LeaseMode.CONNECTION, numbers)
    renewals = sent.statements["renewal with a checkpoint"]
    assert 500 * SECONDS / 10 <= renewals <= 1.12 * 500 * SECONDS / 10
    assert sent.statements["renewal"] == 0
