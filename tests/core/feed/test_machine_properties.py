"""What holds for any order of events, and for any history of an honest upstream and mortal owners."""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streamlease.feed.events import (
    Acknowledged,
    Advance,
    Closed,
    Command,
    Dial,
    Event,
    Fetched,
    Message,
    Opened,
    Ponged,
    Reading,
    Record,
    StopRequested,
    Woke,
)
from streamlease.feed.feed import Feed, Keepalive, RecordShape, Resume, Retry
from streamlease.feed.session import Phase
from streamlease.model import Position
from streamlease.spec import compile_spec
from tests.core.feed.driver import WALL_MS, Driver, event, jetstream, nostr, path, ticker
from tests.core.spec.files import one

FEEDS = [
    nostr(),
    jetstream(),
    ticker(),
    replace(jetstream(), record=RecordShape(sequence=path("time_us"), unique=True, contiguous=True)),
    replace(
        jetstream(), record=RecordShape(sequence=path("time_us")), resume=Resume({"c": "{sequence}"}, inclusive=False)
    ),
    replace(ticker(), retry=Retry(fatal_close_codes=frozenset({4004})), keepalive=Keepalive(5, 3, 11)),
    replace(jetstream(), record=RecordShape(sequence=path("time_us"), sequence_type="string")),
]
OVERLAPPING = {"rotate": {"after": "20s", "jitter": "5s", "order": "make_before_break", "overlap": "2s"}}
SPECS: dict[str, dict[str, Any]] = {
    "rotates with two": {**OVERLAPPING, "record": {"sequence": "time_us", "unique": True, "contiguous": True}},
    "rotates with one": {
        "rotate": {"after": "20s"},
        "record": {"sequence": "time_us", "unique": True},
        "resume": {"query": {"c": "{sequence}"}},
        "rules": [{"message": "id==`3`", "then": "rotate"}, {"close": 1006, "then": "retry", "times": 2}],
    },
    "fetches and resumes a session": {
        **OVERLAPPING,
        "fetch": {"url": "https://x.test", "next_url": "url", "capture": {"ticket": "ticket"}},
        "open": [{"send": {"t": "{ticket}", "s": "{session}", "q": "{sequence}"}, "expect": "id", "within": "5s"}],
        "rules": [
            {"message": "id==`1`", "capture": {"session": "time_us"}, "send": ["{session}"]},
            {"message": "id==`2`", "then": "new_session"},
            {"message": "id==`3`", "then": "rotate", "url": "url"},
            {"message": "id==`4`", "then": "live", "after": "time_us"},
            {"close": 4004, "then": "quarantine"},
        ],
        "pace": {"messages": 1, "per": "3s"},
        "keepalive": {"ping_every": "7s", "message": {"send": "{received}", "every": "4s", "answer": "id==`5`"}},
        "record": {"sequence": "time_us", "unique": True},
        "resume": {"token": "session", "inclusive": False},
    },
}
FEEDS += [compile_spec(one(id=f"feed-{number}", **fields)) for number, fields in enumerate(SPECS.values())]
small = st.integers(0, 12)
values = st.one_of(
    st.builds(lambda s, i: f'["EVENT","sub",{{"created_at":{s},"id":"{i}"}}]', small, small),
    st.just('["EOSE","sub"]'),
    st.builds(lambda s: f'{{"time_us":{s},"id":{s}}}', small),
    st.builds(lambda s: f'{{"time_us":"c{s}","id":"c{s}"}}', small),
    st.sampled_from(["", "{", "[[", '{"time_us":null}', "1e999", "NaN", '"\\ud800"', "[]"]),
    st.binary(max_size=6),
)
sockets = st.sampled_from([0, 0, 0, 1, 2, 3])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Message, values, st.just(WALL_MS), sockets),
    st.builds(Message, values, st.just(WALL_MS), sockets),
    st.builds(Opened, sockets),
    st.builds(Ponged, sockets),
    st.builds(Acknowledged, st.integers(0, 30)),
    st.builds(Reading, st.booleans(), sockets),
    st.builds(
        Fetched,
        st.integers(1, 4),
        st.sampled_from([None, 200, 401, 503]),
        st.sampled_from(["", "[", '{"url":"wss://y.test","ticket":"t"}', '{"url":"ws://y.test","ticket":"t"}']),
        st.just("gone"),
    ),
    st.just(Woke()),
    st.builds(
        Closed,
        st.just("gone"),
        st.sampled_from([None, 1000, 1006, 1009, 4004]),
        st.sampled_from([None, 403, 503]),
        st.sampled_from([None, 3.0]),
        sockets,
    ),
)
positions = st.one_of(
    st.none(),
    st.builds(
        Position,
        st.one_of(st.none(), small, st.just("c3")),
        st.sampled_from([None, "relay.test", "jetstream.test", "x"]),
    ),
)


