"""From parsed files to validated specs: defaults merged, `for_each` spread, all that is wrong said at once.

A document is what a YAML or JSON file holds: a map with `connections` (and `defaults`), a list of connections, or one
connection. Reading and parsing files is the caller's; line numbers are lost there: problems name file and connection.
"""

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from streamlease.spec.fields import shown
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.problems import BadSpec, Problem, sentences, unknown, unknown_fields
from streamlease.spec.rows import filled, rows
from streamlease.spec.unfit import Unfit

LARGEST_STORED = 256 * 1024
"""Bytes of JSON. An item holds 400 KB, and more than the spec stands in it."""
_WRITE = "write connections: and under it at least - id: NAME and url: wss://…"
_VERBATIM = ("open",)
"""Fields in which an empty value is a value."""


def load(documents: Iterable[tuple[str, object]], read_file: Callable[[str, str], str]) -> tuple[ConnectionSpec, ...]:
    """The specs of all documents, each given with what to call it, in order. Raises BadSpec with every problem found.

    `read_file(where, path)` gives the text of a CSV file that the document called `where` names.
    """
    loader = _Loader(read_file)
    for where, document in documents:
        loader.document(where, document)
    if loader.problems:
        raise BadSpec(loader.problems)
    return tuple(loader.specs)


def parse(fields: object, where: str = "") -> ConnectionSpec:
    """One connection, without defaults or `for_each`. Raises BadSpec."""

    def no_files(_: str, path: str) -> str:
        raise FileNotFoundError(path)

    (spec,) = load([(where, [fields])], no_files)
    return spec


class _Loader:
    def __init__(self, read_file: Callable[[str, str], str]) -> None:
        self.specs: list[ConnectionSpec] = []
        self.problems: list[Problem] = []
        self._read_file = read_file
        self._seen: dict[str, str] = {}

    def document(self, where: str, document: object) -> None:
        entries, defaults = self._split(where, document)
        for index, entry in enumerate(entries):
            name = f"connections[{index}]"
            if not isinstance(entry, dict):
                self._say(where, name, f"is {shown(entry)}; it must be a map with id and url")
                continue
            if isinstance(entry.get("id"), str):
                name = f'connection "{entry["id"][:128]}"'
            self._entry(where, name, merged(defaults, entry))

    def _split(self, where: str, document: object) -> tuple[Sequence[object], Mapping[str, Any]]:
        if document is None or document in ({}, []):
            self._say(where, "", f"is empty; {_WRITE}")
            return (), {}
        if isinstance(document, list):
            return document, {}
        if not isinstance(document, dict):
            self._say(where, "", f"is {shown(document)}; it must be a map with connections")
            return (), {}
        if "connections" not in document and ("id" in document or "url" in document):
            return [document], {}
        for name in document:
            if name not in ("connections", "defaults"):
                self._say(where, "", unknown(name, ["connections", "defaults"]))
        if "connections" not in document:
            self._say(where, "", f"has no connections; {_WRITE}")
            return (), {}
        entries, defaults = document["connections"], document.get("defaults")
        if not isinstance(entries, list):
            self._say(where, "connections", f"is {shown(entries)}; it must be a list")
            entries = []
        return entries, self._defaults(where, defaults)

    def _defaults(self, where: str, defaults: object) -> Mapping[str, Any]:
        """Checked for unknown fields here, once; all else shows in the connections that they make."""
        if defaults is None:
            return {}
        if not isinstance(defaults, dict):
            self._say(where, "defaults", f"is {shown(defaults)}; it must be a map of fields")
            return {}
        for name in ("id", "for_each"):
            if name in defaults:
                self._say(where, "defaults", f"{name} belongs to a connection, not to all of them")
        known, problems = without_unknown({k: v for k, v in defaults.items() if k not in ("id", "for_each")})
        for problem in problems:
            self._say(where, "defaults", problem)
        return known

    def _entry(self, where: str, name: str, entry: dict[str, Any]) -> None:
        if "for_each" not in entry:
            for problem in self._connection(where, entry):
                self._say(where, name, problem)
            return
        template = {field: value for field, value in entry.items() if field != "for_each"}
        try:
            found = rows(entry["for_each"], lambda path: self._read_file(where, path))
        except Unfit as error:
            self._say(where, name, f"for_each {error}")
            return
        counted: dict[str, int] = {}
        for row in found:
            for problem in self._connection(where, filled(template, row)):
                if problem.endswith("is there twice"):
                    problem += "; put a name that differs from row to row into id, in braces"
                counted[problem] = counted.get(problem, 0) + 1
        for problem, count in counted.items():
            self._say(where, name, problem + (f" (in {count} of the {len(found)} rows)" if count > 1 else ""))

    def _connection(self, where: str, fields: dict[str, Any]) -> list[str]:
        twice, given = [], fields.get("id")
        if isinstance(given, str) and given in self._seen:
            earlier = self._seen[given]
            twice = [f"id {given[:128]} is there twice" + (f"; {earlier} has it too" if earlier != where else "")]
        elif isinstance(given, str):
            self._seen[given] = where
        try:
            spec = ConnectionSpec.model_validate(fields)
        except ValidationError as error:
            return twice + sentences(error)
        if twice:
            return twice
        stored_bytes = len(json.dumps(spec.stored(), ensure_ascii=False).encode())
        if stored_bytes > LARGEST_STORED:
            return [f"is {stored_bytes} bytes; {LARGEST_STORED} are the most that its item can hold"]
        self.specs.append(spec)
        return []

    def _say(self, where: str, what: str, sentence: str) -> None:
        self.problems.append(Problem(where, what, sentence))


def merged(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """`entry` over `defaults`: maps are merged, all else is replaced, and an empty value takes a default away."""
    result = dict(defaults)
    for name, value in entry.items():
        if isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = merged(result[name], value)
        else:
            result[name] = value
    return dict(_without_empty(result))


def _without_empty(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if value is None:
            continue
        yield name, dict(_without_empty(value)) if isinstance(value, dict) and name not in _VERBATIM else value


def without_unknown(fields: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields that this release knows, and a sentence for each of the others."""
    known = copy.deepcopy(dict(fields))
    try:
        ConnectionSpec.model_validate({"id": "x", "url": "ws://x", **known})
    except ValidationError as error:
        strange = unknown_fields(error)
        for inside, name, _ in strange:
            part: Any = known
            for step in inside:
                part = part[step]
            del part[name]
        return known, [sentence for _, _, sentence in strange]
    return known, []
