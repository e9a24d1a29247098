"""What a feed is: everything the machine needs to know of one upstream, frozen. `spec` makes it from YAML."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamlease.write import Value

type Extract = Callable[[Value], Value]
"""Reads one thing out of a decoded message; None where it is not there. Made from a JMESPath expression."""


@dataclass(frozen=True, slots=True)
class Resume:
    """How to ask the upstream to go on from a position."""

    query: Mapping[str, str] = field(default_factory=dict)
    """Query parameters of the URL with `{sequence}` in them; left out while there is no position."""
    rewind: float = 0
    """Taken off a numeric cursor before it is used, in the cursor's own unit."""
    inclusive: bool = True
    """Whether the upstream sends the records of the cursor itself again."""
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    """Of stored records that are replayed. Newest first: nothing advances before the replay is complete."""
    complete: Extract | None = None
    """True of the message that ends the replay (EOSE, RESUMED)."""


@dataclass(frozen=True, slots=True)
class RecordShape:
    """Which messages are records, and where their parts lie."""

    when: Extract | None = None
    """True of a message that is data; None: every message is."""
    payload: Extract | None = None
    sequence: Extract | None = None
    sequence_type: Literal["number", "string"] = "number"
    record_id: Extract | None = None
    event_at: Extract | None = None
    event_at_unit: Literal["s", "ms", "us"] = "ms"
    unique: bool = False
    """Whether a sequence names one record only, so that it may serve as the record id."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Full-jitter backoff. It starts over only once a connection has proven itself."""

    first_s: float = 0.5
    longest_s: float = 60.0
    proven_after_s: float = 30.0
    """Ready for this long, or a record acknowledged, before the backoff starts over."""
    fatal_close_codes: frozenset[int] = frozenset()
    fatal_http_statuses: frozenset[int] = frozenset({400, 401, 403, 404, 405, 410, 451})


@dataclass(frozen=True, slots=True)
class Keepalive:
    ping_every_s: float = 20.0
    pong_within_s: float = 20.0
    stale_after_s: float | None = None
    """Without any message for this long while reading, the socket is given up and dialled again."""


@dataclass(frozen=True, slots=True)
class Feed:
    connection_id: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()
    open_messages: tuple[Value, ...] = ()
    """Sent after the handshake, in order, each a JSON template (a string is sent as it is). A value that is a whole
    `{sequence}` becomes the cursor itself; an entry that needs a cursor while there is none is left out."""
    ready: Extract | None = None
    """True of the message that says the subscription stands; None: the handshake does."""
    ready_within_s: float = 30.0
    record: RecordShape = field(default_factory=RecordShape)
    resume: Resume = field(default_factory=Resume)
    retry: Retry = field(default_factory=Retry)
    keepalive: Keepalive = field(default_factory=Keepalive)
    open_timeout_s: float = 10.0
    max_message_bytes: int = 1 << 20
    sink: str = "default"
