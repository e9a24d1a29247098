"""How things are printed: JSON for programs; tables for people, coloured on a terminal and plain in a pipe.

Standard output has the answer only. Progress, summaries, notes and questions go to standard error.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import click

from streamlease.errors import Malformed
from streamlease_cli.errors import BadInput, Failed

_STYLES: Mapping[str, str] = {
    "STREAMING": "green",
    "LIVE": "green",
    "CONNECTING": "cyan",
    "BACKOFF": "yellow",
    "DRAINING": "yellow",
    "FAILED": "red",
    "DEAD": "red",
    "STOPPED": "bright_black",
    "GONE": "bright_black",
    "LEFT": "bright_black",
}
_LAST_AT_LEAST = 20
_TURNING = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""End a line, or turn its direction: what follows would look like something else."""
_CONTROL = dict.fromkeys((*range(32), *range(127, 160), *_TURNING), "\N{REPLACEMENT CHARACTER}")


def print_json(document: object) -> None:
    """One JSON value on a line of its own."""
    click.echo(json.dumps(document, ensure_ascii=False, separators=(", ", ": ")))


def note(text: str) -> None:
    """A line on standard error."""
    click.echo(text, err=True)


def note_malformed(problem: Malformed) -> None:
    note(f"left out, since it cannot be read: {clean(str(problem))}")


def clean(text: str) -> str:
    """Without control characters: what an upstream or a stranger wrote must not steer the terminal."""
    return text.translate(_CONTROL)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """`-` stands for an empty cell. In a pipe: one line a row, columns apart by two blanks, nothing cut."""
    cells = [[clean(cell) or "-" for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_rich(columns, cells)
        return
    widths = [max(len(line[number]) for line in [columns, *cells]) for number in range(len(columns))]
    for line in [list(columns), *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(columns[-1], overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    # Only the last column is folded. Where that does not do, the terminal wraps lines: an id that is cut is no use.
    console = Console()
    console.width = max(console.width, _width(columns, cells))
    console.print(table, crop=False)


def _width(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    whole = [max(len(line[number]) for line in [columns, *cells]) for number in range(len(columns))]
    return sum(width + 2 for width in whole[:-1]) + min(whole[-1], _LAST_AT_LEAST)


def confirm(question: str, *, yes: bool, stdin_is_terminal: Callable[[], bool]) -> None:
    """Ask before something that cannot be taken back. Raises Failed for a no, BadInput where nobody can be asked, and
    KeyboardInterrupt for a Ctrl-C."""
    if yes:
        return
    if not stdin_is_terminal():
        raise BadInput(f"{question} Nobody can be asked here: say --yes to go ahead")
    try:
        is_wanted = click.confirm(question, err=True)
    except click.Abort as abort:  # the end of the input, or Ctrl-C
        note("")
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt("nothing was done") from None
        is_wanted = False
    if not is_wanted:
        raise Failed("nothing was done, since the answer was no")


def some(names: Sequence[str], most: int = 5) -> str:
    """The first few of many, for a sentence."""
    shown = ", ".join(clean(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def count(number: int, noun: str) -> str:
    """`1 connection`, `2,000 connections`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def age(milliseconds: int) -> str:
    """A duration in its two largest units: `850ms`, `12s`, `3m12s`, `2h05m`, `4d03h`."""
    if milliseconds < 0:
        return f"-{age(-milliseconds)}"
    if milliseconds < 1_000:
        return f"{milliseconds}ms"
    seconds = milliseconds // 1_000
    for size, small, unit, small_unit in ((86_400, 3_600, "d", "h"), (3_600, 60, "h", "m"), (60, 1, "m", "s")):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // small:02d}{small_unit}"
    return f"{seconds}s"
