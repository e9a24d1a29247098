"""The port of adapters: what no declaration says about an upstream's protocol, in Python. Public; docs/adapters.md.

An adapter stands between a socket and the machine. It turns what comes in into messages that the spec's rules,
readiness and records look at, and says what has to be said. It does no I/O, reads no clock, and is timed; what goes
wrong in it ends its own connection alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from streamlease.feed.computed import Moment
from streamlease.model import Sequence
from streamlease.write import Value

VERSION: Final = 1
"""Of this port. It rises when an adapter written for the one before could no longer run."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a hook may go by."""

    connection_id: str
    now_s: float
    """Monotonic seconds: for differences only."""
    variables: Mapping[str, Value]
    """What was captured and kept for this socket. `sequence`: what it asked the upstream to go on from, if anything.
    The variable that `resume.token` names: what an earlier socket, perhaps another worker's, kept with the position."""
    received: Sequence | None = None
    """The last sequence that was read, over all sockets of this owner."""


# --- what a hook may answer -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hear:
    """A message, as if the upstream had sent this JSON: rules, readiness, the open script and records see it. From
    `received` only."""

    message: Value


@dataclass(frozen=True, slots=True)
class Raw:
    """Something that cannot be read: delivered as it came, without a sequence, and counted. From `received` only."""

    data: str | bytes


@dataclass(frozen=True, slots=True)
class Say:
    """Send this, as it is: JSON for all that is no text; bytes in a binary frame. Nothing is filled in."""

    message: Value | bytes


@dataclass(frozen=True, slots=True)
class Seal:
    """Send what `write` makes of the secrets, at the moment of sending. It is given the value of each of `secrets`
    (names, and references from the options in braces) and must keep none."""

    write: Callable[[Mapping[str, str], Moment], str]
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Keep:
    """A variable of this socket: templates may say it, and `resume.token` or `resume.url` keep it with the position."""

    name: str
    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class Wake:
    """Call `woke` after so many seconds. Replaces an earlier one."""

    after_s: float


@dataclass(frozen=True, slots=True)
class End:
    """Close this socket. What follows is what a rule of that action does."""

    reason: str
    """In words, with nothing secret in it: people read it in `streamlease ls`."""
    action: Literal["retry", "rotate", "new_session", "live", "refresh_secrets", "quarantine", "fatal"] = "retry"
    after_s: float | None = None


type Reaction = Hear | Raw | Say | Seal | Keep | Wake | End


class Adapter(Protocol):
    """One socket's. Its hooks answer with reactions, carried out in order; a generator will do."""

    def opened(self, context: Context) -> Iterable[Reaction]:
        """The handshake is done. The spec's open script begins after these."""
        del context
        return ()

    def received(self, context: Context, data: str | bytes) -> Iterable[Reaction]:
        """A text or binary message has come."""
        ...

    def woke(self, context: Context) -> Iterable[Reaction]:
        """A time asked for with `Wake` has come."""
        del context
        return ()


class Factory(Protocol):
    """What an entry point of the group `streamlease.adapters` names: most often the adapter's class."""

    @property
    def version(self) -> int:
        """The version of this port that it is written for."""

    def __call__(self, options: Mapping[str, Value]) -> Adapter:
        """An adapter for one socket. References to secrets in the options stand in braces, never as their values.
        Raises ValueError, with a sentence that begins with an option's name, for options that it cannot follow."""
        ...


@dataclass(frozen=True, slots=True)
class Adapting:
    """Which adapter a feed has."""

    name: str
    options: Mapping[str, Value] = field(default_factory=dict)
    factory: Factory | None = None
    """None: it is not installed here; `problem` says so."""
    problem: str = ""
    keeps: tuple[str, ...] = ()
    """The names that it may `Keep`."""
    budget_s: float = 0.05
    """What one call of a hook may take."""
