"""`streamlease up`: the whole system on this machine. What it does is `streamlease_cli.local`'s."""

import click

from streamlease_cli.local_entry import hand_over

EVERYTHING = {"ignore_unknown_options": True, "help_option_names": []}
"""Options, --help among them, are the local part's own to read."""


@click.command(context_settings=EVERYTHING)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def up(arguments: tuple[str, ...]) -> None:
    """Run the whole system on this machine: the embedded AWS with this checkout's template in it, and workers.

    \b
    Example:
      streamlease up --workers 3
    """
    hand_over("up", arguments)
