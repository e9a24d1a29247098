"""`unwrap`: what lies around an upstream's messages, from the outside in, as written and as the decoder it makes.

unwrap: [gzip]                          # binary frames; text frames are read as they are
unwrap: [{at: data, as: [base64, deflate]}]   # in place, within the message
unwrap: [{json: data}, each]            # JSON in a text; then a list of messages
"""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema

from streamlease.feed.bounds import Bounds
from streamlease.feed.decoding import MOST_ENTRIES, MOST_VALUES, Decode, Undecodable, beyond, json_value, one_json
from streamlease.spec.expression import effort, extractor, plain_path
from streamlease.spec.unfit import Unfit
from streamlease.write import Value

MOST_STEPS: Final = 8
BINARY: Final = ("gzip", "zlib", "deflate", "zstd", "msgpack", "cbor", "cbor_sequence")
"""Of binary data: a text frame passes these by."""
_TEXTS: Final = ("base64", "hex", "json", "lines")
_VALUES: Final = frozenset({"json", "lines", "msgpack", "cbor", "cbor_sequence"})
"""Give a value, on which no further codec can work."""
_CODECS: Final = (*BINARY, *_TEXTS)
_NEED_EXTRA: Final = "needs the library's extra: install streamlease[codecs]"

type _Codec = Callable[[str | bytes, Any], Any]
type _Step = Callable[[list[Value], Any], list[Value]]
"""Given the messages, and the room for what they unfold to (a `codecs.Room`, which is an extra's)."""


def _checked(value: object) -> list[Any]:
    """As it was written. Raises Unfit."""
    steps = value if isinstance(value, list) else [value]
    if not 0 < len(steps) <= MOST_STEPS:
        raise Unfit(f"has {len(steps)} steps; 1 to {MOST_STEPS} are possible")
    read = False
    for index, step in enumerate(steps):
        where = f"step {index + 1}"
        if isinstance(step, str):
            if step == "each":
                read = True
                continue
            _codec(step, where)
            if read:
                raise Unfit(
                    f"has {step} as {where}, but the message is a value by then: say {{at: PATH, as: [{step}]}}"
                )
            read = step in _VALUES
        elif isinstance(step, dict):
            _within(step, where)
            read = True
        else:
            raise Unfit(f"has a {where} that is no codec and no map; known are {', '.join(_CODECS)}, each")
    decoder(steps, 1)
    return steps


def _within(step: dict[Any, Any], where: str) -> None:
    names = set(step)
    if names == {"each"}:
        _expression(step["each"], where)
        return
    if names == {"json"}:
        _place(step["json"], where)
        return
    if names != {"at", "as"}:
        raise Unfit(f"has a {where} with {', '.join(map(str, step))}; it must be each, json, or at with as")
    _place(step["at"], where)
    codecs = step["as"] if isinstance(step["as"], list) else [step["as"]]
    if not 0 < len(codecs) <= MOST_STEPS:
        raise Unfit(f"has a {where} with {len(codecs)} codecs; 1 to {MOST_STEPS} are possible")
    for codec, after in zip(codecs, [*codecs[1:], None], strict=True):
        _codec(codec, where)
        if codec in _VALUES and after is not None:
            raise Unfit(f"has {after} after {codec} in {where}, which leaves nothing to decode")


def _codec(name: object, where: str) -> None:
    if name not in _CODECS:
        raise Unfit(f"has {name!r} as {where}; known are {', '.join(_CODECS)}, each")


def _expression(text: object, where: str) -> None:
    if not isinstance(text, str):
        raise Unfit(f"has a {where} whose path is no text")
    try:
        extractor(text)
    except Unfit as error:
        raise Unfit(f"has a {where} that {error}") from None


def _place(text: object, where: str) -> None:
    _expression(text, where)
    if not plain_path(str(text)):
        raise Unfit(f"has a {where} at {text!r}; it must be a path of fields and indexes, such as data or [2].content")


_STEP_SCHEMA: Final = {
    "anyOf": [
        {"enum": [*_CODECS, "each"]},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["each"],
            "properties": {"each": {"type": "string"}},
        },
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["json"],
            "properties": {"json": {"type": "string"}},
        },
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["at", "as"],
            "properties": {
                "at": {"type": "string"},
                "as": {
                    "anyOf": [{"enum": [*_CODECS]}, {"type": "array", "minItems": 1, "items": {"enum": [*_CODECS]}}]
                },
            },
        },
    ]
}
type Unwrap = Annotated[
    list[Any],
    PlainValidator(_checked),
    WithJsonSchema(
        {"anyOf": [_STEP_SCHEMA, {"type": "array", "minItems": 1, "maxItems": MOST_STEPS, "items": _STEP_SCHEMA}]}
    ),
]


