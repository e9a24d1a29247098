"""With `--json`, a command that fails has an answer too (decision 154). One rule, held against every command."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from streamlease_cli.commandline import COMMANDS, cli
from streamlease_cli.configuration import Target
from streamlease_cli.errors import BadInput
from streamlease_cli.session import Session
from tests.cli.system import System

ANSWERING = [name for name in COMMANDS if name != "worker"]
WITH_A_SYSTEM = {
    "apply": ["apply", "-"],
    "add": ["add", "a", "wss://feed.example/"],
    "start": ["start", "a"],
    "stop": ["stop", "a"],
    "rm": ["rm", "a", "--yes"],
    "seek": ["seek", "a", "live"],
    "ls": ["ls"],
    "describe": ["describe", "a"],
    "workers": ["workers"],
    "drain": ["drain", "a"],
    "reconcile": ["reconcile"],
}
WITHOUT = {"up": ["up", "--sink", "kafka"], "demo": ["demo", "--report", "/nowhere/x.json"], "check": [], "plan": []}


def last(printed: str) -> dict[str, Any]:
    found = [json.loads(line) for line in printed.splitlines()]
    assert found, "nothing was printed"
    assert isinstance(found[-1], dict)
    return found[-1]


def test_each_command_is_held_to_it() -> None:
    assert WITH_A_SYSTEM.keys() | WITHOUT.keys() == set(ANSWERING)


@pytest.mark.parametrize("name", ANSWERING)
@pytest.mark.parametrize("place", ["before the command", "after it", "at the end"])
def test_what_cannot_be_parsed_is_an_object_with_the_sentence_and_the_exit_code(name: str, place: str) -> None:
    arguments = {
        "before the command": ["--json", name, "--no-such-option"],
        "after it": [name, "--json", "--no-such-option"],
        "at the end": [name, "--no-such-option", "--json"],
    }[place]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert last(result.stdout) == {"error": "No such option '--no-such-option'.", "exit_code": 2}
    assert "No such option" in result.stderr
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize("name", WITH_A_SYSTEM)
def test_a_system_that_is_not_there_is_such_an_object(name: str) -> None:
    system = System()

    def fail(target: Target) -> Session:
        raise BadInput("there is no stack 'x'")

    system._open = fail  # type: ignore[method-assign]
    result = system.run(*WITH_A_SYSTEM[name], "--json", typed="{id: a, url: 'wss://feed.example/'}")
    assert (result.exit_code, last(result.stdout)) == (2, {"error": "there is no stack 'x'", "exit_code": 2})
    assert result.stderr == "Error: there is no stack 'x'\n"


@pytest.mark.parametrize("name", [name for name, arguments in WITHOUT.items() if arguments])
def test_bad_input_of_a_command_that_works_with_none_is_such_an_object(name: str) -> None:
    result = CliRunner().invoke(cli, [*WITHOUT[name], "--json"])
    assert result.exit_code == 2
    assert last(result.stdout)["exit_code"] == 2
    assert result.stderr == f"Error: {last(result.stdout)['error']}\n"


def test_a_file_that_cannot_be_opened_is_a_problem_of_check_like_any_other() -> None:
    result = CliRunner().invoke(cli, ["check", "/nowhere/feeds.yaml", "--json"])
    assert result.exit_code == 2
    said = json.loads(result.stdout)
    assert (said["ok"], said["problems"], said["connections"]) == (
        False, ["there is no file or folder /nowhere/feeds.yaml"], []
    )  # fmt: skip


@pytest.mark.parametrize("name", ["ls", "describe", "start", "stop", "seek"])
def test_one_thing_that_is_not_there_is_said_in_json(name: str) -> None:
    result = System().run(*WITH_A_SYSTEM[name], *(["a"] if name == "ls" else []), "--json")
    assert result.exit_code == 1
    line = last(result.stdout)
    assert line.get("error") or (line["connection_id"], line["outcome"]) == ("a", "failed")


def test_without_json_nothing_but_the_sentence_is_said_and_no_name_of_a_thing_is_taken_for_the_option() -> None:
    assert CliRunner().invoke(cli, ["ls", "--no-such-option"]).stdout == ""
    assert System().run("describe", "--", "--json").stdout == ""


@pytest.mark.parametrize(("arguments", "error"), [([], "Missing command."), (["lst"], "No such command 'lst'")])
def test_no_command_is_such_an_object_too(arguments: list[str], error: str) -> None:
    result = CliRunner().invoke(cli, ["--json", *arguments])
    assert last(result.stdout)["error"].startswith(error)
    assert last(result.stdout)["exit_code"] == 2
