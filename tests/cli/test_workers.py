"""`streamlease workers`."""

from streamlease import items
from streamlease.write import Table
from tests.cli.system import System


def fleet() -> System:
    system = System()
    system.join("worker-a", owned=30, heartbeats=3)
    system.join("worker-b", capacity=10, owned=10, heartbeats=1)
    members = tuple(items.member(item) for item in system.store.items(Table.MEMBERS))
    system.summarise(members, unowned=20)
    system.clock.advance(1_500)
    return system


def test_each_worker_has_its_state_load_share_and_heartbeat_age() -> None:
    header, first, second = fleet().run("workers").stdout.splitlines()
    assert header.split() == ["WORKER", "STATE", "OWNED", "SHARE", "CAPACITY", "GENERATION", "HEARTBEAT",
                              "LEASE", "LEFT", "ZONE"]  # fmt: skip
    assert first.split() == ["worker-a", "LIVE", "30", "30", "100", "7", "1s", "7s", "eu-west-1a"]
    assert second.split()[:5] == ["worker-b", "LIVE", "10", "10", "10"], "a share is at most the capacity"


def test_the_json_has_the_documented_keys() -> None:
    system = fleet()
    assert system.json("workers")[0] == {
        "worker_id": "worker-a",
        "state": "LIVE",
        "owned": 30,
        "share": 30,
        "capacity": 100,
        "generation": 7,
        "heartbeat": 3,
        "heartbeat_age_ms": 1_501,
        "lease_left_ms": 7_499,
        "zone": "eu-west-1a",
        "started_at_ms": system.clock.wall_ms - 1_504,
        "load": {"streaming": 30},
    }


def test_the_total_is_said_beside_the_rows() -> None:
    assert fleet().run("workers").stderr == "2 running, 40 connections held; 20 unowned in the sweep 1s ago\n"


def test_a_fleet_without_workers_says_so() -> None:
    result = System().run("workers")
    assert result.exit_code == 0
    assert "no worker has joined the test system" in result.stderr
