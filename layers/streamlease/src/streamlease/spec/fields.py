"""The kinds of value that a spec's fields have. Each check returns the value as it is to be stored, or raises Unfit."""

import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema

from streamlease.spec import expression, literals, placeholders, units, url
from streamlease.spec.unfit import Unfit

LONGEST_TEXT: Final = 4_096
DEEPEST: Final = 20
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,62}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_OWN_HEADERS: Final = frozenset({"connection", "host", "upgrade", "content-length", "transfer-encoding"})


def shown(value: object) -> str:
    """A value for a message: short, and as YAML would have it."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    text = repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:80]}…"


def _text(value: object, wanted: str) -> str:
    if not isinstance(value, str):
        quote = f'; put quotes around it: "{value}"' if isinstance(value, int | float) else ""
        raise Unfit(f"is {shown(value)}; it must be {wanted}{quote}")
    if len(value) > LONGEST_TEXT:
        raise Unfit(f"is {len(value)} characters long; {LONGEST_TEXT} are the most")
    return _utf8(value)


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit("has half of a surrogate pair, which UTF-8 does not have") from None
    return text


def _id(value: object) -> str:
    text = _text(value, "a text")
    if not 0 < len(text) <= 128:
        raise Unfit(f"is {len(text)} characters long; it must be 1 to 128")
    if not _ID.fullmatch(text):
        raise Unfit(f"is {text!r}; it must begin with a letter or digit and hold only those and . _ : @ + -")
    return text


def _name(value: object) -> str:
    text = _text(value, "a name")
    if not _NAME.fullmatch(text):
        raise Unfit(f"is {text!r}; it must be 1 to 63 letters, digits and . _ / : -")
    return text


def _url(value: object) -> str:
    return url.check(_text(value, "a URL that begins with ws:// or wss://"))


def _duration(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise Unfit(f"is {value}; it needs a unit: {value}s, {value}ms or {value}m")
    text = _text(value, "a duration such as 60s, 500ms or 5m")
    units.seconds(text)
    return text


def _duration_or_off(value: object) -> str:
    if value is False or value == "off":  # YAML reads off as false
        return "off"
    return _duration(value)


def _size(value: object) -> str | int:
    if isinstance(value, int) and not isinstance(value, bool):
        units.size(str(value))
        return value
    text = _text(value, "a size such as 1MiB, 64KiB or a number of bytes")
    units.size(text)
    return text


def _condition(value: object) -> str:
    text = _text(value, "a JMESPath expression")
    expression.condition(text)
    return text


def _extractor(value: object) -> str:
    text = _text(value, "a JMESPath expression")
    expression.extractor(text)
    return text


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unfit(f"is {shown(value)}; it must be a number")
    if not 0 <= value < 1e18:
        raise Unfit(f"is {shown(value)}; it must be 0 or more")
    return value


def whole(least: int, most: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unfit(f"is {shown(value)}; it must be a whole number")
        if not least <= value <= most:
            raise Unfit(f"is {value}; it must be {least} to {most}")
        return value

    return check


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit(f"is {shown(value)}; it must be true or false")
    return value


def _map(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unfit(f"is {shown(value)}; it must be a map of {what}")
    for name in value:
        if not isinstance(name, str):
            raise Unfit(f"has the name {shown(name)}; names are texts: put quotes around it")
    return value


def _plain(name: str, value: object) -> str:
    """A scalar as text: people write numbers without quotes."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Unfit(f"has {name}: {shown(value)}; it must be a text or a number")
    if len(value) > LONGEST_TEXT:
        raise Unfit(f"has {name} of {len(value)} characters; {LONGEST_TEXT} are the most")
    return _utf8(value)


def _labels(value: object) -> dict[str, str]:
    labels = {name: _plain(name, text) for name, text in _map(value, "names and texts").items()}
    for name, text in labels.items():
        if not _NAME.fullmatch(name) or "=" in text or "," in text or not text.isprintable() or len(text) > 255:
            raise Unfit(
                f"has {name}={text!r}; a name is 1 to 63 letters, digits and . _ / : -, a text up to 255 characters"
                " without , and ="
            )
    return labels


def _headers(value: object) -> dict[str, str]:
    headers = {name: _plain(name, text) for name, text in _map(value, "names and texts").items()}
    for name, text in headers.items():
        if not _TOKEN.fullmatch(name):
            raise Unfit(f"has {name!r}, which is no header's name")
        if name.lower() in _OWN_HEADERS or name.lower().startswith("sec-websocket-"):
            raise Unfit(f"has {name}, which the handshake sets itself (for protocols there is subprotocols)")
        if not text.isascii() or not text.isprintable():
            raise Unfit(f"has {name} with a line break or another character that no header can carry")
        _named(name, text, cursor=True, check=literals.header)
    return headers


