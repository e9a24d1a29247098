"""Looks up the secrets that a feed refers to, at each dial: from the environment, SSM and Secrets Manager.

Values are kept for a minute at most, by Powertools Parameters, and go to the socket only. `redact` takes them out of
what others say of it.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol
from urllib.parse import quote, quote_plus

from aws_lambda_powertools.utilities.parameters import SecretsProvider, SSMProvider
from aws_lambda_powertools.utilities.parameters.base import BaseProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError
from botocore.exceptions import ClientError

from streamlease.dynamodb.clients import open_session
from streamlease.feed.secrets import SecretError, missing

CACHE_S = 60
FRESH_S = 5.0
"""What was fetched so lately is fresh: a thousand connections that are refused at once ask once."""
SHORTEST_REDACTED = 4
"""Shorter values are everywhere by chance, and would make any sentence unreadable."""
SHORTEST_CUT_REDACTED = 6
"""Of what a text ends with: the beginning of a secret by chance is likelier than all of it."""
_REDACTED = "***"
_ABSENT = frozenset({"ParameterNotFound", "ParameterVersionNotFound", "ResourceNotFoundException"})
_DENIED = frozenset(
    {"AccessDeniedException", "AccessDenied", "UnrecognizedClientException", "KMSAccessDeniedException"}
)


class Lookup(Protocol):
    """Looks the secrets of one feed up. Raises SecretError."""

    async def __call__(self, *, fresh: bool) -> Mapping[str, str]:
        """`fresh`: past any cache, for the upstream has just refused what was there."""


type Providers = Mapping[str, Callable[[], BaseProvider]]


PROVIDERS: Providers = {
    "ssm": lambda: SSMProvider(boto3_session=open_session()),
    "secretsmanager": lambda: SecretsProvider(boto3_session=open_session()),
}


class Secrets:
    """For one event loop. `providers` makes each store's client at its first use; where that fails, at the next."""

    def __init__(
        self,
        environment: Mapping[str, str],
        providers: Providers | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now_s = now_s
        self._fetched_s: dict[str, float] = {}
        self._environment = environment
        self._makers = PROVIDERS if providers is None else providers
        self._made: dict[str, BaseProvider] = {}
        self._asking: dict[str, asyncio.Task[str]] = {}

    async def values(self, references: Iterable[str], *, fresh: bool = False) -> dict[str, str]:
        """The value of each reference; `fresh`: as the stores have it now. Raises SecretError for the first that cannot
        be had."""
        return {reference: await self._value(reference, fresh=fresh) for reference in sorted(references)}

    async def _value(self, reference: str, *, fresh: bool) -> str:
        store, _, name = reference.partition(":")
        if store == "env":
            if name not in self._environment:
                raise missing(reference)
            return self._environment[name]
        # A thousand connections dial with one token: it is asked for once.
        asking = self._asking.get(reference)
        if asking is None:
            force = fresh and self._now_s() - self._fetched_s.get(reference, float("-inf")) > FRESH_S
            asking = asyncio.create_task(asyncio.to_thread(self._fetch, reference, store, name, force=force))
            self._asking[reference] = asking
            asking.add_done_callback(lambda _: self._asking.pop(reference, None))
        return await asyncio.shield(asking)

    def _fetch(self, reference: str, store: str, name: str, *, force: bool) -> str:
        secret_id, _, key = name.partition("#") if store == "secretsmanager" else (name, "", "")
        try:
            provider = self._made.get(store)
            if provider is None:
                provider = self._made[store] = self._makers[store]()
            if isinstance(provider, SSMProvider):
                found = provider.get(secret_id, max_age=CACHE_S, decrypt=True, force_fetch=force)
            else:
                found = provider.get(secret_id, max_age=CACHE_S, force_fetch=force)
        except GetParameterError as error:
            raise _refused(reference, error.__context__) from None
        except Exception as error:  # noqa: BLE001  # no region, no credentials, no endpoint: all the same to a dial
            raise SecretError(reference, f"could not be asked for ({type(error).__name__})") from None
        if force:
            self._fetched_s[reference] = self._now_s()
        value = found.decode(errors="replace") if isinstance(found, bytes) else str(found)
        return _field(reference, key, value) if key else value


def made_of_secrets(headers: Mapping[str, str], filled: Mapping[str, str]) -> tuple[str, ...]:
    """What headers hold once they are filled in and not before: secrets, and what is computed of them, such as the
    base64 of basic authentication or a token, which are as good as the secret."""
    return tuple(
        word for name, text in filled.items() for word in text.split() if word not in headers.get(name, "").split()
    )


def redact(text: str, values: Iterable[str]) -> str:
    """`text` without the values of secrets, as they stand or as they went out and came back: percent-encoded, escaped
    as JSON, made one printable line of, without the blanks around it, or cut off at the end of the text."""
    forms = {form for value in values for form in _forms(value) if len(form) >= SHORTEST_REDACTED}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _REDACTED)
    for form in forms:
        for length in range(min(len(form) - 1, len(text)), SHORTEST_CUT_REDACTED - 1, -1):
            if text.endswith(form[:length]):
                return text[:-length] + _REDACTED
    return text


def _forms(value: str) -> Iterator[str]:
    line = "".join(char if char.isprintable() else " " for char in value)
    for form in (value, line, " ".join(line.split())):
        yield form
        yield form.strip()
        yield quote(form, safe="")
        yield quote(form)
        yield quote_plus(form)
        yield json.dumps(form)[1:-1]
        yield json.dumps(form, ensure_ascii=False)[1:-1]


def _refused(reference: str, cause: BaseException | None) -> SecretError:
    code = str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""
    if code in _ABSENT:
        return missing(reference)
    if code in _DENIED:
        return SecretError(reference, "may not be read: let the worker's role read it, and its key where it has one")
    return SecretError(reference, f"could not be fetched just now ({code or type(cause).__name__})")


def _field(reference: str, key: str, value: str) -> str:
    try:
        fields = json.loads(value)
    except ValueError:
        raise SecretError(reference, "is not JSON, so it has no field to take") from None
    found = fields.get(key) if isinstance(fields, dict) else None
    if not isinstance(found, str | int | float) or isinstance(found, bool):
        raise SecretError(reference, f"has no text or number under {key!r}")
    return str(found)
