"""From what is stored to what a machine runs; across releases, too."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from streamlease.feed import secrets
from streamlease.feed.bounds import Bounds
from streamlease.feed.events import Dial
from streamlease.feed.feed import Feed, Keepalive, Resume, Retry
from streamlease.feed.template import Templates
from streamlease.model import Position
from streamlease.spec import BadSpec, Compiled, ConnectionSpec, compile_item, compile_spec, explain, load
from streamlease.spec.problems import PATHS
from tests.core.feed.driver import WALL_MS, Driver, event
from tests.core.spec.files import one

EXAMPLES = Path(__file__).parents[3] / "docs/examples"


def example(name: str) -> tuple[ConnectionSpec, ...]:
    text = (EXAMPLES / f"{name}.yaml").read_text("utf-8")
    return load([(name, yaml.safe_load(text))], lambda _, path: (EXAMPLES / path).read_text("utf-8"))


NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


def test_a_plain_spec_is_a_feed_of_defaults() -> None:
    bounds = Bounds(per_message_us=4.5)
    assert compile_spec(one()) == Feed("x", "wss://feed.test/ws", retry=Retry(), keepalive=Keepalive(), bounds=bounds)


@pytest.mark.parametrize("name", NAMES)
def test_what_an_item_keeps_of_an_example_makes_the_same_feed(name: str) -> None:
    for spec in example(name):
        compiled = compile_item(spec.id, spec.url, spec.stored())
        assert compiled == Compiled(compile_spec(spec))


@pytest.mark.parametrize("name", NAMES)
def test_every_example_can_be_said_in_words_without_query_or_secret(name: str) -> None:
    for spec in example(name):
        lines = explain(spec)
        assert all(lines)
        assert lines[0].startswith("dials ws")
        assert "wantedCollections" not in " ".join(lines)


def test_the_whole_spec_reaches_the_feed() -> None:
    spec = one(
        headers={"Authorization": "Bearer {env:TOKEN}", "X-Id": "{connection_id}", "X-Key": "env:KEY"},
        query={"token": "ssm:/a/b", "q": "a b&{connection_id}", "kinds": ["1", "2"]},
        subprotocols=["v1.json"],
        open=[
            "hello {connection_id}",
            {"auth": "secretsmanager:s#k", "raw": "{{x}}", "n": [1, None, True]},
            ["{sequence}"],
        ],
        ready={"when": "ok", "within": "3s"},
        record={"sequence": "s", "type": "string", "unique": True},
        resume={"inclusive": False, "without_cursor": "all"},
        keepalive={"ping_every": "off", "stale_after": "2m"},
        retry={
            "first": "250ms",
            "longest": "1m",
            "proven_after": "5s",
            "fatal_close_codes": [4004],
            "fatal_http_statuses": [],
        },
        open_within="4s",
        close_within="2s",
        close_code=4000,
        max_message="64KiB",
        checkpoint={"every": "30s"},
        sink="other",
    )
    feed = compile_spec(spec)
    assert feed.url == "wss://feed.test/ws?token={ssm:/a/b}&q=a%20b%26x&kinds=1&kinds=2"
    assert feed.headers == {"Authorization": "Bearer {env:TOKEN}", "X-Id": "x", "X-Key": "{env:KEY}"}
    assert feed.open_messages == (
        "hello x",
        {"auth": "{secretsmanager:s#k}", "raw": "{x}", "n": [1, None, True]},
        ["{sequence}"],
    )
    assert secrets.references(feed) == {"env:TOKEN", "env:KEY", "ssm:/a/b", "secretsmanager:s#k"}
    assert (feed.subprotocols, feed.ready_within_s, feed.open_timeout_s, feed.close_within_s) == (("v1.json",), 3, 4, 2)
    assert (feed.close_code, feed.max_message_bytes, feed.sink) == (4000, 65_536, "other")
    assert feed.checkpoint_every_s == 30
    assert feed.retry == Retry(0.25, 60, 5, fatal_close_codes=frozenset({4004}), fatal_http_statuses=frozenset())
    assert feed.keepalive == Keepalive(None, 20, 120)
    assert (feed.resume.inclusive, feed.resume.without_cursor, feed.record.sequence_type) == (False, "all", "string")


def test_fields_of_a_later_release_are_passed_over_and_told() -> None:
    compiled = compile_item(
        "x",
        "ws://a",
        {"record": {"sequence": "t", "window": 5}, "later": [{"on": 4004}], "keepalive": {"stale_after": "5s"}},
    )
    assert [sentence.partition(";")[0] for sentence in compiled.ignored] == [
        "field record.window is not known",
        "field later is not known",
    ]
    assert compiled.feed.keepalive.stale_after_s == 5
    assert compiled.feed.record.sequence is not None


def test_a_stored_spec_that_cannot_be_followed_is_told_with_its_connection() -> None:
    with pytest.raises(BadSpec, match=r'^stored spec: connection "x": record\.sequence is not a JMESPath expression'):
        compile_item("x", "ws://a", {"record": {"sequence": "["}, "later": 1})
    with pytest.raises(BadSpec, match=r'^stored spec: connection "x": url is'):
        compile_item("x", "http://a", {})


def test_iso_times_become_milliseconds() -> None:
    shape = compile_spec(one(record={"event_at": "t", "event_at_unit": "iso"})).record
    assert shape.event_at is not None
    for text, expected in (
        ("2025-11-24T16:00:00Z", WALL_MS),
        ("2025-11-24T17:00:00.250+01:00", WALL_MS + 250),
        ("2025-11-24T16:00:00", WALL_MS),
        ("yesterday", None),
        (5, None),
    ):
        assert shape.event_at({"t": text}) == expected


def test_the_nostr_example_resumes_from_the_last_durable_second() -> None:
    spec = example("nostr")[0]
    driver = Driver(compile_spec(spec), Position(1_764_000_000, "relay.example"))
    driver.stream()
    assert driver.sent == [["REQ", "sub", {"kinds": [1], "#t": ["bitcoin"], "since": 1_763_999_998, "limit": 500}]]
    driver.message(event(1_764_000_001, "b"), at_ms=1_764_000_002_000)
    driver.message(event(1_764_000_000, "a"), at_ms=1_764_000_002_000)
    driver.message(["NOTICE", "hello"])
    driver.acknowledge_all()
    driver.message(["EOSE", "sub"])
    assert driver.sequence() == 1_764_000_001
    assert [(record.record_id, record.event_at_ms) for record in driver.records] == [
        ("b", 1_764_000_001_000),
        ("a", 1_764_000_000_000),
    ]
    assert driver.states == ["CONNECTING", "STREAMING"]


def test_the_jetstream_example_resumes_by_its_query() -> None:
    feed = compile_spec(example("jetstream")[0])
    driver = Driver(feed, Position(1_725_911_162_329_308, "jetstream2.us-east.bsky.network"))
    assert driver.last(Dial).url == (
        "wss://jetstream2.us-east.bsky.network/subscribe?wantedCollections=app.bsky.feed.post&cursor=1725911162329307"
    )
    assert feed.resume == Resume(
        query={"cursor": "{sequence}"}, rewind=1, rewind_elsewhere=5_000_000, reaches_back_s=129_600.0
    )


def test_the_trades_example_has_its_secrets_by_reference_and_one_connection_a_row() -> None:
    specs = example("trades")
    assert [spec.labels["symbol"] for spec in specs] == ["BTC-USD", "ETH-USD"]
    feed = compile_spec(specs[1])
    values = {
        "secretsmanager:streamlease/exchange#token": "t0",
        "env:EXCHANGE_KEY": "k&1",
        "ssm:/streamlease/exchange/key": 'q"',
    }
    assert secrets.references(feed) == set(values)
    dial = secrets.resolved(Templates(feed).dial({}), values)
    assert dial.url.endswith("?apikey=k%261")
    assert dict(dial.headers) == {"Authorization": "Bearer t0"}
    send = Templates(feed).send({"type": "auth", "key": "{ssm:/streamlease/exchange/key}"}, {})
    assert send is not None
    assert secrets.resolved(send, values).text == '{"type":"auth","key":"q\\""}'


NAMES_WITHIN = sorted({path.rpartition(".")[2] for path in PATHS} | {"x", "session"})
WORDS = ["5s", "a", "{x}", "env:K", "never", "retry", "op=='a'", "{sequence}", "https://a.test", "session", "s", "jwt"]
junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from([*WORDS, 1006, 401, 5]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES_WITHIN), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*ConnectionSpec.model_fields, "for_each", "other"]), junk, max_size=6))
def test_whatever_a_file_holds_is_read_or_refused_in_words(fields: dict[str, object]) -> None:
    fields = {"id": "x", "url": "ws://a", **fields}
    refused: list[str] = []
    try:
        specs = load([("f", [fields])], lambda _, path: path)
    except BadSpec as error:
        refused = [str(problem) for problem in error.problems]
    else:
        for spec in specs:
            compile_item(spec.id, spec.url, spec.stored())
            explain(spec)
    assert all(line.startswith("f: ") and "pydantic" not in line and "Input should" not in line for line in refused)
