"""The open script, the call before it, and what is captured on the way."""

import json
from typing import Any

from streamlease.feed.events import Close, Closed, Dial, Fetch, Fetched, Finished, Opened, Report, Send, StopRequested
from streamlease.feed.feed import Feed
from streamlease.feed.session import Phase
from streamlease.model import Position, StatusState
from streamlease.spec import compile_spec
from tests.core.feed.driver import Driver
from tests.core.spec.files import one

LOGIN: list[Any] = [
    {"expect": "op=='hello'", "capture": {"challenge": "d.challenge"}, "within": "5s"},
    {"send": {"op": "login", "reply": "{challenge}"}, "expect": "op=='welcome'", "within": "5s"},
    {"op": "subscribe"},
]


def feed_of(**fields: Any) -> Feed:
    return compile_spec(one(**fields))


def test_a_script_sends_waits_captures_and_says_back() -> None:
    driver = Driver(feed_of(open=LOGIN, record={"when": "op=='data'"}))
    driver.on(Opened())
    assert driver.sent == []
    driver.message({"op": "hello", "d": {"challenge": 'x"{env:TOKEN}'}})
    assert driver.sent == [{"op": "login", "reply": 'x"{env:TOKEN}'}]
    assert "{env:TOKEN}" not in str(driver.last(Send).text)
    assert driver.machine.phase is Phase.OPENING
    driver.message({"op": "welcome"})
    assert driver.sent[1:] == [{"op": "subscribe"}]
    assert driver.states == ["CONNECTING", "STREAMING"]


def test_data_that_comes_between_the_steps_is_delivered() -> None:
    driver = Driver(feed_of(open=LOGIN, record={"when": "op=='data'"}))
    driver.on(Opened())
    driver.message({"op": "data", "n": 1})
    assert len(driver.records) == 1


def test_each_step_has_its_own_deadline() -> None:
    driver = Driver(feed_of(open=LOGIN))
    driver.on(Opened())
    driver.now_s += 4
    driver.message({"op": "hello", "d": {"challenge": "x"}})
    assert driver.wake_at_s == driver.now_s + 5
    driver.wake()
    assert driver.counted("not_ready") == 1
    driver.drop()
    assert driver.last(Report).reason == "what the open script expects did not come within 5 s"


def test_readiness_counts_from_the_end_of_the_script_and_may_be_said_by_its_last_answer() -> None:
    driver = Driver(feed_of(open=LOGIN[:2], ready="op=='welcome'"))
    driver.on(Opened())
    driver.message({"op": "hello", "d": {"challenge": "x"}})
    driver.message({"op": "welcome"})
    assert driver.states[-1] == "STREAMING"


def test_an_answer_is_known_by_what_it_repeats() -> None:
    open_ = [{"send": {"id": "{socket_id}", "op": "sub"}, "answers": {"id": "{socket_id}"}}, {"send": "done"}]
    driver = Driver(feed_of(open=open_))
    driver.on(Opened())
    (sent,) = driver.sent
    assert isinstance(sent, dict)
    driver.message({"id": "somebody else's"})
    assert driver.machine.phase is Phase.OPENING
    driver.message({"id": sent["id"]})
    assert driver.last(Send).text == "done"
    assert driver.states[-1] == "STREAMING"


def test_what_was_not_captured_is_left_out_and_steps_go_by_what_is_there() -> None:
    feed = feed_of(
        open=[
            {"expect": "op", "capture": {"ticket": "ticket"}},
            {"send": {"a": 1, "ticket": "{ticket}"}},
            {"send": "with", "present": "ticket"},
            {"send": "without", "absent": "ticket"},
        ]
    )
    for message, texts in (
        ({"op": 1}, ['{"a":1}', "without"]),
        ({"op": 1, "ticket": "t"}, ['{"a":1,"ticket":"t"}', "with"]),
    ):
        driver = Driver(feed)
        driver.on(Opened())
        driver.message(message)
        assert [send.text for send in driver.all(Send)] == texts


def test_only_texts_numbers_and_booleans_of_a_bounded_length_are_captured() -> None:
    feed = feed_of(open=[{"expect": "op", "capture": {"x": "x"}}, {"send": {"x": "{x}"}}])
    for value, sent in (
        (7, {"x": 7}),
        (True, {"x": True}),
        ("a", {"x": "a"}),
        ([1], {}),
        ("\x00", {}),
        ("a" * 5_000, {}),
    ):
        driver = Driver(feed)
        driver.on(Opened())
        driver.message({"op": 1, "x": value})
        assert driver.sent == [sent]