def _query(value: object) -> dict[str, str | list[str]]:
    query: dict[str, str | list[str]] = {}
    for name, given in _map(value, "parameters and their values").items():
        texts = [_plain(name, entry) for entry in given] if isinstance(given, list) else [_plain(name, given)]
        for text in texts:
            _named(name, text, cursor=False, check=literals.parameter)
        query[name] = texts if isinstance(given, list) else texts[0]
    return query


def _cursor_query(value: object) -> dict[str, str]:
    query = {name: _plain(name, text) for name, text in _map(value, "parameters and their values").items()}
    for name, text in query.items():
        _named(name, text, cursor=True, check=literals.parameter)
    if query and not any("{sequence}" in text for text in query.values()):
        raise Unfit('has no {sequence} in it; write the cursor\'s parameter as, for example, cursor: "{sequence}"')
    return query


def _named(name: str, text: str, *, cursor: bool, check: Callable[[str, str], None]) -> None:
    try:
        placeholders.check(text, cursor=cursor, show=False)
        check(name, text)
    except Unfit as error:
        raise Unfit(f"has {name}, which {error}") from None


def _template(value: object) -> Any:
    """One open message: JSON, with placeholders in its texts."""
    _json(value, "", DEEPEST)
    literals.message(value)
    return value


def _json(value: object, path: str, depth: int) -> None:
    where = f"has at {path.rstrip('.')} " if path else "is "
    if depth == 0:
        raise Unfit(f"is nested more than {DEEPEST} deep")
    if isinstance(value, str):
        try:
            placeholders.check(_utf8(value), cursor=True, show=False)
        except Unfit as error:
            raise Unfit(f"{where}a text that {error}" if path else str(error)) from None
    elif isinstance(value, dict):
        for name, entry in value.items():
            if not isinstance(name, str) or not name:
                raise Unfit(f"{where}a map with the name {shown(name)}; names are texts: put quotes around it")
            _json(entry, f"{path}{name}.", depth - 1)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            _json(entry, f"{path.removesuffix('.')}[{index}].", depth - 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise Unfit(f"{where}{value}, which JSON does not have")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**38:
        raise Unfit(f"{where}a number of more than 38 digits; put quotes around it")
    elif not isinstance(value, int | float | None):
        raise Unfit(f"{where}{shown(value)}, which JSON does not have; put quotes around it")


def _template_text(value: object) -> str:
    text = _text(value, "a text")
    return placeholders.check(text, cursor=True, show=False)


def _variable_name(value: object) -> str:
    text = _text(value, "a name")
    if placeholders.NAME.fullmatch(f"{{{text}}}") is None:
        raise Unfit(f"is {text!r}, and no name: letters, digits and _, not beginning with a digit")
    return text


def _free_name(value: object) -> None:
    name = _variable_name(value)
    if name in placeholders.RESERVED:
        raise Unfit("means something else already; choose another name")


def _captures(value: object) -> dict[str, str]:
    captures = _map(value, "names and paths")
    for name, path in captures.items():
        try:
            _free_name(name)
            _extractor(path)
        except Unfit as error:
            raise Unfit(f"has {name}, which {error}") from None
    return captures


def _reference(value: object) -> str:
    text = _text(value, "a reference to a secret")
    placeholders.check(text, cursor=False, show=False)
    if not placeholders.is_reference(text):
        raise Unfit(f"must be a reference, so that no secret stands in a spec: {placeholders.USE_A_REFERENCE}")
    return text


def _http_url(value: object) -> str:
    return url.check(_text(value, "a URL that begins with https:// or http://"), schemes=("https", "http"))


def _proxy(value: object) -> str:
    text = _text(value, "env, none, or a URL such as http://proxy.example:3128")
    return text if text in ("env", "none") or placeholders.is_reference(text) else url.check_proxy(text)


def _size_or_never(value: object) -> str | int:
    return "never" if value == "never" else _size(value)


def _name_or_duration(value: object) -> str:
    text = _text(value, "a duration such as 30s, or a name")
    if text[:1].isdigit():
        units.seconds(text)
    else:
        expression.extractor(text)
    return text


def _scalar(value: object) -> str | int | float:
    if isinstance(value, str):
        return _text(value, "a text")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unfit(f"is {shown(value)}; it must be a text or a number")
    return value


def _protocol(value: object) -> str:
    text = _text(value, "a text")
    if not _TOKEN.fullmatch(text):
        raise Unfit(f"is {text!r}, which is no subprotocol's name")
    return text


_TEXT_SCHEMA: Final = {"type": "string"}
_DURATION_SCHEMA: Final = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"}
_EXPRESSION_SCHEMA: Final = {"type": "string", "description": "A JMESPath expression", "minLength": 1}
_TEXTS_SCHEMA: Final = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}

