"""Ctrl-C: one sentence, exit code 130, and what was done is counted."""

import itertools
import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from streamlease.errors import Unreachable
from streamlease.flow import Request
from streamlease.write import Update
from streamlease_cli.interruption import Interruption
from streamlease_cli.main import main
from streamlease_cli.output import confirm
from tests.cli.system import System


def interrupt(_: Request) -> bool:
    raise KeyboardInterrupt


def test_before_the_command_is_loaded_it_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cli() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "streamlease_cli.commandline", SimpleNamespace(cli=cli))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_the_entry_loads_nothing_that_takes_long_before_it_listens() -> None:
    script = "import sys, streamlease_cli.main; sys.exit(any(name in sys.modules for name in ('click', 'streamlease')))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0  # noqa: S603 - our own


@pytest.mark.parametrize("arguments", [["ls"], ["workers"], ["describe", "a"], ["drain", "a"], ["reconcile"]])
def test_a_command_that_is_interrupted_says_so_in_one_sentence(arguments: list[str]) -> None:
    system = System()
    system.troubled.trouble(Unreachable("never"), when=interrupt)
    result = system.run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")
    assert json.loads(system.run(*arguments, "--json").stdout) == {"error": "interrupted", "exit_code": 130}


def test_at_a_question_nothing_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(click.termui, "visible_prompt_func", typed)
    with pytest.raises(KeyboardInterrupt, match="nothing was done"):
        confirm("Delete it?", yes=False, stdin_is_terminal=lambda: True)


def test_bulk_work_counts_what_was_on_its_way() -> None:
    system = System()
    ids = [f"c{number}" for number in range(300)]
    system.add(*ids)
    writes = itertools.count(1)  # several threads count, and one of them is the twentieth

    def at_the_twentieth(request: Request) -> bool:
        if isinstance(request, Update) and next(writes) == 20:
            signal.raise_signal(signal.SIGINT)
        return False

    system.troubled.trouble(Unreachable("never"), when=at_the_twentieth)
    result = system.run("stop", "--all", "--yes")
    stopped = sum(system.connection(connection_id)["desired_state"] == "STOPPED" for connection_id in ids)
    assert result.exit_code == 130
    assert 20 <= stopped < 300
    assert result.stderr == (
        f"{stopped} stopped\ninterrupted after {stopped} of 300: run the same command again to go on\n"
    )


def test_a_second_one_is_not_noted_but_has_its_usual_effect() -> None:
    interruption = Interruption()

    def impatient() -> None:
        signal.raise_signal(signal.SIGINT)
        assert interruption()
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interruption.noted():
        impatient()
