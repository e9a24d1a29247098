"""What a person sees while the local system runs: a live table on a terminal, plain lines anywhere else."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

_PLAIN_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker: what it owns, and how many of those stream. `state`: starting, running, draining, ended, killed."""

    name: str
    state: str
    owned: int
    streaming: int


@dataclass(frozen=True, slots=True)
class Picture:
    """The system at one instant. `phase` says what is going on, in a few words. `published` is None where nobody here
    publishes."""

    elapsed_s: float
    phase: str
    connections: int
    workers: Sequence[WorkerRow]
    published: int | None
    delivered: int

    @property
    def streaming(self) -> int:
        return sum(worker.streaming for worker in self.workers)


class Progress(Protocol):
    """Where progress is shown."""

    def say(self, line: str) -> None:
        """Something happened; it stays to be read."""

    def show(self, picture: Picture) -> None:
        """How things are now; the next picture replaces this one, or is left out if it comes soon after."""

    def clear(self) -> None:
        """What was shown last is not so any more, and no next picture comes."""


class LiveTable:
    """A table that is redrawn in place, below the lines said so far."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def say(self, line: str) -> None:
        self._live.console.print(Text(line))

    def show(self, picture: Picture) -> None:
        self._live.update(drawn(picture))

    def clear(self) -> None:
        self._live.update(Text(""))


class PlainLines:
    """Lines, each with the seconds since the start; a picture is one line, every five seconds or in a new phase."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began_s = time.monotonic()
        self._shown: Picture | None = None

    def say(self, line: str) -> None:
        self._write(time.monotonic() - self._began_s, line)

    def show(self, picture: Picture) -> None:
        last = self._shown
        if last and last.phase == picture.phase and picture.elapsed_s - last.elapsed_s < _PLAIN_EVERY_S:
            return
        self._shown = picture
        self._write(time.monotonic() - self._began_s, told(picture))

    def clear(self) -> None:
        """A line that was written stays."""

    def _write(self, at_s: float, line: str) -> None:
        self._stream.write(f"{at_s:6.1f} s  {line}\n")
        self._stream.flush()


@contextmanager
def progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """A live table if the stream (standard output) is a terminal, plain lines otherwise."""
    to = stream if stream is not None else sys.stdout
    console = Console(file=to)
    if not console.is_terminal:
        yield PlainLines(to)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield LiveTable(live)


def told(picture: Picture) -> str:
    """A picture in one line."""
    workers = ", ".join(
        f"{worker.name} {worker.streaming}/{worker.owned}"
        if worker.state == "running"
        else f"{worker.name} {worker.state}"
        for worker in picture.workers
    )
    return f"{picture.phase}: {picture.streaming} of {picture.connections} streaming ({workers}); {_records(picture)}"


def drawn(picture: Picture) -> Group:
    """A picture as a table."""
    table = Table(title=None, box=None, pad_edge=False)
    table.add_column("worker")
    table.add_column("state")
    table.add_column("owns", justify="right")
    table.add_column("streaming", justify="right")
    for worker in picture.workers:
        style = {"running": "green", "draining": "yellow"}.get(worker.state, "red")
        table.add_row(worker.name, Text(worker.state, style=style), str(worker.owned), str(worker.streaming))
    head = Text(f"{picture.elapsed_s:5.0f} s  {picture.phase}", style="bold")
    counts = Text(f"{picture.streaming} of {picture.connections} connections streaming; {_records(picture)}")
    return Group(head, table, counts)


def _records(picture: Picture) -> str:
    published = "" if picture.published is None else f"{picture.published} records published, "
    return f"{published}{picture.delivered} delivered"
