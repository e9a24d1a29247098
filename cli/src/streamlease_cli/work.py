"""Bulk work of a command from end to end: done side by side, told of as it goes, summed up, and the exit code."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import click

from streamlease_cli.errors import FAILED, ReportedInterruption, stored_wrong
from streamlease_cli.invocation import Invocation
from streamlease_cli.progress import Outcome, Progress, failed


class HasId(Protocol):
    @property
    def connection_id(self) -> str: ...


def do_each[T: HasId](
    invocation: Invocation, subjects: Sequence[T], act: Callable[[T], Outcome], *, verb: str, parallel: int
) -> None:
    """Raises Exit where any failed, Fault where nothing works."""
    attempts = invocation.each(subjects, act, parallel)
    outcomes = (tried.result or failed(tried.subject.connection_id, stored_wrong(tried.problem)) for tried in attempts)
    tell_all(invocation, outcomes, total=len(subjects), verb=verb)


def tell_all(invocation: Invocation, outcomes: Iterable[Outcome], *, total: int, verb: str) -> None:
    """Raises Exit where any failed, ReportedInterruption where Ctrl-C left some undone: what was on its way then is
    told of, too."""
    with (
        invocation.interruption.noted(),
        Progress(total, verb=verb, as_json=invocation.as_json, monotonic_s=invocation.monotonic_s) as progress,
    ):
        for outcome in outcomes:
            progress.tell(outcome)
    done = progress.counts.total()
    if invocation.interruption() and done < total:
        raise ReportedInterruption(f"interrupted after {done:,} of {total:,}: run the same command again to go on")
    if progress.any_failed:
        raise click.exceptions.Exit(FAILED)
