"""Bulk work of a command from end to end: done side by side, told of as it goes, summed up, and the exit code."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import click

from streamlease_cli import bulk
from streamlease_cli.errors import FAILED, stored_wrong
from streamlease_cli.invocation import Invocation
from streamlease_cli.progress import Outcome, Progress, failed


class HasId(Protocol):
    @property
    def connection_id(self) -> str: ...


def do_each[T: HasId](
    invocation: Invocation, subjects: Sequence[T], act: Callable[[T], Outcome], *, verb: str, parallel: int
) -> None:
    """Raises Exit where any failed, Fault where nothing works."""
    attempts = bulk.each(subjects, act, parallel=parallel, sleep=invocation.sleep)
    outcomes = (tried.result or failed(tried.subject.connection_id, stored_wrong(tried.problem)) for tried in attempts)
    tell_all(invocation, outcomes, total=len(subjects), verb=verb)


def tell_all(invocation: Invocation, outcomes: Iterable[Outcome], *, total: int, verb: str) -> None:
    """Raises Exit where any failed."""
    with Progress(total, verb=verb, as_json=invocation.as_json, monotonic_s=invocation.monotonic_s) as progress:
        for outcome in outcomes:
            progress.tell(outcome)
    if progress.any_failed:
        raise click.exceptions.Exit(FAILED)
