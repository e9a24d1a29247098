"""`streamlease reconcile`: what the scheduled function does, run from here and now."""

import dataclasses

import click

from streamlease.flows.reconcile import reconcile as reconciliation
from streamlease_cli import procedures
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.output import age, clean, count, note, print_json


@click.command()
@click.option("--dry-run", is_flag=True, help="Only count; offer, bury and write nothing.")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=1),
    default=50.0,
    show_default=True,
    metavar="SECONDS",
    help="Begin nothing new after this long; the next run goes on from there.",
)
@target_options
@pass_invocation
def reconcile(invocation: Invocation, budget_s: float, *, dry_run: bool) -> None:
    """Offer every started connection that nobody holds, and bury workers whose lease ran out.

    The deployed function does so every minute; this is for not waiting, and for finding out. Harmless to repeat.

    \b
    Examples:
      streamlease reconcile --dry-run
      streamlease reconcile --json
    """
    session = invocation.session()
    shards, timing = session.settings.shards, session.settings.timing
    if dry_run:
        preview = session.run(procedures.preview_reconcile(shards=shards, timing=timing))
        if invocation.as_json:
            print_json({"dry_run": True, **dataclasses.asdict(preview)})
            return
        click.echo(f"{count(preview.unowned, 'connection')} that nobody holds would be offered")
        click.echo(f"{count(preview.expired_members, 'worker')} would be buried; {preview.live_members} live")
        if preview.malformed:
            click.echo(f"{count(preview.malformed, 'item')} could not be read")
        return
    report = session.run(reconciliation(shards=shards, timing=timing, budget_s=budget_s))
    malformed = [clean(str(problem)) for problem in report.malformed]
    if invocation.as_json:
        fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
        print_json({"dry_run": False, **fields, "malformed": malformed})
        return
    oldest = f" (the oldest for {age(report.oldest_unowned_ms)})" if report.oldest_unowned_ms else ""
    click.echo(f"{count(report.unowned, 'connection')} held by nobody{oldest}; {report.offered} offered")
    click.echo(f"{count(report.buried, 'worker')} buried, {report.orphaned} of their connections freed")
    click.echo(f"{report.live_members} live workers; {report.started_not_streaming} started but not streaming")
    if report.untaken_offers:
        note(f"the queue did not take {count(report.untaken_offers, 'offer')}: the next sweep offers them again")
    for problem in malformed:
        note(f"left out, since it cannot be read: {problem}")
    if not report.complete:
        note("the time was up before the end: run it again to go on from there")
