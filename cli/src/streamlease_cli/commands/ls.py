"""`streamlease ls`: connections as rows, filtered and sorted."""

from collections.abc import Callable, Collection, Iterable, Mapping

import click

from streamlease.errors import Malformed
from streamlease.flows import control
from streamlease.model import Connection, DesiredState, LeaseMode, Status, StatusState
from streamlease_cli.errors import FAILED, stored_wrong
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.output import age, clean, note, note_malformed, print_json, print_table
from streamlease_cli.presentation import is_unowned, last_sequence, listed
from streamlease_cli.selection import Chosen, Selection, choose, listing_options
from streamlease_cli.session import Session

COLUMNS = ("ID", "DESIRED", "OWNER", "EPOCH", "STATUS", "SINCE", "LAST SEQUENCE", "REASON")
STATES = tuple(state.value.lower() for state in (*DesiredState, *StatusState))
_READS_AT_ONCE = 16

type Key = Callable[[Connection], tuple[object, ...]]

SORTS: Mapping[str, Key] = {
    "id": lambda c: (c.connection_id,),
    "desired": lambda c: (c.desired_state.value, c.connection_id),
    "owner": lambda c: (c.lease_owner or "", c.connection_id),
    "epoch": lambda c: (c.lease_epoch, c.connection_id),
    "status": lambda c: (c.status.state.value if c.status else "", c.connection_id),
    "since": lambda c: (c.status.since_ms if c.status else 0, c.connection_id),
}


@click.command()
@listing_options
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    help="Those in this desired state or with this status (repeat it for any of them).",
)
@click.option("--owner", metavar="WORKER", help="Those that this worker holds (its id, or the beginning of it).")
@click.option("--unowned", is_flag=True, help="Those started that nobody holds.")
@click.option("--sort", type=click.Choice(tuple(SORTS)), default="id", show_default=True, help="What to sort by.")
@click.option("--reverse", is_flag=True, help="The last first.")
@target_options
@pass_invocation
def ls(
    invocation: Invocation,
    selection: Selection,
    states: tuple[str, ...],
    owner: str | None,
    sort: str,
    *,
    unowned: bool,
    reverse: bool,
) -> None:
    """List connections: what is wanted of them, who holds them, how they are.

    \b
    Examples:
      streamlease ls -l team=feeds
      streamlease ls --state failed --state backoff --sort since
      streamlease ls --unowned --json
    """
    session = invocation.session()
    timing = session.settings.timing
    absent: dict[str, str] = {}
    found = _read(invocation, session, selection, absent)
    now_ms = session.now_ms()
    wanted = {state.upper() for state in states}
    owners = _named(owner or "", {c.lease_owner for c in found if c.lease_owner})
    shown = sorted(
        (
            c
            for c in found
            if (
                not wanted
                or c.desired_state.value in wanted
                or (c.status is not None and c.status.state.value in wanted)
            )
            and (owner is None or (c.lease_owner is not None and c.lease_owner in owners))
            and (not unowned or is_unowned(c, now_ms=now_ms, timing=timing))
        ),
        key=SORTS[sort],
        reverse=reverse,
    )
    if invocation.as_json:
        for connection in shown:
            print_json(listed(connection, now_ms=now_ms, timing=timing))
    elif shown:
        print_table(COLUMNS, (_row(connection, now_ms) for connection in shown))
        if session.settings.mode is LeaseMode.WORKER and any(connection.lease_owner for connection in shown):
            note(
                "LAST SEQUENCE is what each connection's own item has, which in worker mode is seldom written while"
                " it is owned: `describe ID` has the newest"
            )
    elif not absent:
        note(
            f"no connection matches in {session.place}"
            if states or owner or unowned or selection.labels
            else f"there is no connection in {session.place}: add one with `streamlease add` or `streamlease apply`"
        )
    if absent:
        for connection_id, why in sorted(absent.items()):
            if invocation.as_json:
                print_json({"connection_id": connection_id, "error": why})
            note(clean(why))
        raise click.exceptions.Exit(FAILED)


def _named(name: str, owners: Collection[str]) -> Collection[str]:
    """The owner of that id, else those whose ids begin so."""
    return {name} if name in owners else {owner for owner in owners if name and owner.startswith(name)}


def _read(
    invocation: Invocation, session: Session, selection: Selection, absent: dict[str, str]
) -> Iterable[Connection]:
    chosen = choose(session, selection, note_malformed)
    found = [one.seen for one in chosen if one.seen is not None]
    unread = [one for one in chosen if one.seen is None]

    def read(one: Chosen) -> Connection | None:
        return session.run(control.find(one.connection_id))

    for tried in invocation.each(unread, read, _READS_AT_ONCE):
        connection_id = tried.subject.connection_id
        if isinstance(tried.problem, Malformed):
            absent[connection_id] = stored_wrong(tried.problem)
        elif tried.problem is not None:
            raise tried.problem
        elif tried.result is None:
            absent[connection_id] = f"{connection_id}: there is no connection of that id"
        else:
            found.append(tried.result)
    return found


def _row(connection: Connection, now_ms: int) -> tuple[str, ...]:
    status = connection.status
    return (
        connection.connection_id,
        connection.desired_state.value,
        connection.lease_owner or "",
        str(connection.lease_epoch),
        status.state.value if status else "",
        age(now_ms - status.since_ms) if status else "",
        last_sequence(connection.position),
        _reason(status, now_ms) if status else "",
    )


def _reason(status: Status, now_ms: int) -> str:
    reason = status.reason or ""
    if status.until_ms is None or status.until_ms <= now_ms:
        return reason
    return f"{reason}; again in {age(status.until_ms - now_ms)}".removeprefix("; ")
