import pytest

from streamlease.model import LeaseMode
from streamlease_cli.local.options import intervals
from streamlease_cli.local.printing import print_report
from streamlease_cli.local.report import Limits, Move, Report, Row, Seconds

LIMITS = Limits(kill_gap_s=15, drain_gap_p99_s=3)
ROWS = (
    Row("notes-1", ("id-1", "id-2", "id-3"), (1_000, 1_001, 1_002), 2, 9.5, 0.25, 18, 18, 0, 3, 0),
    Row("notes-2", ("id-9",), (1_007,), 0, None, None, 18, 17, 1, 0, 0),
)
REPORT = Report(
    connections=2,
    workers=3,
    kill=Move(1, Seconds(9.5, 9.5, 9.5), 0),
    drain=Move(1, Seconds(None, None, None), 1),
    published=1_036,
    delivered=1_035,
    missing=1,
    duplicates=3,
    unexplained=0,
    gap_records=1,
    torn_lines=0,
    most_moves=2,
    overlaps=0,
    rows=ROWS,
)
RECORDS = (
    "1,036 published, 1,035 delivered, 1 missing, 3 duplicated (by record id), 0 out of their owner's turn, "
    "1 gap record"
)


def test_a_report_shows_each_connection_and_then_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"id-1": "worker-1", "id-2": "worker-2", "id-3": "worker-3"}
    print_report(REPORT, LIMITS, intervals(LeaseMode.CONNECTION, None, None), names, rows=True)
    head, first, second, empty, *totals = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["CONNECTION", "OWNERS", "EPOCHS"]
    assert [cell.strip() for cell in first.split("  ") if cell.strip()] == [
        "notes-1",
        "worker-1, worker-2, worker-3",
        "1000 +1 +2",
        "2",
        "9.50 s",
        "0.25 s",
        "18 of 18",
        "0",
        "3",
    ]
    assert [cell.strip() for cell in second.split("  ") if cell.strip()] == [
        "notes-2",
        "id-9",
        "1007",
        "0",
        "-",
        "-",
        "17 of 18",
        "1",
        "0",
    ]
    assert empty == ""
    assert totals == [
        "2 connections over 3 workers (connection mode, heartbeat 3 s, lease 9 s)",
        "  kill     1 connection; gap p50 9.50 s, p99 9.50 s, max 9.50 s (limit 15 s)",
        "  drain    1 connection; gap p50 -, p99 -, max - (limit p99 3 s); 1 not seen to stream again",
        f"  records  {RECORDS}",
        "  moves    2 at most for a connection",
    ]


def test_the_totals_are_what_a_person_reads_unless_rows_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(REPORT, LIMITS, intervals(LeaseMode.CONNECTION, None, None), {}, rows=False)
    said = capsys.readouterr().out
    assert "notes-1" not in said
    assert " over 3 workers (connection mode" in said.splitlines()[0]