@dataclass
class Onward:
    """What an upstream in order does next."""

    id: int

    def of(self, driver: Driver) -> Event:
        number = max(driver.sockets, default=0)
        match driver.socket:
            case "fetching" | "given up":
                return Fetched(number, 200, '{"url":"wss://y.test","ticket":"t"}')
            case "dialling":
                return Opened(number)
            case "closing":
                return Closed("closed", 1000, socket=number)
            case _:
                return Message(f'{{"time_us":{driver.machine.delivered},"id":{self.id}}}', WALL_MS, number)


onward = st.builds(Onward, st.integers(1, 8))
steps = st.lists(
    st.tuples(
        st.one_of(events, events, onward, onward, onward), st.sampled_from([0.0, 0.0, 0.0, 0.3, 1.0, 3.0, 8.0, 40.0])
    ),
    min_size=25,
    max_size=60,
)
"""Long, for hypothesis by itself makes short lists, in which no socket comes to its second rotation."""


@given(st.sampled_from(FEEDS), positions, steps, st.floats(0, 1, exclude_max=True), st.integers(0, 80))
def test_any_order_of_events_gives_only_legal_commands_and_always_a_next_timer(
    feed: Feed, position: Position | None, steps: list[tuple[Event | Onward, float]], draw: float, stop_at: int
) -> None:
    driver = Driver(feed, position, draw=draw)  # holds every command to what a runner can carry out
    acknowledged = 0
    for index, (step, after_s) in enumerate(steps):
        commands: list[Command] = []
        until_s = driver.now_s + after_s
        woken = 0
        while driver.wake_at_s is not None and driver.wake_at_s <= until_s:
            commands += driver.wake()
            woken += 1
            assert woken < 1_000, "asks to be woken without end"
        driver.now_s = until_s
        event_ = StopRequested("drain") if index == stop_at else step.of(driver) if isinstance(step, Onward) else step
        commands += driver.on(event_)
        if isinstance(event_, Acknowledged):
            acknowledged = max(acknowledged, min(event_.number, driver.machine.delivered))
        assert (driver.wake_at_s is not None) or driver.machine.phase is Phase.FINISHED
        durable = {record.sequence for record in driver.records if record.number <= acknowledged}
        for advance in (command for command in commands if isinstance(command, Advance)):
            moved = (
                None if advance.position.sequence == getattr(position, "sequence", None) else advance.position.sequence
            )
            assert moved is None or moved in durable or str(moved) in durable
    numbers = [delivery.number for delivery in driver.deliveries]
    assert numbers == list(range(1, len(numbers) + 1))
    stored = [p for p in (advance.position.sequence for advance in driver.all(Advance)) if isinstance(p, int)]
    assert stored == sorted(stored)


@given(steps)
def test_no_acknowledgement_is_lost_even_after_the_end(steps: list[tuple[Event | Onward, float]]) -> None:
    driver = Driver(ticker())
    for step, after_s in steps:
        driver.on(step.of(driver) if isinstance(step, Onward) else step, after_s=after_s)
    driver.on(StopRequested("drain"))
    driver.drop()
    assert driver.machine.phase is Phase.FINISHED
    driver.acknowledge_all()
    sequences = [record.sequence for record in driver.records if isinstance(record.sequence, int)]
    position = driver.machine.position
    assert (position.sequence if position else None) == max(sequences, default=None)


# --- an honest upstream and mortal owners -----------------------------------------------------------------------------


