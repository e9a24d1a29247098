"""docs/cli.md against the commands."""

import re
from pathlib import Path

import click
import pytest

from streamlease_cli.commandline import COMMANDS, cli

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SECTIONS: dict[str, str] = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
EVERYWHERE = {
    "--stack",
    "--region",
    "--profile",
    "--json",
    "--debug",
    "--help",
    "--parallel",
    "--yes",
    "--all",
    "--label",
}
"""Said once for all commands."""


def section(name: str) -> str:
    return next(text for title, text in SECTIONS.items() if name in title.split(", "))


@pytest.mark.parametrize("name", [name for name, entry in COMMANDS.items() if not entry.hidden])
def test_every_command_has_a_section_with_an_example(name: str) -> None:
    assert f"streamlease {name}" in section(name)


@pytest.mark.parametrize("name", [name for name, entry in COMMANDS.items() if not entry.hidden])
def test_every_option_is_told_of(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = {
        option for parameter in command.params for option in parameter.opts if option.startswith("--")
    } - EVERYWHERE
    missing = [option for option in sorted(options) if option not in section(name)]
    assert not missing


def test_what_is_said_once_for_all_is_said() -> None:
    above = TEXT[: TEXT.index("## up\n")]
    for option in EVERYWHERE - {"--label"}:
        assert option in above
