"""`streamlease rm`: delete connections for good, their positions with them."""

import click

from streamlease_cli.discarding import discard_all
from streamlease_cli.errors import BadInput
from streamlease_cli.invocation import Invocation, parallel_option, pass_invocation, target_options, yes_option
from streamlease_cli.output import confirm, count, note, some
from streamlease_cli.removal import Terms, remove, wait_option
from streamlease_cli.selection import Selection, choose_to_act, selection_options
from streamlease_cli.work import tell_all


@click.command()
@selection_options
@click.option("--stop", is_flag=True, help="Stop those that are started first.")
@click.option("--malformed", is_flag=True, help="Items that cannot be read, by ID: deleted as they are.")
@wait_option
@parallel_option
@yes_option
@target_options
@pass_invocation
def rm(
    invocation: Invocation,
    selection: Selection,
    wait_s: float,
    parallel: int,
    *,
    stop: bool,
    malformed: bool,
    yes: bool,
) -> None:
    """Delete connections, and the positions they would go on from.

    Only a stopped connection that no worker holds is deleted; with --stop, started ones are stopped first. Asks before
    it begins. Safe to repeat: what is gone already is said so.

    With --malformed, only items that cannot be read are deleted, and only where no living worker can hold them.

    \b
    Examples:
      streamlease rm jetstream-posts --stop
      streamlease rm -l env=dev --stop --yes
      streamlease rm --malformed broken-feed
    """
    if malformed and (not selection.ids or stop):
        raise BadInput("--malformed takes IDs only: what cannot be read has neither labels nor a state to stop it by")
    session = invocation.session()
    chosen = choose_to_act(session, selection)
    if not chosen:
        note(f"no connection matches {selection} in {session.place}")
        return
    names = some([one.connection_id for one in chosen])
    what = count(len(chosen), "malformed item" if malformed else "connection")
    positions = "its position" if len(chosen) == 1 else "their positions"
    confirm(
        f"Delete {what} of {session.place}, with {positions}: {names}?",
        yes=yes,
        stdin_is_terminal=invocation.stdin_is_terminal,
    )
    if malformed:
        outcomes = discard_all(invocation, chosen, parallel)
    else:
        outcomes = remove(invocation, chosen, Terms(stop=stop, wait_s=wait_s, parallel=parallel))
    tell_all(invocation, outcomes, total=len(chosen), verb=f"deleting {what}")
