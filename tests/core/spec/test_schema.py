"""The published JSON Schema is what the code says, and fits the examples."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from streamlease.spec import json_schema

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = Draft202012Validator(json_schema())


def test_the_published_schema_is_the_codes() -> None:
    assert json.loads((DOCS / "spec.schema.json").read_text("utf-8")) == json_schema()


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", sorted((DOCS / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_fit_the_schema(path: Path) -> None:
    SCHEMA.validate(yaml.safe_load(path.read_text("utf-8")))


@pytest.mark.parametrize(
    "document",
    [
        {"connections": [{"id": "x", "url": "http://a"}]},
        {"connections": [{"id": "x", "url": "ws://a", "flavour": 1}]},
        {"connections": [{"id": "x", "record": {"sequense": "a"}}]},
        {"connections": [{"id": "x", "keepalive": {"stale_after": 60}}]},
        {"connections": [{"url": "ws://a"}]},
        {"conections": []},
    ],
)
def test_what_an_editor_can_see_is_refused_by_the_schema(document: object) -> None:
    assert not SCHEMA.is_valid(document)


@pytest.mark.parametrize(
    "fields",
    [
        {"open": ["text", {"op": "sub"}, {"expect": "a", "within": "5s"}, {"send": {"op": "x"}, "expect": "b"}]},
        {"rules": [{"close": 1006, "then": "retry"}, {"http": [400, 401], "then": "fatal"}]},
        {"dial": {"limit": 8, "per": "1s"}},
        {"dial": [{"limit": 8, "per": "1s"}, {"limit": 100, "per": "1h"}]},
    ],
)
def test_what_may_be_one_or_a_list_or_one_of_two_kinds_fits_the_schema_either_way(fields: dict[str, object]) -> None:
    SCHEMA.validate({"connections": [{"id": "x", "url": "ws://a", **fields}]})
