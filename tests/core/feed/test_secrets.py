"""Secrets are named, filled in where a socket needs them, and never said aloud."""

import json

import pytest

from streamlease.feed import secrets
from streamlease.feed.events import Dial, Send
from streamlease.feed.feed import Feed, Resume

TOKEN = 'p"ss&w\\rd?'
VALUES = {"env:TOKEN": TOKEN, "ssm:/feeds/x": "param", "secretsmanager:feeds/x#key": "field"}


def test_every_reference_of_a_feed_is_found() -> None:
    feed = Feed(
        "x",
        "wss://x.test/p?token={env:TOKEN}",
        headers={"Authorization": "Bearer {ssm:/feeds/x}"},
        open_messages=({"auth": [{"key": "{secretsmanager:feeds/x#key}"}]}, "AUTH {env:OTHER}"),
        resume=Resume(query={"c": "{env:THIRD}{sequence}"}),
    )
    assert secrets.references(feed) == {*VALUES, "env:OTHER", "env:THIRD"}


def test_a_secret_is_written_as_its_place_asks_for() -> None:
    dial = secrets.resolved(Dial("wss://x.test/?t={env:TOKEN}", {"A": "Bearer {env:TOKEN}"}, ("v1",), 3.0, 7), VALUES)
    assert dial == Dial("wss://x.test/?t=p%22ss%26w%5Crd%3F", {"A": f"Bearer {TOKEN}"}, ("v1",), 3.0, 7)
    assert json.loads(secrets.resolved(Send('{"t":"{env:TOKEN}"}'), VALUES).text) == {"t": TOKEN}
    assert secrets.resolved(Send("AUTH {env:TOKEN}", json=False), VALUES).text == f"AUTH {TOKEN}"


def test_a_missing_secret_is_named_with_what_to_do() -> None:
    for text, sentence in (
        ("{env:NOPE}", "secret env:NOPE is not there; set this environment variable for the worker"),
        ("{ssm:/no}", "secret ssm:/no is not there; put this parameter into SSM Parameter Store"),
        ("{secretsmanager:no}", "secret secretsmanager:no is not there; put this secret into Secrets Manager"),
    ):
        with pytest.raises(secrets.SecretError) as caught:
            secrets.substitute(text, VALUES)
        assert str(caught.value).startswith(sentence)
        assert caught.value.retryable


def test_a_secret_that_would_break_a_header_is_refused_without_being_shown() -> None:
    with pytest.raises(secrets.SecretError) as caught:
        secrets.resolved(Dial("wss://x.test", {"A": "{env:TOKEN}"}), {"env:TOKEN": "hunter2\r\nX: y"})
    assert "env:TOKEN" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_braces_that_name_no_secret_stay() -> None:
    assert (
        secrets.substitute('{"a": {}} {env} {env:} {other:x} {env:1}', {}) == '{"a": {}} {env} {env:} {other:x} {env:1}'
    )


def test_a_text_that_no_socket_can_carry_is_not_sent() -> None:
    with pytest.raises(secrets.NotSent, match="half of a surrogate pair"):
        secrets.resolved(Send("\ud800", json=False), {})
