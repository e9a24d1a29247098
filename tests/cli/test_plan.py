"""`streamlease plan`, held against figures reckoned by hand: prices of us-east-1, months of 730 hours."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamlease.model import LeaseMode
from streamlease.settings import TIMINGS
from streamlease.timing import Timing
from streamlease_cli.capacity import limits, shards_needed, timing_for, window
from streamlease_cli.commandline import cli
from streamlease_cli.costing import Fleet, bill, envelope_bytes, flow, positions_on_a_page, provisioned_kinesis, writes
from streamlease_cli.errors import BadInput
from streamlease_cli.pricing import load_prices

CONNECTION, WORKER = LeaseMode.CONNECTION, LeaseMode.WORKER
PRICES = load_prices(None)
FLEET = Fleet(
    connections=10_000,
    workers=20,
    vcpu=0.5,
    memory_gb=1.0,
    shards=16,
    records_per_s=10_000,
    record_bytes=500,
    checkpoint_s=10,
    item_bytes=900,
    moves_per_month=300_000,
)


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *arguments])


def planned(*arguments: str) -> dict[str, Any]:
    result = plan(*arguments, "--json")
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def lines(mode: LeaseMode, fleet: Fleet = FLEET) -> dict[str, float]:
    return {line.name: line.cost for line in bill(mode, TIMINGS[mode], fleet, PRICES).lines}


# --- units and money -------------------------------------------------------------------------------------------------


def test_ten_thousand_connections_renewed_each_ten_seconds_are_three_thousand_units_and_4900_dollars() -> None:
    units = writes(CONNECTION, Timing(heartbeat_ms=10_000, lease_ms=30_000), FLEET)
    assert units.leases == 10_000 / 10 * 3 + 20 / 10
    assert units.checkpoints == 0, "they ride on the renewals"
    assert lines(CONNECTION)["leases"] == pytest.approx(3_002 * 2_628_000 / 1e6 * 0.625)
    assert lines(CONNECTION)["leases"] == pytest.approx(4_930.785)


def test_in_worker_mode_leases_cost_a_unit_a_heartbeat_and_nineteen_positions_share_one() -> None:
    units = writes(WORKER, Timing(heartbeat_ms=2_000, lease_ms=6_000), FLEET)
    assert units.leases == 20 / 2
    assert positions_on_a_page() == 19
    assert units.checkpoints == pytest.approx(10_000 / 19 / 10)
    assert lines(WORKER)["leases"] == pytest.approx(16.425)
    assert lines(WORKER)["checkpoints"] == pytest.approx(86.447, abs=0.001)


def test_pages_are_written_only_as_far_as_positions_move() -> None:
    still = writes(WORKER, TIMINGS[WORKER], replace(FLEET, records_per_s=0))
    assert still.checkpoints == 0
    seldom = writes(WORKER, TIMINGS[WORKER], replace(FLEET, records_per_s=10_000 / 1_000))
    # each moves in a hundredth of the intervals, so that a page of nineteen is written in 1 - 0.99 ** 19 of them
    assert seldom.checkpoints == pytest.approx(10_000 / 19 / 10 * 0.1730, rel=0.01)


def test_an_item_above_a_kilobyte_costs_each_renewal_another_unit() -> None:
    units = writes(CONNECTION, TIMINGS[CONNECTION], replace(FLEET, item_bytes=1_025))
    assert units.leases == 10_000 / 10 * 4 + 2


@pytest.mark.parametrize(("mode", "units"), [(CONNECTION, 8), (WORKER, 6)])
def test_a_move_is_a_release_and_a_claim(mode: LeaseMode, units: int) -> None:
    assert writes(mode, TIMINGS[mode], FLEET).moves == pytest.approx(300_000 * units / 2_628_000)


def test_the_other_lines_are_what_one_reckons_by_hand() -> None:
    found = lines(CONNECTION)
    assert found["Fargate"] == pytest.approx(20 * (0.5 * 0.04048 + 0.004445) * 730)
    assert found["SQS"] == pytest.approx((20 / 2 * 2_628_000 + 300_000 * 0.6) / 1e6 * 0.40)
    assert found["Lambda"] == pytest.approx(73_800 * 0.2e-6 + (43_800 + 3_000) * 0.5 * 0.0000166667)
    assert found["storage and its backup"] == pytest.approx((10_000 * 1_500 + 20 * 400) / (1 << 30) * 0.45)
    assert found["DynamoDB stream"] == 0, "reads by a function have no price"


def test_each_record_counts_in_whole_kilobytes_where_connections_are_slow() -> None:
    taken = flow(FLEET)
    assert taken.kinesis_records == 10_000
    assert taken.bytes == 10_000 * (500 + envelope_bytes() + 1)
    gb = 10_000 * 2_628_000 * 1_024 / (1 << 30)
    out = taken.bytes * 2_628_000 / (1 << 30) * 0.04
    assert lines(WORKER)["Kinesis, on demand, read once"] == pytest.approx(730 * 0.04 + gb * 0.08 + out)


def test_records_of_a_quick_connection_share_a_kinesis_record() -> None:
    taken = flow(replace(FLEET, records_per_s=10_000 * 100))
    assert taken.kinesis_records == pytest.approx(100_000)
    assert taken.shards == 1.25 * max(100_000 / 1_000, taken.bytes / (1 << 20)) // 1 + 1
    slow = replace(FLEET, records_per_s=1_000)
    assert flow(slow).shards == 2, "1,000 Kinesis records a second, and a quarter to spare"
    assert provisioned_kinesis(slow, PRICES) == pytest.approx(2 * 730 * 0.015 + 1_000 * 2_628_000 / 1e6 * 0.014)


def test_provisioned_throughput_is_reckoned_at_seventy_percent_use() -> None:
    found = bill(CONNECTION, TIMINGS[CONNECTION], FLEET, PRICES)
    by_hand = (found.writes.total * 0.00065 + found.read_units_per_s * 0.00013) * 730 / 0.7
    assert found.provisioned_dynamodb == pytest.approx(by_hand)
    assert 1_900 < found.provisioned_dynamodb < 2_100


# --- failover, shards, limits ----------------------------------------------------------------------------------------


def test_the_window_is_the_lease_the_clocks_a_sweep_and_a_dial() -> None:
    seen = window(Timing(heartbeat_ms=2_000, lease_ms=6_000))
    assert (seen.lease_s, seen.skew_s, seen.sweep_s, seen.dial_s) == (6, 1, 1, 1)
    assert seen.at_most_s == 9
    assert seen.usual_s == 6 - 1 + 1 + 0.5 + 1


def test_dials_that_an_upstream_allows_one_after_the_other_lengthen_the_window() -> None:
    found = planned("--connections", "10000", "--dials-per-s", "1")["modes"]["worker"]["failover_s"]
    assert found["dial"] == 1 + 500
    assert found["at_most"] == 9 + 500
    assert "failover at most 509 s" in plan("--connections", "10000", "--dials-per-s", "1").stdout


@pytest.mark.parametrize(("failover_s", "heartbeat_ms"), [(33.0, 10_000), (9.0, 2_000), (6.0, 1_000)])
def test_a_wanted_failover_says_the_lease(failover_s: float, heartbeat_ms: int) -> None:
    timing = timing_for(failover_s)
    assert (timing.heartbeat_ms, timing.lease_ms) == (heartbeat_ms, 3 * heartbeat_ms)
    assert window(timing).at_most_s <= failover_s


def test_a_failover_that_cannot_be_is_refused_with_the_least_that_can() -> None:
    with pytest.raises(BadInput, match="6 s is the least there can be"):
        timing_for(5.9)


@pytest.mark.parametrize(
    ("mode", "connections", "shards"),
    [(CONNECTION, 10_000, 4), (CONNECTION, 10_001, 8), (CONNECTION, 10, 1), (WORKER, 10_000, 1), (WORKER, 100_000, 8)],
)
def test_shards_leave_half_of_each_key_to_spare(mode: LeaseMode, connections: int, shards: int) -> None:
    assert shards_needed(mode, TIMINGS[mode], connections) == shards


def test_limits_come_soonest_first() -> None:
    met = limits(CONNECTION, TIMINGS[CONNECTION], FLEET)
    assert [limit.connections for limit in met] == sorted(limit.connections for limit in met)
    at = {limit.name.partition(":")[0]: limit.connections for limit in met}
    assert at["quota of a new account"] == 12 * 500
    assert at["index key"] == 16 * 1_000 * 10 // 2
    assert at["quota"] == 40_000 * 10 // 2
    assert at["owner's key"] == 20 * 5_000
    assert at["members"] == 3_000 * 4_096 // 400 * 500
    assert at["fleet summary"] == 30_000 * 500


# --- the command -----------------------------------------------------------------------------------------------------


def test_both_modes_are_printed_with_their_figures_and_the_date_of_the_prices() -> None:
    result = plan("--connections", "10000")
    assert result.exit_code == 0
    assert "10,000 connections over 20 workers (500 each)" in result.stdout
    assert "3,002.0 write units/s" in result.stdout
    assert "$4,931" in result.stdout
    assert "10.0 write units/s" in result.stdout
    assert "failover at most 33 s" in result.stdout
    assert "failover at most 9 s" in result.stdout
    assert "limit at 80,000: index key" in result.stdout
    assert f"prices of {PRICES.date}, us-east-1; check them" in result.stderr
    assert "not in it: NAT" in result.stderr


def test_one_mode_alone_may_be_asked_for() -> None:
    assert set(planned("--connections", "10", "--mode", "worker")["modes"]) == {"worker"}


def test_the_json_has_the_documented_keys() -> None:
    document = planned("--connections", "10000", "--failover", "9s")
    assert set(document) == {"connections", "workers", "prices", "fleet", "modes", "records_stream"}
    found = document["modes"]["connection"]
    assert (found["heartbeat_ms"], found["lease_ms"]) == (2_000, 6_000)
    assert found["write_units_per_s"]["leases"] == 15_010
    assert set(found) == {
        "heartbeat_ms", "lease_ms", "write_units_per_s", "read_units_per_s", "cost_per_month", "total_cost_per_month",
        "lease_cost_per_month", "dynamodb_throughput_provisioned_per_month", "failover_s", "shards_needed",
        "positions_on_a_page", "limits",
    }  # fmt: skip
    assert document["modes"]["worker"]["positions_on_a_page"] == 19


def test_other_prices_are_reckoned_with_and_named(tmp_path: Path) -> None:
    shown = plan("--show-prices")
    other = {**json.loads(shown.stdout), "region": "eu-west-1", "fargate_vcpu_hour": 0.0, "fargate_gb_hour": 1.0}
    file = tmp_path / "prices.json"
    file.write_text(json.dumps(other))
    document = planned("--connections", "10", "--workers", "3", "--prices", str(file))
    assert document["prices"]["region"] == "eu-west-1"
    assert document["modes"]["worker"]["cost_per_month"]["Fargate"] == 3 * 730


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "prices.json is not JSON"),
        ('{"region": 3}', "region: input should be a valid string; begin with what `streamlease plan --show-prices`"),
        ('["a"]', "prices.json: it: "),
        (None, "prices.json cannot be read"),
    ],
)
def test_a_file_that_is_no_price_list_is_refused(tmp_path: Path, content: str | None, sentence: str) -> None:
    file = tmp_path / "prices.json"
    if content is not None:
        file.write_text(content)
    result = plan("--connections", "10", "--prices", str(file))
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "say how many connections there are to be: streamlease plan --connections 10000"),
        (("--connections", "0"), "0 is not in the range"),
        (("--connections", "10", "--failover", "4"), "6 s is the least there can be"),
        (("--connections", "10", "--failover", "soon"), "it must be a duration such as 60s"),
        (("--connections", "10", "--failover", "9", "--lease", "6s"), "leave out --heartbeat and --lease"),
        (("--connections", "10", "--heartbeat", "5s", "--lease", "6s"), "needs a lease of at least three times that"),
        (("--connections", "10", "--heartbeat", "500ms"), "less than the template allows"),
        (("--connections", "10", "--workers", "5", "--per-worker", "500"), "leave one of them out"),
        (
            ("--connections", "10", "--cpu", "513"),
            "Fargate has no task of --cpu 513: it has 256, 512, 1024, 2048, 4096",
        ),
        (("--connections", "10", "--cpu", "256", "--memory", "4096"), "with that CPU it has 512, 1024, 2048 MiB"),
        (("--connections", "10", "--cpu", "1024", "--memory", "2049"), "it has 2048 to 8192 in steps of 1024 MiB"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    result = plan(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr


def test_the_price_file_says_where_and_when() -> None:
    assert (PRICES.region, PRICES.date[:4]) == ("us-east-1", "2026")
    assert PRICES.source
