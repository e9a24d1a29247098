"""What is different between a stored connection and a wanted one, field by field."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from streamlease.model import Connection
from streamlease.write import Value
from streamlease_cli.redaction import HIDDEN, without_credentials, without_secrets
from streamlease_cli.wanted import Wanted


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field, by its path, such as `spec.resume.rewind`. None stands for a field that is not there."""

    field: str
    before: Value
    after: Value

    def as_json(self) -> Mapping[str, Value]:
        return {"field": self.field, "from": self.before, "to": self.after}


def differences(seen: Connection | None, wanted: Wanted) -> tuple[FieldChange, ...]:
    """In the order of the fields' paths. What is not to be shown is hidden; that it differs is said all the same."""
    before = dict(_flat("", _fields_of(seen))) if seen else {}
    after = dict(_flat("", _fields_wanted(wanted, seen)))
    found = []
    for path in sorted(before.keys() | after.keys()):
        was, becomes = before.get(path), after.get(path)
        if was != becomes or (path in before) != (path in after):
            found.append(FieldChange(path, _shown(path, was), _shown(path, becomes)))
    return tuple(found)


def _fields_of(seen: Connection) -> Mapping[str, Value]:
    return {
        "desired_state": seen.desired_state.value,
        "upstream_url": seen.upstream_url,
        "labels": seen.labels,
        "spec": seen.spec,
    }


def _fields_wanted(wanted: Wanted, seen: Connection | None) -> Mapping[str, Value]:
    state = wanted.desired_state or (seen.desired_state if seen else wanted.initial_state)
    return {
        "desired_state": state.value,
        "upstream_url": wanted.upstream_url,
        "labels": wanted.labels,
        "spec": wanted.spec,
    }


def _flat(path: str, value: Value) -> Iterator[tuple[str, Value]]:
    match value:
        case Mapping() if value:
            for name, part in value.items():
                yield from _flat(f"{path}.{name}" if path else name, part)
        case Sequence() if value and not isinstance(value, str):
            for number, part in enumerate(value):
                yield from _flat(f"{path}[{number}]", part)
        case Mapping() | Sequence() if not isinstance(value, str) and path in ("labels", "spec"):
            return
        case _:
            yield path, value


def _shown(path: str, value: Value) -> Value:
    if isinstance(value, str):
        if "://" in value:
            value = without_credentials(value)
        parts = path.replace("[", ".[").split(".")
        names = [part for part in parts if not part.startswith("[")]
        hidden = any(without_secrets(value, name) == HIDDEN for name in names)
        return HIDDEN if hidden else value
    return value
