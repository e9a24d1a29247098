"""`streamlease`: the command itself and its list of commands.

A command's module is imported when the command is run, so that `--help` and completion stay quick; `tests/cli` holds
the list below against the commands themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import override

import click

from streamlease_cli.invocation import target_options
from streamlease_cli.reporting import Reporting


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is, and the line that the list of commands shows of it."""

    module: str
    name: str
    summary: str
    hidden: bool = False


COMMANDS: Mapping[str, Entry] = {
    "up": Entry("streamlease_cli.local.up", "up", "Run the whole system on this machine."),
    "check": Entry("streamlease_cli.commands.check", "check", "Validate connection files and explain them."),
    "apply": Entry("streamlease_cli.commands.apply", "apply", "Make the connections what files say."),
    "add": Entry("streamlease_cli.commands.add", "add", "Add one connection by its URL."),
    "start": Entry("streamlease_cli.commands.switch", "start", "Start connections."),
    "stop": Entry("streamlease_cli.commands.switch", "stop", "Stop connections."),
    "rm": Entry("streamlease_cli.commands.rm", "rm", "Delete connections."),
    "seek": Entry("streamlease_cli.commands.seek", "seek", "Let a connection go on from another place."),
    "ls": Entry("streamlease_cli.commands.ls", "ls", "List connections."),
    "describe": Entry("streamlease_cli.commands.describe", "describe", "Show everything about connections."),
    "workers": Entry("streamlease_cli.commands.workers", "workers", "List the fleet's workers."),
    "drain": Entry("streamlease_cli.commands.drain", "drain", "Let workers give up all they hold, and end."),
    "reconcile": Entry("streamlease_cli.commands.reconcile", "reconcile", "Offer what nobody owns, now."),
    "plan": Entry("streamlease_cli.commands.plan", "plan", "Reckon cost, failover and limits of a fleet."),
    "worker": Entry("streamlease_cli.commands.worker", "worker", "Run one worker (what the container runs)."),
    "demo": Entry("streamlease_cli.local.demo", "demo", "Run the demonstration of a checkout.", hidden=True),
}


class Commands(Reporting, click.Group):
    """Finds commands in `COMMANDS`."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = getattr(import_module(entry.module), entry.name)
        return found

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items() if not entry.hidden])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="streamlease-cli", prog_name="streamlease")
@target_options
def cli() -> None:
    """Keep outbound WebSocket connections alive across a fleet of workers.

    \b
    Examples:
      streamlease up                         the whole system on this machine
      streamlease apply -f feeds.yaml        make the connections what a file says
      streamlease ls --stack prod            what a deployed fleet is doing

    Where to work: --stack, else STREAMLEASE_* variables, else the system that `streamlease up` runs here.
    Exit code: 0 done, 1 failed, 2 the input cannot be right and nothing was done, 130 interrupted.
    """
