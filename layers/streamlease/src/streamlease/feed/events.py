"""What happens to a connection (events in) and what its machine asks for (commands out). Values only.

Times are monotonic seconds. A *delivery* is one record or gap handed to the sink; `number` counts them from 1 within
one ownership, and acknowledgements come back in that order. `socket` counts dials from 1: a rotation may have two at
once. In an event, 0 stands for the newest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamlease.feed.computed import Computed
from streamlease.model import Position, Sequence, StatusState
from streamlease.write import Value

# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """The WebSocket handshake is done."""

    socket: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    data: str | bytes
    received_at_ms: int
    """Wall clock, Unix milliseconds."""
    socket: int = 0


@dataclass(frozen=True, slots=True)
class Ponged:
    """The upstream answered a protocol ping."""

    socket: int = 0


@dataclass(frozen=True, slots=True)
class Closed:
    """The socket is gone, or the dial failed. One of `code` (close frame, sent or received) and `http_status` (refused
    handshake) where known; `error` says in words what happened, with no secret in it. Every `Dial` is followed by
    exactly one, sooner or later, whether or not it opened."""

    error: str
    code: int | None = None
    http_status: int | None = None
    retry_after_s: float | None = None
    socket: int = 0
    reason: str = ""
    """The close frame's own words, for rules to match. Never shown: `error` is."""
    body: str = ""
    """What came with the refused handshake, its first 4 KiB, for rules to match. Never shown."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a `Fetch`, or why there is none. Every `Fetch` is followed by exactly one, also after a `Close`."""

    socket: int
    status: int | None = None
    body: str = ""
    """Never shown: it may hold a ticket."""
    error: str = ""
    """Without a status: what happened, in words, with no secret in it."""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class DialHeld:
    """A dial, or the call before it, has to wait for its turn: until `DialBegun`, its time does not run."""

    socket: int = 0
    reason: str | None = None
    """What it waits for, and for how long, once that is worth telling."""


@dataclass(frozen=True, slots=True)
class DialBegun:
    """The dial that was held goes out now."""

    socket: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The sink holds every delivery up to and with `number` durably."""

    number: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading from the socket was stopped (the sink is full) or goes on; liveness is judged only while reading."""

    on: bool
    socket: int = 0


@dataclass(frozen=True, slots=True)
class Woke:
    """A time asked for with `WakeAt` has come."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Drain, STOPPED, a lost lease or a changed spec: read no more and close."""

    reason: str


type Event = (
    Opened | Message | Ponged | Closed | Fetched | DialHeld | DialBegun | Acknowledged | Reading | Woke | StopRequested
)

# --- commands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tls:
    """References to PEM texts; None: the worker's own trust, no client certificate."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    server_name: str | None = None
    """Asked for and verified instead of the URL's host."""


@dataclass(frozen=True, slots=True)
class Route:
    """How to get to an upstream's host."""

    tls: Tls = field(default_factory=Tls)
    proxy: str | None = "env"
    """`env`: whatever the worker's environment names; None: none; else `http://`, `socks5://` or `socks5h://` with
    references to secrets in it."""
    private_addresses: bool = False
    """Whether the spec asks for private, link-local and loopback addresses, where the worker allows them at all."""
    announced: bool = False
    """Whether the host is the upstream's word and not the spec's, so that an address in it is nobody's wish."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a socket. `url` and `headers` (and the route) still hold references to secrets and names of computed
    values; `secrets.resolved` puts them in."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()
    open_timeout_s: float = 10.0
    max_message_bytes: int = 1 << 20
    socket: int = 0
    route: Route = field(default_factory=Route)
    compression: bool = False
    """Whether to offer permessage-deflate."""
    computed: Mapping[str, Computed] = field(default_factory=dict)
    fresh_secrets: bool = False
    """Look the secrets up past any cache: the upstream has just refused those that were used."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Make an HTTP call before dial number `socket`. No redirects; `Close` gives it up."""

    socket: int
    method: Literal["GET", "POST", "PUT"]
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    json: bool = True
    """As for `Send`. A JSON body goes out with that content type unless a header says another."""
    timeout_s: float = 10.0
    max_body_bytes: int = 64 << 10
    """A longer answer is an error."""
    route: Route = field(default_factory=Route)
    computed: Mapping[str, Computed] = field(default_factory=dict)
    fresh_secrets: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message. May hold references to secrets and names of computed values; `secrets.resolved` puts them in."""

    text: str | bytes
    """Bytes go out in a binary frame as they are, with nothing put in."""
    json: bool = True
    """Whether the text is JSON, so that what is put into it has to be written as JSON writes a string's inside."""
    socket: int = 0
    binary: bool = False
    """Send the text in a binary frame."""
    most_bytes: int | None = None
    """Larger than this, with all put in, it is not sent: the dial ends with a `Closed` that says so."""
    computed: Mapping[str, Computed] = field(default_factory=dict)
    """Evaluated for this message alone, at the moment it is sent."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Send a protocol ping; a `Ponged` follows if the upstream lives."""

    socket: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the upstream. `payload` is JSON-ready, or text or bytes where it is not JSON."""

    number: int
    sequence: Sequence | None
    record_id: str | None
    event_at_ms: int | None
    received_at_ms: int
    payload: Value | bytes


@dataclass(frozen=True, slots=True)
class Gap:
    """Continuity cannot be proven from `from_sequence` (None: unknown) to `to_sequence` (None: not known yet)."""

    number: int
    from_sequence: Sequence | None
    to_sequence: Sequence | None
    reason: str


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand these to the sink, in this order."""

    deliveries: tuple[Record | Gap, ...]


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a `Woke` at this monotonic second. Replaces any earlier one."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Advance:
    """The position that is now safe to store."""

    position: Position


