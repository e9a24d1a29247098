"""What is told of bulk work while it runs."""

import contextlib
import io
import json
import sys

import pytest

from streamlease_cli.output import age, print_table
from streamlease_cli.progress import Outcome, Progress, failed
from tests.fakes.clock import SetClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(total: int, clock: SetClock, *, as_json: bool = False) -> Progress:
    return Progress(total, verb="starting", as_json=as_json, monotonic_s=lambda: clock.mono_s)


def test_where_there_is_no_terminal_a_line_comes_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = SetClock()
    with progress(40, clock) as told:
        for number in range(40):
            clock.advance(250)
            told.tell(Outcome(f"c{number}", "started"))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["starting: 20 of 40", "starting: 40 of 40", "40 started"]


def test_failures_are_counted_in_those_lines(capsys: pytest.CaptureFixture[str]) -> None:
    clock = SetClock()
    with progress(2, clock) as told:
        told.tell(failed("a", "no permission"))
        clock.advance(6_000)
        told.tell(Outcome("b", "started"))
    captured = capsys.readouterr()
    assert captured.out == "a: failed: no permission\nb: started\n"
    assert captured.err == "starting: 2 of 2, 1 failed\n1 failed, 1 started\n"
    assert told.any_failed


def test_each_json_line_is_printed_as_soon_as_it_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(2, SetClock(), as_json=True) as told:
        told.tell(Outcome("a", "changed", "spec", {"changes": []}))
        assert json.loads(capsys.readouterr().out) == {
            "connection_id": "a",
            "outcome": "changed",
            "detail": "spec",
            "changes": [],
        }


def test_an_interruption_says_how_far_it_came_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    told = progress(9, SetClock())
    with contextlib.suppress(KeyboardInterrupt), told:
        told.tell(Outcome("a", "started"))
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "interrupted after 1 of 9: run the same command again to go on\n1 started\n"


@pytest.mark.parametrize(("total", "shown"), [(3, True), (100, False)])
def test_on_a_terminal_many_connections_are_told_of_by_their_failures(
    monkeypatch: pytest.MonkeyPatch, total: int, shown: bool
) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with progress(total, SetClock()) as told:
        told.tell(Outcome("well", "started"))
        told.tell(failed("ill", "no permission"))
    screen = out.getvalue() + err.getvalue()  # beside a bar, lines are printed through it
    assert ("well: started" in screen) is shown
    assert "ill: failed: no permission" in screen
    assert "1 failed, 1 started" in err.getvalue()


def test_a_table_on_a_terminal_never_cuts_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", "40")
    long = "a-connection-with-quite-a-long-name-of-its-own"
    print_table(("ID", "REASON"), [(long, "closed by the upstream with 1011 after a long while")])
    assert long in out.getvalue()


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1_000, "1s"),
        (59_999, "59s"),
        (60_000, "1m00s"),
        (3_599_000, "59m59s"),
        (7_500_000, "2h05m"),
        (360_000_000, "4d04h"),
        (-12_000, "-12s"),
    ],
)
def test_an_age_is_said_in_its_two_largest_units(milliseconds: int, said: str) -> None:
    assert age(milliseconds) == said
