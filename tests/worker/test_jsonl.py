"""The JSON-lines sink: whole lines in order, many connections in one write, fences, full disks, several writers."""

import asyncio
import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from streamlease_worker.fence import Fence, Fenced
from streamlease_worker.sinks import jsonl
from streamlease_worker.sinks.base import Batch, Sink, SinkFault
from streamlease_worker.sinks.jsonl import JsonlSink, open_file
from streamlease_worker.sinks.null import NullSink
from tests.worker.sinking import OpenFence


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that is closed is to have written all, however slow this machine is."""
    monkeypatch.setattr(jsonl, "CLOSE_WITHIN_S", 60.0)


def batch(*lines: bytes, name: str = "a", fence: Fence | None = None) -> Batch:
    return Batch(name, 7, lines, fence or OpenFence(name))


def on(sink_of: Callable[[], Sink], scenario: Callable[[Sink], Coroutine[object, object, None]]) -> None:
    """Run `scenario` with a sink, and close it."""

    async def main() -> None:
        sink = sink_of()
        try:
            async with asyncio.timeout(60):
                await sink.check()
                await scenario(sink)
        finally:
            await sink.close()

    asyncio.run(main())


@contextlib.contextmanager
def writes(monkeypatch: pytest.MonkeyPatch, behave: Callable[[int, bytes], int]) -> Iterator[None]:
    """`os.write`, as the sink sees it, behaves so."""
    real = os.write

    def write(descriptor: int, data: bytes | memoryview) -> int:
        return (
            behave(descriptor, bytes(data))
            if threading.current_thread().name == "jsonl-sink"
            else real(descriptor, data)
        )

    with monkeypatch.context() as patched:
        patched.setattr(jsonl.os, "write", write)  # type: ignore[attr-defined]
        yield


def test_lines_are_appended_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text("before\n")

    async def scenario(sink: Sink) -> None:
        await sink.deliver(batch(b"1", b"2"))
        await sink.deliver(batch(b"3"))

    on(lambda: open_file(path), scenario)
    assert path.read_text() == "before\n1\n2\n3\n"


def test_many_connections_share_a_write_and_each_keeps_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"
    calls: list[bytes] = []
    all_wait = threading.Event()
    real = os.write

    def behave(descriptor: int, data: bytes) -> int:
        calls.append(data)
        all_wait.wait(60)
        return real(descriptor, data)

    async def connection(sink: Sink, name: str) -> None:
        for number in range(20):
            await sink.deliver(batch(f"{name} {number}".encode(), name=name))

    async def scenario(sink: Sink) -> None:
        going = [asyncio.create_task(connection(sink, f"c{number}")) for number in range(50)]
        await asyncio.sleep(0)
        all_wait.set()
        await asyncio.gather(*going)

    with writes(monkeypatch, behave):
        on(lambda: open_file(path), scenario)
    lines = path.read_text().splitlines()
    assert len(lines) == 1_000
    for number in range(50):
        assert [line for line in lines if line.startswith(f"c{number} ")] == [f"c{number} {n}" for n in range(20)]
    assert sum(call.count(b"\n") for call in calls[:2]) >= 50, "what comes while a write is under way waits together"


def test_a_fenced_batch_is_refused_and_disturbs_none_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    fenced = OpenFence("b")
    fenced.close("stolen")

    async def scenario(sink: Sink) -> None:
        outcomes = await asyncio.gather(
            sink.deliver(batch(b"1")), sink.deliver(batch(b"2", name="b", fence=fenced)), return_exceptions=True
        )
        assert outcomes[0] is None
        assert isinstance(outcomes[1], Fenced)

    on(lambda: open_file(path), scenario)
    assert path.read_text() == "1\n"


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.jsonl"
    real = os.write

    async def scenario(sink: Sink) -> None:
        await sink.deliver(batch(b"one", b"two"))

    with writes(monkeypatch, lambda descriptor, data: real(descriptor, data[:2])):
        on(lambda: open_file(path), scenario)
    assert path.read_text() == "one\ntwo\n"


def _fills_up(after: int) -> Callable[[int, bytes], int]:
    """A disk with room for `after` bytes, until it is called with an empty list."""
    real, room = os.write, [after]

    def behave(descriptor: int, data: bytes) -> int:
        if room[0] == 0:
            room[0] = 1 << 20
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, data[: room[0]])
        room[0] -= written
        return written

    return behave


def test_on_a_full_disk_the_torn_line_is_taken_back_and_all_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"

    async def scenario(sink: Sink) -> None:
        with pytest.raises(
            SinkFault, match=r"records.jsonl' could not be written \(No space left on device\)"
        ) as fault:
            await sink.deliver(batch(b"one", b"two"))
        assert fault.value.retryable
        assert path.read_text() == ""
        await sink.deliver(batch(b"one", b"two"))

    with writes(monkeypatch, _fills_up(6)):
        on(lambda: open_file(path), scenario)
    assert path.read_text() == "one\ntwo\n"


def test_where_another_writer_has_the_file_open_a_torn_line_is_ended_and_never_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"

    async def scenario(sink: Sink) -> None:
        other = open_file(path)
        with pytest.raises(SinkFault):
            await sink.deliver(batch(b"one", b"two"))
        assert path.read_text() == "one\ntw"
        await sink.deliver(batch(b"one", b"two"))
        await other.close()

    with writes(monkeypatch, _fills_up(6)):
        on(lambda: open_file(path), scenario)
    assert path.read_text() == "one\ntw\none\ntwo\n"


def test_a_line_that_a_killed_writer_left_torn_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text("whole\nto")

    async def scenario(sink: Sink) -> None:
        await sink.deliver(batch(b"next"))

    on(lambda: open_file(path), scenario)
    assert path.read_text() == "whole\nto\nnext\n"


def test_a_file_that_was_moved_away_or_removed_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"

    async def scenario(sink: Sink) -> None:
        await sink.deliver(batch(b"1"))
        path.rename(tmp_path / "records.jsonl.1")
        await sink.deliver(batch(b"2"))
        assert path.read_text() == "2\n"
        path.unlink()
        await sink.deliver(batch(b"3"))
        path.unlink()
        path.write_text("another's\n")
        await sink.deliver(batch(b"4"))

    on(lambda: open_file(path), scenario)
    assert (tmp_path / "records.jsonl.1").read_text() == "1\n"
    assert path.read_text() == "another's\n4\n"


def test_what_went_into_a_file_that_was_just_removed_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"
    real = os.write

    def remove_first(descriptor: int, data: bytes) -> int:
        path.unlink()
        return real(descriptor, data)

    async def scenario(sink: Sink) -> None:
        with writes(monkeypatch, remove_first), pytest.raises(SinkFault, match="it was removed meanwhile") as fault:
            await sink.deliver(batch(b"1"))
        assert fault.value.retryable
        await sink.deliver(batch(b"1"))

    on(lambda: open_file(path), scenario)
    assert path.read_text() == "1\n"


def test_while_its_folder_is_gone_a_file_is_not_written_and_no_harm_is_done(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "records.jsonl"
    path.parent.mkdir()

    async def scenario(sink: Sink) -> None:
        await sink.deliver(batch(b"1"))
        path.parent.rename(tmp_path / "away")
        with pytest.raises(SinkFault, match="No such file or directory") as fault:
            await sink.deliver(batch(b"2"))
        assert fault.value.retryable
        path.parent.mkdir()
        await sink.deliver(batch(b"2"))

    on(lambda: open_file(path), scenario)
    assert path.read_text() == "2\n"


def test_a_pipe_that_broke_within_a_line_ends_it_before_more(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()

    async def scenario(sink: Sink) -> None:
        with pytest.raises(SinkFault):
            await sink.deliver(batch(b"one"))
        await sink.deliver(batch(b"two"))

    with writes(monkeypatch, _fills_up(2)):
        on(lambda: JsonlSink(writing, name="standard output", appends=False), scenario)
    assert os.read(reading, 100) == b"on\ntwo\n"
    os.close(reading)


def test_a_pipe_that_nobody_reads_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(jsonl, "CLOSE_WITHIN_S", 0.05)

    async def main() -> None:
        sink = JsonlSink(writing, name="standard output", appends=False)
        stuck = asyncio.create_task(sink.deliver(batch(*[b"x" * 1_000] * 200)))
        await asyncio.sleep(0)
        await sink.close()
        assert not stuck.done()
        stuck.cancel()

    asyncio.run(main())
    os.read(reading, 1 << 20)
    os.close(reading)


def test_fsync_is_done_when_asked_and_its_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.jsonl"
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.EIO, "Input/output error")

    async def scenario(sink: Sink) -> None:
        await sink.deliver(batch(b"one"))
        with pytest.raises(SinkFault, match="Input/output error"):
            await sink.deliver(batch(b"two"))

    monkeypatch.setattr(jsonl.os, "fsync", fsync)  # type: ignore[attr-defined]
    on(lambda: open_file(path, fsync=True), scenario)
    assert len(synced) == 2


def test_several_sinks_append_to_one_file_without_tearing_each_others_lines(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"

    async def writer(sink: Sink, name: str) -> None:
        for number in range(200):
            await sink.deliver(batch(f"{name}:{number}:".encode() + b"x" * 300, name=name))

    async def scenario(sink: Sink) -> None:
        other = open_file(path)
        await asyncio.gather(writer(sink, "a"), writer(other, "b"))
        await other.close()

    on(lambda: open_file(path), scenario)
    lines = path.read_text().splitlines()
    assert len(lines) == 400
    assert all(line.endswith(":" + "x" * 300) for line in lines)


def test_a_file_system_without_locks_is_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.jsonl"

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    async def scenario(sink: Sink) -> None:
        with pytest.raises(SinkFault):
            await sink.deliver(batch(b"one"))
        await sink.deliver(batch(b"one"))

    monkeypatch.setattr(fcntl, "flock", flock)
    with writes(monkeypatch, _fills_up(2)):
        on(lambda: open_file(path), scenario)
    assert path.read_text() == "on\none\n"


def test_the_null_sink_counts_and_keeps_to_the_fence() -> None:
    fenced = OpenFence()
    fenced.close("stolen")

    async def scenario(sink: Sink) -> None:
        await sink.deliver(batch(b"1", b"2"))
        with pytest.raises(Fenced):
            await sink.deliver(batch(b"3", fence=fenced))

    sink = NullSink()
    on(lambda: sink, scenario)
    assert sink.lines == 2


def test_what_the_writer_cannot_even_begin_is_told_and_the_next_batch_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.jsonl"

    def no_memory(descriptor: int, data: bytes) -> int:
        raise MemoryError

    async def scenario(sink: Sink) -> None:
        with writes(monkeypatch, no_memory), pytest.raises(MemoryError):
            await sink.deliver(batch(b"1"))
        await sink.deliver(batch(b"1"))

    on(lambda: open_file(path), scenario)
    assert path.read_text() == "1\n"
