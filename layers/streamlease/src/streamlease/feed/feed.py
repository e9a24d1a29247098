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
    """Query parameters of the URL with `{sequence}` in them; left out while there is no position. One that the URL has
    already is replaced."""
    rewind: float = 0
    """Taken off a numeric cursor before it is used, in the cursor's own unit."""
    inclusive: bool = True
    """Whether the upstream sends the records of the cursor itself again."""
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    """Of stored records that are replayed. Newest first: nothing advances before the replay is complete."""
    complete: Extract | None = None
    """True of the message that ends the replay (EOSE, RESUMED)."""
    at_most: int | None = None
    """The upstream replays at most so many records: a replay that long may have lost its oldest, which is a gap."""
    without_cursor: Literal["live", "all"] = "live"
    """What a dial without a cursor gives: only what is new, or everything that the upstream has stored (so no gap)."""


@dataclass(frozen=True, slots=True)
class RecordShape:
    """Which messages are records, and where their parts lie."""

    when: Extract | None = None
    """True of a message that is data; None: every message is."""
    payload: Extract | None = None
    sequence: Extract | None = None
    sequence_type: Literal["number", "string"] = "number"
    sequence_unit: Literal["s", "ms", "us", "ns"] | None = None
    """The sequence is a Unix time in this unit: a record dated in the future must not take the position there."""
    record_id: Extract | None = None
    event_at: Extract | None = None
    event_at_unit: Literal["s", "ms", "us", "ns"] = "ms"
    unique: bool = False
    """Whether a sequence names one record only, so that it may serve as the record id."""
    contiguous: bool = False
    """Whether sequences rise by one from record to record, so that a jump is a gap."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Full-jitter backoff. It starts over only once a connection has proven itself."""

    first_s: float = 0.5
    longest_s: float = 60.0
    proven_after_s: float = 30.0
    """Streaming for this long, or an acknowledged record that moved the position, before the backoff starts over."""
    longest_retry_after_s: float = 3600.0
    """The longest wait that an upstream may ask for."""
    fatal_close_codes: frozenset[int] = frozenset()
    fatal_http_statuses: frozenset[int] = frozenset({400, 401, 403, 404, 405, 410, 451})


@dataclass(frozen=True, slots=True)
class Keepalive:
    ping_every_s: float | None = 20.0
    """None: no pings, for an upstream that counts them."""
    pong_within_s: float = 20.0
    stale_after_s: float | None = None
    """Without any message for this long while reading, the socket is given up and dialled again."""


@dataclass(frozen=True, slots=True)
class Feed:
    """One upstream. Secrets stand in it as references in braces only, such as `{env:TOKEN}`."""

    connection_id: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()
    open_messages: tuple[Value, ...] = ()
    """Sent after the handshake, in order, each a JSON template (a string is sent as it is). A value that is a whole
    `{sequence}` becomes the cursor itself; an entry that needs a cursor while there is none is left out, and so is a
    header."""
    ready: Extract | None = None
    """True of the message that says the subscription stands; None: the handshake does."""
    ready_within_s: float = 30.0
    record: RecordShape = field(default_factory=RecordShape)
    resume: Resume = field(default_factory=Resume)
    retry: Retry = field(default_factory=Retry)
    keepalive: Keepalive = field(default_factory=Keepalive)
    open_timeout_s: float = 10.0
    close_within_s: float = 1.0
    """How long an upstream may take over its side of the closing handshake."""
    close_code: int = 1000
    """What the owner closes with when it stops; some upstreams end a session on 1000."""
    max_message_bytes: int = 1 << 20
    sink: str = "default"
    checkpoint_every_s: float | None = None
    """How often a position that moved is stored, where connections have no renewals of their own; None: as the worker
    does by itself."""
