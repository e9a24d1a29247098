"""What a deployment sets, read from environment-like names and values by functions, worker and CLI alike. Pure.

Who has other sources (flags, stack outputs) lays them over the environment first and passes the sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from streamlease.errors import StreamleaseError
from streamlease.model import LeaseMode
from streamlease.timing import Timing
from streamlease.write import Table

TABLE_VARIABLES: Mapping[Table, str] = {
    Table.CONNECTIONS: "STREAMLEASE_CONNECTIONS_TABLE",
    Table.MEMBERS: "STREAMLEASE_MEMBERS_TABLE",
    Table.WORKER_ITEMS: "STREAMLEASE_WORKER_ITEMS_TABLE",
}
OFFERS_QUEUE_VARIABLE = "STREAMLEASE_OFFERS_QUEUE_URL"
RECORDS_STREAM_VARIABLE = "STREAMLEASE_RECORDS_STREAM"
MODE_VARIABLE = "STREAMLEASE_LEASE_MODE"
HEARTBEAT_VARIABLE = "STREAMLEASE_HEARTBEAT_MS"
LEASE_VARIABLE = "STREAMLEASE_LEASE_MS"
SHARDS_VARIABLE = "STREAMLEASE_SHARDS"
EGRESS_GROUP_VARIABLE = "STREAMLEASE_EGRESS_GROUP"
LOG_LEVEL_VARIABLE = "POWERTOOLS_LOG_LEVEL"

SHARDS = 16
MOST_SHARDS = 1_024
"""Every sweep queries each shard: more than this would cost more than it spreads."""
TIMINGS: Mapping[LeaseMode, Timing] = {
    LeaseMode.CONNECTION: Timing(heartbeat_ms=10_000, lease_ms=30_000),
    LeaseMode.WORKER: Timing(heartbeat_ms=2_000, lease_ms=6_000),
}
"""Each mode's own intervals, where nothing else is set."""


class LogLevel(StrEnum):
    """As Python's logging and Powertools name them."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class Misconfigured(StreamleaseError):
    """A variable is missing or cannot be. The text is one sentence that names it and says what is right."""

    def __init__(self, variable: str, problem: str) -> None:
        super().__init__(f"{variable} {problem}")
        self.variable = variable


@dataclass(frozen=True, slots=True)
class Settings:
    """One deployment, as its parts see it."""

    tables: Mapping[Table, str]
    """Physical names."""
    offers_queue_url: str
    records_stream: str | None
    """Name of the Kinesis stream; None where nothing is set, and only its sink needs it."""
    mode: LeaseMode
    timing: Timing
    shards: int
    egress_group: str = "default"
    """What upstreams see as one client: dial budgets by host are counted for each."""


def settings(environment: Mapping[str, str]) -> Settings:
    """Raises Misconfigured. Intervals that are not set are the lease mode's own."""
    mode = choice(environment, MODE_VARIABLE, LeaseMode, default=LeaseMode.CONNECTION)
    usual = TIMINGS[mode]
    heartbeat_ms = whole(environment, HEARTBEAT_VARIABLE, default=usual.heartbeat_ms, least=1)
    lease_ms = whole(environment, LEASE_VARIABLE, default=max(usual.lease_ms, 3 * heartbeat_ms), least=1)
    try:
        timing = Timing(heartbeat_ms=heartbeat_ms, lease_ms=lease_ms)
    except ValueError as error:
        raise Misconfigured(LEASE_VARIABLE, f"and {HEARTBEAT_VARIABLE} do not go together: a {error}") from None
    return Settings(
        tables={table: text(environment, variable) for table, variable in TABLE_VARIABLES.items()},
        offers_queue_url=_url(environment, OFFERS_QUEUE_VARIABLE),
        records_stream=optional_text(environment, RECORDS_STREAM_VARIABLE),
        mode=mode,
        timing=timing,
        shards=whole(environment, SHARDS_VARIABLE, default=SHARDS, least=1, most=MOST_SHARDS),
        egress_group=optional_text(environment, EGRESS_GROUP_VARIABLE) or "default",
    )


def log_level(environment: Mapping[str, str]) -> str:
    """The level's name; INFO where none is set. Raises Misconfigured."""
    found = {LOG_LEVEL_VARIABLE: environment.get(LOG_LEVEL_VARIABLE, "").upper()}
    return choice(found, LOG_LEVEL_VARIABLE, LogLevel, default=LogLevel.INFO).value


def optional_text(environment: Mapping[str, str], variable: str) -> str | None:
    """The value without surrounding blanks; None where it is not set or empty."""
    return environment.get(variable, "").strip() or None


def text(environment: Mapping[str, str], variable: str) -> str:
    """Raises Misconfigured where it is not set."""
    found = optional_text(environment, variable)
    if found is None:
        output = "".join(word.capitalize() for word in variable.removeprefix("STREAMLEASE_").split("_"))
        raise Misconfigured(variable, f"is not set: set it to the stack's output {output}, or name the stack")
    return found


def whole(environment: Mapping[str, str], variable: str, *, default: int, least: int, most: int | None = None) -> int:
    """A whole number between `least` and `most`. Raises Misconfigured."""
    found = optional_text(environment, variable)
    if found is None:
        return default
    wanted = f"a whole number from {least} to {most}" if most is not None else f"a whole number from {least} on"
    digits = found.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise Misconfigured(variable, f"is {found[:40]!r}; it must be {wanted}")
    number = int(found)
    if number < least or (most is not None and number > most):
        raise Misconfigured(variable, f"is {found}; it must be {wanted}")
    return number


def choice[E: StrEnum](environment: Mapping[str, str], variable: str, choices: type[E], *, default: E) -> E:
    """One of an enumeration's values. Raises Misconfigured."""
    found = optional_text(environment, variable)
    if found is None:
        return default
    try:
        return choices(found)
    except ValueError:
        raise Misconfigured(variable, f"is {found!r}; it must be one of {', '.join(choices)}") from None


def _url(environment: Mapping[str, str], variable: str) -> str:
    found = text(environment, variable)
    if not found.startswith(("https://", "http://")):
        raise Misconfigured(variable, f"is {found!r}; it must be the queue's URL, https://…")
    return found
