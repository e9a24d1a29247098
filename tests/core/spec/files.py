"""Documents as tests write them."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from streamlease.spec import BadSpec, ConnectionSpec, load


def load_yaml(
    text: str, files: Mapping[str, str] | None = None, where: str = "feeds.yaml"
) -> tuple[ConnectionSpec, ...]:
    def read_file(document: str, path: str) -> str:
        assert document == where
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory", path)
        return (files or {})[path]

    return load([(where, yaml.safe_load(text))], read_file)


def one(**fields: Any) -> ConnectionSpec:
    (spec,) = load([("feeds.yaml", [{"id": "x", "url": "wss://feed.test/ws", **fields}])], lambda _, path: path)
    return spec


def problems(**fields: Any) -> list[str]:
    """What is said of a connection with these fields, without where."""
    with pytest.raises(BadSpec) as caught:
        one(**fields)
    return [problem.sentence for problem in caught.value.problems]


def problems_of(text: str, files: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(BadSpec) as caught:
        load_yaml(text, files)
    return [str(problem) for problem in caught.value.problems]
