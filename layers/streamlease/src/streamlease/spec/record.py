"""What a person may write of a feed's records: where they lie, what proves that none is missing, what is said back.

A path that begins with `$` is read from the whole message, also where the records are the entries of a list in it.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, TypeAdapter, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from streamlease.spec import expression
from streamlease.spec.fields import Condition, Count, Duration, Flag, Path, Template
from streamlease.spec.placeholders import NAME, RESERVED
from streamlease.spec.unfit import Unfit

LARGEST_WINDOW: Final = 100_000
"""Keys remembered by one connection, so that its memory stays bounded."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


def _entry_path(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit("must be a JMESPath expression")
    expression.extractor(within(value))
    return value


def _key_path(value: object) -> str:
    """Also a list of paths, as YAML reads `[symbol, trade_id]`."""
    if not isinstance(value, list):
        return _entry_path(value)
    paths = [path for path in value if isinstance(path, str) and path]
    if not paths or len(paths) < len(value):
        raise Unfit("must be a JMESPath expression, or a list of them")
    of_message = [is_of_message(path) for path in paths]
    if any(of_message) and not all(of_message):
        raise Unfit("has paths that begin with $ and others; of the record or of the whole message, but of one")
    joined = f"[{', '.join(within(path) for path in paths)}]"
    return _entry_path(f"$.{joined}" if all(of_message) else joined)


def is_of_message(path: str) -> bool:
    return path.startswith("$")


def within(path: str) -> str:
    """The expression without its `$`."""
    if not path.startswith("$"):
        return path
    rest = path[1:]
    if rest and rest[0] not in ".[":
        raise Unfit(
            f"is {path!r}; $ is the whole message, and is followed by a dot or a bracket, as in $.data.seq;"
            f' a field whose name begins with it stands in double quotes: "{path}"'
        )
    return rest.removeprefix(".") or "@"


type EntryPath = Annotated[
    str,
    PlainValidator(_entry_path),
    WithJsonSchema({"type": "string", "description": "JMESPath; $ is the whole message", "minLength": 1}),
]


type KeyPath = Annotated[
    str,
    PlainValidator(_key_path),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            ],
            "description": "JMESPath, or a list of them; $ is the whole message",
        }
    ),
]


class Series(_Part):
    number: EntryPath | None = Field(None, description="The last number a record covers; without it, record.sequence")
    first: EntryPath | None = Field(None, description="The first number it covers, where it covers a range")
    previous: EntryPath | None = Field(None, description="The number of the record before: numbers may jump")
    key: EntryPath | None = Field(None, description="Each value of it has numbers of its own")
    restart: Condition | None = Field(None, description="True of a record with which its series begins anew")
    of: Literal["records", "messages"] = Field(
        "records", description="What is numbered: the records, or every message, data or not"
    )
    per_socket: Flag = Field(default=False, description="Numbers begin anew with every socket")
    keys: Count = Field(1_000, description="So many keys are followed; of more, the longest unseen is forgotten")


class Dedupe(_Part):
    key: KeyPath | None = Field(None, description="What is the same in duplicates; without it, the record id")
    within: Duration | None = Field(None, description="For so long after a record its duplicates are dropped")
    most: Count = Field(10_000, description="So many keys are remembered")


