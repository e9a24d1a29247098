"""Drives a machine as a runner would, on a clock of its own, and holds it to what a runner relies on."""

import json
from collections.abc import Callable
from typing import Any

from streamlease.feed.events import (
    Acknowledged,
    Advance,
    Close,
    Closed,
    Command,
    Count,
    Deliver,
    Dial,
    Event,
    Fetch,
    Fetched,
    Finished,
    Gap,
    Message,
    Opened,
    Ping,
    Record,
    Report,
    Send,
    WakeAt,
    Woke,
)
from streamlease.feed.feed import Feed, RecordShape, Resume
from streamlease.feed.machine import Machine
from streamlease.model import Position, Sequence
from streamlease.write import Value

WALL_MS = 1_764_000_000_000


def path(*steps: str | int) -> Callable[[Value], Value]:
    """An extractor for tests."""

    def read(value: Value) -> Value:
        for step in steps:
            if isinstance(step, str):
                value = value.get(step) if isinstance(value, dict) else None
            else:
                value = value[step] if isinstance(value, list) and len(value) > step else None
        return value

    return read


def first_is(word: str) -> Callable[[Value], Value]:
    return lambda value: path(0)(value) == word


def nostr(**changes: Any) -> Feed:
    """Newest first until EOSE; the cursor is in whole seconds, shared and inclusive."""
    return Feed(
        "notes",
        "ws://relay.test/",
        open_messages=(["REQ", "sub", {"kinds": [1], "since": "{sequence}"}],),
        ready=first_is("EOSE"),
        record=RecordShape(
            when=first_is("EVENT"), payload=path(2), sequence=path(2, "created_at"), record_id=path(2, "id")
        ),
        resume=Resume(order="newest_first", complete=first_is("EOSE"), rewind=2, without_cursor="all"),
        **changes,
    )


def jetstream(**changes: Any) -> Feed:
    """Oldest first, inclusive, by query parameter."""
    return Feed(
        "posts",
        "wss://jetstream.test/subscribe?wanted=post",
        record=RecordShape(sequence=path("time_us"), unique=True),
        resume=Resume(query={"cursor": "{sequence}"}, rewind=1),
        **changes,
    )


def ticker(**changes: Any) -> Feed:
    """Cannot resume."""
    return Feed("trades", "wss://ticker.test/ws", record=RecordShape(sequence=path("id")), **changes)


def event(created_at: int, id: str) -> list[Any]:  # noqa: A002
    return ["EVENT", "sub", {"id": id, "created_at": created_at}]


