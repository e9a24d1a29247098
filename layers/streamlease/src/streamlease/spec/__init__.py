"""The library's edge to people: connection specs, validated with pydantic.

`load` and `parse` read documents, `compile_spec` and `compile_item` make feeds of them, `explain` says them in words.
"""

from streamlease.spec.compile import Compiled, compile_item, compile_spec
from streamlease.spec.document import load, parse
from streamlease.spec.explain import explain
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.problems import BadSpec, Problem
from streamlease.spec.schema import json_schema

__all__ = [
    "BadSpec",
    "Compiled",
    "ConnectionSpec",
    "Problem",
    "compile_item",
    "compile_spec",
    "explain",
    "json_schema",
    "load",
    "parse",
]
