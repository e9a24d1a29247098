"""What is never printed. Specs hold references to secrets, not secrets; somebody may have written one all the same."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from streamlease.write import Value

HIDDEN = "(not shown)"
_SECRET_NAME = re.compile(
    r"auth(?!ors?\b)|cookie|token|secret|passw|credential|signature|api[-_]?key|access[-_]?key|private[-_]?key|session[-_]?id",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\{?\b(secretsmanager|ssm|env):")
"""Where a value names where its secret is, it may be shown."""


def without_secrets(value: Value, name: str = "") -> Value:
    """`value` with every string hidden that stands under a name secrets have and is no reference."""
    match value:
        case str():
            if _SECRET_NAME.search(name) and value and not _REFERENCE.search(value):
                return HIDDEN
            return without_credentials(value) if "://" in value else value
        case Mapping():
            return {key: without_secrets(part, key) for key, part in value.items()}
        case Sequence():
            return [without_secrets(part, name) for part in value]
        case _:
            return value


def without_credentials(url: str) -> str:
    """A URL without its user and password, and without query values under names that secrets have."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return url
    query = parts.query
    if any(_hides(name, value) for name, value in parse_qsl(query, keep_blank_values=True)):
        query = "&".join(_query_part(part) for part in query.split("&"))
    if host == parts.netloc and query == parts.query:
        return url
    return urlunsplit((parts.scheme, host, parts.path, query, parts.fragment))


def _hides(name: str, value: str) -> bool:
    return bool(value and _SECRET_NAME.search(name) and not _REFERENCE.search(value))


def _query_part(part: str) -> str:
    name, equals, _ = part.partition("=")
    pairs = parse_qsl(part, keep_blank_values=True)
    hides = bool(pairs) and _hides(*pairs[0])
    return f"{name}{equals}{quote(HIDDEN, safe='() ')}" if hides else part
