"""`streamlease start` and `stop`."""

from collections.abc import Callable

from streamlease.errors import Denied, Throttled, Unreachable
from streamlease.flow import Request
from streamlease.lease import Checkpoint
from streamlease.model import DesiredState, Status, StatusState
from streamlease.write import Update
from tests.cli.system import ARN, System
from tests.fakes.trouble import Landing


def writes_to(connection_id: str) -> Callable[[Request], bool]:
    return lambda request: isinstance(request, Update) and request.key.get("connection_id") == connection_id


def test_stop_stops_the_connections_named_and_no_other() -> None:
    system = System()
    system.add("a", "b", "c")
    result = system.run("stop", "a", "b")
    assert result.exit_code == 0
    assert sorted(result.stdout.splitlines()) == ["a: stopped", "b: stopped"]
    assert result.stderr == "2 stopped\n"
    states = [system.connection(name)["desired_state"] for name in "abc"]
    assert states == ["STOPPED", "STOPPED", "STARTED"]
    assert "desired_state_shard" not in system.connection("a")


def test_start_puts_a_connection_back_into_its_shard() -> None:
    system = System()
    system.add("a", state=DesiredState.STOPPED)
    assert system.json("start", "a") == [{"connection_id": "a", "outcome": "started", "detail": None}]
    assert str(system.connection("a")["desired_state_shard"]).startswith("STARTED#")


def test_what_is_so_already_is_said_and_not_written_again() -> None:
    system = System()
    system.add("a")
    version = system.connection("a")["spec_version"]
    assert system.json("start", "a")[0]["outcome"] == "already_started"
    assert system.json("start", "--all")[0]["outcome"] == "already_started"
    assert system.connection("a")["spec_version"] == version


def test_what_failed_for_good_is_tried_again_when_asked_to() -> None:
    system = System()
    system.add("a", "b")
    system.checkpoint(system.claim("a"), Checkpoint(1, status=Status(StatusState.FAILED, 1, "HTTP 403 is final")))
    version = system.connection("a")["spec_version"]
    assert system.json("start", "a")[0]["outcome"] == "already_started"
    outcomes = {line["connection_id"]: line["outcome"] for line in system.json("start", "--again", "--all")}
    assert outcomes == {"a": "started", "b": "already_started"}
    assert system.connection("a")["spec_version"] == version + 1  # type: ignore[operator]


def test_labels_choose_connections_that_carry_all_of_them() -> None:
    system = System()
    system.add("both", labels={"team": "feeds", "env": "dev"})
    system.add("one", labels={"team": "feeds"})
    lines = system.json("stop", "-l", "team=feeds,env=dev")
    assert [line["connection_id"] for line in lines] == ["both"]
    assert len(system.json("stop", "-l", "team=feeds")) == 2


def test_ids_are_read_from_standard_input() -> None:
    system = System()
    system.add("a", "b", "c")
    lines = system.json("stop", "-", "c", typed="a\n\n  b \n")
    assert sorted(line["connection_id"] for line in lines) == ["a", "b", "c"]


def test_the_writer_is_the_caller_asked_for_once() -> None:
    system = System()
    system.add("a", "b")
    system.run("stop", "a", "b")
    assert system.connection("a")["updated_by"] == ARN
    assert system.callers == 1


def test_an_id_that_is_not_there_fails_alone() -> None:
    system = System()
    system.add("a")
    result = system.run("stop", "a", "nosuch")
    assert result.exit_code == 1
    assert "a: stopped" in result.stdout
    assert "nosuch: failed: there is no connection of that id" in result.stdout


def test_a_label_that_nothing_carries_is_no_failure() -> None:
    system = System()
    result = system.run("stop", "-l", "team=nobody")
    assert result.exit_code == 0
    assert result.stderr == "no connection matches team=nobody in the test system\n"


