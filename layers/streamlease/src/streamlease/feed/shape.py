"""Which of an upstream's messages are records, where their parts lie, and what is said back for them. Values only.

An *entry* is what becomes one record: the message itself, or each entry of a list in it. The parts named in
`of_message` are read from the message that the entry lies in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamlease.write import Value

type Extract = Callable[[Value], Value]
"""Reads one thing out of a decoded message; None where it is not there. Made from a JMESPath expression."""
type Part = Literal["payload", "sequence", "record_id", "event_at", "dedupe", "number", "first", "previous", "key"]


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers that prove that nothing is missing, within a connection or for each of many keys (symbols, say)."""

    number: Extract
    """The last number that a record covers."""
    first: Extract | None = None
    """The first that it covers, where it covers a range; None: its number alone."""
    previous: Extract | None = None
    """The number of the record before, where the upstream says it: then numbers need not rise by one."""
    key: Extract | None = None
    """Each value of it has numbers of its own; None: there is one series."""
    restart: Extract | None = None
    """True of an entry with which its series begins anew: a snapshot, say."""
    of_messages: bool = False
    """Every message is numbered, whether it is data or not; all parts are read from the message."""
    per_socket: bool = False
    """Numbers begin anew with every socket."""
    most_keys: int = 1_000
    """Beyond so many, the key that was not seen for the longest is forgotten."""


@dataclass(frozen=True, slots=True)
class Dedupe:
    """Entries whose key was delivered within the window are dropped."""

    key: Extract | None = None
    """None: the record id."""
    within_s: float | None = None
    most: int = 10_000


@dataclass(frozen=True, slots=True)
class Acks:
    """What the upstream is told of a message that it waits to see acknowledged."""

    message: Value
    """A JSON template; the names of `capture` stand in it as variables."""
    capture: Mapping[str, Extract]
    """What to say back of the message. A message that lacks any of it asks for no acknowledgement."""
    when: Extract | None = None
    """True of a message that is to be acknowledged; None: of every one that has what `capture` asks for."""
    on: Literal["receipt", "durable"] = "durable"
    gather: Literal["each", "list", "latest"] = "each"
    """What becomes durable at one time is acknowledged one by one, in one message with lists, or by its last alone."""


@dataclass(frozen=True, slots=True)
class RecordShape:
    """Which messages are records, and where their parts lie."""

    when: Extract | None = None
    """True of a message that is data; None: every message is."""
    each: Extract | None = None
    """The list in a message whose entries are the records; None: the message is the record."""
    payload: Extract | None = None
    sequence: Extract | None = None
    sequence_type: Literal["number", "string"] = "number"
    sequence_unit: Literal["s", "ms", "us", "ns"] | None = None
    """The sequence is a Unix time in this unit: a record dated in the future must not take the position there."""
    record_id: Extract | None = None
    event_at: Extract | None = None
    event_at_unit: Literal["s", "ms", "us", "ns"] = "ms"
    unique: bool = False
    """Whether a sequence names one record only (one message only, where it is read from the message), so that it may
    serve as the record id."""
    contiguous: bool = False
    """Whether sequences rise by one from record to record, so that a jump is a gap."""
    series: Series | None = None
    dedupe: Dedupe | None = None
    of_message: frozenset[Part] = field(default_factory=frozenset)
