import contextlib
import io
import os
from dataclasses import replace

import pytest
from rich.console import Console

from streamlease_cli.local.progress import Picture, PlainLines, WorkerRow, drawn, progress, told

PICTURE = Picture(
    elapsed_s=12.3,
    phase="a worker was killed",
    connections=200,
    workers=(WorkerRow("worker-1", "killed", 0, 0), WorkerRow("worker-2", "running", 100, 99)),
    published=480,
    delivered=470,
)


def lines(stream: io.StringIO) -> list[str]:
    """What was written, without the seconds."""
    return [line[10:] for line in stream.getvalue().splitlines()]


def everything(terminal: int) -> str:
    """What was written to a terminal whose other end is closed."""
    found = b""
    with contextlib.suppress(OSError):  # Linux says EIO at the end
        while chunk := os.read(terminal, 1 << 16):
            found += chunk
    os.close(terminal)
    return found.decode()


def test_a_picture_is_told_in_one_line() -> None:
    assert told(PICTURE) == (
        "a worker was killed: 99 of 200 streaming (worker-1 killed, worker-2 99/100); "
        "480 records published, 470 delivered"
    )


def test_a_picture_is_drawn_with_a_row_for_each_worker() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(drawn(PICTURE))
    text = console.export_text()
    assert [line.split() for line in text.splitlines()[2:4]] == [
        ["worker-1", "killed", "0", "0"],
        ["worker-2", "running", "100", "99"],
    ]
    assert "99 of 200 connections streaming; 480 records published, 470 delivered" in text


def test_where_there_is_no_terminal_lines_are_plain_and_few() -> None:
    stream = io.StringIO()
    with progress(stream) as shown:
        shown.say("deployed [3 tables]")
        for elapsed_s in (0.0, 4.9, 5.0, 9.9):
            shown.show(replace(PICTURE, elapsed_s=elapsed_s, delivered=int(elapsed_s * 10)))
        shown.show(replace(PICTURE, elapsed_s=10.1, phase="settling"))
    said, *pictures = lines(stream)
    assert said == "deployed [3 tables]"
    assert [picture.rsplit(" ", 2)[1] for picture in pictures] == ["0", "50", "470"]
    assert "\x1b" not in stream.getvalue()


def test_plain_lines_begin_with_the_seconds_since_the_start() -> None:
    stream = io.StringIO()
    PlainLines(stream).say("started")
    assert stream.getvalue() == "   0.0 s  started\n"


def test_on_a_terminal_the_table_is_redrawn_below_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = os.openpty()
    with open(writer, "w", encoding="utf-8") as terminal, progress(terminal) as shown:  # noqa: PTH123 - a descriptor
        shown.show(PICTURE)
        shown.say("worker-1 is gone [for good]")
        shown.show(replace(PICTURE, phase="settling"))
    text = everything(reader)
    assert "worker-1 is gone [for good]" in text
    assert "settling" in text
    assert "\x1b[" in text


def test_where_nobody_here_publishes_nothing_is_said_of_it() -> None:
    assert told(replace(PICTURE, published=None)).endswith("(worker-1 killed, worker-2 99/100); 470 delivered")


def test_what_is_no_longer_so_is_not_drawn_again_with_the_lines_that_follow() -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as stream, progress(stream) as shown:
        shown.show(PICTURE)
        shown.clear()
        shown.say("everything has ended")
    said = everything(ours)
    assert "everything has ended" in said
    assert "worker-2" not in said.partition("everything has ended")[2]