class Driver:
    """Feeds events in, keeps commands, and fails on a command that no runner could carry out."""

    def __init__(
        self,
        feed: Feed,
        position: Position | None = None,
        *,
        draw: float = 0.5,
        suspect: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.feed = feed
        self.dials = 0
        self.finished = False
        self.machine = Machine(feed, position, clock, suspect=suspect)
        self.now_s = 100.0
        self.draw = draw
        self.commands: list[Command] = []
        self.wake_at_s: float | None = None
        self.sockets: dict[int, str] = {}
        self.take(self.machine.start(self.now_s))

    def take(self, commands: list[Command]) -> list[Command]:
        for command in commands:
            assert not self.finished, f"{command} after Finished"
            self.finished = isinstance(command, Finished)
            match command:
                case Fetch(socket):
                    self._may_begin(socket)
                    self.sockets[socket] = "fetching"
                case Dial(socket=socket):
                    if self.sockets.get(socket) != "fetching":
                        self._may_begin(socket)
                    self.sockets[socket] = "dialling"
                case Send(socket=socket) | Ping(socket):
                    assert self.sockets.get(socket) == "open", f"{command} without an open socket"
                case Close(abort=abort, socket=socket):
                    state = self.sockets.get(socket)
                    assert state in ("fetching", "dialling", "open") or (abort and state in ("closing", "given up"))
                    self.sockets[socket] = "given up" if state == "fetching" else "closing"
                case WakeAt(at_s):
                    self.wake_at_s = at_s
                case _:
                    pass
            self.commands.append(command)
        return commands

    def _may_begin(self, socket: int) -> None:
        """A socket's number is new, and no more than two are there, one of which is open or on its way out."""
        assert socket == self.dials + 1, f"socket {socket} after {self.dials}"
        self.dials = socket
        assert len(self.sockets) < (2 if self.feed.rotation.overlap else 1), f"a third of {self.sockets}"

    @property
    def socket(self) -> str:
        """What the newest socket does."""
        return self.sockets[max(self.sockets)] if self.sockets else "none"

    def on(self, event: Event, *, after_s: float = 0.0) -> list[Command]:
        self.now_s += after_s
        if isinstance(event, Opened | Closed | Fetched):
            number = event.socket or max(self.sockets, default=0)
            state = self.sockets.get(number)
            if isinstance(event, Opened) and state == "dialling":
                self.sockets[number] = "open"
            elif isinstance(event, Closed) and state not in ("fetching", "given up"):
                self.sockets.pop(number, None)
            elif isinstance(event, Closed):
                return []  # no runner says so: of a call there is an answer
            elif isinstance(event, Fetched):
                if state == "given up":
                    del self.sockets[number]
                elif state != "fetching":
                    return []
                else:
                    commands = self.machine.handle(event, self.now_s, self.draw)
                    if not any(isinstance(command, Dial) and command.socket == number for command in commands):
                        del self.sockets[number]
                    return self.take(commands)
        return self.take(self.machine.handle(event, self.now_s, self.draw))

    def wake(self, *, late_s: float = 0.0) -> list[Command]:
        """Let time pass until the timer fires."""
        assert self.wake_at_s is not None
        self.now_s, self.wake_at_s = max(self.now_s, self.wake_at_s) + late_s, None
        return self.on(Woke())

    def message(self, value: object, *, at_ms: int = WALL_MS, socket: int = 0) -> list[Command]:
        return self.on(Message(json.dumps(value), at_ms, socket))

    def acknowledge(self, number: int) -> list[Command]:
        return self.on(Acknowledged(number))

    def acknowledge_all(self) -> list[Command]:
        return self.on(Acknowledged(self.machine.delivered))

    def stream(self) -> None:
        """Open, and be ready where the feed is ready at once."""
        self.on(Opened())

    def drop(self, error: str = "the peer went away", code: int | None = 1006) -> list[Command]:
        return self.on(Closed(error, code=code))

    def again(self) -> Dial:
        """Drop the connection and come back to the next dial."""
        self.drop()
        self.wake()
        return self.last(Dial)

    # --- what came out -----------------------------------------------------------------------------------------------

    def all[C](self, kind: type[C]) -> list[C]:
        return [command for command in self.commands if isinstance(command, kind)]

    def last[C](self, kind: type[C]) -> C:
        return self.all(kind)[-1]

    @property
    def deliveries(self) -> list[Record | Gap]:
        return [delivery for deliver in self.all(Deliver) for delivery in deliver.deliveries]

    @property
    def records(self) -> list[Record]:
        return [delivery for delivery in self.deliveries if isinstance(delivery, Record)]

    @property
    def gaps(self) -> list[Gap]:
        return [delivery for delivery in self.deliveries if isinstance(delivery, Gap)]

    def sequence(self) -> Sequence | None:
        """The sequence of the last position that was safe to store."""
        positions = self.all(Advance)
        return positions[-1].position.sequence if positions else None

    @property
    def states(self) -> list[str]:
        return [report.state.value for report in self.all(Report)]

    def counted(self, what: str) -> int:
        return sum(count.amount for count in self.all(Count) if count.what == what)

    @property
    def sent(self) -> list[object]:
        return [json.loads(send.text) for send in self.all(Send)]
