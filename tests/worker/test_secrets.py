"""Secrets as a dial looks them up: environment, SSM and Secrets Manager (moto), and what is said of those not there."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.parameters.base import BaseProvider
from botocore.exceptions import ClientError, NoRegionError
from moto import mock_aws

from streamlease.feed.secrets import SecretError
from streamlease_worker.secrets import FRESH_S, Secrets, redact


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with mock_aws():
        boto3.client("ssm").put_parameter(Name="/feed/key", Value="from ssm", Type="SecureString")
        manager = boto3.client("secretsmanager")
        manager.create_secret(Name="feed", SecretString='{"token": "from a field", "number": 7, "deep": {}}')
        manager.create_secret(Name="plain", SecretString="from secrets manager")
        manager.create_secret(Name="binary", SecretBinary=b"bytes")
        yield


def values(*references: str, secrets: Secrets | None = None) -> dict[str, str]:
    asked = secrets or Secrets({"TOKEN": "from the environment"})
    return asyncio.run(asked.values(references))


def test_each_store_gives_its_value() -> None:
    references = (
        "env:TOKEN",
        "ssm:/feed/key",
        "secretsmanager:plain",
        "secretsmanager:feed#token",
        "secretsmanager:binary",
    )
    assert values(*references) == {
        "env:TOKEN": "from the environment",
        "ssm:/feed/key": "from ssm",
        "secretsmanager:plain": "from secrets manager",
        "secretsmanager:feed#token": "from a field",
        "secretsmanager:binary": "bytes",
    }
    assert values("secretsmanager:feed#number") == {"secretsmanager:feed#number": "7"}
    assert values() == {}


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("env:OTHER", "secret env:OTHER is not there; set this environment variable for the worker"),
        ("ssm:/feed/other", "secret ssm:/feed/other is not there; put this parameter into SSM"),
        ("secretsmanager:other", "secret secretsmanager:other is not there; put this secret into Secrets Manager"),
        ("secretsmanager:plain#token", "secret secretsmanager:plain#token is not JSON"),
        ("secretsmanager:feed#other", "has no text or number under 'other'"),
        ("secretsmanager:feed#deep", "has no text or number under 'deep'"),
    ],
)
def test_what_cannot_be_had_is_a_sentence_that_names_the_reference_and_no_value(reference: str, sentence: str) -> None:
    with pytest.raises(SecretError) as problem:
        values(reference)
    assert sentence in str(problem.value)
    assert "from" not in str(problem.value).replace("from a field", "LEAKED")


class FailingProvider(BaseProvider):
    def __init__(self, error: Exception) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.error = error
        self.asked = 0

    def _get(self, name: str, **sdk_options: Any) -> str:
        self.asked += 1
        raise self.error

    def _get_multiple(self, path: str, **sdk_options: Any) -> dict[str, str]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetParameter"), "may not be read"),
        (
            ClientError({"Error": {"Code": "InternalServerError"}}, "GetParameter"),
            "could not be fetched just now (Inte",
        ),
        (TimeoutError(), "could not be fetched just now (TimeoutError)"),
    ],
)
def test_a_store_that_fails_is_a_sentence_and_is_asked_again(error: Exception, sentence: str) -> None:
    provider = FailingProvider(error)
    secrets = Secrets({}, {"ssm": lambda: provider})
    for _ in range(2):
        with pytest.raises(SecretError) as problem:
            values("ssm:/feed/key", secrets=secrets)
        assert sentence in str(problem.value)
        assert problem.value.retryable
    assert provider.asked == 2


def test_a_store_without_a_region_is_a_sentence() -> None:
    def no_region() -> BaseProvider:
        raise NoRegionError

    with pytest.raises(SecretError, match=r"secret ssm:/x could not be asked for \(NoRegionError\)"):
        values("ssm:/x", secrets=Secrets({}, {"ssm": no_region}))


def test_a_thousand_dials_ask_for_one_secret_once() -> None:
    class Counting(FailingProvider):
        def _get(self, name: str, **sdk_options: Any) -> str:
            self.asked += 1
            return "value"

    provider = Counting(KeyError())
    secrets = Secrets({}, {"secretsmanager": lambda: provider})

    async def main() -> list[Mapping[str, str]]:
        return await asyncio.gather(*(secrets.values(["secretsmanager:x"]) for _ in range(1_000)))

    assert asyncio.run(main()) == [{"secretsmanager:x": "value"}] * 1_000
    assert provider.asked == 1


def test_values_are_taken_out_of_what_others_say_the_longest_first() -> None:
    said = redact("token abcdef and abcd, not ab", ["abcd", "abcdef", "ab"])
    assert said == "token *** and ***, not ab"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("tok-9911\n", "bad token tok-9911"),
        ("two\nlines", "bad token two lines"),
        ("two \r\n lines", "bad token two lines"),
        ("a b/c+d", "no such page /feed?token=a%20b%2Fc%2Bd"),
        ("a b/c+d", "no such page /feed?token=a+b%2Fc%2Bd"),
        ("a b/c+d", "no such page /a%20b/c%2Bd"),
        ('say "no"', 'bad {"token":"say \\"no\\""}'),
        ("grüße", 'bad {"token":"gr\\u00fc\\u00dfe"}'),
        ("x" * 200, "bad token " + "x" * 113),
        ("secret-token", "bad token secret-tok"),
    ],
)
def test_values_are_taken_out_however_they_come_back(value: str, text: str) -> None:
    said = redact(text, [value])
    assert said.rstrip('"}') in (
        "bad token ***",
        "no such page /feed?token=***",
        "no such page /***",
        'bad {"token":"***',
    )


def test_what_only_looks_like_the_beginning_of_a_secret_is_left() -> None:
    assert redact("the upstream closed", ["closing-time"]) == "the upstream closed"


class Counted(BaseProvider):
    """Gives another value at each question that passes the cache."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.asked = 0

    def _get(self, name: str, **_: Any) -> str:
        self.asked += 1
        return f"{name} {self.asked}"

    def _get_multiple(self, path: str, **_: Any) -> dict[str, str]:
        raise NotImplementedError


def test_w34_a_refused_secret_is_asked_for_past_the_cache_and_a_thousand_refusals_ask_once() -> None:
    store, now_s = Counted(), 100.0
    secrets = Secrets({}, {"ssm": lambda: store}, now_s=lambda: now_s)

    async def main() -> None:
        nonlocal now_s
        assert (await secrets.values(["ssm:/key"]))["ssm:/key"] == "/key 1"
        assert (await secrets.values(["ssm:/key"]))["ssm:/key"] == "/key 1"
        crowd = await asyncio.gather(*(secrets.values(["ssm:/key"], fresh=True) for _ in range(1_000)))
        assert {found["ssm:/key"] for found in crowd} == {"/key 2"}
        now_s += FRESH_S / 2
        assert (await secrets.values(["ssm:/key"], fresh=True))["ssm:/key"] == "/key 2"
        now_s += FRESH_S
        assert (await secrets.values(["ssm:/key"], fresh=True))["ssm:/key"] == "/key 3"
        assert (await secrets.values(["ssm:/key"]))["ssm:/key"] == "/key 3"

    asyncio.run(main())