class Record(_Part):
    when: Condition | None = Field(None, description="True of a message that is data; without it, every message is")
    each: Path | None = Field(None, description="The list in a message whose entries are the records")
    payload: EntryPath | None = Field(None, description="What to deliver of it; without it, the whole record")
    sequence: EntryPath | None = Field(None, description="The upstream's own cursor of a record")
    type: Literal["number", "string"] = "number"
    sequence_unit: Literal["s", "ms", "us", "ns"] | None = Field(
        None, description="The sequence is a Unix time in this unit; a wrong clock cannot take the position ahead"
    )
    id: KeyPath | None = Field(None, description="What tells two records apart; a list of paths joins several")
    event_at: EntryPath | None = Field(None, description="The upstream's own time of the event")
    event_at_unit: Literal["s", "ms", "us", "ns", "iso"] = "ms"
    unique: Flag = Field(default=False, description="A sequence names one record only, and may serve as its id")
    contiguous: Flag = Field(default=False, description="Sequences rise by one, so that a jump is a gap")
    series: Series | None = Field(None, description="Numbers that prove that nothing is missing")
    dedupe: Dedupe | None = Field(None, description="Drops what was delivered within a window")

    def rules(self) -> list[tuple[bool, str]]:
        """What does not fit together, each with its sentence."""
        series, dedupe = self.series, self.dedupe
        return [
            (
                series is not None and series.number is None and self.sequence is None,
                "record.series needs a number to follow: set record.series.number or record.sequence",
            ),
            (series is not None and self.contiguous, "record.contiguous and record.series say the same: keep one"),
            (
                series is not None and series.first is not None and series.previous is not None,
                "record.series has first and previous; a record says either where it begins or what was before it",
            ),
            (series is not None and series.keys > LARGEST_WINDOW, f"record.series.keys is over {LARGEST_WINDOW}"),
            (
                series is not None and series.key is None and "keys" in series.model_fields_set,
                "record.series.keys says nothing without record.series.key",
            ),
            (dedupe is not None and dedupe.most > LARGEST_WINDOW, f"record.dedupe.most is over {LARGEST_WINDOW}"),
            (
                dedupe is not None and dedupe.key is None and self.id is None and not self.unique,
                "record.dedupe needs a key: set record.dedupe.key, or record.id, or record.unique",
            ),
            (
                self.each is None and self.contiguous and self.sequence is not None and is_of_message(self.sequence),
                "record.sequence begins with $, which says nothing without record.each: leave the $ out",
            ),
        ]


class Ack(_Part):
    send: Any = Field(description="What to send, JSON or text, with the names of capture in braces")
    capture: dict[str, Path] = Field(description="Names, and what each is in the message that is acknowledged")
    when: Condition | None = Field(None, description="True of a message that is to be acknowledged")
    at: Literal["receipt", "durable"] = Field("durable", description="Once it was read, or once it is in the sink")
    gather: Literal["each", "list", "latest"] = Field(
        "each", description="One by one; or together, with a list for each name; or only the last of several"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problem = next(self._problems(), None)
        if problem is not None:
            raise PydanticCustomError("rule", "{problem}", {"problem": problem})
        return self

    def _problems(self) -> Iterator[str]:
        names = set(self.capture)
        if not names:
            yield "ack.capture is empty; say what to repeat of the message: capture: {id: envelope_id}"
        for name in names:
            if NAME.fullmatch(f"{{{name}}}") is None or name in RESERVED:
                taken = ", ".join(sorted(RESERVED))
                yield f"ack.capture has {name!r}; a name is letters, digits and _, and none of {taken}"
        used = set(_names(self.send))
        for name in sorted(names - used):
            yield f"ack.capture has {name}, but ack.send does not say {{{name}}}"
        try:
            _TEMPLATE.validate_python(_without(self.send, names))
        except ValueError as error:
            yield f"ack.send {_words(error)}"


_TEMPLATE: Final[TypeAdapter[Any]] = TypeAdapter(Template)


def _words(error: ValueError) -> str:
    errors = error.errors() if hasattr(error, "errors") else []
    return str(errors[0]["ctx"]["error"]) if errors and "ctx" in errors[0] else str(error)


def _names(template: object) -> set[str]:
    if isinstance(template, str):
        return set(NAME.findall(template))
    if isinstance(template, dict):
        return {name for value in template.values() for name in _names(value)}
    return {name for value in template for name in _names(value)} if isinstance(template, list) else set()


def _without(template: object, names: set[str]) -> object:
    """The template with plain words for what is filled in, to be looked at as any other."""
    if isinstance(template, str):
        return NAME.sub(lambda match: "x" if match[1] in names else match[0], template)
    if isinstance(template, dict):
        return {name: _without(value, names) for name, value in template.items()}
    return [_without(value, names) for value in template] if isinstance(template, list) else template