type Id = Annotated[str, PlainValidator(_id), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 128})]
type Name = Annotated[str, PlainValidator(_name), WithJsonSchema(_TEXT_SCHEMA)]
type Url = Annotated[str, PlainValidator(_url), WithJsonSchema({"type": "string", "pattern": "^wss?://"})]
type Duration = Annotated[str, PlainValidator(_duration), WithJsonSchema(_DURATION_SCHEMA)]
type DurationOrOff = Annotated[
    str, PlainValidator(_duration_or_off), WithJsonSchema({"anyOf": [_DURATION_SCHEMA, {"enum": ["off", False]}]})
]
type Size = Annotated[
    str | int,
    PlainValidator(_size),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": "^[0-9]+([KM]i?B|B)?$"}, {"type": "integer"}]}),
]
type Condition = Annotated[str, PlainValidator(_condition), WithJsonSchema(_EXPRESSION_SCHEMA)]
type Path = Annotated[str, PlainValidator(_extractor), WithJsonSchema(_EXPRESSION_SCHEMA)]
type Number = Annotated[int | float, PlainValidator(_number), WithJsonSchema({"type": "number", "minimum": 0})]
type Flag = Annotated[bool, PlainValidator(_flag), WithJsonSchema({"type": "boolean"})]
type Count = Annotated[int, PlainValidator(whole(1, 1_000_000)), WithJsonSchema({"type": "integer", "minimum": 1})]
type CloseCode = Annotated[
    int, PlainValidator(whole(1000, 4999)), WithJsonSchema({"type": "integer", "minimum": 1000, "maximum": 4999})
]
type HttpStatus = Annotated[
    int, PlainValidator(whole(300, 599)), WithJsonSchema({"type": "integer", "minimum": 300, "maximum": 599})
]
type AnswerStatus = Annotated[
    int, PlainValidator(whole(200, 599)), WithJsonSchema({"type": "integer", "minimum": 200, "maximum": 599})
]
type Labels = Annotated[dict[str, str], PlainValidator(_labels), WithJsonSchema(_TEXTS_SCHEMA)]
type Headers = Annotated[dict[str, str], PlainValidator(_headers), WithJsonSchema(_TEXTS_SCHEMA)]
type Query = Annotated[
    dict[str, str | list[str]],
    PlainValidator(_query),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [{"type": ["string", "number"]}, {"type": "array", "items": {"type": ["string", "number"]}}]
            },
        }
    ),
]
type CursorQuery = Annotated[dict[str, str], PlainValidator(_cursor_query), WithJsonSchema(_TEXTS_SCHEMA)]
type Template = Annotated[
    Any, PlainValidator(_template), WithJsonSchema({"description": "Any JSON; a text is sent as it is"})
]
type Text = Annotated[str, PlainValidator(_template_text), WithJsonSchema(_TEXT_SCHEMA)]
type VariableName = Annotated[str, PlainValidator(_variable_name), WithJsonSchema(_TEXT_SCHEMA)]
type Captures = Annotated[
    dict[str, str],
    PlainValidator(_captures),
    WithJsonSchema({"type": "object", "additionalProperties": _EXPRESSION_SCHEMA}),
]
type Reference = Annotated[str, PlainValidator(_reference), WithJsonSchema(_TEXT_SCHEMA)]
type HttpUrl = Annotated[str, PlainValidator(_http_url), WithJsonSchema({"type": "string", "pattern": "^https?://"})]
type Proxy = Annotated[str, PlainValidator(_proxy), WithJsonSchema(_TEXT_SCHEMA)]
type Digits = Annotated[int, PlainValidator(whole(1, 64)), WithJsonSchema({"type": "integer", "minimum": 1})]
type SendSize = Annotated[
    str | int,
    PlainValidator(_size_or_never),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
]
type NameOrDuration = Annotated[str, PlainValidator(_name_or_duration), WithJsonSchema(_TEXT_SCHEMA)]
type Scalar = Annotated[
    str | int | float,
    PlainValidator(_scalar),
    WithJsonSchema({"type": ["string", "number"]}),
]
type Protocol = Annotated[str, PlainValidator(_protocol), WithJsonSchema(_TEXT_SCHEMA)]
