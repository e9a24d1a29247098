"""`streamlease drain`: asks by the member item, waits where told, and does nothing where a name is nobody's."""

import pytest

from streamlease import membership
from streamlease.errors import Unreachable
from streamlease.flow import Request
from streamlease.write import Item, Table, Update
from tests.cli.system import ARN, System


def fleet() -> System:
    system = System()
    for name in ("task-a-1", "task-a-2", "task-b"):
        system.join(name, owned=3, heartbeats=1)
    return system


def item(system: System, worker_id: str) -> Item:
    found = system.store.item(Table.MEMBERS, worker_id)
    assert found is not None
    return found


def leave(system: System, worker_id: str) -> None:
    system.store.perform(membership.leave(worker_id, now_ms=system.clock.wall_ms))


def test_l29_a_worker_is_asked_by_its_own_item_in_the_name_of_who_asks() -> None:
    system = fleet()
    result = system.run("drain", "task-b")
    assert (result.exit_code, result.stdout) == (0, "task-b: asked to drain, with 3 connections\n")
    assert item(system, "task-b")["drain_requested"] == ARN
    assert "drain_requested" not in item(system, "task-a-1")


def test_the_beginning_of_several_ids_is_refused_with_the_list_and_nobody_is_asked() -> None:
    system = fleet()
    system.terminal = True
    result = system.run("drain", "task-b", "task-a")
    assert result.exit_code == 2
    assert "'task-a' is the beginning of 2 workers' ids (task-a-1, task-a-2): say more of the one" in result.stderr
    assert all("drain_requested" not in item(system, name) for name in ("task-a-1", "task-a-2", "task-b"))
    assert system.run("drain", "task-a-2", "task-a-1").exit_code == 0, "each was named"


def test_with_yes_the_beginning_of_ids_names_all_that_begin_so_and_one_id_only_itself() -> None:
    system = fleet()
    system.join("task-b-2")
    said = system.json("drain", "task-a", "task-b", "--yes")
    assert [one["worker_id"] for one in said] == ["task-a-1", "task-a-2", "task-b"]
    assert said[0] == {"worker_id": "task-a-1", "outcome": "asked", "owned": 3, "detail": None}


@pytest.mark.parametrize("name", ["task-c", "", "TASK-B"])
def test_a_name_that_is_nobodys_is_bad_input_and_nobody_is_asked(name: str) -> None:
    system = fleet()
    result = system.run("drain", "task-b", name)
    assert result.exit_code == 2
    assert f"begins with, {name!r}: see `streamlease workers`" in result.stderr
    assert "drain_requested" not in item(system, "task-b")


def test_who_has_ended_has_ended_already_and_nobody_is_asked_for_it() -> None:
    system = fleet()
    leave(system, "task-b")
    result = system.run("drain", "task-b")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "task-b: had ended already\n", "")
    assert system.callers == 0
    [said] = system.json("drain", "task-b")
    assert said == {"worker_id": "task-b", "outcome": "already_gone", "owned": 0, "detail": None}
    asked = [one["worker_id"] for one in system.json("drain", "task-", "--yes")]
    assert asked == ["task-a-1", "task-a-2"], "a beginning means those who run"


def test_where_nobody_else_would_take_over_a_person_is_asked() -> None:
    system = fleet()
    every = ("task-a-1", "task-a-2", "task-b")
    refused = system.run("drain", *every)
    assert refused.exit_code == 2
    assert "No other worker of the test system is LIVE: 9 connections would wait" in refused.stderr
    assert "drain_requested" not in item(system, "task-b")
    system.terminal = True
    assert system.run("drain", *every, typed="n\n").exit_code == 1
    assert system.run("drain", *every, typed="y\n").exit_code == 0
    assert fleet().run("drain", "task", "--yes").exit_code == 0


def test_waiting_ends_when_they_have_ended_and_tells_how_far_it_is() -> None:
    system = fleet()
    began_ms = system.clock.wall_ms

    def meanwhile() -> None:
        if system.clock.wall_ms >= began_ms + 7_000:
            leave(system, "task-b")

    system.while_sleeping = meanwhile
    result = system.run("drain", "task-b", "--wait", "60")
    assert (result.exit_code, result.stdout) == (0, "task-b: drained\n")
    assert result.stderr == "1 worker draining, 3 connections held yet\n"


def test_waiting_in_vain_is_a_failure_with_what_to_do() -> None:
    result = fleet().run("drain", "task-b", "--wait", "3")
    assert result.exit_code == 1
    assert "task-b: failed: it has not ended after 3 s: see its state in `streamlease workers`" in result.stdout


def test_one_that_ended_meanwhile_is_said_so() -> None:
    system = fleet()

    def end_before(request: Request) -> bool:
        if isinstance(request, Update):
            leave(system, "task-b")
        return False

    system.troubled.trouble(Unreachable("never"), when=end_before)
    assert system.json("drain", "task-b")[0]["outcome"] == "already_gone"


def test_a_store_without_an_answer_fails_that_worker_and_asks_the_next() -> None:
    system = fleet()
    system.troubled.trouble(Unreachable("no answer"))
    result = system.run("drain", "task-a-1", "task-a-2")
    assert result.exit_code == 1
    assert "task-a-1: failed" in result.stdout
    assert item(system, "task-a-2")["drain_requested"] == ARN
