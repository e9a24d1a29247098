"""`streamlease start` and `streamlease stop`: what is wanted; the fleet sees to it."""

import click

from streamlease.flows.control import satisfied
from streamlease.lease import Change
from streamlease.model import DesiredState
from streamlease_cli import procedures
from streamlease_cli.invocation import Invocation, parallel_option, pass_invocation, target_options, yes_option
from streamlease_cli.output import confirm, count, note
from streamlease_cli.progress import Outcome, failed
from streamlease_cli.selection import Chosen, Selection, choose_to_act, selection_options
from streamlease_cli.work import do_each


@click.command()
@click.option("--again", is_flag=True, help="Also try at once what failed for good, or is put off for a while.")
@selection_options
@parallel_option
@target_options
@pass_invocation
def start(invocation: Invocation, selection: Selection, parallel: int, *, again: bool) -> None:
    """Start connections: workers will take them within moments.

    Safe to repeat: what is started already is said so and left alone. `--again` is for what `ls` shows as FAILED or
    QUARANTINED, once its cause is gone.

    \b
    Examples:
      streamlease start jetstream-posts jetstream-likes
      streamlease start -l team=feeds
      streamlease ls --state stopped --json | jq -r .connection_id | streamlease start -
      streamlease start --again -l team=feeds
    """
    _switch(invocation, selection, DesiredState.STARTED, parallel, again=again)


@click.command()
@selection_options
@parallel_option
@yes_option
@target_options
@pass_invocation
def stop(invocation: Invocation, selection: Selection, parallel: int, *, yes: bool) -> None:
    """Stop connections: their sockets are closed within two heartbeats, their positions kept.

    Safe to repeat. Asks before stopping everything with --all.

    \b
    Examples:
      streamlease stop jetstream-posts
      streamlease stop -l team=feeds -l env=dev
      streamlease stop --all --yes
    """
    if selection.everything:
        place = invocation.session().place
        confirm(f"Stop every connection of {place}?", yes=yes, stdin_is_terminal=invocation.stdin_is_terminal)
    _switch(invocation, selection, DesiredState.STOPPED, parallel)


def _switch(
    invocation: Invocation, selection: Selection, wanted: DesiredState, parallel: int, *, again: bool = False
) -> None:
    session = invocation.session()
    operator = session.operator()
    chosen = choose_to_act(session, selection)
    if not chosen:
        note(f"no connection matches {selection} in {session.place}")
        return
    word = wanted.value.lower()

    def act(one: Chosen) -> Outcome:
        if one.seen is not None and satisfied(one.seen, Change(desired_state=wanted, again=again)):
            return Outcome(one.connection_id, f"already_{word}")
        switched = session.run(procedures.switch(one.connection_id, wanted, operator, again=again))
        if switched is None:
            return failed(one.connection_id, "there is no connection of that id: see `streamlease ls`")
        return Outcome(one.connection_id, f"already_{word}" if switched.was_so else word)

    verb = f"{'starting' if wanted is DesiredState.STARTED else 'stopping'} {count(len(chosen), 'connection')}"
    do_each(invocation, chosen, act, verb=verb, parallel=parallel)
