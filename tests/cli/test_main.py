"""The command's entry: its list of commands, its help, and what becomes of errors."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from streamlease.errors import Denied, Unreachable
from streamlease.flow import Request
from streamlease.settings import Misconfigured
from streamlease_cli.commandline import COMMANDS, cli
from streamlease_cli.configuration import Deployment, LocalSystem, Target
from streamlease_cli.errors import BadInput
from streamlease_cli.session import Session
from tests.cli.system import SETTINGS, System


def commands() -> dict[str, click.Command]:
    context = click.Context(cli)
    found = {name: cli.get_command(context, name) for name in cli.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_the_command_says_of_itself(name: str) -> None:
    command = commands()[name]
    assert command.name == name
    assert command.help, f"{name} has no help"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_s_help_has_an_example(name: str) -> None:
    result = System().run(name, "--help")
    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"streamlease {name}" in result.stdout or COMMANDS[name].hidden


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "worker"])
def test_every_command_that_answers_can_answer_in_json(name: str) -> None:
    assert any("--json" in parameter.opts for parameter in commands()[name].params)


def test_where_to_work_may_be_said_before_the_command_or_after_it() -> None:
    system = System()
    system.run("--stack", "dev", "--region", "eu-west-1", "ls")
    system.run("ls", "--stack", "dev", "--region", "eu-west-1")
    system.run("--stack", "dev", "ls", "--stack", "prod")
    assert system.targets == [
        Target("dev", "eu-west-1"),
        Target("dev", "eu-west-1"),
        Target("prod"),
    ]


def test_a_command_that_is_not_there_is_bad_input() -> None:
    result = System().run("lst")
    assert result.exit_code == 2
    assert "No such command 'lst'" in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (BadInput("there is no stack 'x' in eu-west-1"), 2, "Error: there is no stack 'x' in eu-west-1\n"),
        (Misconfigured("STREAMLEASE_SHARDS", "is 'many'"), 2, "Error: STREAMLEASE_SHARDS is 'many'\n"),
        (Denied("no AWS credentials were found"), 1, "Error: no AWS credentials were found\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Error: /x: Permission denied\n"),
    ],
)
def test_an_error_is_one_sentence_and_a_code(error: Exception, code: int, sentence: str) -> None:
    system = System()

    def fail(target: Target) -> Session:
        raise error

    system._open = fail  # type: ignore[method-assign]
    result = system.run("ls")
    assert (result.exit_code, result.stderr, result.stdout) == (code, sentence, "")


def test_a_local_system_that_does_not_answer_is_told_apart_from_an_account() -> None:
    system = System()
    local = LocalSystem("http://127.0.0.1:1", "eu-west-1", "local", {}, Path("/feeds/.local/run/current.json"))

    def silent(target: Target) -> Session:
        def perform(request: Request) -> object:
            raise Unreachable("Scan on table 'x' got no answer (EndpointConnectionError)")

        return Session(SETTINGS, perform, lambda: "", "the local system", Deployment({}, {}, "", local=local))

    system._open = silent  # type: ignore[method-assign]
    result = system.run("ls")
    assert result.exit_code == 1
    assert "it is the local system that /feeds/.local/run/current.json names" in result.stderr
    assert "if `streamlease up` has ended, start it again" in result.stderr


def test_a_fault_of_the_program_shows_its_traceback_only_when_asked_to() -> None:
    system = System()

    def fail(target: Target) -> Session:
        raise ZeroDivisionError("1 by 0")

    system._open = fail  # type: ignore[method-assign]
    plain = system.run("ls")
    assert plain.exit_code == 1
    assert "a fault of streamlease itself (ZeroDivisionError: 1 by 0)" in plain.stderr
    assert "Traceback" not in plain.stderr
    assert "Traceback" in system.run("ls", "--debug").stderr


def test_what_is_asked_after_a_command_s_name_holds_for_its_errors_too(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "feeds.yaml")
    assert "Traceback" in CliRunner().invoke(cli, ["apply", nowhere, "--debug"]).stderr
    assert "Traceback" in CliRunner().invoke(cli, ["--debug", "apply", nowhere]).stderr
    assert "Traceback" not in CliRunner().invoke(cli, ["apply", nowhere]).stderr


def test_help_loads_neither_the_aws_sdk_nor_the_terminal_library() -> None:
    code = (
        "import sys; from streamlease_cli.commandline import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('boto3', 'botocore', 'rich', 'pydantic', 'yaml', 'asyncio') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert answer.stdout.splitlines()[-1] == "[]"