@dataclass
class World:
    """An upstream that stores what it publishes, one owner at a time, and the durable sink and position."""

    feed: Feed
    clock: int = 10
    published: list[tuple[int, str]] = field(default_factory=list)
    durable: set[str | None] = field(default_factory=set)
    stored: Position | None = None
    acknowledged: int = 0
    queue: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.newest_first = self.feed.resume.order == "newest_first"
        self.own()

    def own(self) -> None:
        self.driver = Driver(self.feed, self.stored)
        self.queue = []
        self.acknowledged = 0

    def publish(self, rise: int) -> None:
        self.clock += rise
        record = (self.clock, f"r{len(self.published)}")
        self.published.append(record)
        if self.driver.socket == "open":
            self.queue.append(self.frame(record))

    def frame(self, record: tuple[int, str]) -> Any:
        return event(*record) if self.newest_first else {"time_us": record[0], "id": record[1]}

    def open(self) -> None:
        if self.driver.socket == "none":
            self.driver.wake()
        if self.driver.socket != "dialling":
            return
        self.driver.on(Opened())
        cursor = self.cursor()
        inclusive = self.feed.resume.inclusive
        replay = [r for r in self.published if cursor is None or r[0] > cursor or (inclusive and r[0] == cursor)]
        self.queue = [self.frame(record) for record in (reversed(replay) if self.newest_first else replay)]
        if self.newest_first:
            self.queue.append(["EOSE", "sub"])

    def cursor(self) -> int | None:
        if self.newest_first:
            request: Any = self.driver.sent[-1]
            since: int | None = request[2].get("since")
            return since
        _, there, text = self.driver.last(Dial).url.partition("cursor=")
        return int(text) if there else None

    def read(self, count: int) -> None:
        for _ in range(min(count, len(self.queue))):
            self.driver.message(self.queue.pop(0))

    def acknowledge(self, count: int) -> None:
        for delivery in self.driver.deliveries[self.acknowledged : self.acknowledged + count]:
            if isinstance(delivery, Record):
                self.durable.add(delivery.record_id)
            self.acknowledged = delivery.number
            self.driver.on(Acknowledged(delivery.number))

    def checkpoint(self) -> None:
        self.stored = self.driver.machine.position

    def drop(self) -> None:
        if self.driver.socket in ("open", "dialling"):
            self.driver.drop()
        self.queue = []

    def kill(self) -> None:
        """The owner dies: its socket, its queue and what it had not checkpointed are gone."""
        self.own()

    def settle(self) -> None:
        """Faults stop."""
        self.open()
        self.read(len(self.queue))
        self.acknowledge(len(self.driver.deliveries))


acts = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 2)),
        st.tuples(st.just("publish"), st.integers(0, 2)),
        st.tuples(st.just("open"), st.none()),
        st.tuples(st.just("read"), st.integers(1, 5)),
        st.tuples(st.just("acknowledge"), st.integers(1, 5)),
        st.tuples(st.just("checkpoint"), st.none()),
        st.tuples(st.just("drop"), st.none()),
        st.tuples(st.just("kill"), st.none()),
    ),
    max_size=80,
)
HONEST = {
    "newest first, shared seconds, inclusive": nostr(),
    "oldest first, inclusive": replace(
        jetstream(),
        record=RecordShape(sequence=path("time_us"), record_id=path("id")),
        resume=Resume({"cursor": "{sequence}"}, without_cursor="all"),
    ),
    "oldest first, exclusive, shared": replace(
        jetstream(),
        record=RecordShape(sequence=path("time_us"), record_id=path("id")),
        resume=Resume({"cursor": "{sequence}"}, inclusive=False, without_cursor="all"),
    ),
}


@given(st.sampled_from(sorted(HONEST)), acts)
def test_a_feed_that_can_resume_loses_no_record_and_needs_no_gap(kind: str, acts: list[tuple[str, Any]]) -> None:
    world = World(HONEST[kind])
    for name, argument in acts:
        act = getattr(world, name)
        act() if argument is None else act(argument)
    world.settle()
    world.drop()
    world.settle()
    assert {name for _, name in world.published} <= world.durable
    assert world.driver.gaps == []


@given(acts)
def test_one_owner_delivers_no_record_twice(acts: list[tuple[str, Any]]) -> None:
    world = World(nostr())
    for name, argument in acts:
        if name != "kill":
            act = getattr(world, name)
            act() if argument is None else act(argument)
    world.settle()
    ids = [record.record_id for record in world.driver.records]
    assert len(ids) == len(set(ids))