# --- the call before the dial ----------------------------------------------------------------------------------------

SLACK: dict[str, Any] = {
    "url": "wss://slack.test",
    "query": {"v": "1"},
    "fetch": {
        "url": "https://slack.test/open",
        "method": "POST",
        "headers": {"Authorization": "Bearer {env:APP}"},
        "body": {"a": "env:B"},
        "ok": "ok",
        "next_url": "url",
    },
}


def answer(**fields: Any) -> Fetched:
    return Fetched(1, 200, json.dumps(fields))


def test_the_url_to_dial_is_taken_from_the_call_and_gets_the_specs_parameters() -> None:
    driver = Driver(feed_of(**SLACK))
    fetch = driver.last(Fetch)
    assert (fetch.socket, fetch.method, fetch.url) == (1, "POST", "https://slack.test/open")
    assert (fetch.headers, fetch.body) == ({"Authorization": "Bearer {env:APP}"}, '{"a":"{env:B}"}')
    assert driver.all(Dial) == []
    driver.on(answer(ok=True, url="wss://host-7.test/link?ticket={env:APP}"))
    assert driver.last(Dial).url == "wss://host-7.test/link?ticket=%7Benv:APP%7D&v=1"


def test_every_dial_has_a_call_of_its_own() -> None:
    driver = Driver(feed_of(**SLACK))
    driver.on(answer(ok=True, url="wss://a.test"))
    driver.stream()
    driver.drop()
    driver.wake()
    assert [fetch.socket for fetch in driver.all(Fetch)] == [1, 2]
    assert len(driver.all(Dial)) == 1


def test_what_is_wrong_with_the_call_is_a_dial_that_failed() -> None:
    for event, says in (
        (Fetched(1, error="nothing accepts connections at slack.test"), "nothing accepts connections"),
        (Fetched(1, 503, "busy"), "was answered with HTTP 503"),
        (answer(ok=False), "not as fetch.ok asks for"),
        (answer(ok=True), "without a URL to dial"),
        (answer(ok=True, url="ws://slack.test"), "does not begin with wss://"),
        (answer(ok=True, url="wss://a b"), "is no URL"),
        (answer(ok=True, url="wss://[/"), "is no URL"),
        (answer(ok=True, url="wss://[::1/"), "is no URL"),
        (answer(ok=True, url="wss://a:99999/"), "is no URL"),
        (answer(ok=True, url="wss:///ws"), "is no URL"),
    ):
        driver = Driver(feed_of(**SLACK))
        driver.on(event)
        assert driver.all(Dial) == []
        assert driver.last(Report).state is StatusState.BACKOFF
        assert says in (driver.last(Report).reason or "")
        driver.wake()
        assert len(driver.all(Fetch)) == 2


def test_rules_hold_for_the_call_too() -> None:
    rules = [
        {"http": 200, "body": "error=='invalid_auth'", "then": "fatal"},
        {"body": "error=='ratelimited'", "after": "30s", "then": "retry"},
    ]
    driver = Driver(feed_of(**SLACK, rules=rules))
    driver.on(answer(ok=False, error="ratelimited"))
    assert driver.wake_at_s is not None
    assert driver.wake_at_s >= driver.now_s + 30
    driver.wake()
    driver.on(Fetched(2, 200, '{"ok": false, "error": "invalid_auth"}'))
    assert driver.last(Finished).outcome == "fatal"


def test_a_call_that_never_ends_is_given_up_and_so_is_one_that_a_stop_finds() -> None:
    driver = Driver(feed_of(**SLACK))
    driver.wake()
    assert driver.last(Close).abort
    driver.on(Fetched(1, error="given up"))
    assert driver.last(Report).reason == "the call before the dial did not end in time"
    driver.wake()
    driver.on(StopRequested("drain"))
    assert driver.last(Close).socket == 2
    driver.on(Fetched(2, error="given up"))
    assert driver.last(Finished) == Finished("stopped", "drain")


def test_a_token_from_the_call_is_put_into_messages_and_parameters() -> None:
    feed = feed_of(
        url="wss://kraken.test/v2",
        query={"t": "{ws_token}"},
        fetch={"url": "https://kraken.test/token", "capture": {"ws_token": "result.token"}},
        open=[{"method": "subscribe", "params": {"token": "{ws_token}"}}],
    )
    driver = Driver(feed)
    driver.on(Fetched(1, 200, '{"result": {}}'))
    assert driver.last(Report).reason == "the call before the dial was answered without ws_token"
    driver.wake()
    driver.on(Fetched(2, 200, '{"result": {"token": "a&b"}}'))
    assert driver.last(Dial).url == "wss://kraken.test/v2?t=a%26b"
    driver.on(Opened())
    assert driver.sent == [{"method": "subscribe", "params": {"token": "a&b"}}]


