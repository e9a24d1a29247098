"""What stands in braces in a spec's texts: the cursor, the connection's id, references to secrets, and the names that
the spec itself gives values to: what is captured from the upstream's words, and what is computed.

A reference may also be a text's whole value, without braces. `{{name}}` means `{name}` itself.
"""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from streamlease.feed.secrets import REFERENCE
from streamlease.spec.unfit import Unfit

SEQUENCE: Final = "sequence"
CONNECTION_ID: Final = "connection_id"
RECEIVED: Final = "received"
SOCKET_ID: Final = "socket_id"
RESERVED: Final = frozenset({SEQUENCE, CONNECTION_ID, RECEIVED, SOCKET_ID})
USE_A_REFERENCE: Final = "use a reference such as secretsmanager:NAME, ssm:/path or env:NAME"

_WHOLE: Final = re.compile(REFERENCE)
_IN_BRACES: Final = re.compile(r"\{(?:" + REFERENCE + r")\}")
_NEARLY: Final = re.compile(r"(env|ssm|secretsmanager):(\S*)")
_NEARLY_IN_BRACES: Final = re.compile(r"\{((?:env|ssm|secretsmanager):[^{}]*)\}")
NAME: Final = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")
_DOUBLED: Final = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")
_DECLARED: Final[ContextVar[frozenset[str]]] = ContextVar("declared", default=frozenset())
_FORM: Final = {
    "env": "env: is followed by the name of an environment variable, such as env:FEED_TOKEN",
    "ssm": "ssm: is followed by the name of a parameter, such as ssm:/feeds/token",
    "secretsmanager": "secretsmanager: is followed by the name of a secret and, for one field of it, #field",
}


@contextmanager
def declaring(names: frozenset[str]) -> Iterator[None]:
    """While a spec is validated: the names that it gives values to."""
    token = _DECLARED.set(names)
    try:
        yield
    finally:
        _DECLARED.reset(token)


def is_reference(text: str) -> bool:
    """Whether the text is one reference and nothing else."""
    return _WHOLE.fullmatch(text) is not None or _IN_BRACES.fullmatch(text) is not None


def holds_reference(text: str) -> bool:
    """Whether anything in it stands for a value that is not written there."""
    if _WHOLE.fullmatch(text) is not None or _IN_BRACES.search(text) is not None:
        return True
    return not _DECLARED.get().isdisjoint(NAME.findall(text))


def without_references(text: str) -> str:
    """`text` with every reference in braces replaced by a plain word, so that its own characters do not count."""
    return _IN_BRACES.sub("x", text)


def check(text: str, *, cursor: bool, show: bool = True) -> str:
    """The text itself. Raises Unfit for braces that nothing will fill in.

    `cursor`: whether `{sequence}` may stand here. `show`: whether the text may be shown.
    """
    nearly = _NEARLY.fullmatch(text)
    if nearly is not None and _WHOLE.fullmatch(text) is None:
        raise Unfit(f"is no reference to a secret: {_FORM[nearly[1]]}")
    for inner in _NEARLY_IN_BRACES.findall(text):
        if _WHOLE.fullmatch(inner) is None:
            raise Unfit(f"holds a reference that is none: {_FORM[inner.partition(':')[0]]}")
    known = RESERVED | _DECLARED.get()
    doubled = next((name for name in _DOUBLED.findall(text) if name in known), None)
    if doubled is not None:
        raise Unfit(f"has {{{{{doubled}}}}}, and {{{doubled}}} cannot be sent as a text of its own")
    for name in NAME.findall(text):
        if name == SEQUENCE and not cursor:
            raise Unfit(
                "has {sequence}, which only resume.query, headers and open can carry" + (f": {text!r}" if show else "")
            )
        if name not in known:
            raise Unfit(
                f"has {{{name}}}, which nothing fills in: {{sequence}}, {{connection_id}}, secrets such as {{env:NAME}}"
                f" and the names of for_each are known; {{{{{name}}}}} means the text itself"
            )
    return text


def normal(text: str, connection_id: str, computed: AbstractSet[str] = frozenset()) -> str:
    """The text as a `Feed` holds it: references in braces, the id filled in, the names of computed values marked."""
    if _WHOLE.fullmatch(text) is not None:
        return f"{{{text}}}"

    def filled_in(match: re.Match[str]) -> str:
        if match[1] == CONNECTION_ID:
            return connection_id
        return f"{{={match[1]}}}" if match[1] in computed else match[0]

    filled = NAME.sub(filled_in, text)
    return _DOUBLED.sub(r"{\1}", filled)
