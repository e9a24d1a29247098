"""One upstream: numbers its records, keeps them, replays from a cursor where it can, and may start again elsewhere.

Speaks JSON text frames, `{"seq", "id", "at"}` for a record and `{"eose": true}` at the end of a replay. A new
*instance* numbers lower than every earlier one, and knows nothing of their records; a cursor it has not reached yet
means "live".
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from tests.simulation.kernel import MS, Kernel, S
from tests.simulation.ledger import Ledger

FIRST_NUMBER = 1 << 40
"""The first instance numbers from here, each later one from half of it: so a number tells its instance."""


@dataclass(frozen=True, slots=True)
class Nature:
    """What kind of upstream it is."""

    resumes: bool = True
    inclusive: bool = True
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    shared: bool = False
    """Whether several records may carry the same sequence."""
    every_us: int = 4 * S
    """Mean time between two bursts of records."""
    poison: bool = False
    """Whether its greeting kills the process that dials it, as long as things go wrong."""
    stale_after_s: float | None = None
    """After so long without a message its feed calls it silent; only such a one is ever muted."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """A record, as the upstream knows it."""

    sequence: int
    record_id: str
    instance: int
    at_us: int


def host_of(connection_id: str, instance: int) -> str:
    return f"{connection_id}-{instance}.example"


@dataclass(slots=True)
class Socket:
    """One open connection. The callbacks run at the instant a frame or close reaches the client's host."""

    who: str
    on_message: Callable[["Socket", str], None]
    on_closed: Callable[["Socket", str], None]
    open: bool = True
    mute: bool = False
    """Nothing comes on it any more, though it stays open and answers pings: a subscription that was forgotten."""


@dataclass(slots=True)
class Upstream:
    connection_id: str
    kernel: Kernel
    ledger: Ledger
    nature: Nature
    emitted: list[Emitted] = field(default_factory=list)
    sockets: list[Socket] = field(default_factory=list)
    instance: int = 0
    refuses_until_us: int = 0
    refusal_cause: int = 0
    poisonous: bool = False
    resets_us: list[int] = field(default_factory=list)
    mute_for: str = ""
    """The slot whose sockets are mute from their beginning, until `mute_until_us`; `*`: everybody's."""
    mute_until_us: int = 0
    _next: int = FIRST_NUMBER
    _draws: Random = field(init=False)

    def __post_init__(self) -> None:
        self.poisonous = self.nature.poison
        self._draws = self.kernel.draws(f"upstream {self.connection_id}")
        self.kernel.after(self._draws.randrange(self.nature.every_us), self._burst)

    @property
    def host(self) -> str:
        """Each instance has a host of its own; the earlier ones are gone."""
        return host_of(self.connection_id, self.instance)

    # --- what a client does ---

    def dial(
        self,
        who: str,
        host: str,
        cursor: int | None,
        on_message: Callable[["Socket", str], None],
        on_closed: Callable[["Socket", str], None],
    ) -> Socket | None:
        """The handshake, at the instant it reaches the upstream; None: refused. `greet` follows."""
        if self.refuses_until_us > self.kernel.now_us:
            self.ledger.hit("dial refused", self.connection_id, who, self.refusal_cause)
            return None
        if host != self.host:
            return None
        socket = Socket(who, on_message, on_closed, mute=self.mute_until_us > self.kernel.now_us and self._mutes(who))
        self.sockets.append(socket)
        return socket

    def greet(self, socket: Socket, cursor: int | None) -> None:
        """What is sent on a new socket before anything live: the replay."""
        if self.nature.resumes and cursor is not None:
            self._replay(socket, cursor)
        elif self.nature.order == "newest_first" and not socket.mute:
            socket.on_message(socket, '{"eose": true}')

    def hang_up(self, socket: Socket) -> None:
        """The client closes."""
        socket.open = False
        if socket in self.sockets:
            self.sockets.remove(socket)

    # --- what the upstream does ---

    def drop(self, why: str) -> int:
        """Close every socket. Returns how many there were."""
        dropped, self.sockets = self.sockets, []
        for socket in dropped:
            socket.open = False
            self.kernel.after(5 * MS, lambda s=socket: s.on_closed(s, why))  # type: ignore[misc]
        return len(dropped)

    def mute(self, slot: str, length_us: int) -> int:
        """Say nothing more to a slot's workers, on these sockets or those of the near future. Returns how many sockets
        have fallen silent."""
        self.mute_for, self.mute_until_us = slot, self.kernel.now_us + length_us
        silenced = [each for each in self.sockets if self._mutes(each.who)]
        for socket in silenced:
            socket.mute = True
        return len(silenced)

    def _mutes(self, who: str) -> bool:
        return self.mute_for in ("*", who.split("#", maxsplit=1)[0])

    def reset(self) -> None:
        """Start again as another instance, with nothing kept."""
        self.instance += 1
        self._next = FIRST_NUMBER >> self.instance
        self.resets_us.append(self.kernel.now_us)
        self.drop("going away")

    def _burst(self) -> None:
        now_us = self.kernel.now_us
        for _ in range(self._draws.choice((1, 1, 2, 3))):
            again = self.nature.shared and self.emitted and self._draws.random() < 0.4
            sequence = self._next - 1 if again and self.emitted[-1].instance == self.instance else self._next
            self._next = sequence + 1
            record = Emitted(sequence, f"{self.connection_id}-{len(self.emitted)}", self.instance, now_us)
            self.emitted.append(record)
            for socket in self.sockets:
                self._tell(socket, record)
        self.kernel.after(int(self.nature.every_us * (0.5 + self._draws.random())), self._burst)

    def _tell(self, socket: Socket, record: Emitted) -> None:
        if not socket.mute:
            text = json.dumps({"seq": record.sequence, "id": record.record_id, "at": record.at_us // MS})
            socket.on_message(socket, text)

    def _replay(self, socket: Socket, cursor: int) -> None:
        wanted = [
            e
            for e in self.emitted
            if e.instance == self.instance and (e.sequence > cursor or (self.nature.inclusive and e.sequence == cursor))
        ]
        if self.nature.order == "newest_first":
            wanted.reverse()
        for record in wanted:
            self._tell(socket, record)
        if not socket.mute:
            socket.on_message(socket, '{"eose": true}')
