"""What happens to a connection (events in) and what its machine asks for (commands out). Values only.

Times are monotonic seconds. A *delivery* is one record or gap handed to the sink; `number` counts them from 1 within
one ownership, and acknowledgements come back in that order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamlease.model import Position, Sequence, StatusState
from streamlease.write import Value

# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """The WebSocket handshake is done."""


@dataclass(frozen=True, slots=True)
class Message:
    data: str | bytes
    received_at_ms: int
    """Wall clock, Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Ponged:
    """The upstream answered a protocol ping."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The socket is gone, or the dial failed. One of `code` (close frame, sent or received) and `http_status` (refused
    handshake) where known; `error` says in words what happened, with no secret in it. Every `Dial` is followed by
    exactly one, sooner or later, whether or not it opened."""

    error: str
    code: int | None = None
    http_status: int | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The sink holds every delivery up to and with `number` durably."""

    number: int


@dataclass(frozen=True, slots=True)
class Reading:
    """Reading from the socket was stopped (the sink is full) or goes on; liveness is judged only while reading."""

    on: bool


@dataclass(frozen=True, slots=True)
class Woke:
    """A time asked for with `WakeAt` has come."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Drain, STOPPED, a lost lease or a changed spec: read no more and close."""

    reason: str


type Event = Opened | Message | Ponged | Closed | Acknowledged | Reading | Woke | StopRequested

# --- commands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a socket. `url` and `headers` still hold references to secrets; `secrets.resolved` puts them in."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()
    open_timeout_s: float = 10.0
    max_message_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Send:
    """Send a text message. May hold references to secrets; `secrets.resolved` puts them in."""

    text: str
    json: bool = True
    """Whether the text is JSON, so that what is put into it has to be written as JSON writes a string's inside."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Send a protocol ping; a `Ponged` follows if the upstream lives."""


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
    """Close the socket with this code, or give up the dial under way. A `Closed` follows."""

    code: int = 1000
    reason: str = ""
    abort: bool = False
    """Drop the socket at once, without a closing handshake: an earlier `Close` was not answered in time."""


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
    "unreadable_sequence": "a record whose sequence is absent or nothing to resume from; delivered without one",
    "unreadable_payload": "a record in which the payload's path leads nowhere; delivered whole",
    "duplicate": "a record delivered before by this owner; dropped",
    "future_sequence": "a record dated over a minute after its arrival; the position stays at the present",
    "gap": "a place where continuity could not be proven; delivered as a gap record",
    "oversized": "a message above the spec's max_message; the connection was closed",
    "invalid_utf8": "a text message that is not UTF-8; the connection was closed",
    "late_pong": "no sign of life within pong_within of a ping; the connection was closed",
    "stale": "no message within stale_after; the connection was closed",
    "not_ready": "no sign of readiness within ready.within; the connection was closed",
}
"""What `Count` counts, and what each means."""

type Command = Dial | Send | Ping | Deliver | WakeAt | Advance | Report | Close | Count | Finished
