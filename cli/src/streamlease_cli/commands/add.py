"""`streamlease add`: one connection, by its URL."""

from collections.abc import Mapping

import click

from streamlease.model import DesiredState
from streamlease_cli import procedures
from streamlease_cli.documents import of_fields
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.progress import Outcome, failed
from streamlease_cli.selection import labels_option
from streamlease_cli.work import tell_all


@click.command()
@click.argument("connection_id", metavar="ID")
@click.argument("url")
@labels_option("A label to give it (repeat it for more).")
@click.option("--stopped", is_flag=True, help="Leave it stopped.")
@target_options
@pass_invocation
def add(invocation: Invocation, connection_id: str, url: str, labels: Mapping[str, str], *, stopped: bool) -> None:
    """Add one connection that needs nothing but a URL. For anything more, write a file and apply it.

    Safe to repeat; a connection of that id that says something else is left alone, and is a failure.

    \b
    Examples:
      streamlease add ticker wss://feed.example/ticker
      streamlease add ticker wss://feed.example/ticker -l team=feeds --stopped
    """
    wanted = of_fields({"id": connection_id, "url": url, **({"labels": dict(labels)} if labels else {})})
    session = invocation.session()
    state = DesiredState.STOPPED if stopped else DesiredState.STARTED
    added = session.run(procedures.add(wanted, state, session.operator()))
    if isinstance(added, procedures.Added):
        outcome = Outcome(connection_id, "already_there" if added.was_there else "created")
    else:
        outcome = failed(
            connection_id,
            f"there is a connection of that id with another {', '.join(added.fields)}:"
            " choose another id, or change it with `streamlease apply`",
        )
    tell_all(invocation, [outcome], total=1, verb="adding 1 connection")
