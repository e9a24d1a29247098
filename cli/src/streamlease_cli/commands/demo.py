"""`streamlease demo`, hidden: the same as `make demo` in a checkout."""

import click

from streamlease_cli.commands.up import EVERYTHING
from streamlease_cli.local_entry import hand_over


@click.command(hidden=True, context_settings=EVERYTHING)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(arguments: tuple[str, ...]) -> None:
    """Run the demonstration: real input, a worker killed, a worker drained, and a report of what that cost.

    \b
    Example:
      streamlease demo --seconds 90 --workers 3 --connections 200 --report report.json
    """
    hand_over("demo", arguments)
