"""What one worker process is told, read from environment-like names and values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from streamlease.settings import Settings, log_level, optional_text, settings, whole
from streamlease_worker.addresses import ALLOW_VARIABLE, Allowed, allowed
from streamlease_worker.health import FILE_VARIABLE
from streamlease_worker.sinks.choose import SINK_VARIABLE

CAPACITY_VARIABLE = "STREAMLEASE_CAPACITY"
GENERATION_VARIABLE = "STREAMLEASE_GENERATION"
STOP_TIMEOUT_VARIABLE = "STREAMLEASE_STOP_TIMEOUT_S"

CAPACITY = 1_000
MOST_CAPACITY = 100_000
STOP_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Configuration:
    settings: Settings
    capacity: int
    """How many connections this worker holds at most."""
    generation: int | None
    """What orders its deployment. Workers of an older one take nothing while a newer one has room. None: it goes by the
    place where it runs."""
    stop_timeout_s: int
    """From SIGTERM until the platform kills it."""
    sink: str
    allowed: Allowed
    """Addresses that connections may go to beside public ones."""
    health_file: str | None
    log_level: str


def configuration(environment: Mapping[str, str]) -> Configuration:
    """Raises Misconfigured."""
    return Configuration(
        settings=settings(environment),
        capacity=whole(environment, CAPACITY_VARIABLE, default=CAPACITY, least=1, most=MOST_CAPACITY),
        generation=_generation(environment),
        stop_timeout_s=whole(environment, STOP_TIMEOUT_VARIABLE, default=STOP_TIMEOUT_S, least=1, most=3_600),
        sink=optional_text(environment, SINK_VARIABLE) or "kinesis",
        allowed=allowed(optional_text(environment, ALLOW_VARIABLE)),
        health_file=optional_text(environment, FILE_VARIABLE),
        log_level=log_level(environment),
    )


def _generation(environment: Mapping[str, str]) -> int | None:
    if optional_text(environment, GENERATION_VARIABLE) is None:
        return None
    return whole(environment, GENERATION_VARIABLE, default=0, least=0)
