"""What stands in braces in a spec's texts: the cursor, the connection's id, and references to secrets.

A reference may also be a text's whole value, without braces. `{{name}}` means `{name}` itself.
"""

import re
from typing import Final

from streamlease.feed.secrets import REFERENCE
from streamlease.spec.unfit import Unfit

SEQUENCE: Final = "sequence"
CONNECTION_ID: Final = "connection_id"
RESERVED: Final = frozenset({SEQUENCE, CONNECTION_ID})
USE_A_REFERENCE: Final = "use a reference such as secretsmanager:NAME, ssm:/path or env:NAME"

_WHOLE: Final = re.compile(REFERENCE)
_IN_BRACES: Final = re.compile(r"\{(?:" + REFERENCE + r")\}")
_NEARLY: Final = re.compile(r"(env|ssm|secretsmanager):(\S*)")
_NEARLY_IN_BRACES: Final = re.compile(r"\{((?:env|ssm|secretsmanager):[^{}]*)\}")
NAME: Final = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")
_DOUBLED: Final = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}")
_FORM: Final = {
    "env": "env: is followed by the name of an environment variable, such as env:FEED_TOKEN",
    "ssm": "ssm: is followed by the name of a parameter, such as ssm:/feeds/token",
    "secretsmanager": "secretsmanager: is followed by the name of a secret and, for one field of it, #field",
}


def is_reference(text: str) -> bool:
    """Whether the text is one reference and nothing else."""
    return _WHOLE.fullmatch(text) is not None or _IN_BRACES.fullmatch(text) is not None


def holds_reference(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None or _IN_BRACES.search(text) is not None


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
    doubled = next((name for name in _DOUBLED.findall(text) if name in RESERVED), None)
    if doubled is not None:
        raise Unfit(f"has {{{{{doubled}}}}}, and {{{doubled}}} cannot be sent as a text of its own")
    for name in NAME.findall(text):
        if name == SEQUENCE and not cursor:
            raise Unfit(
                "has {sequence}, which only resume.query, headers and open can carry" + (f": {text!r}" if show else "")
            )
        if name not in RESERVED:
            raise Unfit(
                f"has {{{name}}}, which nothing fills in: {{sequence}}, {{connection_id}}, secrets such as {{env:NAME}}"
                f" and the names of for_each are known; {{{{{name}}}}} means the text itself"
            )
    return text


def normal(text: str, connection_id: str) -> str:
    """The text as a `Feed` holds it: references in braces, the id filled in."""
    if _WHOLE.fullmatch(text) is not None:
        return f"{{{text}}}"
    filled = NAME.sub(lambda match: connection_id if match[1] == CONNECTION_ID else match[0], text)
    return _DOUBLED.sub(r"{\1}", filled)
