"""`streamlease rm`."""

from typing import Any

import pytest

from streamlease.model import DesiredState
from streamlease.write import Always, Item, Put, Table, Value
from streamlease_cli.discarding import Kept, discard
from tests.cli.system import TIMING, System


def test_a_stopped_connection_that_nobody_holds_is_deleted() -> None:
    system = System()
    system.add("a", "b", state=DesiredState.STOPPED)
    assert system.json("rm", "a", "--yes") == [{"connection_id": "a", "outcome": "deleted", "detail": None}]
    assert not system.has("a")
    assert system.has("b")


def test_a_started_connection_is_not_deleted_unless_it_is_to_be_stopped() -> None:
    system = System()
    system.add("a")
    result = system.run("rm", "a", "--yes")
    assert result.exit_code == 1
    assert "it is STARTED: stop it first, or say --stop" in result.stdout
    assert system.connection("a")["desired_state"] == "STARTED"
    assert system.run("rm", "a", "--stop", "--yes").exit_code == 0
    assert not system.has("a")


def test_a_held_connection_is_deleted_once_its_owner_has_let_go() -> None:
    system = System()
    system.add("a")
    claimed = system.claim("a")
    naps = iter(range(100))

    def world() -> None:
        if next(naps) == 3:
            system.release(claimed)

    system.while_sleeping = world
    assert system.json("rm", "a", "--stop", "--yes")[0]["outcome"] == "deleted"
    assert next(naps) == 4
    assert not system.has("a")


def test_the_lease_of_a_dead_owner_is_waited_out() -> None:
    system = System()
    system.add("a")
    system.claim("a")
    assert system.json("rm", "a", "--stop", "--yes")[0]["outcome"] == "deleted"


def test_waiting_ends_and_says_how_to_go_on() -> None:
    system = System()
    system.add("a")
    system.claim("a")
    lines = system.json("rm", "a", "--stop", "--yes", "--wait", "2")
    assert lines[0]["outcome"] == "failed"
    assert "still held by its owner" in lines[0]["detail"]
    assert system.connection("a")["desired_state"] == "STOPPED"
    system.clock.advance(20_000)
    assert system.json("rm", "a", "--yes")[0]["outcome"] == "deleted"


def test_a_connection_started_again_meanwhile_is_left_alone() -> None:
    system = System()
    system.add("a")
    system.claim("a")
    system.while_sleeping = lambda: None if system.connection("a")["desired_state"] == "STARTED" else restart()

    def restart() -> None:
        system.run("start", "a")

    lines = system.json("rm", "a", "--stop", "--yes")
    assert lines[0]["detail"] == "it was started again meanwhile, and is left alone"
    assert system.has("a")


def test_what_is_gone_already_is_said_so() -> None:
    system = System()
    result = system.run("rm", "a", "--yes")
    assert result.exit_code == 0
    assert result.stdout == "a: already gone\n"


def test_deleting_asks_and_names_what_it_is_about() -> None:
    system = System()
    system.add("a", "b", state=DesiredState.STOPPED, labels={"env": "dev"})
    system.terminal = True
    declined = system.run("rm", "-l", "env=dev", typed="n\n")
    assert declined.exit_code == 1
    assert "Delete 2 connections of the test system, with their positions: a, b?" in declined.stderr
    assert declined.stderr.endswith("Error: nothing was done, since the answer was no\n")
    assert "Usage" not in declined.stderr
    unanswered = system.run("rm", "-l", "env=dev", typed="")
    assert (unanswered.exit_code, unanswered.stderr.splitlines()[-1]) == (1, declined.stderr.splitlines()[-1])
    assert system.has("a")
    assert system.run("rm", "-l", "env=dev", typed="y\n").exit_code == 0
    assert not system.has("a")


def test_nothing_is_deleted_where_nobody_can_be_asked() -> None:
    system = System()
    system.add("a", state=DesiredState.STOPPED)
    refused = system.run("rm", "a")
    assert refused.exit_code == 2
    assert refused.stderr == (
        "Error: Delete 1 connection of the test system, with its position: a? Nobody can be asked here: say --yes to"
        " go ahead\n"
    )
    assert system.has("a")


# --- what cannot be read ----------------------------------------------------------------------------------------------

BROKEN = {"connection_id": "broken", "desired_state": "STARTED"}


def discarded(system: System) -> dict[str, Any]:
    [line] = system.json("rm", "--malformed", "broken", "--yes")
    return line


def test_an_item_that_cannot_be_read_is_deleted_by_its_id() -> None:
    system = System()
    system.put(BROKEN)
    assert discarded(system)["outcome"] == "deleted"
    assert not system.has("broken")
    assert discarded(system)["outcome"] == "already_gone"


def test_what_can_be_read_is_not_deleted_as_malformed() -> None:
    system = System()
    system.add("broken")
    assert "it can be read" in discarded(system)["detail"]
    assert system.has("broken")


@pytest.mark.parametrize("expires", [{}, {"lease_expires_at_ms": 5}, {"in_time": 1}])
def test_what_a_living_worker_may_hold_is_left_alone_and_goes_once_it_is_dead(expires: dict[str, Value]) -> None:
    system = System()
    system.join("worker-a")
    if "in_time" in expires:
        expires = {"lease_expires_at_ms": system.clock.wall_ms + 5_000}
    system.put({**BROKEN, "lease_owner": "worker-a", "lease_epoch": 7, **expires})
    told = discarded(system)
    assert told["outcome"] == "failed"
    assert "worker 'worker-a' may hold it: drain that worker" in told["detail"]
    assert system.has("broken")
    system.store.perform(Put(Table.MEMBERS, {"worker_id": "worker-a", "state": "DEAD"}, Always()))
    assert discarded(system)["outcome"] == "deleted"


def test_a_lease_that_has_run_out_on_every_clock_holds_nothing() -> None:
    system = System()
    system.join("worker-a")
    held: Item = {**BROKEN, "lease_owner": "worker-a", "lease_expires_at_ms": system.clock.wall_ms}
    system.put(held)
    system.clock.advance(TIMING.skew_ms)
    assert discarded(system)["outcome"] == "failed"
    system.clock.advance(1)
    assert discarded(system)["outcome"] == "deleted"


@pytest.mark.parametrize(
    "change", [{"lease_owner": "worker-b"}, {"lease_epoch": 9}, {"desired_state": "STOPPED"}, {"spec_version": 2}]
)
def test_what_is_changed_between_the_look_and_the_delete_is_left_alone(change: dict[str, Value]) -> None:
    system = System()
    system.put({**BROKEN, "lease_epoch": 8})
    flow = discard("broken", TIMING)
    answer = system.store.perform(next(flow))
    system.put({**BROKEN, "lease_epoch": 8, **change})
    outcome = None
    try:
        while True:
            answer = system.store.perform(flow.send(answer))
    except StopIteration as ended:
        outcome = ended.value
    assert isinstance(outcome, Kept)
    assert system.has("broken")


def test_labels_and_stopping_say_nothing_of_what_cannot_be_read() -> None:
    for arguments in (("--all",), ("-l", "a=b"), ("broken", "--stop")):
        assert System().run("rm", "--malformed", "--yes", *arguments).exit_code == 2