# --- the decoder ------------------------------------------------------------------------------------------------------


def decoder(steps: Sequence[Any], most_bytes: int, most_values: int = MOST_VALUES) -> Decode:
    """Nothing that it gives is larger than `most_bytes`, and all of one frame holds no more than `most_values` values
    and names; half as many in msgpack and CBOR. The same for the same steps, so that feeds that are alike share it.
    Raises Unfit where a codec is not installed."""
    if steps:
        return _decoder(json.dumps(list(steps)), most_bytes, most_values)
    return one_json if most_values == MOST_VALUES else _one_json(most_values)


@lru_cache(1_024)
def _one_json(most_values: int) -> Decode:
    return lambda data: (json_value(data, most_values),)


@lru_cache(1_024)
def _decoder(written: str, most_bytes: int, most_values: int) -> Decode:
    steps = json.loads(written)
    try:
        from streamlease.spec import codecs  # an extra: only who unwraps something needs it
    except ImportError:
        raise Unfit(_NEED_EXTRA) from None

    # Each of them holds no more than there may be, but all together?
    many_texts = any(step == "lines" or (isinstance(step, dict) and "each" not in step) for step in steps)
    leading: list[tuple[_Codec, bool, bool]] = []
    within: list[_Step] = []
    for step in steps:
        if isinstance(step, str) and step != "each":
            leading.append((codecs.CODECS[step], step in BINARY, step in _VALUES))
        elif step == "each":
            within.append(_spread)
        elif "each" in step:
            takes = effort(step["each"])
            look = Bounds(takes.per_message_us, takes.per_value_us, takes.per_entry_us)
            within.append(_spread_at(extractor(step["each"]), look))
        else:
            names = ["json"] if "json" in step else step["as"] if isinstance(step["as"], list) else [step["as"]]
            place = plain_path(step.get("at", step.get("json"))) or ()
            chain = [(codecs.CODECS[name], name in _VALUES) for name in names]
            within.append(_in_place(place, chain, codecs.unbinary, most_bytes, most_values))

    def decode(data: str | bytes) -> Sequence[Value]:
        found: Any = data
        room = codecs.Room(most_bytes, most_values)
        is_read = False
        for codec, is_binary, reads in leading:
            if not (is_binary and isinstance(found, str)):
                found = codec(found, room)
                is_read = reads
        values: list[Value] = [found if is_read else json_value(found, most_values)]
        for step in within:
            values = step(values, room)
        if many_texts and beyond(list(values), most_values) == "too_many":
            raise Undecodable("too_many")
        return values

    return decode


def _spread(values: list[Value], room: object = None) -> list[Value]:
    """Lists become their entries; what is no list stays."""
    del room  # nothing unfolds
    found: list[Value] = []
    for value in values:
        if isinstance(value, list):
            found.extend(value)
        else:
            found.append(value)
    if len(found) > MOST_ENTRIES:
        raise Undecodable("too_many")
    return found


def _spread_at(read: Callable[[Value], Value], look: Bounds) -> _Step:
    def spread(values: list[Value], room: object) -> list[Value]:
        del room
        if look.exceeded(values):
            raise Undecodable("too_many")
        return _spread([inner if isinstance(inner := read(value), list) else value for value in values])

    return spread


def _in_place(
    place: tuple[str | int, ...],
    codecs: Sequence[tuple[_Codec, bool]],
    wrapped: Callable[[object], str | bytes | None],
    most_bytes: int,
    most_values: int,
) -> _Step:
    """Replaces what lies at `place` by what it unfolds to. A message that has nothing there stays as it is."""
    *way, last = place

    def unfold(values: list[Value], room: Any) -> list[Value]:
        room.most_bytes = most_bytes  # of all of them together
        for value in values:
            holder: Any = value
            for step in way:
                holder = _entry(holder, step)
            found: Any = wrapped(_entry(holder, last))
            if found is None:
                continue
            is_read = False
            for codec, reads in codecs:
                found = codec(found, room)
                is_read = reads
                if isinstance(found, bytes):
                    room.most_bytes -= len(found)
            holder[last] = found if is_read else json_value(found, most_values)
        return values

    return unfold


def _entry(holder: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return holder.get(step) if isinstance(holder, dict) else None
    if not isinstance(holder, list) or not -len(holder) <= step < len(holder):
        return None
    return holder[step]
