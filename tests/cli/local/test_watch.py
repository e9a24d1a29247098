"""What is seen of a fleet by its logs and the sink's file alone."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlease_cli.local.evidence import Happened
from streamlease_cli.local.fleet import Fleet, Worker
from streamlease_cli.local.progress import WorkerRow
from streamlease_cli.local.watch import Tail, Watch

WAITING = "import json, signal\nprint(json.dumps({'worker_id': 'w'}), flush=True)\nwhile True: signal.pause()"


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Fleet(tmp_path, dict(os.environ), [sys.executable, "-c", WAITING]) as fleet:
        yield fleet.start(1)[0]


def said_nothing(sentence: str) -> None:
    raise AssertionError(sentence)


def says(worker: Worker, happened: Happened, connection_id: str, epoch: int = 1) -> None:
    line = {"event": happened, "connection_id": connection_id, "epoch": epoch, "worker_id": "w", "at_ms": 1}
    with worker.process.log.open("a") as log:
        log.write(json.dumps(line) + "\n")


def test_a_tail_gives_whole_lines_and_each_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tail = Tail(path)
    assert list(tail.lines()) == []
    with path.open("a") as file:
        for text, lines in (("a\nb", ["a"]), ("", []), ("c\n", ["bc"]), ("\n\nd\n", ["", "", "d"])):
            file.write(text)
            file.flush()
            assert list(tail.lines()) == lines


def test_a_line_longer_than_one_read_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x" * (3 << 20) + "\nshort\n")
    assert [len(line) for line in Tail(path).lines()] == [3 << 20, 5]


def test_a_file_that_was_emptied_or_moved_away_is_followed_from_its_new_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\ntorn")
    tail = Tail(path)
    assert list(tail.lines()) == ["one", "two"]
    path.write_text("three\n")
    assert list(tail.lines()) == ["three"]
    path.rename(tmp_path / "log.1")
    path.write_text("four\nfive\n")
    assert list(tail.lines()) == ["four", "five"]


def test_a_worker_owns_what_it_claimed_until_it_released_it(worker: Worker) -> None:
    watch = Watch(None, said_nothing)
    for happened, row in (
        (Happened.CLAIMED, (1, 0)),
        (Happened.READY, (1, 1)),
        (Happened.CLOSED, (1, 0)),
        (Happened.READY, (1, 1)),
        (Happened.CLOSED, (1, 0)),
        (Happened.RELEASED, (0, 0)),
    ):
        says(worker, happened, "a")
        watch.look([worker])
        assert watch.owned(worker) == frozenset({"a"} if row[0] else ())
        assert watch.row(worker) == WorkerRow("worker-1", "running", *row)
        assert watch.streaming([worker]) == row[1]


def test_what_a_dead_worker_held_streams_no_more(worker: Worker) -> None:
    watch = Watch(None, said_nothing)
    says(worker, Happened.CLAIMED, "a")
    says(worker, Happened.READY, "a")
    watch.look([worker])
    worker.process.kill()
    worker.process.wait(10)
    assert watch.streaming([worker]) == 0
    assert watch.row(worker) == WorkerRow("worker-1", "killed", 0, 0)


def test_a_worker_that_was_told_to_go_is_draining(worker: Worker) -> None:
    watch = Watch(None, said_nothing)
    watch.draining.add("worker-1")
    assert watch.row(worker).state == "draining"


def test_deliveries_are_counted_as_they_come(tmp_path: Path) -> None:
    sink = tmp_path / "records.jsonl"
    watch = Watch(sink, said_nothing)
    watch.look([])
    assert watch.delivered == 0
    sink.write_text("{}\n{}\n{")
    watch.look([])
    watch.look([])
    assert watch.delivered == 2


def test_what_mends_a_torn_line_is_no_record(tmp_path: Path) -> None:
    sink = tmp_path / "records.jsonl"
    watch = Watch(sink, said_nothing)
    sink.write_text('{"v":1}\n\n\n{"v":1}\n')
    watch.look([])
    assert watch.delivered == 2


def test_a_line_that_cannot_be_read_is_passed_over_and_said_once_of_each_log(worker: Worker) -> None:
    said: list[str] = []
    watch = Watch(None, said.append)
    for _ in range(3):
        with worker.process.log.open("a") as log:
            log.write('{"event": "ready", "connection_id": 7, "epoch": 1}\n{"event": []}\n{"event": \n')
        says(worker, Happened.CLAIMED, "a")
        watch.look([worker])
    assert watch.row(worker).owned == 1
    what = "an event 'ready' without a readable connection_id, and anything like it"
    assert said == [f"passed over what cannot be read in {worker.process.log}: {what}"]
