"""What is wrong with a spec, one sentence each: where, what, and what would be right."""

import difflib
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAliasType, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from streamlease.errors import StreamleaseError
from streamlease.spec import session
from streamlease.spec.fields import shown
from streamlease.spec.model import ConnectionSpec


@dataclass(frozen=True, slots=True)
class Problem:
    where: str
    """The file, or whatever the document was called."""
    what: str
    """`connection "x"`, `connections[3]` or the like; empty for the document itself."""
    sentence: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.what, self.sentence) if part)


class BadSpec(StreamleaseError):
    """Specs that cannot be used. `problems` holds one sentence for each thing that is wrong; none shows a secret."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def sentences(error: ValidationError) -> list[str]:
    """What pydantic found, in the words of this project."""
    found: list[str] = []
    for detail in error.errors(include_url=False):
        found.extend(_sentence(detail).split("\n"))
    return found


def unknown_fields(error: ValidationError) -> list[tuple[tuple[str | int, ...], str | int, str]]:
    """Of each field that is not known: where it lies, its name, and a sentence."""
    return [
        (tuple(step for step in detail["loc"][:-1] if step not in session.TAGS), detail["loc"][-1], _sentence(detail))
        for detail in error.errors(include_url=False)
        if detail["type"] == "extra_forbidden"
    ]


def unknown(name: object, siblings: Sequence[str], inside: str = "") -> str:
    """Says that a field is not known, and which may have been meant."""
    dotted = f"{inside}{name}"
    meant = difflib.get_close_matches(str(name), siblings, 1, 0.6)
    if meant:
        return f"field {dotted} is not known; did you mean {inside}{meant[0]}?"
    elsewhere = [path for path in PATHS if path.rpartition(".")[2] == name]
    if elsewhere:
        return f"field {dotted} is not known; did you mean {' or '.join(elsewhere)}?"
    return f"field {dotted} is not known; known are {', '.join(sorted(siblings))}"


def _sentence(detail: ErrorDetails) -> str:
    path = _path(detail["loc"])
    match detail["type"]:
        case "rule":
            return detail["msg"]
        case "value_error":
            return f"{path} {detail['ctx']['error']}"
        case "missing":
            return f"{path} is missing"
        case "extra_forbidden":
            *inside, name = detail["loc"]
            return unknown(name, list(_model_at(inside).model_fields), _path((*inside, "")) if inside else "")
        case "invalid_key":
            name = detail["input"]
            reads = "YAML reads on, off, yes and no as true and false" if isinstance(name, bool) else "names are texts"
            place = f" of {_path(detail['loc'][:-1])}" if detail["loc"][1:] else ""
            return f"a field{place} is named {shown(name)}; {reads}: put quotes around it"
        case "literal_error":
            return f"{path} is {shown(detail['input'])}; it must be {_choices(detail)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{path} is {shown(detail['input'])}; it must be a map of fields"
        case "list_type":
            return f"{path} is {shown(detail['input'])}; it must be a list"
        case _:  # not met with these models; better pydantic's words than none
            return f"{path}: {detail['msg']}"


def _choices(detail: ErrorDetails) -> str:
    return str(detail["ctx"]["expected"]).replace("'", "")


def _path(loc: Sequence[str | int]) -> str:
    path = ""
    for step in loc:
        if step in session.TAGS:
            continue
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path or "it"


def _parts(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel] | None]]:
    for name, field in model.model_fields.items():
        yield name, _model_in(field.annotation)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that a field's type holds, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if isinstance(annotation, TypeAliasType):
        return _model_in(annotation.__value__)
    if get_origin(annotation) in (Annotated, Union, types.UnionType, list, dict):
        return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)
    return None


def _model_at(loc: Sequence[str | int]) -> type[BaseModel]:
    model: type[BaseModel] = ConnectionSpec
    for step in loc:
        model = dict(_parts(model)).get(str(step)) or model
    return model


def _paths(model: type[BaseModel], inside: str = "") -> Iterator[str]:
    for name, part in _parts(model):
        yield f"{inside}{name}"
        if part is not None:
            yield from _paths(part, f"{inside}{name}.")


PATHS = tuple(_paths(ConnectionSpec))
"""Every field there is, dotted."""
