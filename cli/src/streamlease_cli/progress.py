"""Tells of bulk work while it runs: a line for each connection, how far it has come, and a summary at its end."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import click

from streamlease_cli.output import clean, note, print_json

MANY = 40
"""On a terminal, more connections than these are told of by the bar and the summary, and only failures by name."""
PLAIN_EVERY_S = 5.0

FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one connection. `outcome` is a word for programs, such as `already_started`."""

    connection_id: str
    outcome: str
    detail: str | None = None
    more: Mapping[str, object] = field(default_factory=dict)
    """Further keys for programs."""
    below: tuple[str, ...] = ()
    """Further lines for people."""
    in_words: str = ""
    """What people are told in the place of `outcome`, where that is another word."""

    @property
    def told(self) -> str:
        return self.in_words or self.outcome.replace("_", " ")

    @property
    def failed(self) -> bool:
        return self.outcome == FAILED


def failed(connection_id: str, detail: str, **more: object) -> Outcome:
    return Outcome(connection_id, FAILED, detail, more)


class Progress(AbstractContextManager["Progress"]):
    """Use as a context; `tell` of each outcome. Leaving it prints the summary, also after an interruption."""

    def __init__(self, total: int, *, verb: str, as_json: bool, monotonic_s: Callable[[], float]) -> None:
        self.counts: Counter[str] = Counter()
        self._told: dict[str, str] = {}
        self._total = total
        self._verb = verb
        self._json = as_json
        self._monotonic_s = monotonic_s
        self._next_line_s = monotonic_s() + PLAIN_EVERY_S
        self._quiet = not as_json and total > MANY and sys.stdout.isatty()
        self._advance: Callable[[], None] = lambda: None
        self._bar = ExitStack()

    def __enter__(self) -> Self:
        if not sys.stderr.isatty():
            self._advance = self._plain
        elif self._total > MANY:
            self._advance = self._bar.enter_context(_bar(self._total, self._verb))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()
        done = self.counts.total()
        parts = [f"{number:,} {self._told[word]}" for word, number in sorted(self.counts.items())]
        if kind is not None and issubclass(kind, KeyboardInterrupt | GeneratorExit):
            note(f"interrupted after {done:,} of {self._total:,}: run the same command again to go on")
        if parts and (self._total > 1 or self._quiet):
            note(", ".join(parts))

    @property
    def any_failed(self) -> bool:
        return self.counts[FAILED] > 0

    def tell(self, outcome: Outcome) -> None:
        self.counts[outcome.outcome] += 1
        self._told[outcome.outcome] = outcome.told
        self._advance()
        if self._json:
            print_json(
                {
                    "connection_id": outcome.connection_id,
                    "outcome": outcome.outcome,
                    "detail": outcome.detail,
                    **outcome.more,
                }
            )
        elif outcome.failed or not self._quiet:
            detail = f": {outcome.detail}" if outcome.detail else ""
            click.echo(clean(f"{outcome.connection_id}: {outcome.told}{detail}"))
            for line in outcome.below:
                click.echo(clean(f"  {line}"))

    def _plain(self) -> None:
        now_s = self._monotonic_s()
        if now_s >= self._next_line_s:
            self._next_line_s = now_s + PLAIN_EVERY_S
            lost = f", {self.counts[FAILED]:,} failed" if self.any_failed else ""
            note(f"{self._verb}: {self.counts.total():,} of {self._total:,}{lost}")


@contextmanager
def _bar(total: int, verb: str) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    # A line printed meanwhile goes above the bar, unless standard output is a file: then it goes there.
    with Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()
    ) as progress:
        task = progress.add_task(verb, total=total)
        yield lambda: progress.advance(task)
