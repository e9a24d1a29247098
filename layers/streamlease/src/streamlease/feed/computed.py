"""Values made at the moment of use: times, random texts, signatures, tokens. Made anew for every dial and message.

In a template a computed value stands as `{=name}`. What the moment is, and how a token is signed, is given: nothing
here reads a clock, draws a number or holds a key.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from streamlease.write import Value

type Encoding = Literal["hex", "base64", "base64url"]
type Hash = Literal["sha256", "sha384", "sha512"]
type Fill = Callable[[str], str]
"""Puts secrets and other computed values into a template."""


@dataclass(frozen=True, slots=True)
class Now:
    """The time of use."""

    unit: Literal["s", "ms", "us", "ns", "iso"] = "ms"
    plus_s: float = 0.0
    as_text: bool = False
    """A text of digits, where a message wants one. `iso` always is a text."""


@dataclass(frozen=True, slots=True)
class Random:
    """So many hexadecimal digits, at most 64."""

    digits: int = 32


@dataclass(frozen=True, slots=True)
class Hmac:
    key: str
    text: str
    algorithm: Hash = "sha256"
    encoding: Encoding = "hex"
    key_encoding: Literal["text", "hex", "base64"] = "text"
    digested: str | None = None
    """A text whose SHA-256 digest is signed too, after `text`."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A text in another writing: basic authentication, say."""

    text: str
    encoding: Encoding = "base64"


@dataclass(frozen=True, slots=True)
class Jwt:
    """A signed JSON Web Token. The key is PEM for ES and RS algorithms, any text for HS."""

    key: str
    algorithm: Literal["ES256", "EdDSA", "HS256", "HS512", "RS256"] = "ES256"
    headers: Mapping[str, Value] = field(default_factory=dict)
    claims: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Made:
    """What an adapter writes of secrets, by names of its own. Raises ValueError, with no secret in its text."""

    write: Callable[[Mapping[str, str], "Moment"], str]
    secrets: Mapping[str, str] = field(default_factory=dict)
    """References in braces."""


type Computed = Now | Random | Hmac | Encoded | Jwt | Made


class SignToken(Protocol):
    def __call__(self, algorithm: str, key: str, headers: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
        """The token. Raises ValueError, with the key nowhere in its text, for a key of the wrong kind."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is sent, and by whom it is signed."""

    wall_ns: int
    random_hex: str
    """64 digits that were never used before."""
    sign_token: SignToken


def evaluate(computed: Computed, moment: Moment, fill: Fill, fill_all: Callable[[Value], Value]) -> str | int:
    """Raises ValueError, without the key, where a key or a text is not what the function takes."""
    match computed:
        case Now():
            return _now(computed, moment.wall_ns)
        case Random(digits):
            return moment.random_hex[:digits]
        case Encoded(text, encoding):
            return _encode(fill(text).encode(), encoding)
        case Hmac():
            key = _key(fill(computed.key), computed.key_encoding)
            signed = fill(computed.text).encode()
            if computed.digested is not None:
                signed += hashlib.sha256(fill(computed.digested).encode()).digest()
            return _encode(hmac.new(key, signed, computed.algorithm).digest(), computed.encoding)
        case Made(write, secrets):
            return write({name: fill(reference) for name, reference in secrets.items()}, moment)
        case Jwt():
            headers, claims = fill_all(computed.headers), fill_all(computed.claims)
            if not isinstance(headers, Mapping) or not isinstance(claims, Mapping):
                raise TypeError("a token's headers and claims are maps")
            return moment.sign_token(computed.algorithm, fill(computed.key), headers, claims)


def templates_of(computed: Computed) -> tuple[Value, ...]:
    """All that may hold references or other computed values."""
    match computed:
        case Hmac(key=key, text=text, digested=digested):
            return (key, text) if digested is None else (key, text, digested)
        case Encoded(text=text):
            return (text,)
        case Jwt(key=key, headers=headers, claims=claims):
            return (key, headers, claims)
        case _:
            return ()


_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def _now(now: Now, wall_ns: int) -> str | int:
    at_ns = wall_ns + int(now.plus_s * 1_000_000_000)
    if now.unit == "iso":
        return _iso(at_ns // 1_000_000)
    count = at_ns // _NS[now.unit]
    return str(count) if now.as_text else count


def _iso(at_ms: int) -> str:
    """By the calendar's own arithmetic (days from 0000-03-01), since a pure module imports nothing that has a clock."""
    seconds, ms = divmod(at_ms, 1_000)
    days, second = divmod(seconds, 86_400)
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"


def _encode(data: bytes, encoding: Encoding) -> str:
    match encoding:
        case "hex":
            return data.hex()
        case "base64":
            return base64.b64encode(data).decode()
        case "base64url":
            return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _key(key: str, encoding: Literal["text", "hex", "base64"]) -> bytes:
    try:
        match encoding:
            case "text":
                return key.encode()
            case "hex":
                return bytes.fromhex(key)
            case "base64":
                return base64.b64decode(key, validate=True)
    except ValueError:
        raise ValueError(f"its key is not {encoding}") from None
