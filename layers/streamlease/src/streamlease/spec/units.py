"""Durations and sizes as people write them: `60s`, `500ms`, `5m`; `1MiB`, `64KiB`."""

import re
from typing import Final

from streamlease.spec.unfit import Unfit

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SIZE: Final = re.compile(r"([0-9]+)(B|KiB|MiB|KB|MB)?")
_BYTES: Final = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "KB": 1_000, "MB": 1_000_000}
LONGEST_S: Final = 7 * 86_400.0
LARGEST_BYTES: Final = 64 << 20


def seconds(text: str) -> float:
    """Raises Unfit."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Unfit(f"is {text!r}; it must be a duration such as 60s, 500ms or 5m")
    value = float(match[1]) * _SECONDS[match[2]]
    if not 0 < value <= LONGEST_S:
        raise Unfit(f"is {text!r}; it must be more than nothing and at most 7d")
    return value


def size(text: str) -> int:
    """In bytes. Raises Unfit."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise Unfit(f"is {text!r}; it must be a size such as 1MiB, 64KiB or a number of bytes")
    value = int(match[1]) * _BYTES[match[2]]
    if not 0 < value <= LARGEST_BYTES:
        raise Unfit(f"is {text!r}; it must be more than nothing and at most 64MiB")
    return value