def test_an_item_that_cannot_be_read_is_told_of_and_disturbs_no_other() -> None:
    system = System()
    system.add("a")
    system.put({"connection_id": "broken", "desired_state": "PERHAPS"})
    result = system.run("stop", "--all", "--yes")
    assert result.exit_code == 1, "not all could be stopped"
    assert "a: stopped" in result.stdout
    assert "broken: failed: connection 'broken': desired_state is 'PERHAPS'" in result.stdout
    assert system.run("stop", "broken").exit_code == 1
    labelled = system.run("stop", "-l", "team=feeds")
    assert labelled.exit_code == 0, "nobody can tell whether it carries the label"
    assert "connection 'broken': desired_state is 'PERHAPS'" in labelled.stderr


def test_stopping_everything_asks_first() -> None:
    system = System()
    system.add("a")
    system.terminal = True
    declined = system.run("stop", "--all", typed="n\n")
    assert declined.exit_code == 1
    assert "Stop every connection of the test system?" in declined.stderr
    assert system.connection("a")["desired_state"] == "STARTED"
    assert system.run("stop", "--all", typed="y\n").exit_code == 0
    assert system.connection("a")["desired_state"] == "STOPPED"


def test_where_nobody_can_be_asked_yes_has_to_be_said() -> None:
    system = System()
    system.add("a")
    result = system.run("stop", "--all")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert system.connection("a")["desired_state"] == "STARTED"


def test_which_connections_has_to_be_said_in_one_way() -> None:
    system = System()
    assert system.run("stop").exit_code == 2
    both = system.run("stop", "a", "-l", "team=feeds")
    assert both.exit_code == 2
    assert "IDs, -l and --all say different things" in both.stderr
    assert system.run("stop", "-l", "team").exit_code == 2
    assert "cannot be both" in system.run("stop", "-l", "a=1,a=2").stderr


def test_throttling_is_waited_out() -> None:
    system = System()
    system.add("a")
    system.troubled.trouble(Throttled("table 'x' was throttled"), when=writes_to("a"), times=3)
    assert system.run("stop", "a").exit_code == 0
    assert system.connection("a")["desired_state"] == "STOPPED"


def test_a_write_whose_answer_was_lost_is_found_to_have_landed() -> None:
    system = System()
    system.add("a")
    system.troubled.trouble(Unreachable("no answer"), when=writes_to("a"), landing=Landing.BEFORE)
    assert system.run("stop", "a").exit_code == 0
    assert system.connection("a")["spec_version"] == 2


def test_a_refusal_of_one_connection_lets_the_others_through() -> None:
    system = System()
    system.add("a", "b")
    system.troubled.trouble(Denied("UpdateItem on table 'x' was refused as invalid"), when=writes_to("a"))
    lines = {line["connection_id"]: line for line in system.json("stop", "a", "b")}
    assert lines["a"]["outcome"] == "failed"
    assert lines["a"]["detail"] == "UpdateItem on table 'x' was refused as invalid"
    assert lines["b"]["outcome"] == "stopped"


def test_where_nothing_works_the_rest_is_not_tried() -> None:
    system = System()
    names = [f"c{number:03}" for number in range(100)]
    system.add(*names)

    def any_connection(request: Request) -> bool:
        return isinstance(request, Update) and "connection_id" in request.key

    system.troubled.trouble(Denied("UpdateItem on table 'x' is not allowed"), when=any_connection, times=1_000)
    result = system.run("stop", *names, "--parallel", "2")
    assert result.exit_code == 1
    assert "20 in a row failed, so the rest was not tried" in result.stderr
    tried = sum(any_connection(request) for request in system.troubled.performed)
    assert tried < 30


def test_thousands_are_done_side_by_side_and_again_without_a_write() -> None:
    system = System()
    names = [f"c{number:04}" for number in range(2_000)]
    system.add(*names)
    result = system.run("stop", "--all", "--yes", "--parallel", "8")
    assert result.exit_code == 0
    assert result.stderr.endswith("2,000 stopped\n")
    system.troubled.performed.clear()
    assert system.run("stop", "--all", "--yes").stderr.endswith("2,000 already stopped\n")
    assert not any("connection_id" in r.key for r in system.troubled.performed if isinstance(r, Update))
