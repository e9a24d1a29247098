"""What is never printed."""

import pytest

from streamlease.write import Value
from streamlease_cli.redaction import HIDDEN, without_credentials, without_secrets


@pytest.mark.parametrize(
    "name", ["Authorization", "X-Api-Key", "cookie", "access_key", "client_secret", "password", "auth", "sessionId"]
)
def test_a_literal_under_a_name_that_secrets_have_is_hidden(name: str) -> None:
    assert without_secrets({"headers": {name: "hunter2"}}) == {"headers": {name: HIDDEN}}


@pytest.mark.parametrize(
    "value", ["{env:FEED_TOKEN}", "Bearer {secretsmanager:prod/feed#token}", "ssm:/feeds/token", "Basic {ssm:/a}"]
)
def test_a_reference_is_shown(value: str) -> None:
    assert without_secrets({"Authorization": value}) == {"Authorization": value}


def test_what_stands_below_a_secret_s_name_is_hidden_too() -> None:
    spec: Value = {"open": [{"token": ["hunter2", {"token": "hunter2"}]}]}
    assert "hunter2" not in str(without_secrets(spec))


def test_everything_else_is_shown_as_it_is() -> None:
    spec: Value = {"author": "ada", "authors": ["ada"], "resume": {"rewind": 1.5, "inclusive": True}, "url": None}
    assert without_secrets(spec) == spec


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("wss://feed.example/x?a=1#f", "wss://feed.example/x?a=1#f"),
        ("wss://ada:hunter2@feed.example:8443/x", "wss://feed.example:8443/x"),
        ("wss://feed.example/?a=1&api_key=hunter2&b=", "wss://feed.example/?a=1&api_key=(not shown)&b="),
        ("wss://feed.example/?token={env:TOKEN}", "wss://feed.example/?token={env:TOKEN}"),
        ("wss://[broken/?token=x", "wss://[broken/?token=x"),
    ],
)
def test_a_url_is_shown_without_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown
