"""What an adapter may do, and that whatever is wrong with one ends its own connection alone."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streamlease.adapters.socketio import SocketIo
from streamlease.feed.adapted import MOST_OVERRUNS
from streamlease.feed.adapter import Adapter, Adapting, Context, End, Hear, Keep, Raw, Reaction, Say, Seal, Wake
from streamlease.feed.bounds import LONGEST_US, Bounds
from streamlease.feed.computed import Moment
from streamlease.feed.events import Close, Dial, Finished, Message, Opened, Send
from streamlease.feed.feed import Feed, Keepalive, RecordShape, Resume
from streamlease.feed.secrets import NotSent, references, resolved
from streamlease.model import Position
from streamlease.spec.compile import compile_spec
from streamlease.spec.model import ConnectionSpec
from streamlease.write import Value
from tests.core.feed.driver import WALL_MS, Driver, path, ticker

MOMENT = Moment(1_764_000_000_000_000_000, "0" * 64, lambda algorithm, key, headers, claims: "")


@dataclass
class Scripted(Adapter):
    """Answers as told: `answers` by the message, and to being opened and woken."""

    answers: Mapping[Any, Any]
    contexts: list[Context] = field(default_factory=list)
    version: ClassVar[int] = 1

    def opened(self, context: Context) -> Iterable[Reaction]:
        return self._answer(context, "opened")

    def received(self, context: Context, data: str | bytes) -> Iterable[Reaction]:
        return self._answer(context, data)

    def woke(self, context: Context) -> Iterable[Reaction]:
        return self._answer(context, "woke")

    def _answer(self, context: Context, to: object) -> Iterable[Reaction]:
        self.contexts.append(context)
        answer = self.answers.get(to, [])
        if isinstance(answer, Exception):
            raise answer
        reactions: Iterable[Reaction] = answer() if callable(answer) else answer
        return reactions


class Making:
    """A factory that makes always the same, so that a test can look into it."""

    version = 1

    def __init__(self, made: Adapter) -> None:
        self.made = made

    def __call__(self, options: Mapping[str, Value]) -> Adapter:
        del options
        return self.made


def fed_by(answers: Mapping[Any, Any], *, clock: Any = None, feed: Feed | None = None, **changes: Any) -> Driver:
    factory = Making(Scripted(answers))
    adapting = Adapting("test", factory=factory, keeps=("session",))
    return Driver(replace(feed or ticker(), adapter=adapting, **changes), clock=clock)


def written(send: Send, secrets: Mapping[str, str] | None = None) -> str | bytes:
    return resolved(send, secrets or {}, MOMENT).text


def sends(driver: Driver) -> list[str | bytes]:
    return [written(send) for send in driver.all(Send)]


def test_messages_come_to_the_spec_as_the_adapter_makes_them() -> None:
    driver = fed_by({"a": [Hear({"id": 1}), Hear({"id": 2}), Raw(b"\x00")], b"b": []})
    driver.stream()
    driver.on(Message("a", WALL_MS))
    driver.on(Message(b"b", WALL_MS))
    assert [(record.sequence, record.payload) for record in driver.records] == [
        (1, {"id": 1}),
        (2, {"id": 2}),
        (None, b"\x00"),
    ]
    assert driver.counted("undecodable") == 1


def test_all_that_one_frame_gave_is_durable_before_the_position_moves() -> None:
    driver = fed_by({"a": [Hear({"id": 9}), Hear({"id": 8})]})
    driver.stream()
    driver.on(Message("a", WALL_MS))
    driver.acknowledge(1)
    assert driver.sequence() is None
    driver.acknowledge(2)
    assert driver.sequence() == 9


def test_w37_more_messages_than_are_looked_at_in_one_go_are_delivered_together_as_the_adapter_made_them() -> None:
    """Not as the frame: an adapter may have waited for it to make a message of several."""
    bounds = Bounds(per_message_us=LONGEST_US / 3)
    many = [Hear({"id": index}) for index in range(4)]
    driver = fed_by({"a": [*many, Say("said")], "b": many[:3]}, bounds=bounds)
    driver.stream()
    driver.on(Message("a", WALL_MS))
    made = json.dumps([{"id": index} for index in range(4)], separators=(",", ":"))
    assert ([record.payload for record in driver.records], driver.counted("too_many")) == ([made], 1)
    assert sends(driver) == ["said"]
    driver.on(Message("b", WALL_MS))
    assert (len(driver.records), driver.counted("too_many")) == (4, 1)


def test_it_speaks_before_the_open_script_and_readiness_is_the_specs() -> None:
    feed = replace(ticker(), open_messages=({"subscribe": 1},), ready=path("ready"))
    driver = fed_by({"opened": [Say("hello"), Keep("session", "s1")], "go": [Hear({"ready": True})]}, feed=feed)
    driver.stream()
    assert sends(driver) == ["hello", '{"subscribe":1}']
    assert "STREAMING" not in driver.states
    driver.on(Message("go", WALL_MS))
    assert driver.states[-1] == "STREAMING"


def test_what_it_keeps_fills_templates_and_is_kept_with_the_position() -> None:
    feed = replace(ticker(), open_messages=({"session": "{session}"},), resume=Resume(token="session"))
    driver = fed_by({"opened": [Keep("session", "s1")]}, feed=feed)
    driver.stream()
    assert sends(driver) == ['{"session":"s1"}']
    assert driver.machine.position is not None
    assert driver.machine.position.token == "s1"


def test_nothing_that_it_says_names_a_secret_and_only_a_seal_is_given_one() -> None:
    def write(secrets: Mapping[str, str], moment: Moment) -> str:
        return f"{secrets['key']} at {moment.wall_ns} {{env:OTHER}}"

    options = {"key": "{env:KEY}"}
    adapting = Adapting(
        "test", options, Making(Scripted({"opened": [Say({"echo": "{env:KEY}"}), Seal(write, options)]}))
    )
    driver = Driver(replace(ticker(), adapter=adapting))
    driver.stream()
    assert references(driver.machine._feed) == {"env:KEY"}
    said, sealed = driver.all(Send)
    assert written(said, {"env:KEY": "k"}) == '{"echo":"{env:KEY}"}'
    assert written(sealed, {"env:KEY": "k"}) == f"k at {MOMENT.wall_ns} {{env:OTHER}}"


def test_binary_goes_out_as_it_is() -> None:
    driver = fed_by({"opened": [Say(b"\x00\x01")]})
    driver.stream()
    assert driver.last(Send).text == b"\x00\x01"


def test_it_is_woken_once_when_it_asked_to_be() -> None:
    driver = fed_by({"opened": [Wake(3)], "woke": [Say("beat")]})
    driver.stream()
    assert driver.wake_at_s == driver.now_s + 3
    driver.wake()
    assert sends(driver) == ["beat"]
    driver.wake()
    assert sends(driver) == ["beat"]


def test_it_ends_a_socket_as_a_rule_would_and_nothing_is_carried_out_after_that() -> None:
    driver = fed_by({"bye": [End("said goodbye", "fatal"), Say("late"), Hear({"id": 1})]})
    driver.stream()
    driver.on(Message("bye", WALL_MS))
    assert sends(driver) == []
    assert driver.records == []
    driver.drop()
    assert driver.last(Finished).outcome == "fatal"
    assert "said goodbye" in driver.last(Finished).reason


def test_each_socket_has_an_adapter_of_its_own_that_knows_what_was_asked_for() -> None:
    made: list[Scripted] = []

    class Counting(Making):
        def __call__(self, options: Mapping[str, Value]) -> Adapter:
            del options
            made.append(Scripted({}))
            return made[-1]

    feed = replace(
        ticker(),
        adapter=Adapting("test", factory=Counting(Scripted({})), keeps=("session",)),
        record=RecordShape(sequence=path("id")),
        resume=Resume({"cursor": "{sequence}"}, token="session"),
    )
    driver = Driver(feed, Position(7, "ticker.test", token="t"))
    driver.stream()
    driver.again()
    driver.stream()
    assert len(made) == 2
    assert made[0].contexts[0].variables["sequence"] == 7
    assert made[0].contexts[0].variables["session"] == "t"
    with pytest.raises(TypeError):
        made[0].contexts[0].variables["sequence"] = 8  # type: ignore[index]


# --- what is wrong with one -------------------------------------------------------------------------------------------


NONSENSE: Any = object()


def endless() -> Iterable[Reaction]:
    while True:
        yield Say("x")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (RuntimeError("a secret"), "the adapter test failed (RuntimeError)"),
        (RecursionError(), "the adapter test failed (RecursionError)"),
        (None, "the adapter test failed (TypeError)"),
        (endless, "more than 16384 reactions"),
        (["x"], "a str, which is no reaction"),
        ([Hear([NONSENSE])], "a Hear of what is no JSON"),
        ([Hear(NONSENSE)], "a Hear of what is no JSON"),
        ([Say(NONSENSE)], "a Say of what is no JSON"),
        ([Raw(NONSENSE)], "neither text nor bytes"),
        ([Wake(float("nan"))], "a Wake that is not after some seconds"),
        ([Wake(-1)], "a Wake that is not after some seconds"),
        ([Keep("other", 1)], "a Keep of 'other', which adapter.keeps does not name"),
        ([Keep("session", "x" * 5_000)], "no text of up to 4096 characters"),
        ([Keep("session", NONSENSE)], "no text of up to 4096 characters"),
    ],
)
def test_whatever_is_wrong_with_an_answer_quarantines_the_connection_and_shows_nothing_of_it(
    answer: Any, says: str
) -> None:
    driver = fed_by({"m": answer})
    driver.stream()
    driver.on(Message("m", WALL_MS))
    assert driver.counted("adapter") == 1
    driver.drop()
    assert driver.last(Finished).outcome == "quarantined"
    assert says in driver.last(Finished).reason
    assert "secret" not in driver.last(Finished).reason


@pytest.mark.parametrize("hook", ["opened", "woke"])
def test_messages_come_from_messages_only(hook: str) -> None:
    driver = fed_by({"opened": [Wake(1)], "woke": []} | {hook: [Hear({"id": 1})]})
    driver.stream()
    if hook == "woke":
        driver.wake()
    driver.drop()
    assert "a message, though none was received" in driver.last(Finished).reason


def test_one_that_cannot_be_made_is_quarantined_and_one_that_is_not_installed_leaves_the_connection_to_others() -> None:
    class Broken(Making):
        def __call__(self, options: Mapping[str, Value]) -> Adapter:
            raise KeyError("secret")

    broken = Driver(replace(ticker(), adapter=Adapting("test", factory=Broken(Scripted({})))))
    broken.stream()
    broken.drop()
    assert broken.last(Finished) == Finished("quarantined", "the adapter test cannot be made (KeyError)")
    absent = Driver(replace(ticker(), adapter=Adapting("test", problem="the adapter test is not installed")))
    assert absent.last(Finished) == Finished("yielded", "the adapter test is not installed")
    assert absent.all(Dial) == []


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_one_that_overruns_its_budget_again_and_again_is_quarantined() -> None:
    clock = Clock()

    def slow() -> list[Reaction]:
        clock.now_s += 0.06
        return [Hear({"id": 1})]

    driver = fed_by({"slow": slow, "quick": [Hear({"id": 1})]}, clock=clock)
    driver.stream()
    for _ in range(MOST_OVERRUNS - 1):
        driver.on(Message("slow", WALL_MS))
        driver.on(Message("quick", WALL_MS))
    assert driver.all(Close) == []
    driver.on(Message("slow", WALL_MS))
    driver.drop()
    assert driver.last(Finished) == Finished(
        "quarantined", "the adapter test took 60 ms for a call that may take 50 ms"
    )


def test_one_far_beyond_its_budget_is_quarantined_at_once_also_where_it_writes_a_sealed_message() -> None:
    clock = Clock()

    def write(secrets: Mapping[str, str], moment: Moment) -> str:
        del secrets, moment
        clock.now_s += 0.6
        return "x"

    driver = fed_by({"opened": [Seal(write)]}, clock=clock)
    driver.stream()
    assert sends(driver) == ["x"]
    driver.on(Message("any", WALL_MS))
    driver.drop()
    assert driver.last(Finished).outcome == "quarantined"
    assert "600 ms" in driver.last(Finished).reason


@pytest.mark.parametrize("made", [RuntimeError("a secret"), 3])
def test_a_sealed_message_that_cannot_be_written_is_not_sent_and_shows_nothing(made: Any) -> None:
    def write(secrets: Mapping[str, str], moment: Moment) -> Any:
        del secrets, moment
        if isinstance(made, Exception):
            raise made
        return made

    driver = fed_by({"opened": [Seal(write)]})
    driver.stream()
    with pytest.raises(NotSent, match="the adapter test") as raised:
        written(driver.last(Send))
    assert "secret" not in str(raised.value)


anything: Any = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.integers(),
    st.floats(),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.just(object()),
)
reactions = st.lists(
    st.one_of(
        st.builds(Hear, anything),
        st.builds(Raw, anything),
        st.builds(Say, anything),
        st.builds(Keep, st.sampled_from(["session", "other", 3]), anything),
        st.builds(Wake, anything),
        st.builds(End, st.text(max_size=3), st.sampled_from(["retry", "rotate", "new_session", "fatal"])),
        anything,
    ),
    max_size=5,
)


@given(
    st.fixed_dictionaries({"opened": reactions, "m": reactions, "woke": reactions}), st.lists(st.sampled_from("mwd"))
)
def test_no_adapter_whatever_it_answers_makes_a_machine_raise_or_ask_for_what_cannot_be_done(
    answers: dict[str, Any], steps: list[str]
) -> None:
    driver = fed_by(answers)
    for step in steps:
        match step:
            case "d" if driver.socket != "none":
                driver.drop()
            case "m":
                driver.on(Message("m", WALL_MS))
            case "w" if driver.wake_at_s is not None:
                driver.wake()
            case _:
                driver.on(Opened())
    for send in driver.all(Send):
        written(send)


# --- the one that comes with the library ------------------------------------------------------------------------------


def socketio(**options: Any) -> Driver:
    feed = replace(
        ticker(),
        adapter=Adapting("socketio", options, SocketIo),
        ready=path("connected"),
        record=RecordShape(when=path("event"), payload=path("data", 0)),
        keepalive=Keepalive(ping_every_s=None),
    )
    return Driver(feed)


OPEN = '0{"sid":"x","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}'


def test_socketio_connects_to_its_namespace_with_its_secrets_and_is_ready_when_the_server_says_so() -> None:
    driver = socketio(auth={"token": "{env:TOKEN}"}, namespace="/feed")
    driver.stream()
    assert driver.all(Send) == []
    driver.on(Message(OPEN, WALL_MS))
    assert written(driver.last(Send), {"env:TOKEN": 't"1'}) == '40/feed,{"token":"t\\"1"}'
    driver.on(Message('40/feed,{"sid":"y"}', WALL_MS))
    assert driver.states[-1] == "STREAMING"


def test_socketio_hears_events_of_its_namespace_and_answers_pings_and_requests_to_acknowledge() -> None:
    driver = socketio()
    driver.stream()
    for text in (
        OPEN,
        "40",
        "2",
        '42["trade",{"p":1}]',
        '4217["trade",{"p":2}]',
        '42/other,["trade",{"p":3}]',
        "3",
        "6",
    ):
        driver.on(Message(text, WALL_MS))
    assert sends(driver) == ["40", "3", "4317[]"]
    assert [record.payload for record in driver.records] == [{"p": 1}, {"p": 2}]


def test_socketio_gives_a_server_up_that_is_silent_for_longer_than_it_said() -> None:
    driver = socketio()
    driver.stream()
    driver.on(Message(OPEN, WALL_MS))
    driver.on(Message("40", WALL_MS))
    driver.on(Message("2", WALL_MS), after_s=40)
    while not driver.all(Close):
        driver.wake()
    assert driver.now_s == 185
    driver.drop()
    assert driver.states[-1] == "BACKOFF"


@pytest.mark.parametrize("text", ["41", "1", '44{"message":"no"}', "0[", '44/feed,"no"'])
def test_socketio_ends_the_socket_where_the_server_does(text: str) -> None:
    driver = socketio(namespace="/feed") if "/feed" in text else socketio()
    driver.stream()
    driver.on(Message(text, WALL_MS))
    assert len(driver.all(Close)) == 1


@pytest.mark.parametrize("options", [{"aut": 1}, {"namespace": "feed"}, {"auth": ["x"]}, {"auth": {"a": 1}}])
def test_socketio_refuses_options_that_it_cannot_follow(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"auth|namespace"):
        SocketIo(options)


@given(st.lists(st.one_of(st.text(max_size=12), st.from_regex(r"[0-6]{1,3}.{0,9}"), st.binary(max_size=4)), max_size=8))
def test_socketio_reads_any_frames_without_a_fault(frames: list[str | bytes]) -> None:
    driver = socketio()
    driver.stream()
    for frame in frames:
        driver.on(Message(frame, WALL_MS))
    assert driver.counted("adapter") == 0
    assert all(json.dumps(record.payload) for record in driver.records if not isinstance(record.payload, bytes))


# --- the page's own example -------------------------------------------------------------------------------------------


def test_the_example_in_the_documentation_runs_as_it_stands() -> None:
    page = (Path(__file__).parents[3] / "docs/adapters.md").read_text("utf-8")
    adapter_code, test_code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(adapter_code + test_code, names)  # noqa: S102  # the project's own page
    names["test_a_question_is_answered"]()
    spec = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    options = spec["adapter"].pop("options")
    assert options == {"password": "secretsmanager:streamlease/lines"}
    feed = replace(
        compile_spec(ConnectionSpec.model_validate({**spec, "adapter": {"name": "lines"}})),
        adapter=Adapting("lines", {"password": "{env:P}"}, names["Lines"]),
    )
    driver = Driver(feed, Position(4, "feed.example"))
    driver.stream()
    assert [written(send, {"env:P": "pw"}) for send in driver.all(Send)] == ["LOGIN pw", "FROM 4"]
    driver.on(Message("HELLO a\nT BTC 1.5 5\n?\nT BTC 1.6 7\nnonsense", WALL_MS))
    assert driver.states[-1] == "STREAMING"
    assert [record.sequence for record in driver.records] == [5, 7, None]
    assert [(gap.from_sequence, gap.to_sequence) for gap in driver.gaps] == [(5, 7)]
    while not driver.all(Close):
        driver.wake()
