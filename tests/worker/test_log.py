"""What a worker says: one JSON object a line, never in the way of a lease."""

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from streamlease_worker import log as log_module
from streamlease_worker.log import LOGGER, Log, Logging, Problems, last_words


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is closed is to have said all, however slow this machine is."""
    monkeypatch.setattr(log_module, "CLOSE_WITHIN_S", 60.0)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, own = root.handlers[:], root.level, LOGGER.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    LOGGER.setLevel(own)


def said(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_with_its_time_its_name_and_its_fields() -> None:
    stream = io.StringIO()
    logging_ = Logging("INFO", stream)
    Log(worker_id="w").about(connection_id="a", epoch=7).info("ready", reason="Ünïcode\nline")
    logging_.close()
    (line,) = said(stream)
    assert isinstance(line.pop("at_ms"), int)
    assert line == {
        "level": "info",
        "event": "ready",
        "worker_id": "w",
        "connection_id": "a",
        "epoch": 7,
        "reason": "Ünïcode\nline",
    }


def test_what_should_not_have_happened_comes_with_its_traceback() -> None:
    stream = io.StringIO()
    logging_ = Logging("INFO", stream)
    with pytest.raises(KeyError) as caught:
        dict[str, str]()["oops"]
    Log().crashed("runner_crashed", caught.value)
    logging_.close()
    assert "KeyError: 'oops'" in str(said(stream)[0]["traceback"])


def test_a_librarys_warning_is_a_line_too_and_its_chatter_is_not() -> None:
    stream = io.StringIO()
    logging_ = Logging("nonsense", stream)
    logging.getLogger("botocore").info("chatter")
    logging.getLogger("botocore").warning("pool is %s", "full")
    logging_.close()
    (line,) = said(stream)
    assert (line["event"], line["logger"], line["text"]) == ("log", "botocore", "pool is full")


def test_a_level_leaves_out_what_is_below_it() -> None:
    stream = io.StringIO()
    logging_ = Logging("WARNING", stream)
    Log().info("ready")
    Log().warning("fenced")
    logging_.close()
    assert [line["event"] for line in said(stream)] == ["fenced"]


def test_a_stream_that_stalls_holds_up_nobody_and_what_was_dropped_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stalled(io.StringIO):
        gate = threading.Event()

        def write(self, text: str) -> int:
            self.gate.wait(60)
            return super().write(text)

    monkeypatch.setattr(log_module, "MOST_WAITING", 5)
    stream = Stalled()
    logging_ = Logging("INFO", stream)
    for number in range(50):
        Log().info("ready", number=number)
    stream.gate.set()
    logging_.close()
    lines = said(stream)
    assert lines[-1]["event"] == "log_dropped"
    assert len(lines) - 1 + int(str(lines[-1]["lines"])) == 50


def test_a_stream_that_never_goes_on_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            gate.wait(60)
            return len(text)

    monkeypatch.setattr(log_module, "MOST_WAITING", 1)
    monkeypatch.setattr(log_module, "CLOSE_WITHIN_S", 0.05)
    logging_ = Logging("INFO", Stuck())
    for _ in range(9):
        Log().info("ready")
    logging_.close()
    gate.set()


def test_a_problem_met_at_every_turn_is_one_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    logging_ = Logging("INFO", stream)
    now_s = [0.0]
    problems = Problems(Log(), now_s=lambda: now_s[0])
    for _ in range(3):
        for _ in range(100):
            problems.say("store_fault", "no answer")
            now_s[0] += 0.5
        problems.say("store_fault", "throttled")
    monkeypatch.setattr(log_module, "MOST_PROBLEMS", 2)
    problems.say("store_fault", "another")
    problems.say("store_fault", "another")
    logging_.close()
    reasons = [line["reason"] for line in said(stream)]
    assert reasons.count("no answer") == 3
    assert reasons.count("throttled") == 2
    assert reasons.count("another") == 1


def test_last_words_go_past_every_queue(capfd: pytest.CaptureFixture[str]) -> None:
    last_words("ended_by_watchdog", reason="the loop stood still")
    line = json.loads(capfd.readouterr().err)
    assert line == {"level": "error", "event": "ended_by_watchdog", "reason": "the loop stood still"}
