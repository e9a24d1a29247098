"""The template as tests see it: plain dictionaries, with short tags such as `!Ref` in their long form."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]

type Document = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags."""


def _long_form(loader: _Loader, tag: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if tag == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {tag if tag in {"Ref", "Condition"} else f"Fn::{tag}": value}


_Loader.add_multi_constructor("!", _long_form)


def load(text: str) -> Document:
    document = yaml.load(text, Loader=_Loader)  # noqa: S506  # a SafeLoader
    assert isinstance(document, dict)
    return document


def template() -> Document:
    return load((ROOT / "template.yaml").read_text())


def resources_of(document: Document, *types: str) -> dict[str, dict[str, Any]]:
    """Resources of any of these types, by logical id; all of them without a type."""
    return {name: each for name, each in document["Resources"].items() if not types or each["Type"] in types}


def properties_of(document: Document, logical_id: str) -> dict[str, Any]:
    found = document["Resources"][logical_id]["Properties"]
    assert isinstance(found, dict)
    return found


def environment_of(document: Document, logical_id: str) -> dict[str, Any]:
    """A function's environment with the globals', as SAM merges them."""
    shared = document["Globals"]["Function"]["Environment"]["Variables"]
    own = properties_of(document, logical_id).get("Environment", {}).get("Variables", {})
    return {**shared, **own}


def nodes(node: object) -> Iterator[object]:
    """The node and everything below it."""
    yield node
    if isinstance(node, Mapping):
        for value in node.values():
            yield from nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from nodes(value)


def references_of(node: object) -> set[str]:
    """Logical ids and parameters that a node refers to, by Ref, GetAtt or Sub."""
    found: set[str] = set()
    for each in nodes(node):
        if not isinstance(each, Mapping) or len(each) != 1:
            continue
        [(function, argument)] = each.items()
        if function == "Ref":
            found.add(argument)
        elif function == "Fn::GetAtt":
            found.add(argument[0])
        elif function == "Fn::Sub":
            text = argument if isinstance(argument, str) else argument[0]
            found |= {part.split("}", 1)[0].split(".", 1)[0] for part in text.split("${")[1:]}
    return found
