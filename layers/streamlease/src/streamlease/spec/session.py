"""What a person may write of a socket's life: the call before it, its open script, keepalive, rules, rotation."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from streamlease.spec.fields import (
    AnswerStatus,
    Captures,
    CloseCode,
    Condition,
    Count,
    Digits,
    Duration,
    Flag,
    Headers,
    HttpUrl,
    NameOrDuration,
    Path,
    Reference,
    Template,
    Text,
    VariableName,
)
from streamlease.spec.part import Part

type Then = Literal["go_on", "gap", "retry", "rotate", "new_session", "live", "refresh_secrets", "quarantine", "fatal"]

STEP = "(step)"
MESSAGE = "(message)"
TAGS = frozenset({STEP, MESSAGE})
"""What pydantic puts into the path of an error; people do not see them."""


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


class Fetch(Part):
    url: HttpUrl = Field(description="Called before each dial")
    method: Literal["GET", "POST", "PUT"] = "GET"
    headers: Headers = Field(default_factory=dict)
    body: Template | None = Field(None, description="JSON, or a text that is sent as it is")
    ok: Condition | None = Field(None, description="True of an answer that is a good one")
    next_url: Path | None = Field(None, description="Where the answer says the URL to dial")
    capture: Captures = Field(default_factory=dict, description="Names, and what each is in the answer")
    within: Duration = "10s"


class Step(Part):
    send: Template | None = Field(None, description="A message to send")
    expect: Condition | None = Field(None, description="True of the message to wait for")
    answers: dict[str, Template] = Field(
        default_factory=dict, description="Paths, and what the expected message has there: its correlation"
    )
    within: Duration = "30s"
    capture: Captures = Field(default_factory=dict, description="Names, and what each is in the expected message")
    present: VariableName | None = Field(None, description="Only while this name has a value")
    absent: VariableName | None = Field(None, description="Only while this name has no value")


def _kind_of_entry(entry: object) -> str:
    if isinstance(entry, Step):
        return STEP
    """A map with `expect` or `answers` is a step; one with `send` if it has nothing but a step's fields. A message that
    looks so is written as a step that sends it."""
    keys = set(entry) if isinstance(entry, dict) else set()
    is_step = bool(keys & {"expect", "answers"}) or ("send" in keys and keys <= set(Step.model_fields))
    return STEP if is_step else MESSAGE


type Entry = Annotated[
    Annotated[Step, Tag(STEP)] | Annotated[Template, Tag(MESSAGE)],
    Discriminator(_kind_of_entry),
]


class Rule(Part):
    message: Condition | None = Field(None, description="True of a message that it is about")
    close: Annotated[list[CloseCode], BeforeValidator(_listed)] = Field(
        default_factory=list, description="A close code, or several; 1006 is a socket lost without a word"
    )
    reason: Text | None = Field(None, description="A part of the close frame's reason")
    http: Annotated[list[AnswerStatus], BeforeValidator(_listed)] = Field(
        default_factory=list, description="A status of a refused handshake or fetch, or several"
    )
    body: Condition | None = Field(None, description="True of the JSON that came with that status")
    then: Then = "go_on"
    after: NameOrDuration | None = Field(
        None, description="How long to wait at least: a duration, or where the message says so many seconds"
    )
    url: Path | None = Field(None, description="Where the message says what to dial next")
    capture: Captures = Field(default_factory=dict, description="Names, and what each is in the message")
    send: Template | None = Field(None, description="What to answer")
    times: Count | None = Field(None, description="At most so often in a row; then otherwise")
    otherwise: Then = "fatal"


class Beat(Part):
    send: Template = Field(description="The keepalive message")
    every: NameOrDuration = Field(
        "20s", description="A duration, or the name of a captured value: what the upstream names"
    )
    unit: Literal["ms", "s"] = Field("ms", description="Of an interval that the upstream names")
    if_silent: Flag = Field(default=False, description="Only when nothing was read for so long")
    first: Literal["full", "random"] = Field("full", description="The wait before the first")
    answer: Condition | None = Field(None, description="True of a message that answers")
    answer_within: Duration | None = Field(None, description="Without it, before the next is due")
    close_code: CloseCode = Field(4000, description="Without an answer, the socket is closed with this")


class Rotate(Part):
    after: Duration | None = Field(None, description="A socket's lifetime")
    jitter: Duration | None = Field(None, description="Up to so much earlier")
    order: Literal["break_before_make", "make_before_break"] = "break_before_make"
    overlap: Duration = Field("1s", description="How long both are open once the new one is ready")


class Pace(Part):
    messages: Count
    per: Duration = "1s"
    count_pings: Flag = Field(default=False, description="Pings and pongs count too")


class Tls(Part):
    ca: Reference | None = Field(None, description="PEM certificates to trust instead of the usual ones")
    certificate: Reference | None = Field(None, description="PEM of the client certificate")
    key: Reference | None = Field(None, description="PEM of its private key")
    server_name: Text | None = Field(None, description="Asked for and verified instead of the URL's host")


class Computed(Part):
    now: Literal["s", "ms", "us", "ns", "iso"] | None = Field(None, description="The time, in this unit")
    plus: Duration | None = Field(None, description="Later by so much")
    text: Flag = Field(default=False, description="A time as a text of digits")
    random: Digits | None = Field(None, description="So many hexadecimal digits")
    hmac_sha256: Text | None = Field(None, description="The text to sign")
    hmac_sha384: Text | None = None
    hmac_sha512: Text | None = None
    and_sha256: Text | None = Field(None, description="A text whose SHA-256 digest is signed too, after the other")
    base64: Text | None = Field(None, description="A text to be written as base64")
    jwt: Literal["ES256", "EdDSA", "RS256", "HS256", "HS512"] | None = Field(None, description="A signed token")
    key: Reference | None = None
    key_encoding: Literal["text", "hex", "base64"] = "text"
    encoding: Literal["hex", "base64", "base64url"] = "hex"
    headers: dict[str, Template] = Field(default_factory=dict, description="Of a token, besides alg and typ")
    claims: dict[str, Template] = Field(default_factory=dict, description="Of a token")

    @property
    def kinds(self) -> list[str]:
        return [name for name in _KINDS if getattr(self, name) is not None]


_KINDS = ("now", "random", "hmac_sha256", "hmac_sha384", "hmac_sha512", "base64", "jwt")
_GOES_WITH = {
    "plus": ("now",),
    "text": ("now",),
    "key": ("hmac_sha256", "hmac_sha384", "hmac_sha512", "jwt"),
    "key_encoding": ("hmac_sha256", "hmac_sha384", "hmac_sha512"),
    "encoding": ("hmac_sha256", "hmac_sha384", "hmac_sha512"),
    "and_sha256": ("hmac_sha256", "hmac_sha384", "hmac_sha512"),
    "headers": ("jwt",),
    "claims": ("jwt",),
}


def declared(data: object) -> frozenset[str]:
    """The names that a spec's own parts give values to, read before anything of it is validated."""
    if not isinstance(data, dict):
        return frozenset()
    parts = [data.get("fetch")]
    for name in ("open", "rules"):
        entries = data.get(name)
        parts += entries if isinstance(entries, list) else []
    values = data.get("values")
    names = {name for name in values if isinstance(name, str)} if isinstance(values, dict) else set()
    for part in parts:
        capture = part.get("capture") if isinstance(part, dict) else None
        names |= {name for name in capture if isinstance(name, str)} if isinstance(capture, dict) else set()
    adapter = data.get("adapter")
    keeps = adapter.get("keeps") if isinstance(adapter, dict) else None
    names |= {name for name in keeps if isinstance(name, str)} if isinstance(keeps, list) else set()
    return frozenset(names)


def problems(name: str, value: Computed) -> Iterator[str]:
    """Of one computed value."""
    kinds = value.kinds
    if len(kinds) != 1:
        said = " and ".join(kinds) if kinds else "nothing"
        yield f"values.{name} is {said}; it must be one of {', '.join(_KINDS)}"
        return
    for setting, fits in _GOES_WITH.items():
        if setting in value.model_fields_set and kinds[0] not in fits:
            yield f"values.{name}.{setting} goes with {' or '.join(fits)}, not with {kinds[0]}"
    if (kinds[0].startswith("hmac") or kinds[0] == "jwt") and value.key is None:
        yield f"values.{name}.key is missing: a reference to what it is signed with"


def is_duration(text: str) -> bool:
    return text[:1].isdigit()
