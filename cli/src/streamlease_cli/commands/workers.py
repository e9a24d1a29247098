"""`streamlease workers`: the fleet's members as rows."""

import click

from streamlease.model import MemberState
from streamlease_cli import procedures
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.output import age, note, note_malformed, print_json, print_table
from streamlease_cli.presentation import member

COLUMNS = ("WORKER", "STATE", "OWNED", "SHARE", "CAPACITY", "GENERATION", "HEARTBEAT", "LEASE LEFT", "ZONE")


@click.command()
@click.option("--all", "everybody", is_flag=True, help="Those long gone, too.")
@target_options
@pass_invocation
def workers(invocation: Invocation, *, everybody: bool) -> None:
    """List workers: their state, what they hold, their fair share, and how old their last heartbeat is.

    \b
    Examples:
      streamlease workers
      streamlease workers --all --json
    """
    session = invocation.session()
    found = session.run(procedures.fleet())
    now_ms, timing = session.now_ms(), session.settings.timing
    rows = [
        member(
            each,
            min(each.capacity, found.share) if found.share is not None and each.state is MemberState.LIVE else None,
            now_ms=now_ms,
            timing=timing,
        )
        for each in sorted(found.members, key=lambda each: (each.state is not MemberState.LIVE, each.worker_id))
        if everybody or each.state is not MemberState.GONE
    ]
    for problem in found.malformed:
        note_malformed(problem)
    if invocation.as_json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        note(f"no worker has joined {session.place}: start some, or see why none starts")
        return
    print_table(COLUMNS, (_cells(row) for row in rows))
    running = [each for each in found.members if each.state in (MemberState.LIVE, MemberState.DRAINING)]
    total = f"{len(running)} running, {sum(each.owned for each in running):,} connections held"
    if found.summary_age_ms is not None:
        total += f"; {found.unowned:,} unowned in the sweep {age(found.summary_age_ms)} ago"
    note(total)


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    def duration(name: str) -> str:
        value = row[name]
        return age(value) if isinstance(value, int) else ""

    def text(name: str) -> str:
        return "" if row[name] is None else str(row[name])

    plain = ("worker_id", "state", "owned", "share", "capacity", "generation")
    return (*(text(name) for name in plain), duration("heartbeat_age_ms"), duration("lease_left_ms"), text("zone"))
