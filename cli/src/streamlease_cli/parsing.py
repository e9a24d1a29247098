"""YAML and JSON texts as plain documents, strict where YAML is forgiving: no doubled keys, no dates out of nowhere."""

import json
from collections.abc import Hashable, Iterator
from pathlib import PurePath
from typing import Any, override

import yaml

from streamlease_cli.errors import BadInput
from streamlease_cli.sources import Source

MOST_BY_ALIASES = 4_000_000
"""Values that aliases (`*name`) may stand for beyond those that are written: a thousand characters of such a text make
a document that no memory holds, while ten thousand connections that share a hundred values each stay well below."""
_TEXT_PER_VALUE = 16
_CANNOT_BE = "holds something that refers to itself or is nested too deep, or a key that is no text"

# libyaml's, ten times as fast, where PyYAML was built with it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """Dates stay text, as people mean them; a key that is there twice is refused rather than silently replaced."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    @override
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key_node.tag != "tag:yaml.org,2002:merge":
                if key in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key!r} is there twice", key_node.start_mark)
                seen.add(key)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def documents(source: Source) -> Iterator[tuple[str, object]]:
    """Each document of the text, with what to call it. Empty ones among several are left out. Raises BadInput."""
    found = [_json(source)] if PurePath(source.name).suffix.lower() == ".json" else _yaml(source)
    for number, document in enumerate(found, 1):
        if document is None and len(found) > 1:
            continue
        _refuse_bombs(source, document)
        try:
            json.dumps(document, default=str)
        except (ValueError, RecursionError, TypeError):
            raise BadInput(f"{source.name} {_CANNOT_BE}") from None
        yield (source.name if len(found) == 1 else f"{source.name} (document {number})"), document


def _refuse_bombs(source: Source, document: object) -> None:
    """Raises BadInput before anything goes through a document whose aliases stand for more than can be gone through."""
    try:
        whole = _size(document, {})
    except RecursionError:
        raise BadInput(f"{source.name} {_CANNOT_BE}") from None
    # What is written takes a character at least, each.
    if whole - len(source.text) > MOST_BY_ALIASES:
        raise BadInput(
            f"{source.name} has aliases (*name) that stand for more than {MOST_BY_ALIASES:,} values in all:"
            " write defaults or for_each instead"
        )


def _size(value: object, sizes: dict[int, int]) -> int:
    """How many values there are, each alias counted as what it stands for and a long text as several. `sizes` keeps
    what was counted, so that each value is gone into once. Raises RecursionError for what refers to itself."""
    match value:
        case str():
            return 1 + len(value) // _TEXT_PER_VALUE
        case dict():
            parts = (*value.keys(), *value.values())
        case list() | set() | tuple():
            parts = tuple(value)
        case _:
            return 1
    size = sizes.get(id(value))
    if size is None:
        size = 1
        for part in parts:
            size += _size(part, sizes)
        sizes[id(value)] = size
    return size


def _yaml(source: Source) -> list[object]:
    try:
        return list(yaml.load_all(source.text, _Loader)) or [None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{source.name} line {mark.line + 1}, column {mark.column + 1}" if mark else source.name
        raise BadInput(f"{place} is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"{source.name} is not YAML: {' '.join(str(error).split())}") from None


def _json(source: Source) -> object:
    try:
        return json.loads(source.text, object_pairs_hook=_no_doubles, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise BadInput(f"{source.name} line {error.lineno}, column {error.colno} is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{source.name} is not JSON as it should be: {error}") from None


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number that JSON knows")
