"""From a claimed item to a feed, and from a start to a runner: what a bad spec does, and to whom."""

import asyncio
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import cast

import pytest

from streamlease.errors import StreamleaseError
from streamlease.feed.feed import Feed
from streamlease.model import Connection
from streamlease_worker.feeds import feed_of
from streamlease_worker.keeper_thread import KeeperThread
from streamlease_worker.log import Log, Logging, Problems
from streamlease_worker.runner import Surroundings
from streamlease_worker.runs import Runs
from streamlease_worker.supervisor_events import RunnerEnded, Start, Stop
from tests.fakes.loop import run
from tests.worker import test_log
from tests.worker.sinking import MemorySink
from tests.worker.sockets import FakeTransport
from tests.worker.supervising import EPOCH, connection
from tests.worker.turning import turns

restored = test_log.restored


@pytest.fixture
def said() -> Iterator[Callable[[], list[dict[str, object]]]]:
    """Closes the log and gives what it said."""
    stream = io.StringIO()
    logging = Logging("INFO", stream)

    def lines() -> list[dict[str, object]]:
        logging.close()
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    yield lines
    logging.close()


def test_an_item_becomes_its_feed() -> None:
    feed = feed_of(connection("a", spec={"record": {"sequence": "seq"}}), Problems(Log()))
    assert (feed.connection_id, feed.url) == ("a", "wss://upstream.example/")
    assert feed.record.sequence is not None


def test_a_field_of_a_later_release_is_told_and_passed_over(said: Callable[[], list[dict[str, object]]]) -> None:
    feed_of(connection("a", spec={"telepathy": True}), Problems(Log()))
    (line,) = said()
    assert line["event"] == "spec_field_ignored"
    assert "connection 'a'" in str(line["reason"])
    assert "telepathy" in str(line["reason"])


def test_a_sink_that_the_worker_does_not_have_is_a_sentence() -> None:
    with pytest.raises(StreamleaseError, match="names the sink 'archive'; this worker has only the sink 'default'"):
        feed_of(connection("a", spec={"sink": "archive"}), Problems(Log()))


class SilentKeeper:
    """Takes what it is told."""

    def post(self, event: object) -> None:
        return None

    def advance(self, *_: object) -> None:
        return None


def started(feeds: Callable[[Connection], Feed], *, stop: bool = False) -> RunnerEnded:
    """Start a runner, and wait for its end."""

    async def main() -> RunnerEnded:
        ends: asyncio.Queue[RunnerEnded] = asyncio.Queue()
        around = Surroundings(FakeTransport(), MemorySink(), turns(), _no_secrets, lambda: 0, lambda: 0.5)
        runs = Runs(around, cast("KeeperThread", SilentKeeper()), feed_of=feeds, ended=ends.put_nowait, log=Log())
        runs.fence("a", EPOCH)
        runs.start(Start(1, connection("a"), EPOCH, "control"))
        assert ends.empty(), "never within the supervisor's own turn"
        if stop:
            runs.stop(Stop(1, "a", "it was stopped", flush=True))
            runs.stop(Stop(2, "a", "of a runner that is not there", flush=True))
        ended = await ends.get()
        runs.forget("a", EPOCH)
        return ended

    return run(main())


async def _no_secrets(references: Iterable[str], *, fresh: bool = False) -> dict[str, str]:
    return {}


def test_a_spec_that_cannot_be_followed_is_fatal_with_its_sentence(said: Callable[[], list[dict[str, object]]]) -> None:
    def unfit(_: Connection) -> Feed:
        raise StreamleaseError("record: must be a map")

    ended = started(unfit)
    assert (ended.outcome, ended.reason) == ("fatal", "record: must be a map")
    assert [line["event"] for line in said()] == ["failed"]


def test_a_bug_in_what_reads_a_spec_ends_that_connection_alone(said: Callable[[], list[dict[str, object]]]) -> None:
    def broken(_: Connection) -> Feed:
        raise ZeroDivisionError

    ended = started(broken)
    assert (ended.outcome, ended.reason) == ("crashed", "a fault in the code that reads its spec (ZeroDivisionError)")
    assert [line["event"] for line in said()] == ["runner_crashed"]


def test_a_stop_in_the_turn_of_the_start_finds_its_runner() -> None:
    ended = started(lambda each: feed_of(each, Problems(Log())), stop=True)
    assert (ended.outcome, ended.reason) == ("stopped", "it was stopped")
