"""What a worker is told, and which sink that opens."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from streamlease.settings import Misconfigured, settings
from streamlease.timing import Timing
from streamlease_worker.configuration import configuration
from streamlease_worker.sinks import choose
from streamlease_worker.sinks.base import Sink
from streamlease_worker.sinks.choose import SinkContext, attempt_s, open_sink
from streamlease_worker.sinks.jsonl import JsonlSink
from streamlease_worker.sinks.kinesis import KinesisSink
from streamlease_worker.sinks.null import NullSink

ENVIRONMENT = {
    "STREAMLEASE_CONNECTIONS_TABLE": "connections",
    "STREAMLEASE_MEMBERS_TABLE": "members",
    "STREAMLEASE_WORKER_ITEMS_TABLE": "worker-items",
    "STREAMLEASE_OFFERS_QUEUE_URL": "https://sqs.example/offers",
}


def test_what_is_not_told_has_a_default() -> None:
    told = configuration(ENVIRONMENT)
    assert (told.capacity, told.generation, told.stop_timeout_s) == (1_000, None, 120)
    assert (told.sink, told.health_file, told.log_level) == ("kinesis", None, "INFO")


def test_everything_can_be_told() -> None:
    told = configuration(
        {
            **ENVIRONMENT,
            "STREAMLEASE_CAPACITY": "7",
            "STREAMLEASE_GENERATION": "1800000000000",
            "STREAMLEASE_STOP_TIMEOUT_S": "30",
            "STREAMLEASE_SINK": "stdout",
            "STREAMLEASE_HEALTH_FILE": "/run/health",
            "POWERTOOLS_LOG_LEVEL": "DEBUG",
        }
    )
    assert (told.capacity, told.generation, told.stop_timeout_s) == (7, 1_800_000_000_000, 30)
    assert (told.sink, told.health_file, told.log_level) == ("stdout", "/run/health", "DEBUG")


@pytest.mark.parametrize("name", ["STREAMLEASE_CAPACITY", "STREAMLEASE_GENERATION", "STREAMLEASE_STOP_TIMEOUT_S"])
def test_a_number_that_is_none_is_named(name: str) -> None:
    with pytest.raises(Misconfigured, match=f"^{name} is 'many'; it must be a whole number from"):
        configuration({**ENVIRONMENT, name: "many"})


def test_a_log_level_that_is_none_is_refused_and_case_makes_no_difference() -> None:
    with pytest.raises(Misconfigured, match=r"^POWERTOOLS_LOG_LEVEL is 'LOUD'; it must be one of DEBUG, INFO, WARNING"):
        configuration({**ENVIRONMENT, "POWERTOOLS_LOG_LEVEL": "loud"})
    assert configuration({**ENVIRONMENT, "POWERTOOLS_LOG_LEVEL": "debug"}).log_level == "DEBUG"


def test_an_attempt_fits_twice_into_what_is_left_of_a_lease_and_is_never_long() -> None:
    assert attempt_s(Timing(heartbeat_ms=1_000, lease_ms=3_000)) == 0.75
    assert attempt_s(Timing(heartbeat_ms=100_000, lease_ms=300_000)) == 10.0


# --- sinks ------------------------------------------------------------------------------------------------------------


def opened(chosen: str, **more: str) -> Sink:
    return open_sink(chosen, settings({**ENVIRONMENT, **more}))


def test_each_name_opens_its_sink(tmp_path: Path) -> None:
    assert isinstance(opened("null"), NullSink)
    assert isinstance(opened("stdout"), JsonlSink)
    assert isinstance(opened(f"jsonl:{tmp_path / 'records'}"), JsonlSink)
    assert isinstance(opened(f"jsonl+fsync:{tmp_path / 'records'}"), JsonlSink)
    assert isinstance(opened("kinesis", STREAMLEASE_RECORDS_STREAM="records"), KinesisSink)


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ("kafka", "STREAMLEASE_SINK is 'kafka'; it must be kinesis, jsonl:PATH, stdout or null, or name an installed"),
        ("jsonl", "STREAMLEASE_SINK is 'jsonl'; name the file"),
        ("jsonl:/no/such/folder/records", "that file cannot be opened for appending (No such file or directory)"),
        ("stdout:x", "stdout takes nothing after it"),
        ("null:x", "null takes nothing after it"),
        ("kinesis:x", "the stream is named by STREAMLEASE_RECORDS_STREAM"),
        ("kinesis", "STREAMLEASE_RECORDS_STREAM is not set, and STREAMLEASE_SINK is kinesis: name the stream"),
    ],
)
def test_a_sink_that_cannot_be_is_one_sentence(chosen: str, sentence: str) -> None:
    with pytest.raises(Misconfigured) as problem:
        opened(chosen)
    assert sentence in str(problem.value)


def _made(argument: str, context: SinkContext) -> Sink:
    assert (argument, context.attempt_s) == ("some:thing", 9.75)
    return NullSink()


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(*, group: str, name: str) -> EntryPoints:
        return EntryPoints([point]).select(group=group, name=name)

    class Loaded(EntryPoint):
        def load(self) -> object:
            return _made

    point = Loaded("mine", "nothing:here", choose.GROUP)
    monkeypatch.setattr(choose, "entry_points", entry_points)


def test_an_installed_sink_is_found_by_its_name_and_given_its_argument(plugin: None) -> None:
    assert isinstance(opened("mine:some:thing"), NullSink)
    with pytest.raises(Misconfigured):
        opened("other")
