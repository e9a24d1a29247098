"""`streamlease workers`: the fleet's members as rows."""

import click

from streamlease.model import MemberState
from streamlease_cli import procedures
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.output import age, clean, note, note_malformed, print_json, print_table
from streamlease_cli.presentation import member

COLUMNS = (
    "WORKER", "STATE", "OWNED", "SHARE", "CAPACITY", "RECORDS/S", "GENERATION", "HEARTBEAT", "LEASE LEFT", "AGE", "ZONE"
)  # fmt: skip


@click.command()
@click.option("--all", "everybody", is_flag=True, help="Those long gone, too.")
@target_options
@pass_invocation
def workers(invocation: Invocation, *, everybody: bool) -> None:
    """List workers: their state, what they hold, their share of it all, and how old their last heartbeat is.

    A share counts connections; one that carries much counts as several. A worker of an older deployment has none. One
    that is slow, or that cannot claim or deliver, has less, or none, and says why below.

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
            procedures.share(found, each),
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
    print_table(COLUMNS, (_cells(row, now_ms) for row in rows))
    for each in found.members:
        if "why" in each.load and each.state is MemberState.LIVE:
            note(f"{clean(each.worker_id)} is given less than others: {clean(str(each.load['why']))}")
    running = [each for each in found.members if each.state in (MemberState.LIVE, MemberState.DRAINING)]
    total = f"{len(running)} running, {sum(each.owned for each in running):,} connections held"
    if found.summary_age_ms is not None:
        total += f"; {found.unowned:,} unowned in the sweep {age(found.summary_age_ms)} ago"
    divided = found.summary.shares if found.summary else None
    if divided is not None and divided.lacking and divided.short:
        when = "now" if divided.movable else "once nobody comes or goes"
        total += f"; {divided.lacking:,} to move for balance {when}"
    note(total)


def _cells(row: dict[str, object], now_ms: int) -> tuple[str, ...]:
    load, started_at_ms = row["load"], row["started_at_ms"]
    records = load.get("records_per_s") if isinstance(load, dict) else None
    lived = age(now_ms - started_at_ms) if isinstance(started_at_ms, int) else ""

    def duration(name: str) -> str:
        value = row[name]
        return age(value) if isinstance(value, int) else ""

    def text(name: str) -> str:
        return "" if row[name] is None else str(row[name])

    return (
        text("worker_id"),
        "LEFT" if row["left"] else text("state"),
        *(text(name) for name in ("owned", "share", "capacity")),
        "" if records is None else str(records),
        text("generation"),
        duration("heartbeat_age_ms"),
        duration("lease_left_ms"),
        lived,
        text("zone"),
    )
