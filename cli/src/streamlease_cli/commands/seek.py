"""`streamlease seek`: where a connection is to go on."""

import click

from streamlease.feed import reader, template
from streamlease.feed.feed import Feed
from streamlease.flows import control
from streamlease.lease import Absentee, Change, Changed
from streamlease.model import Seek, Sequence
from streamlease.spec import compile_item
from streamlease_cli.errors import BadInput, Failed
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.progress import Outcome
from streamlease_cli.work import tell_all


@click.command()
@click.argument("connection_id", metavar="ID")
@click.argument("to", metavar="POSITION|live|beginning")
@target_options
@pass_invocation
def seek(invocation: Invocation, connection_id: str, to: str) -> None:
    """Let a connection go on from another place: a sequence, what is live now, or the beginning.

    Its position is forgotten. Its owner dials again within a heartbeat or two, and a gap record says where it was and
    where it goes on. POSITION is the upstream's own cursor: the records after it are read. Safe to repeat.

    \b
    Examples:
      streamlease seek jetstream-posts 1725911162329308
      streamlease seek jetstream-posts live
      streamlease seek ledger beginning
    """
    session = invocation.session()
    seen = session.run(control.find(connection_id))
    if seen is None:
        raise Failed(f"there is no connection {connection_id}: see `streamlease ls`")
    wanted = sought(compile_item(connection_id, seen.upstream_url, seen.spec).feed, to)
    change = Change(seek=wanted)
    if control.satisfied(seen, change):
        outcome = Outcome(connection_id, "already_asked")
    else:
        changed = session.run(control.change(connection_id, change, operator=session.operator()))
        if isinstance(changed, Absentee | Changed):
            raise Failed(f"connection {connection_id} was changed by others meanwhile: look at it, and seek again")
        outcome = Outcome(connection_id, "asked")
    tell_all(invocation, [outcome], total=1, verb="seeking 1 connection")


def sought(feed: Feed, to: str) -> Seek:
    """Raises BadInput where the feed cannot go there."""
    if to == "live":
        return Seek("live")
    name = feed.connection_id
    if to == "beginning":
        if feed.resume.beginning is None and feed.resume.without_cursor != "all":
            raise BadInput(
                f"nobody knows where {name} begins: give its spec resume.beginning, the cursor that means all there is,"
                " or seek to a position"
            )
        return Seek("beginning")
    if not template.needs_cursor(feed):
        raise BadInput(f"{name} cannot ask its upstream for a position: its spec has no {{sequence}}; say live")
    numeric = feed.record.sequence_type == "number"
    sequence: Sequence | None = reader.number(to) if numeric else reader.text(to)
    if sequence is None:
        wanted = "a number" if numeric else "a text that can be printed"
        raise BadInput(f"{to!r} is no position of {name}: its sequences are {wanted}; or say live or beginning")
    return Seek("position", sequence)
