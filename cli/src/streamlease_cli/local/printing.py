"""A report for people: the totals, and before them a row a connection where asked for."""

from collections.abc import Mapping, Sequence

import click

from streamlease_cli.local.report import Limits, Move, Report, Row
from streamlease_cli.local.system import Leases
from streamlease_cli.output import count, print_table

_COLUMNS = ("CONNECTION", "OWNERS", "EPOCHS", "MOVES", "KILL GAP", "DRAIN GAP", "RECORDS", "MISSING", "DUPLICATES")


def print_report(result: Report, limits: Limits, leases: Leases, names: Mapping[str, str], *, rows: bool) -> None:
    """On standard output. `names`: of workers, by their ids."""
    if rows:
        print_table(_COLUMNS, [_cells(row, names) for row in result.rows])
        click.echo()
    click.echo(f"{count(result.connections, 'connection')} over {count(result.workers, 'worker')} ({leases})")
    for line in (
        _moved("kill", result.kill, f"limit {limits.kill_gap_s:g} s"),
        _moved("drain", result.drain, f"limit p99 {limits.drain_gap_p99_s:g} s"),
        ("records", _records(result)),
        ("moves", f"{result.most_moves} at most for a connection"),
    ):
        click.echo(f"  {line[0]:8} {line[1]}")


def _records(result: Report) -> str:
    told = [
        f"{result.published:,} published",
        f"{result.delivered:,} delivered",
        f"{result.missing:,} missing",
        f"{result.duplicates:,} duplicated (by record id)",
        f"{result.overlaps:,} out of their owner's turn",
    ]
    if result.unexplained:
        told.append(f"{result.unexplained:,} that are none of the upstream's")
    if result.gap_records:
        told.append(count(result.gap_records, "gap record"))
    return ", ".join(told)


def _moved(name: str, move: Move, limit: str) -> tuple[str, str]:
    gaps = move.gap_seconds
    told = f"{count(move.affected, 'connection')}; gap p50 {_s(gaps.p50)}, p99 {_s(gaps.p99)}, max {_s(gaps.max)}"
    lost = f"; {move.unrecovered:,} not seen to stream again" if move.unrecovered else ""
    return name, f"{told} ({limit}){lost}"


def _cells(row: Row, names: Mapping[str, str]) -> Sequence[str]:
    return (
        row.connection_id,
        ", ".join(names.get(owner, owner) for owner in row.owners),
        _epochs(row.epochs),
        str(row.moves),
        _s(row.kill_gap_seconds) if row.kill_gap_seconds is not None else "",
        _s(row.drain_gap_seconds) if row.drain_gap_seconds is not None else "",
        f"{row.delivered} of {row.published}",
        str(row.missing),
        str(row.duplicates),
    )


def _epochs(epochs: Sequence[int]) -> str:
    """The first one whole, the others by what they rose."""
    return " ".join([str(epoch) if not at else f"+{epoch - epochs[0]}" for at, epoch in enumerate(epochs)])


def _s(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f} s"