def test_w34_a_refused_token_is_looked_up_anew_once_and_then_it_is_final() -> None:
    driver = Driver(feed_of(headers={"Authorization": "Bearer {env:TOKEN}"}))
    assert not driver.last(Dial).fresh_secrets
    driver.on(Closed("no", http_status=401))
    driver.wake()
    assert driver.last(Dial).fresh_secrets
    driver.stream()
    driver.now_s += 60
    driver.drop()
    driver.wake()
    assert not driver.last(Dial).fresh_secrets
    driver.on(Closed("no", http_status=401))
    driver.wake()
    driver.on(Closed("no", http_status=401))
    assert driver.last(Finished).outcome == "fatal"
    assert "looked up anew" in driver.last(Finished).reason


def test_w34_a_401_is_final_at_once_for_a_feed_without_secrets() -> None:
    driver = Driver(feed_of())
    driver.on(Closed("no", http_status=401))
    assert driver.last(Finished).outcome == "fatal"


# --- what is kept with the position ----------------------------------------------------------------------------------

GATEWAY: dict[str, Any] = {
    "url": "wss://gateway.test",
    "query": {"v": "10"},
    "fetch": {"url": "https://gateway.test/bot", "next_url": "url"},
    "open": [
        {"expect": "op==`10`", "capture": {"interval": "d.heartbeat_interval"}},
        {"send": {"op": 6, "d": {"session_id": "{session}", "seq": "{sequence}"}}, "present": "session"},
        {"send": {"op": 2}, "absent": "session"},
    ],
    "ready": "t=='READY' || t=='RESUMED'",
    "rules": [
        {"message": "t=='READY'", "capture": {"session": "d.session_id", "resume_url": "d.resume_gateway_url"}},
        {"message": "op==`7`", "then": "rotate"},
        {"message": "op==`9`", "then": "new_session"},
        {"close": [1006], "then": "retry", "times": 3, "otherwise": "new_session"},
    ],
    "keepalive": {
        "message": {"send": {"op": 1, "d": "{received}"}, "every": "interval", "first": "random", "answer": "op==`11`"}
    },
    "record": {"when": "op==`0`", "sequence": "s", "unique": True},
    "resume": {"token": "session", "url": "resume_url", "inclusive": False},
    "close_code": 4000,
}


def gateway(position: Position | None = None) -> Driver:
    driver = Driver(feed_of(**GATEWAY), position)
    if driver.all(Fetch):
        driver.on(Fetched(1, 200, '{"url": "wss://first.test"}'))
    driver.on(Opened())
    driver.message({"op": 10, "d": {"heartbeat_interval": 40_000}})
    return driver


def ready(driver: Driver, session: str = "s1") -> None:
    driver.message(
        {"op": 0, "t": "READY", "s": 1, "d": {"session_id": session, "resume_gateway_url": "wss://resume.test"}}
    )


def test_a_session_and_its_url_are_kept_with_the_position_and_used_to_resume() -> None:
    driver = gateway()
    assert driver.sent == [{"op": 2}]
    ready(driver)
    driver.message({"op": 0, "t": "X", "s": 2})
    driver.acknowledge_all()
    assert driver.machine.position == Position(2, "gateway.test", "wss://resume.test", "s1")
    driver.drop()
    driver.wake()
    assert len(driver.all(Fetch)) == 1
    assert driver.last(Dial).url == "wss://resume.test?v=10"
    driver.on(Opened())
    driver.message({"op": 10, "d": {"heartbeat_interval": 40_000}})
    assert driver.sent[-1] == {"op": 6, "d": {"session_id": "s1", "seq": 2}}


def test_the_next_owner_resumes_the_session_too() -> None:
    driver = gateway(Position(2, "gateway.test", "wss://resume.test", "s1"))
    assert driver.last(Dial).url == "wss://resume.test?v=10"
    assert driver.sent == [{"op": 6, "d": {"session_id": "s1", "seq": 2}}]
    driver.message({"op": 0, "t": "RESUMED", "s": 3})
    assert driver.gaps == []


