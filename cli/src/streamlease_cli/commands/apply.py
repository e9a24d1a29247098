"""`streamlease apply`: make the connections what files say, and with `--prune` no others."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import click

from streamlease.model import DesiredState
from streamlease_cli import procedures
from streamlease_cli.applying import applied, owned_by, pruned, to_prune, would_apply, would_prune
from streamlease_cli.documents import load_or_refuse
from streamlease_cli.errors import stored_wrong
from streamlease_cli.invocation import Invocation, parallel_option, pass_invocation, target_options, yes_option
from streamlease_cli.output import confirm, count, note, some
from streamlease_cli.progress import Outcome, failed
from streamlease_cli.removal import Terms, remove, wait_option
from streamlease_cli.selection import Chosen, labels_option
from streamlease_cli.wanted import Wanted
from streamlease_cli.work import tell_all


@click.command()
@click.argument("paths", nargs=-1, metavar="[FILE]...")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A file, a folder, or - for standard input (repeat it).",
)
@click.option("-R", "--recursive", is_flag=True, help="Folders within folders, too.")
@click.option("--dry-run", is_flag=True, help="Show what would change, field by field; write nothing.")
@click.option("--stopped", is_flag=True, help="Leave new connections stopped, unless their file says otherwise.")
@click.option("--prune", is_flag=True, help="Delete connections with the label of -l that the files do not speak of.")
@labels_option("With --prune: the label that says which connections these files own.")
@wait_option
@parallel_option
@yes_option
@target_options
@pass_invocation
def apply(
    invocation: Invocation,
    paths: tuple[str, ...],
    files: tuple[str, ...],
    labels: Mapping[str, str],
    wait_s: float,
    parallel: int,
    *,
    recursive: bool,
    dry_run: bool,
    stopped: bool,
    prune: bool,
    yes: bool,
) -> None:
    """Make connections what files say: create the new, change the different, leave the rest alone.

    All files are validated before anything is written. Whether an existing connection is started or stopped is left as
    it is, unless its file says so. Safe to repeat.

    \b
    Examples:
      streamlease apply -f feeds.yaml
      streamlease apply -f feeds/ --dry-run
      generate-feeds | streamlease apply -f -
      streamlease apply -f feeds/ --prune -l team=feeds
    """
    if not files and not paths:
        raise click.UsageError("Say which files: -f FILE, -f FOLDER, or -f - for standard input.")
    if labels and not prune:
        raise click.UsageError("-l goes with --prune: it says which connections these files own.")
    wanted = load_or_refuse((*files, *paths), recursive=recursive)
    if stopped:
        wanted = tuple(_stopped_if_new(one) for one in wanted)
    if prune:
        owned_by(labels, wanted)
    session = invocation.session()
    doomed = to_prune(session, labels, wanted) if prune else ()
    if not wanted:
        note("the files say of no connection")
        return

    if dry_run:
        outcomes = _preview(invocation, wanted, doomed, parallel)
        try:
            tell_all(invocation, outcomes, total=len(wanted) + len(doomed), verb="comparing")
        finally:
            note("nothing was written: this was a dry run")
        return
    if doomed:
        positions = "its position" if len(doomed) == 1 else "their positions"
        confirm(
            f"Delete {count(len(doomed), 'connection')} of {session.place} that the files do not speak of, with"
            f" {positions}: {some([one.connection_id for one in doomed])}?",
            yes=yes,
            stdin_is_terminal=invocation.stdin_is_terminal,
        )
    terms = Terms(stop=True, wait_s=wait_s, parallel=parallel)
    outcomes = _apply(invocation, wanted, doomed, terms)
    verb = f"applying {count(len(wanted), 'connection')}"
    tell_all(invocation, outcomes, total=len(wanted) + len(doomed), verb=verb)


def _preview(
    invocation: Invocation, wanted: Sequence[Wanted], doomed: Sequence[Chosen], parallel: int
) -> Iterator[Outcome]:
    """In the files' own order, whatever order the answers come in."""
    session = invocation.session()

    def act(one: Wanted) -> Outcome:
        return would_apply(one, session.run(procedures.preview(one)))

    found: dict[str, Outcome] = {}
    for tried in invocation.each(wanted, act, parallel):
        connection_id = tried.subject.connection_id
        found[connection_id] = tried.result or _failed(connection_id, tried.problem, dry_run=True)
    for one in wanted:
        if one.connection_id in found:  # unless interrupted, all are
            yield found[one.connection_id]
    yield from map(would_prune, doomed)


def _apply(
    invocation: Invocation, wanted: Sequence[Wanted], doomed: Sequence[Chosen], terms: Terms
) -> Iterator[Outcome]:
    session = invocation.session()
    operator = session.operator()

    def act(one: Wanted) -> Outcome:
        return applied(one, session.run(procedures.settle(one, operator)))

    failures = 0
    for tried in invocation.each(wanted, act, terms.parallel):
        failures += tried.result is None
        yield tried.result or _failed(tried.subject.connection_id, tried.problem, dry_run=False)
    if invocation.interruption():
        return
    if doomed and failures:
        note("nothing is deleted, since not everything could be applied: run the same command again")
        return
    yield from map(pruned, remove(invocation, doomed, terms))


def _failed(connection_id: str, problem: Exception | None, *, dry_run: bool) -> Outcome:
    return failed(connection_id, stored_wrong(problem), dry_run=dry_run, changes=[])


def _stopped_if_new(one: Wanted) -> Wanted:
    return dataclasses.replace(one, new_state=DesiredState.STOPPED)
