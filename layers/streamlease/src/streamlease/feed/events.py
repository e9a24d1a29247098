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
    """The socket is gone, or the dial failed. One of `code` (close frame) and `http_status` (refused handshake) where
    known; `error` says in words what happened, with no secret in it."""

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
    """Open a socket. `url` and `headers` still hold references to secrets; the transport resolves them."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()
    open_timeout_s: float = 10.0
    max_message_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Send:
    """Send a text message. May hold references to secrets; the transport resolves them."""

    text: str


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
    """Close the socket with this code. A `Closed` follows."""

    code: int = 1000
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Count:
    """Something worth counting happened: `unreadable_sequence`, `not_json`, `duplicate`, `oversized`…"""

    what: str
    amount: int = 1


@dataclass(frozen=True, slots=True)
class Finished:
    """No more commands follow. `fatal`: not to be tried again until the spec changes."""

    outcome: Literal["stopped", "fatal"]
    reason: str


type Command = Dial | Send | Ping | Deliver | WakeAt | Advance | Report | Close | Count | Finished