def test_a_handoff_closes_with_the_code_that_keeps_the_session() -> None:
    driver = gateway()
    ready(driver)
    driver.on(StopRequested("drain"))
    assert driver.last(Close).code == 4000


def test_a_session_that_is_over_begins_anew_with_a_gap_record_and_lower_sequences() -> None:
    driver = gateway(Position(90, "gateway.test", "wss://resume.test", "s1"))
    driver.message({"op": 9, "d": False})
    assert driver.last(Close).code == 4000
    driver.on(Closed("closed", 4000))
    driver.wake()
    assert driver.last(Fetch).socket == 2
    driver.on(Fetched(2, 200, '{"url": "wss://first.test"}'))
    driver.on(Opened())
    driver.message({"op": 10, "d": {"heartbeat_interval": 40_000}})
    assert driver.sent[-1] == {"op": 2}
    ready(driver, "s2")
    (gap,) = driver.gaps
    assert gap.from_sequence == 90
    driver.acknowledge_all()
    assert driver.machine.position == Position(1, "gateway.test", "wss://resume.test", "s2")


def test_a_number_of_another_session_is_another_record_and_of_the_same_one_the_same_for_every_owner() -> None:
    ids: list[str | None] = []
    for position, session in ((None, "s1"), (None, "s2"), (Position(0, "gateway.test", "wss://resume.test", "s1"), "")):
        driver = gateway(position)
        if session:
            ready(driver, session)
        else:
            driver.message({"op": 0, "t": "READY AGAIN", "s": 1, "d": {}})
        ids += [record.record_id for record in driver.records]
    assert ids[0] == ids[2] != ids[1]


def test_w29_a_session_whose_resumption_is_always_dropped_is_given_up_for_a_fresh_one_with_a_gap_record() -> None:
    driver = gateway(Position(90, "gateway.test", "wss://resume.test", "s1"))
    for _ in range(4):
        driver.drop()
        driver.wake()
        if driver.socket == "dialling":
            driver.on(Opened())
            driver.message({"op": 10, "d": {"heartbeat_interval": 40_000}})
    assert len(driver.all(Fetch)) == 1
    assert [sent for sent in driver.sent if sent == {"op": 2}] == []
    driver.on(Fetched(5, 200, '{"url": "wss://first.test"}'))
    driver.on(Opened())
    driver.message({"op": 10, "d": {"heartbeat_interval": 40_000}})
    assert driver.sent[-1] == {"op": 2}
    ready(driver, "s2")
    assert len(driver.gaps) == 1
    assert "3 times in a row" in driver.gaps[0].reason


def test_w29_a_url_to_resume_at_whose_host_is_gone_is_left_for_the_specs_own_each_fifth_time() -> None:
    driver = gateway(Position(90, "gateway.test", "wss://resume.test", "s1"))
    driver.drop("no sign of life", code=None)
    for _ in range(3):
        driver.wake()
        assert driver.last(Dial).url == "wss://resume.test?v=10"
        driver.drop("nothing accepts connections at resume.test", code=None)
    assert driver.all(Fetch) == []
    driver.wake()
    driver.on(Fetched(5, 200, '{"url": "wss://first.test"}'))
    assert driver.last(Dial).url == "wss://first.test?v=10"
    driver.on(Opened())
    driver.message({"op": 10, "d": {"heartbeat_interval": 40_000}})
    assert driver.sent[-1] == {"op": 6, "d": {"session_id": "s1", "seq": 90}}
    driver.message({"op": 0, "t": "RESUMED", "s": 91})
    assert driver.gaps == []
    driver.drop()
    driver.wake()
    assert driver.last(Dial).url == "wss://resume.test?v=10"


def test_a_url_to_resume_at_that_is_none_and_was_kept_all_the_same_is_not_dialled() -> None:
    driver = Driver(feed_of(**GATEWAY), Position(90, "gateway.test", "wss://[", "s1"))
    assert driver.all(Dial) == []
    assert len(driver.all(Fetch)) == 1


def test_a_url_to_resume_at_that_is_refused_for_good_does_not_fail_the_connection() -> None:
    driver = gateway(Position(90, "gateway.test", "wss://resume.test", "s1"))
    driver.drop()
    driver.wake()
    driver.on(Closed("HTTP 404", http_status=404))
    assert driver.states[-1] == "BACKOFF"
    own = Driver(feed_of(url="wss://gateway.test"))
    own.on(Closed("HTTP 404", http_status=404))
    assert own.states[-1] == "FAILED"
