"""`streamlease describe`: everything known of a connection, without secrets."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import click
import yaml

from streamlease import items
from streamlease.errors import Malformed
from streamlease.flow import Flow, read
from streamlease.flows import control
from streamlease.flows.pages import saved_position
from streamlease.model import Connection, Member
from streamlease.write import Read, Table
from streamlease_cli.errors import FAILED, stored_wrong
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.output import age, clean, note, note_malformed, print_json
from streamlease_cli.presentation import described

_DATES = ("created_at_ms", "updated_at_ms", "not_before_ms", "lease_expires_at_ms", "since_ms", "started_at_ms")
_DURATIONS = ("lease_left_ms", "heartbeat_age_ms")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@target_options
@pass_invocation
def describe(invocation: Invocation, ids: tuple[str, ...]) -> None:
    """Show everything about connections: spec, lease and time left, owner, status, position.

    The position is the newest its owner wrote, in worker mode onto a page. Secrets are references, and stay references.

    \b
    Examples:
      streamlease describe jetstream-posts
      streamlease describe jetstream-posts --json | jq .position
    """
    session = invocation.session()
    failed = False
    shown = 0
    for connection_id in dict.fromkeys(ids):
        try:
            found = session.run(_find(connection_id))
        except Malformed as problem:
            _miss(connection_id, stored_wrong(problem), as_json=invocation.as_json)
            failed = True
            continue
        if found is None:
            absent = f"{connection_id}: there is no connection of that id in {session.place}: see `streamlease ls`"
            _miss(connection_id, absent, as_json=invocation.as_json)
            failed = True
            continue
        connection, owner = found
        if isinstance(owner, Malformed):
            note_malformed(owner)
            owner = None
        fields = described(connection, owner, now_ms=session.now_ms(), timing=session.settings.timing)
        if invocation.as_json:
            print_json(fields)
            continue
        if shown:
            click.echo("---")
        shown += 1
        click.echo(_text(fields, session.now_ms()), nl=False)
    if failed:
        raise click.exceptions.Exit(FAILED)


def _miss(connection_id: str, why: str, *, as_json: bool) -> None:
    """To a program one line for each, as for what is found."""
    if as_json:
        print_json({"connection_id": connection_id, "error": why})
    note(clean(why))


def _find(connection_id: str) -> Flow[tuple[Connection, Member | Malformed | None] | None]:
    """With its owner, or what is wrong with the owner's item: that is no reason to hide the connection. Raises Fault,
    Malformed."""
    connection = yield from control.find(connection_id)
    if connection is None:
        return None
    owner = connection.lease_owner
    if owner is None:
        return connection, None
    saved = yield from saved_position(connection)
    if saved is not None:
        connection = replace(connection, position=saved.position, checkpoint_no=saved.checkpoint_no)
    item = yield from read(Read(Table.MEMBERS, {"worker_id": owner}))
    try:
        return connection, None if item is None else items.member(item)
    except Malformed as problem:
        return connection, problem


def _text(fields: Mapping[str, object], now_ms: int) -> str:
    text = yaml.safe_dump(_readable(fields, now_ms), sort_keys=False, allow_unicode=True, width=100)
    return "\n".join(clean(line) for line in text.split("\n"))


def _readable(value: object, now_ms: int, name: str = "") -> object:
    """Times as dates with their distance, durations in words; everything else as it is."""
    match value:
        case Mapping():
            return {key: _readable(part, now_ms, key) for key, part in value.items()}
        case list() | tuple():
            return [_readable(part, now_ms) for part in value]
        case int() if name in _DATES and value > 0:
            date = datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="seconds")
            return f"{date} ({_distance(now_ms - value)})"
        case int() if name in _DURATIONS:
            return age(value)
        case _:
            return value


def _distance(ago_ms: int) -> str:
    return f"{age(ago_ms)} ago" if ago_ms >= 0 else f"in {age(-ago_ms)}"
