"""`streamlease workers`."""

from dataclasses import replace

from streamlease import items, membership
from streamlease.model import MemberState
from streamlease.write import Applied, Table
from tests.cli.system import TIMING, System


def fleet() -> System:
    system = System()
    system.join("worker-a", owned=30, heartbeats=3, load={"records_per_s": 12})
    system.join("worker-b", capacity=10, owned=10, heartbeats=1)
    members = tuple(items.member(item) for item in system.store.items(Table.MEMBERS))
    system.summarise(members, unowned=20)
    system.clock.advance(1_500)
    return system


def test_each_worker_has_its_state_load_share_and_heartbeat_age() -> None:
    header, first, second = fleet().run("workers").stdout.splitlines()
    assert header.split() == ["WORKER", "STATE", "OWNED", "SHARE", "CAPACITY", "RECORDS/S", "GENERATION", "HEARTBEAT",
                              "LEASE", "LEFT", "AGE", "ZONE"]  # fmt: skip
    assert first.split() == ["worker-a", "LIVE", "30", "50", "100", "12", "7", "1s", "7s", "1s", "eu-west-1a"]
    assert second.split()[:5] == ["worker-b", "LIVE", "10", "10", "10"], "a share is at most the capacity"


def test_the_json_has_the_documented_keys() -> None:
    system = fleet()
    assert system.json("workers")[0] == {
        "worker_id": "worker-a",
        "state": "LIVE",
        "owned": 30,
        "share": 50,
        "capacity": 100,
        "generation": 7,
        "heartbeat": 3,
        "heartbeat_age_ms": 1_501,
        "lease_left_ms": 7_499,
        "zone": "eu-west-1a",
        "started_at_ms": system.clock.wall_ms - 1_504,
        "load": {"streaming": 30, "records_per_s": 12},
        "drain_requested": None,
        "left": False,
    }


def test_the_total_is_said_beside_the_rows() -> None:
    assert fleet().run("workers").stderr == "2 running, 40 connections held; 20 unowned in the sweep 1s ago\n"


def test_what_is_to_move_for_balance_is_said_and_whether_it_moves() -> None:
    def unbalanced(*going: str) -> str:
        system = System()
        for name, owned in (("worker-a", 30), ("worker-b", 10), *((name, 5) for name in going)):
            system.join(name, owned=owned, heartbeats=1)
        members = (items.member(item) for item in system.store.items(Table.MEMBERS))
        drained = (replace(m, state=MemberState.DRAINING) if m.worker_id in going else m for m in members)
        system.summarise(tuple(drained), unowned=0, long_so=True)
        return system.run("workers").stderr

    assert unbalanced().endswith("; 10 to move for balance now\n")
    assert unbalanced("worker-c").endswith("; 10 to move for balance once nobody comes or goes\n")


def test_an_older_deployments_worker_has_no_share_while_a_newer_has_room() -> None:
    system = System()
    system.join("old", owned=9, heartbeats=1, generation=6)
    system.join("new", heartbeats=1)
    system.summarise(tuple(items.member(item) for item in system.store.items(Table.MEMBERS)), unowned=3)
    shares = {row["worker_id"]: row["share"] for row in system.json("workers")}
    assert shares == {"old": None, "new": 3}


def test_a_worker_that_is_given_less_says_why() -> None:
    system = System()
    system.join("slow", owned=1, heartbeats=1, load={"pace": 50, "why": "its event loop comes 900 ms late"})
    assert "slow is given less than others: its event loop comes 900 ms late" in system.run("workers").stderr


def test_a_fleet_without_workers_says_so() -> None:
    result = System().run("workers")
    assert result.exit_code == 0
    assert "no worker has joined the test system" in result.stderr


def test_who_drained_and_ended_has_left_and_who_was_buried_is_dead() -> None:
    system = System()
    for name in ("drained", "killed"):
        system.join(name)
    system.store.perform(membership.leave("drained", now_ms=system.clock.wall_ms))
    system.clock.advance(60_000)
    [killed] = [m for m in map(items.member, system.store.items(Table.MEMBERS)) if m.worker_id == "killed"]
    assert isinstance(
        system.store.perform(membership.bury(killed, now_ms=system.clock.wall_ms, timing=TIMING)), Applied
    )
    assert [(row["worker_id"], row["state"], row["left"]) for row in system.json("workers")] == [
        ("drained", "DEAD", True),
        ("killed", "DEAD", False),
    ]
    assert [line.split()[:2] for line in system.run("workers").stdout.splitlines()[1:]] == [
        ["drained", "LEFT"],
        ["killed", "DEAD"],
    ]