@dataclass(frozen=True, slots=True)
class Report:
    """The connection's state changed, for its status and the log. STREAMING is the instant of readiness."""

    state: StatusState
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket with this code, or give up the dial or `Fetch` under way. A `Closed` (or `Fetched`) follows."""

    code: int = 1000
    reason: str = ""
    abort: bool = False
    """Drop the socket at once, without a closing handshake: an earlier `Close` was not answered in time."""
    socket: int = 0


@dataclass(frozen=True, slots=True)
class Count:
    """Something worth counting happened. `what` is a key of `COUNTED`."""

    what: str
    amount: int = 1


type Ending = Literal["stopped", "fatal", "yielded", "quarantined"]


@dataclass(frozen=True, slots=True)
class Finished:
    """No more commands follow; `Machine.position` still moves with late acknowledgements.

    `stopped`: as asked. `fatal`: not to be tried again until the spec changes. `yielded`: to be tried by another
    worker, for it may be this one's doing. `quarantined`: neither here nor elsewhere for a while, which grows.
    """

    outcome: Ending
    reason: str


COUNTED = {
    "not_json": "a message that is not JSON; delivered as text or bytes, without a sequence",
    "undecodable": "a message that is not wrapped as unwrap says; delivered as it came, without a sequence",
    "too_large": "a message that unfolds to more than max_message; delivered as it came, without a sequence",
    "too_many": "a message of more values, messages or records than are looked at in one go; kept whole",
    "no_entries": "a message without the list that record.each names; delivered whole",
    "unreadable_number": "a record without the number that record.series names; nothing is proven by it",
    "adapter": "a fault of the connection's adapter, or calls that took too long; the connection was quarantined",
    "ack_left_out": "an acknowledgement that was not sent, because too many waited; the upstream sends again",
    "unreadable_sequence": "a record whose sequence is absent or nothing to resume from; delivered without one",
    "unreadable_payload": "a record in which the payload's path leads nowhere; delivered whole",
    "duplicate": "a record delivered before by this owner; dropped",
    "future_sequence": "a record dated over a minute after its arrival; the position stays at the present",
    "gap": "a place where continuity could not be proven; delivered as a gap record",
    "oversized": "a message above the spec's max_message; the connection was closed",
    "invalid_utf8": "a text message that is not UTF-8; the connection was closed",
    "late_pong": "no sign of life within pong_within of a ping; the connection was closed",
    "stale": "no message within stale_after; the connection was closed",
    "unanswered": "no answer to a keepalive message in time; the connection was closed",
    "rotation": "a new socket was asked for before the upstream would close the old one",
    "rotation_failed": "a new socket was not to be had in time; the old one went on",
    "not_ready": "no sign of readiness within ready.within; the connection was closed",
}
"""What `Count` counts, and what each means."""

type Command = Dial | Fetch | Send | Ping | Deliver | WakeAt | Advance | Report | Close | Count | Finished
