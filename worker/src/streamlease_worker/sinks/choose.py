"""Which sink `STREAMLEASE_SINK` names, opened.

Others are found through the entry-point group `streamlease.sinks`: each a callable `(argument, SinkContext) -> Sink`,
chosen as `name` or `name:argument`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import boto3
from botocore.config import Config

from streamlease.dynamodb.clients import client, open_session
from streamlease.settings import RECORDS_STREAM_VARIABLE, Misconfigured, Settings
from streamlease.timing import Timing
from streamlease_worker.sinks.base import Sink
from streamlease_worker.sinks.jsonl import open_file, open_stdout
from streamlease_worker.sinks.kinesis import KinesisSink
from streamlease_worker.sinks.null import NullSink

SINK_VARIABLE = "STREAMLEASE_SINK"
GROUP = "streamlease.sinks"
LONGEST_ATTEMPT_S = 10.0
_BUILT_IN = "kinesis, jsonl:PATH, stdout or null"


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink may go by. `attempt_s`: an attempt ends within this, so that it fits in what is left of a lease."""

    settings: Settings
    session: boto3.Session
    attempt_s: float


type SinkFactory = Callable[[str, SinkContext], Sink]


def attempt_s(timing: Timing) -> float:
    """Half of what is left of a lease at worst, when renewals come in time."""
    return min(LONGEST_ATTEMPT_S, (timing.lease_ms - timing.margin_ms - timing.heartbeat_ms) / 2000)


def open_sink(chosen: str, settings: Settings) -> Sink:
    """Raises Misconfigured for what cannot be a sink, Denied where boto3 has no region or profile for it."""
    name, _, argument = chosen.partition(":")
    match name:
        case "stdout" | "null" if argument:
            raise Misconfigured(SINK_VARIABLE, f"is {chosen!r}; {name} takes nothing after it")
        case "stdout":
            return open_stdout()
        case "null":
            return NullSink()
        case "jsonl" | "jsonl+fsync":
            return _file(chosen, argument, fsync=name == "jsonl+fsync")
        case "kinesis":
            return _kinesis(chosen, argument, settings)
        case _:
            context = SinkContext(settings, open_session(), attempt_s(settings.timing))
            return _plugin(chosen, name)(argument, context)


def _file(chosen: str, argument: str, *, fsync: bool) -> Sink:
    if not argument:
        raise Misconfigured(SINK_VARIABLE, f"is {chosen!r}; name the file, as in jsonl:/var/records.jsonl")
    try:
        return open_file(Path(argument), fsync=fsync)
    except OSError as error:
        problem = f"is {chosen!r}, and that file cannot be opened for appending ({error.strerror})"
        raise Misconfigured(SINK_VARIABLE, problem) from None


def _kinesis(chosen: str, argument: str, settings: Settings) -> Sink:
    if argument:
        raise Misconfigured(SINK_VARIABLE, f"is {chosen!r}; the stream is named by {RECORDS_STREAM_VARIABLE}")
    if settings.records_stream is None:
        raise Misconfigured(RECORDS_STREAM_VARIABLE, f"is not set, and {SINK_VARIABLE} is kinesis: name the stream")
    within_s = attempt_s(settings.timing)
    config = Config(
        connect_timeout=within_s * 0.3,
        read_timeout=within_s * 0.7,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=8,
        tcp_keepalive=True,
    )
    made = client("kinesis", session=open_session(), config=config)
    return KinesisSink(made, settings.records_stream, attempt_s=within_s)


def _plugin(chosen: str, name: str) -> SinkFactory:
    found: tuple[EntryPoint, ...] = tuple(entry_points(group=GROUP, name=name))
    if not found:
        raise Misconfigured(
            SINK_VARIABLE, f"is {chosen!r}; it must be {_BUILT_IN}, or name an installed {GROUP} plugin"
        )
    factory: SinkFactory = found[0].load()
    return factory
