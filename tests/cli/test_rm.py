"""`streamlease rm`."""

from streamlease.model import DesiredState
from tests.cli.system import System


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
    assert system.has("a")
    assert system.run("rm", "-l", "env=dev", typed="y\n").exit_code == 0
    assert not system.has("a")


def test_nothing_is_deleted_where_nobody_can_be_asked() -> None:
    system = System()
    system.add("a", state=DesiredState.STOPPED)
    assert system.run("rm", "a").exit_code == 2
    assert system.has("a")
