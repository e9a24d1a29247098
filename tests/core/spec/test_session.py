"""What a spec says of a socket's life: taken, refused in words, compiled, explained."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from streamlease.feed import secrets
from streamlease.feed.computed import Encoded, Hmac, Jwt, Now, Random
from streamlease.feed.events import Closed, Fetched, Message, Opened, Route, Tls
from streamlease.feed.events import Fetch as Call
from streamlease.feed.feed import Pace, Rotation
from streamlease.feed.feed import Step as FeedStep
from streamlease.spec import BadSpec, ConnectionSpec, compile_item, compile_spec, explain
from streamlease.spec.session import Beat, Computed, Fetch, Rule, Step
from tests.core.feed.driver import Driver
from tests.core.spec.files import one, problems

CURSOR: dict[str, Any] = {"record": {"sequence": "s", "unique": True}, "resume": {"query": {"c": "{sequence}"}}}
ALL: dict[str, Any] = {
    "url": "wss://feed.test/ws",
    "headers": {"Authorization": "Bearer {ticket}"},
    "query": {"v": "10", "t": "{ticket}", "sig": "{signature}"},
    "fetch": {
        "url": "https://feed.test/open",
        "method": "POST",
        "body": {"key": "env:KEY"},
        "ok": "ok",
        "next_url": "url",
        "capture": {"ticket": "ticket"},
        "within": "4s",
    },
    "values": {
        "at": {"now": "s", "plus": "10s", "text": True},
        "nonce": {"random": 16},
        "signature": {"hmac_sha256": "GET{at}", "key": "ssm:/k", "encoding": "base64"},
        "basic": {"base64": "{env:USER}:{env:PASSWORD}"},
        "jwt": {
            "jwt": "ES256",
            "key": "secretsmanager:cdp#key",
            "headers": {"nonce": "{nonce}"},
            "claims": {"exp": "{at}"},
        },
    },
    "open": [
        {"op": "hello"},
        {"send": {"op": "auth", "jwt": "{jwt}"}, "expect": "op=='ok'", "within": "3s", "capture": {"session": "id"}},
        {"send": "resume {sequence}", "present": "session"},
        {"answers": {"id": "{socket_id}"}},
    ],
    "record": {"sequence": "s", "unique": True, "sequence_unit": "ms"},
    "resume": {"token": "session", "reaches_back": "36h", "too_old": "fatal", "beginning": 0},
    "keepalive": {
        "heartbeat": "t=='hb'",
        "message": {"send": {"op": 1, "d": "{received}"}, "every": "interval", "unit": "s", "answer": "op==`11`"},
    },
    "rules": [
        {"message": "op==`10`", "capture": {"interval": "every"}, "send": {"op": "thanks", "for": "{interval}"}},
        {"message": "op==`9`", "then": "new_session"},
        {"close": 4004, "then": "fatal"},
        {"reason": "quota", "then": "quarantine"},
        {"http": [429, 503], "then": "retry", "after": "wait", "times": 5, "otherwise": "live"},
    ],
    "rotate": {"after": "23h", "jitter": "30m", "order": "make_before_break", "overlap": "2s"},
    "pace": {"messages": 5, "per": "1s", "count_pings": True},
    "max_send": 4096,
    "tls": {"ca": "ssm:/ca", "certificate": "ssm:/cert", "key": "ssm:/key", "server_name": "feed.example"},
    "proxy": "http://{env:PROXY_USER}:{env:PROXY_PASSWORD}@proxy.test:3128",
    "compression": True,
    "private_addresses": True,
}


def test_a_whole_life_reaches_the_feed() -> None:
    feed = compile_spec(one(**ALL))
    assert feed.url == "wss://feed.test/ws?v=10&sig={=signature}"
    assert feed.query == (("v", "10"), ("sig", "{=signature}"))
    assert feed.parameters == {"t": "{ticket}"}
    assert feed.headers == {"Authorization": "Bearer {ticket}"}
    assert feed.computed == {
        "at": Now("s", 10, as_text=True),
        "nonce": Random(16),
        "signature": Hmac("{ssm:/k}", "GET{=at}", encoding="base64"),
        "basic": Encoded("{env:USER}:{env:PASSWORD}"),
        "jwt": Jwt("{secretsmanager:cdp#key}", "ES256", {"nonce": "{=nonce}"}, {"exp": "{=at}"}),
    }
    assert feed.open_messages[0] == {"op": "hello"}
    steps = [entry for entry in feed.open_messages if isinstance(entry, FeedStep)]
    assert [step.sends for step in steps] == [({"op": "auth", "jwt": "{=jwt}"},), ("resume {sequence}",), ()]
    assert [(step.waits, step.within_s, step.present) for step in steps] == [
        (True, 3, None),
        (False, 30, "session"),
        (True, 30, None),
    ]
    assert (feed.rotation, feed.pace, feed.max_send_bytes) == (
        Rotation(82_800, 1_800, overlap=True, overlap_s=2),
        Pace(5, 1, counts_pings=True),
        4_096,
    )
    assert feed.route == Route(
        Tls("{ssm:/ca}", "{ssm:/cert}", "{ssm:/key}", "feed.example"),
        "http://{env:PROXY_USER}:{env:PROXY_PASSWORD}@proxy.test:3128",
        private_addresses=True,
    )
    assert [(rule.name, rule.action, rule.times, rule.otherwise) for rule in feed.rules][-1] == (
        "rules[4]", "retry", 5, "live",
    )  # fmt: skip
    assert secrets.references(feed) >= {"env:KEY", "ssm:/k", "env:USER", "ssm:/ca", "env:PROXY_PASSWORD"}


def test_what_an_item_keeps_of_it_is_what_was_written_and_makes_the_same_feed() -> None:
    spec = one(**ALL)
    assert spec.stored()["open"] == ALL["open"]
    assert spec.stored()["rules"][2] == {"close": [4004], "then": "fatal"}
    compiled = compile_item("x", spec.url, spec.stored())
    assert compiled.ignored == ()
    assert compiled.feed.computed == compile_spec(spec).computed


def test_it_is_said_in_words_with_no_secret_and_no_query() -> None:
    lines = explain(one(**ALL))
    text = "\n".join(lines)
    for words in (
        "calls POST https://feed.test/open before each dial, within 4s, keeps ticket of the answer, and dials the URL",
        "makes at for each dial and message: the time in s, 10s later",
        "makes jwt for each dial and message: a token signed by ES256 with secretsmanager:cdp#key",
        "sends 1 message once the socket is open",
        "waits 3s for a message of which op=='ok' holds, and keeps session of it",
        "sends open[2] if there is a value of session",
        "waits 30s for a message of which id is what was sent",
        "counts as streaming as soon as all of that is done",
        "sends a keepalive message at the interval that the upstream names (interval), and closes with 4000 unless",
        "replaces its socket after 23h less up to 30m: the new one is ready before the old one is closed",
        "sends at most 5 messages in 1s, pings and pongs counted",
        "on a message of which op==`10` holds: keeps interval, answers",
        "on a close with 4004: gives up for good",
        "on a close that says 'quota': gives up for a while",
        "on HTTP 429, 503: dials again, after the seconds at wait; after 5 in a row it forgets the cursor",
        "keeps session with the position, and resumes only with it",
        "gives up for good where the cursor is older than 36h",
    ):
        assert words in text, words


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"open": [{"expect": "a", "withn": "5s"}]}, "field open[0].withn is not known; did you mean open[0].within?"),
        ({"open": [{"expect": "a["}]}, "open[0].expect is not a JMESPath expression"),
        ({"open": [{"send": "a", "within": "5s"}]}, "open[0].within says nothing without open[0].expect or answers"),
        ({"open": [{"send": "{challenge}"}]}, "open[0].send has {challenge}, which nothing fills in"),
        ({"open": [{"send": "a", "present": "b"}]}, "open[0].present is b, which nothing captures"),
        ({"open": [{"expect": "a", "capture": {"1a": "b"}}]}, "open[0].capture has 1a, which is '1a', and no name"),
        ({"open": [{"expect": "a", "capture": {"sequence": "b"}}]}, "which means something else already"),
        ({"open": [{"expect": "a", "capture": {"b": "c["}}]}, "open[0].capture has b, which is not a JMESPath"),
        ({"rules": [{"then": "retry"}]}, "rules[0] is about nothing; it must be about a message, a close"),
        ({"rules": [{"message": "a", "close": 1006}]}, "rules[0] is about message and close; it must be about"),
        ({"rules": [{"close": 1006}]}, "rules[0].then is go_on, which goes with a message only"),
        ({"rules": [{"close": 1006, "then": "again"}]}, "rules[0].then is 'again'; it must be go_on, gap, retry,"),
        ({"rules": [{"close": 1006, "then": "retry", "send": "a"}]}, "rules[0].send needs rules[0].message"),
        ({"rules": [{"close": 1006, "then": "retry", "after": "field"}]}, "rules[0].after must be a duration"),
        ({"rules": [{"message": "a", "then": "fatal", "after": "5s"}]}, "rules[0].after says nothing with then: fatal"),
        ({"rules": [{"close": 1, "then": "retry"}]}, "rules[0].close[0] is 1; it must be 1000 to 4999"),
        (
            {"rules": [{"message": "a", "then": "retry", "otherwise": "live"}]},
            "rules[0].otherwise needs rules[0].times",
        ),
        ({"rules": [{"message": "a", "then": "new_session"}]}, "rules[0] begins a new session, but nothing is ever"),
        ({"values": {"a": {}}}, "values.a is nothing; it must be one of now, random,"),
        ({"values": {"a": {"now": "s", "random": 5}}}, "values.a is now and random; it must be one of"),
        ({"values": {"a": {"hmac_sha256": "x"}}}, "values.a.key is missing"),
        (
            {"values": {"a": {"hmac_sha256": "x", "key": "hunter2"}}},
            "values.a.key must be a reference, so that no secret",
        ),
        ({"values": {"a": {"now": "s", "key": "env:K"}}}, "values.a.key goes with hmac_sha256 or"),
        ({"values": {"received": {"now": "s"}}}, "values has received, which means something else already"),
        (
            {"fetch": {"url": "wss://a.test"}},
            "fetch.url is 'wss://a.test'; it must begin with http:// or https://, not",
        ),
        ({"fetch": {"url": "https://a.test/?token=hunter2"}}, "fetch.url parameter token holds a secret in the clear"),
        (
            {"open": ['{"op": "login", "args": [{"apiKey": "hunter2"}]}']},
            "holds a secret in the clear at args[0].apiKey",
        ),
        ({"query": {"listenKey": "hunter2"}}, "query has listenKey, which holds a secret in the clear"),
        (
            {"keepalive": {"message": {"send": "ping", "every": "interval"}}},
            "keepalive.message.every is interval, which",
        ),
        ({"keepalive": {"message": {"every": "5s"}}}, "keepalive.message.send is missing"),
        ({"keepalive": {"message": {"send": "a", "close_code": 4001}}}, "keepalive.message.answer is missing"),
        ({"rotate": {"jitter": "5s"}}, "rotate.jitter says nothing without rotate.after"),
        ({"rotate": {"after": "1h", "overlap": "1s"}}, "rotate.overlap needs rotate.order make_before_break"),
        ({"max_send": "never", "open": ["a"]}, "max_send is never, but open sends something"),
        ({"max_send": "much"}, "max_send is 'much'; it must be a size"),
        ({"pace": {"messages": 1, "count_pings": True}}, "pace.messages must be 2 or more with count_pings"),
        ({"tls": {"key": "env:K"}}, "tls.certificate and tls.key go together"),
        ({"tls": {"ca": "-----BEGIN"}}, "tls.ca must be a reference"),
        ({"proxy": "ftp://a"}, "proxy is no proxy's URL; it must be env, none, or begin with one of http://,"),
        ({"proxy": "http://me:hunter2@a:1"}, "proxy has a user name or password in the clear"),
        (
            {"resume": {"token": "session"}, "record": {"sequence": "s"}},
            "resume.token is session, which nothing captures",
        ),
        (
            {**CURSOR, "resume": {**CURSOR["resume"], "reaches_back": "1h"}},
            "resume.reaches_back needs record.sequence_unit",
        ),
        ({**CURSOR, "resume": {**CURSOR["resume"], "too_old": "fatal"}}, "resume.too_old needs resume.reaches_back"),
        (
            {"url": "wss://a.test/{x}", "rules": [{"message": "a", "capture": {"x": "x"}}]},
            "url has {x}, which a URL cannot",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_its_place_and_what_would_be_right(
    fields: dict[str, Any], sentence: str
) -> None:
    said = problems(**fields)
    assert any(sentence in line for line in said), said
    assert not any("hunter2" in line for line in said)


def test_a_message_with_a_field_called_send_is_a_message_if_it_has_other_fields() -> None:
    feed = compile_spec(one(open=[{"send": "x", "channel": "y"}, {"send": {"send": "x"}}]))
    assert feed.open_messages == ({"send": "x", "channel": "y"}, FeedStep(({"send": "x"},)))


def test_captured_and_computed_names_are_no_secrets_in_the_clear() -> None:
    one(
        values={"jwt": {"jwt": "HS256", "key": "env:K"}},
        open=[{"jwt": "{jwt}"}, {"expect": "a", "capture": {"t": "b"}}, {"password": "{t}"}],
    )


def test_an_unknown_field_of_a_later_release_inside_a_list_is_passed_over() -> None:
    compiled = compile_item("x", "ws://a", {"rules": [{"close": [4004], "then": "fatal", "later": 1}]})
    assert len(compiled.feed.rules) == 1
    assert compiled.ignored[0].startswith("field rules[0].later is not known")
    compiled = compile_item("x", "ws://a", {"open": [{"expect": "a", "later": 1}]})
    assert len(compiled.feed.open_messages) == 1


WORDS: st.SearchStrategy[Any] = st.sampled_from(
    ["5s", "a", "{a}", "env:K", "retry", "fatal", "live", "go_on", "op=='a'", "s", "jwt", 1006, 401, 5, True, None, {}]
)
CAPTURES = st.dictionaries(st.sampled_from(["a", "b", "received"]), st.sampled_from(["x", "y.z", "["]), max_size=2)


def parts_of(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(sorted(model.model_fields))
    return st.dictionaries(names, WORDS, max_size=4).flatmap(
        lambda fields: CAPTURES.map(lambda kept: {**fields, "capture": kept} if "capture" in fields else fields)
    )


def _read(fields: dict[str, Any]) -> tuple[ConnectionSpec | None, list[str]]:
    try:
        return one(**fields), []
    except BadSpec as error:
        return None, [problem.sentence for problem in error.problems]


@given(
    st.lists(parts_of(Rule), max_size=2),
    st.lists(parts_of(Step), max_size=2),
    st.none() | parts_of(Beat),
    st.dictionaries(st.sampled_from(["a", "v"]), parts_of(Computed), max_size=2),
    st.none() | parts_of(Fetch),
)
def test_whatever_is_said_of_a_life_is_refused_in_words_or_can_be_lived(
    rules: list[Any], steps: list[Any], beat: Any, values: dict[str, Any], fetch: Any
) -> None:
    fields: dict[str, Any] = {"rules": rules, "open": steps, "values": values}
    if beat is not None:
        fields["keepalive"] = {"message": {"send": "ping", **beat}}
    if fetch is not None:
        fields["fetch"] = {"url": "https://a.test", **fetch}
    spec, refused = _read(fields)
    assert not any("Input should" in sentence or "validat" in sentence for sentence in refused)
    if spec is None:
        return
    assert all(explain(spec))
    driver = Driver(compile_item(spec.id, spec.url, spec.stored()).feed)
    if driver.all(Call):
        driver.on(Fetched(1, 200, '{"x": 1, "y": {"z": "w"}, "a": "wss://b.test"}'))
    for event in (Opened(), Message('{"op": "a", "x": 1, "s": 5}', 0), Message("a", 0), Closed("gone", 1006)):
        driver.on(event)
        if driver.wake_at_s is not None:
            driver.wake()
