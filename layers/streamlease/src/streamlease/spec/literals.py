"""Secrets written out where a reference belongs. Told by the name they stand under; never by showing the value."""

import json
import re
from typing import Final
from urllib.parse import unquote_plus

from streamlease.spec.placeholders import USE_A_REFERENCE, holds_reference
from streamlease.spec.unfit import Unfit

_HEADERS: Final = frozenset({"authorization", "proxyauthorization", "cookie"})
_ENDINGS: Final = (
    "token",
    "secret",
    "password",
    "passphrase",
    "passwd",
    "apikey",
    "accesskey",
    "privatekey",
    "listenkey",
    "jwt",
)
_WHOLE_NAMES: Final = frozenset({"auth", "sig", "signature", "ticket", "credential", "credentials"})
_AMBIGUOUS: Final = "token"
"""In a message it may name a coin as well as a secret."""
_LEAST_SECRET: Final = 16


def header(name: str, value: str) -> None:
    """Raises Unfit."""
    plain = _plain(name)
    if (plain in _HEADERS or _sensitive(plain)) and not holds_reference(value):
        raise Unfit(f"holds a secret in the clear; {USE_A_REFERENCE}")


def parameter(name: str, value: str) -> None:
    """Of a URL's query. Raises Unfit."""
    plain = _plain(name)
    if value and (plain in _WHOLE_NAMES or _sensitive(plain)) and not holds_reference(value):
        raise Unfit(f"holds a secret in the clear; {USE_A_REFERENCE}")


def message(template: object, path: str = "") -> None:
    """Anywhere in an open message. Raises Unfit, naming the place within."""
    if isinstance(template, dict):
        for name, value in template.items():
            if isinstance(value, str) and _is_secret_field(_plain(str(name)), value) and not holds_reference(value):
                raise Unfit(f"holds a secret in the clear at {path}{name}; {USE_A_REFERENCE}")
            message(value, f"{path}{name}.")
    elif isinstance(template, list):
        for index, value in enumerate(template):
            message(value, f"{path.removesuffix('.')}[{index}].")
    elif isinstance(template, str) and not path:
        message(_container(template))


def _container(text: str) -> object:
    """The map or list that a text is in JSON; None for any other."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def url_parameters(url: str) -> list[tuple[str, str]]:
    """The query's names and values, references left as they are."""
    query = url.partition("?")[2]
    pairs = (part.partition("=") for part in query.split("&") if part)
    return [(unquote_plus(name), value) for name, _, value in pairs]


def _is_secret_field(name: str, value: str) -> bool:
    if not value or not _sensitive(name):
        return False
    return name != _AMBIGUOUS or (len(value) >= _LEAST_SECRET and not value.startswith("0x"))


def _sensitive(name: str) -> bool:
    return name.endswith(_ENDINGS)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
