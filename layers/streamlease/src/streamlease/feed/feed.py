"""What a feed is: everything the machine needs to know of one upstream, frozen. `spec` makes it from YAML.

*Variables* stand in templates as `{name}`: the cursor (`sequence`), a number drawn for each socket (`socket_id`), the
last sequence read (`received`), and what was captured from the upstream's words, which may be kept with the position.
Computed values stand as `{=name}`, references to secrets as `{env:NAME}`. What needs a variable that is not there is
left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from streamlease.feed.adapter import Adapting
from streamlease.feed.bounds import Bounds
from streamlease.feed.computed import Computed
from streamlease.feed.decoding import Decode, one_json
from streamlease.feed.events import Route
from streamlease.feed.shape import Acks
from streamlease.feed.shape import Extract as Extract
from streamlease.feed.shape import RecordShape as RecordShape
from streamlease.write import Value

type Captures = Mapping[str, Extract]
"""What to keep of a message, by the name of its variable."""
type Action = Literal[
    "go_on", "gap", "retry", "rotate", "new_session", "live", "refresh_secrets", "quarantine", "fatal"
]


@dataclass(frozen=True, slots=True)
class Fetching:
    """An HTTP call before each dial."""

    url: str
    method: Literal["GET", "POST", "PUT"] = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Value = None
    """A JSON template; None: no body."""
    good: Extract | None = None
    """True of an answer that is one; None: any with a status of 2xx."""
    next_url: Extract | None = None
    """Where to dial instead of the feed's URL. With it, no call is made while there is a URL to resume at."""
    capture: Captures = field(default_factory=dict)
    within_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of opening: messages to send, then a message to wait for, if any is expected."""

    sends: tuple[Value, ...] = ()
    expect: Extract | None = None
    answers: tuple[tuple[Extract, Value], ...] = ()
    """What the expected message has to repeat: each extract gives the same as its template."""
    within_s: float = 30.0
    capture: Captures = field(default_factory=dict)
    present: str | None = None
    """Only while this variable is there."""
    absent: str | None = None
    """Only while this variable is not there."""

    @property
    def waits(self) -> bool:
        return self.expect is not None or bool(self.answers)


@dataclass(frozen=True, slots=True)
class Rule:
    """What to do about something that the upstream says. One of the first three is set, and says about what."""

    message: Extract | None = None
    close_codes: frozenset[int] = frozenset()
    http_statuses: frozenset[int] = frozenset()
    """Of a refused handshake, or of the call before it."""
    reason: str | None = None
    """Only if the close frame's reason holds this text, in any case."""
    body: Extract | None = None
    """Only if this is true of the HTTP answer's JSON."""
    action: Action = "go_on"
    after_s: float | None = None
    """At the earliest before the next dial."""
    after: Extract | None = None
    """Seconds, from the message or body, before the next dial."""
    url: Extract | None = None
    """Where the next dial goes, once, from the message."""
    capture: Captures = field(default_factory=dict)
    sends: tuple[Value, ...] = ()
    name: str = "a rule"
    """For people: where it stands in the spec."""
    times: int | None = None
    """At most so many times until a connection has proven itself again; then `otherwise`."""
    otherwise: Action = "fatal"


