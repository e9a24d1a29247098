"""What a spec's fields take, and what is said of what they do not."""

import datetime as dt
from typing import Any

import pytest

from tests.core.spec.files import one, problems

CURSOR: dict[str, Any] = {"record": {"sequence": "t"}, "resume": {"query": {"c": "{sequence}"}}}


def test_an_id_and_a_url_are_a_whole_spec() -> None:
    spec = one()
    assert (spec.id, spec.url, spec.desired_state, spec.labels) == ("x", "wss://feed.test/ws", "STARTED", {})
    assert spec.stored() == {}


def test_only_what_was_written_is_stored_and_as_it_was_written() -> None:
    fields: dict[str, Any] = {
        "headers": {"X-Version": 2},
        "query": {"limit": 5, "kinds": ["a", "b"]},
        "ready": "ok",
        "keepalive": {"ping_every": False, "stale_after": "1m"},
        "max_message": 65536,
        "open": [None, {"a": None, "b": 1.5}],
        **CURSOR,
    }
    assert one(labels={"a": 1}, desired_state="STOPPED", **fields).stored() == {
        **fields,
        "headers": {"X-Version": "2"},
        "query": {"limit": "5", "kinds": ["a", "b"]},
        "ready": {"when": "ok"},
        "keepalive": {"ping_every": "off", "stale_after": "1m"},
    }


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"id": ""}, "id is 0 characters long; it must be 1 to 128"),
        ({"id": "x" * 129}, "id is 129 characters long; it must be 1 to 128"),
        ({"id": "a b"}, "id is 'a b'; it must begin with a letter or digit and hold only those and . _ : @ + -"),
        ({"id": "#fleet"}, "id is '#fleet'; it must begin with a letter or digit and hold only those and . _ : @ + -"),
        ({"id": 7}, 'id is 7; it must be a text; put quotes around it: "7"'),
        (
            {"url": "http://a.test/x?y=1"},
            "url is 'http://a.test/x?…'; it must begin with ws:// or wss://; did you mean ws://a.test/x?…?",
        ),
        (
            {"url": "https://a.test"},
            "url is 'https://a.test'; it must begin with ws:// or wss://; did you mean wss://a.test?",
        ),
        ({"url": "a.test/ws"}, "url is 'a.test/ws'; it must begin with ws:// or wss://"),
        ({"url": "ftp://a.test"}, "url is 'ftp://a.test'; it must begin with ws:// or wss://, not ftp://"),
        ({"url": "ws://"}, "url is 'ws://'; it has no host"),
        ({"url": "ws://a.test:99999/"}, "its host or port cannot be read"),
        ({"url": "ws://[::1"}, "its host or port cannot be read"),
        ({"url": "ws://a.test/#x"}, "a WebSocket URL has no #fragment"),
        ({"url": "ws://a.test/a b"}, "url has a space, a line break or a character that is not ASCII"),
        ({"url": "ws://me:pw@a.test/"}, "url has a user name or password before its host"),
        ({"url": "ws://{env:HOST}/"}, "the host cannot be filled in"),
        ({"url": "ws://a.test/{sequence}"}, "url has {sequence}, which only resume.query, headers and open can carry"),
        ({"url": "ws://a.test/{symbol}"}, "url has {symbol}, which nothing fills in"),
        ({"url": "ws://a.test/?t={env:1X}"}, "url holds a reference that is none: env: is followed by the name of an"),
        ({"keepalive": {"stale_after": 60}}, "keepalive.stale_after is 60; it needs a unit: 60s, 60ms or 60m"),
        (
            {"keepalive": {"stale_after": "1 minute"}},
            "keepalive.stale_after is '1 minute'; it must be a duration such as 60s, 500ms or 5m",
        ),
        (
            {"keepalive": {"stale_after": "0s"}},
            "keepalive.stale_after is '0s'; it must be more than nothing and at most 7d",
        ),
        ({"max_message": "1 GB"}, "max_message is '1 GB'; it must be a size such as 1MiB, 64KiB or a number of bytes"),
        ({"max_message": "1000MiB"}, "max_message is '1000MiB'; it must be more than nothing and at most 64MiB"),
        ({"close_code": 99}, "close_code is 99; it must be 1000 to 4999"),
        ({"retry": {"fatal_close_codes": ["4004"]}}, "retry.fatal_close_codes[0] is '4004'; it must be a whole number"),
        ({"record": {"unique": "yes"}}, "record.unique is 'yes'; it must be true or false"),
        ({"record": {"type": "int"}}, "record.type is 'int'; it must be number or string"),
        (
            {"record": {"sequence": "[2.t"}},
            "record.sequence is not a JMESPath expression: '[2.t' goes wrong at character 3",
        ),
        (
            {"record": {"when": '[0]=="E"'}},
            "record.when compares with a field named E; to compare with the text, use single",
        ),
        ({"record": "t"}, "record is 't'; it must be a map of fields"),
        ({"resume": {"rewind": -1}}, "resume.rewind is -1; it must be 0 or more"),
        ({"resume": {"query": {"c": "5"}}}, "resume.query has no {sequence} in it"),
        ({"headers": {"Host": "a"}}, "headers has Host, which the handshake sets itself"),
        ({"headers": {"X": "a\r\nY: b"}}, "headers has X with a line break"),
        ({"headers": {"a b": "c"}}, "headers has 'a b', which is no header's name"),
        ({"headers": ["a"]}, "headers is a list; it must be a map of names and texts"),
        ({"labels": {"a": "b=c"}}, "labels has a='b=c'"),
        ({"labels": {"a": True}}, "labels has a: true; it must be a text or a number"),
        ({"labels": {1: "a"}}, "labels has the name 1; names are texts: put quotes around it"),
        ({"open": "hello"}, "open is 'hello'; it must be a list"),
        ({"open": [{"d": dt.date(2026, 1, 1)}]}, "open[0] has at d a date, which JSON does not have"),
        ({"open": [float("nan")]}, "open[0] is nan, which JSON does not have"),
        ({"open": [10**38]}, "open[0] is a number of more than 38 digits"),
        ({"open": [{"a": [{1: 2}]}]}, "open[0] has at a[0] a map with the name 1"),
        ({"open": ["\ud800"]}, "open[0] has half of a surrogate pair"),
        ({"open": [{"a": {"b": "{word}"}}]}, "open[0] has at a.b a text that has {word}, which nothing fills in"),
        ({"open": ["{{sequence}}"]}, "open[0] has {{sequence}}, and {sequence} cannot be sent as a text of its own"),
        ({"subprotocols": ["a b"]}, "subprotocols[0] is 'a b', which is no subprotocol's name"),
        ({"sink": ""}, "sink is ''; it must be 1 to 63 letters"),
        ({"desired_state": "started"}, "desired_state is 'started'; it must be STARTED or STOPPED"),
        ({"record": {"sequense": "t"}}, "field record.sequense is not known; did you mean record.sequence?"),
        ({"rewind": 2}, "field rewind is not known; did you mean resume.rewind?"),
        ({"when": "a"}, "field when is not known; did you mean ready.when or record.when or "),
        ({"ready": {"wen": "a", "when": "b"}}, "field ready.wen is not known; did you mean ready.when?"),
        ({"flavour": 1}, "field flavour is not known; known are ack, adapter, checkpoint, close_code,"),
        (
            {"record": {True: 1}},
            "a field of record is named true; YAML reads on, off, yes and no as true and false: put",
        ),
        ({"record": {5: 1}}, "a field of record is named 5; names are texts: put quotes around it"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_field_and_what_would_be_right(
    fields: dict[str, Any], sentence: str
) -> None:
    said = problems(**fields)
    assert any(sentence in line for line in said), said


def test_a_missing_field_is_named() -> None:
    assert problems(ready={"within": "5s"}) == ["ready.when is missing"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"resume": {"query": {"c": "{sequence}"}}},
            "{sequence} is to be sent, but record.sequence does not say where",
        ),
        ({"open": ["{sequence}"]}, "{sequence} is to be sent, but record.sequence does not say where"),
        ({"record": {"sequence": "t"}, "resume": {"rewind": 1}}, "resume.rewind needs a cursor: put {sequence} into"),
        ({**CURSOR, "resume": {"order": "newest_first", "query": {"c": "{sequence}"}}}, "needs resume.complete"),
        ({**CURSOR, "resume": {"at_most": 5, "query": {"c": "{sequence}"}}}, "resume.at_most needs resume.order"),
        (
            {"record": {"sequence": "t", "type": "string"}, "resume": {"rewind": 1, "query": {"c": "{sequence}"}}},
            "resume.rewind needs record.type number",
        ),
        ({"record": {"unique": True}}, "record.unique needs record.sequence"),
        (
            {"record": {"contiguous": True, "sequence": "t", "type": "string"}},
            "record.contiguous needs record.type number",
        ),
        ({"record": {"contiguous": True}}, "record.contiguous needs record.sequence"),
        ({"record": {"sequence_unit": "s"}}, "record.sequence_unit needs record.sequence"),
        ({"record": {"event_at_unit": "s"}}, "record.event_at_unit needs record.event_at"),
        ({"keepalive": {"ping_every": "off", "pong_within": "5s"}}, "keepalive.pong_within says nothing while"),
        ({"checkpoint": {"every": "500ms"}}, "checkpoint.every is 500ms; it must be from 1s to 1h"),
        ({"checkpoint": {"every": "2h"}}, "checkpoint.every is 2h; it must be from 1s to 1h"),
        ({"retry": {"first": "2m"}}, "retry.first of 2m is longer than retry.longest of 60s"),
    ],
)
def test_fields_that_do_not_go_together_are_told(fields: dict[str, Any], sentence: str) -> None:
    said = problems(**fields)
    assert len(said) == 1
    assert sentence in said[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"Authorization": "Bearer hunter2"}},
        {"headers": {"X-Api-Key": "hunter2"}},
        {"headers": {"Cookie": "session=hunter2"}},
        {"query": {"access_token": "hunter2"}},
        {"query": {"tokens": ["a"], "apiKey": ["hunter2"]}},
        {"url": "wss://feed.test/ws?apikey=hunter2"},
        {"url": "wss://feed.test/ws?a=b&api_key=hunter2"},
        {"url": "wss://me:hunter2@feed.test/ws"},
        {"open": [{"action": "auth", "secret": "hunter2"}]},
        {"open": [["login", {"params": {"password": "hunter2"}}]]},
        {"open": [{"params": {"token": "hunter2hunter2hunter2"}}]},
    ],
)
def test_a_secret_in_the_clear_is_refused_and_never_repeated(fields: dict[str, Any]) -> None:
    said = problems(**fields)
    assert len(said) == 1
    assert "use a reference such as secretsmanager:NAME, ssm:/path or env:NAME" in said[0]
    assert "hunter2" not in said[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"Authorization": "env:TOKEN"}},
        {"headers": {"Authorization": "Bearer {secretsmanager:feeds/a#token}"}},
        {"query": {"token": "ssm:/feeds/token"}},
        {"url": "wss://feed.test/{connection_id}?token={env:TOKEN}"},
        {"open": [{"secret": "env:TOKEN"}, {"op": "sub", "token": "BTC"}, {"token": "0x" + "ab" * 20}]},
        {"url": "wss://feed.test/ws?key=BTC"},
    ],
)
def test_references_and_what_only_looks_like_a_secret_are_taken(fields: dict[str, Any]) -> None:
    one(**fields)


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert len(problems(url="http://a", sink="", record={"x": 1}, open=5)) == 4
