"""Lambda's event filter, as far as the template uses it.

After https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html, and with-ddb-filtering.html by it: a
pattern is nested objects that end in lists of alternatives, each a constant or `{"exists": true|false}`. `exists` looks
at leaves only: an attribute value such as `{"S": "a"}` is no leaf, its `S` is. What is not of these is an error here.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def invokes(filters: Sequence[str], record: Mapping[str, Any]) -> bool:
    """Whether any of the patterns (JSON texts) lets the record through."""
    return any(_matches(json.loads(pattern), record) for pattern in filters)


def _matches(pattern: Mapping[str, Any], record: object) -> bool:
    return all(_matches_key(wanted, record, key) for key, wanted in pattern.items())


def _matches_key(wanted: object, record: object, key: str) -> bool:
    there = isinstance(record, Mapping) and key in record
    value = record[key] if isinstance(record, Mapping) and there else None
    if isinstance(wanted, Mapping):
        return _matches(wanted, value)
    assert isinstance(wanted, list), f"{wanted!r} is neither an object nor a list of alternatives"
    return any(_is_alternative(each, value, there) for each in wanted)


def _is_alternative(alternative: object, value: object, there: bool) -> bool:
    if isinstance(alternative, Mapping):
        assert set(alternative) == {"exists"}, f"{alternative!r} is not evaluated here"
        is_leaf = there and not isinstance(value, Mapping)
        return is_leaf is bool(alternative["exists"])
    return there and value == alternative