@dataclass(frozen=True, slots=True)
class Beat:
    """A keepalive in messages."""

    message: Value
    """A JSON template in which a whole value that is not there becomes null."""
    every_s: float | None = None
    every_from: str | None = None
    """The variable that holds the interval, where the upstream names it; none is sent before it is there."""
    every_unit_s: float = 0.001
    if_silent: bool = False
    """Only where nothing was read for that long."""
    first_at_random: bool = False
    """The first after a random part of the interval."""
    answer: Extract | None = None
    """True of a message that answers."""
    answer_within_s: float | None = None
    """None: before the next is due."""
    close_code: int = 4000
    """What a socket without an answer is closed with: 1000 and 1001 end a session on some upstreams."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast an upstream may be talked to. What is too soon waits its turn."""

    messages: int
    per_s: float
    counts_pings: bool = False
    """Pings and pongs count too: one of the window is then kept free for the pongs that are sent by themselves."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """A new socket before the upstream closes the old one."""

    after_s: float | None = None
    jitter_s: float = 0.0
    """Up to so much earlier, so that sockets opened together do not rotate together."""
    overlap: bool = False
    """Whether the new socket is ready before the old one is closed."""
    overlap_s: float = 1.0
    """How long both are open, once the new one is ready."""


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
    instance: str | None = None
    """What numbers the sequences, where it is not the URL's host: upstreams of one name share their cursors."""
    elsewhere: Literal["resume", "live"] = "resume"
    """Whether a cursor of another upstream is of any use here."""
    rewind_elsewhere: float = 0
    """Taken off such a cursor too."""
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    """Of stored records that are replayed. Newest first: nothing advances before the replay is complete."""
    complete: Extract | None = None
    """True of the message that ends the replay (EOSE, RESUMED)."""
    floor: Extract | None = None
    """The oldest sequence that the upstream has, where one of its messages says so."""
    at_most: int | None = None
    """The upstream replays at most so many records: a replay that long may have lost its oldest, which is a gap."""
    without_cursor: Literal["live", "all"] = "live"
    """What a dial without a cursor gives: only what is new, or everything that the upstream has stored (so no gap)."""
    token: str | None = None
    """The variable that is kept with the position, as `token`: a session id, say."""
    url: str | None = None
    """The variable that is kept with the position and dialled to resume."""
    reaches_back_s: float | None = None
    """How far back the upstream can go. A cursor that is older, by its unit, leaves a gap, or is final."""
    too_old: Literal["live", "fatal"] = "live"
    beginning: int | float | str | None = None
    """The cursor that means everything the upstream has; None: none is sent."""


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
    beat: Beat | None = None
    heartbeat: Extract | None = None
    """True of a message that says the upstream lives and nothing else: it is no data, and keeps nothing fresh."""


@dataclass(frozen=True, slots=True)
class DialLimit:
    """How often an upstream may be dialled, by all that it counts as one."""

    dials: int
    per_s: float
    by: Literal["host", "credential"] = "host"


@dataclass(frozen=True, slots=True)
class Feed:
    """One upstream. Secrets stand in it as references in braces only, such as `{env:TOKEN}`."""

    connection_id: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    subprotocols: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    """The parameters that `url` has from the spec, quoted: a URL that the upstream names gets them too."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters with variables in them."""
    fetch: Fetching | None = None
    computed: Mapping[str, Computed] = field(default_factory=dict)
    open_messages: tuple[Value | Step, ...] = ()
    """The open script: sent and waited for in order, once the socket is open. A message is a JSON template (a string is
    sent as it is). A value that is a whole `{sequence}` becomes the cursor itself."""
    ready: Extract | None = None
    """True of the message that says the subscription stands; None: the handshake does."""
    ready_within_s: float = 30.0
    decode: Decode = one_json
    """What a frame holds: the messages that all else looks at."""
    adapter: Adapting | None = None
    """Makes messages of frames instead, and more."""
    record: RecordShape = field(default_factory=RecordShape)
    acks: Acks | None = None
    resume: Resume = field(default_factory=Resume)
    dials: tuple[DialLimit, ...] = ()
    retry: Retry = field(default_factory=Retry)
    rules: tuple[Rule, ...] = ()
    """The first that fits is followed."""
    rotation: Rotation = field(default_factory=Rotation)
    pace: Pace | None = None
    max_send_bytes: int | None = None
    route: Route = field(default_factory=Route)
    compression: bool = False
    keepalive: Keepalive = field(default_factory=Keepalive)
    open_timeout_s: float = 10.0
    close_within_s: float = 1.0
    """How long an upstream may take over its side of the closing handshake."""
    close_code: int = 1000
    """What the owner closes with when it stops; some upstreams end a session on 1000."""
    max_message_bytes: int = 1 << 20
    bounds: Bounds = field(default_factory=Bounds)
    """How long a look at its messages takes, and so how many there may be in a frame."""
    sink: str = "default"
    checkpoint_every_s: float | None = None
    """How often a position that moved is stored, where connections have no renewals of their own; None: as the worker
    does by itself."""
