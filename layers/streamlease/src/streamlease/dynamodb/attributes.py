"""Plain value ⇄ DynamoDB attribute value, exact for whole numbers of up to 38 digits (decision 030).

A float travels as its shortest decimal (`repr`), so 0.1 stays 0.1; one that is whole comes back as an int of the same
value. Sets, which only strangers write, are read as lists.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from streamlease.errors import Malformed
from streamlease.write import Item, Value

if TYPE_CHECKING:
    from types_boto3_dynamodb.type_defs import AttributeValueTypeDef

type AttributeValue = "AttributeValueTypeDef"

DIGITS = 38
"""DynamoDB keeps this many digits of a number and refuses more."""
_TOO_LARGE = 10**DIGITS
_FLOAT_LIMITS = 1e-130, 1e126


def encode(value: Value, where: str = "item", path: str = "value") -> AttributeValue:
    """Raises Malformed for what DynamoDB cannot keep as it is, naming the item and the place in it."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": _storable(value, where, path)}
        case int():
            if not -_TOO_LARGE < value < _TOO_LARGE:
                raise Malformed(where, f"{path} has more than the {DIGITS} digits that DynamoDB keeps of a number")
            return {"N": str(value)}
        case float():
            return {"N": _decimal(value, where, path)}
        case bytes() | bytearray():
            return {"B": bytes(value)}
        case Mapping():
            return {"M": {name: encode(part, where, f"{path}.{name}") for name, part in value.items()}}
        case Sequence():
            return {"L": [encode(part, where, f"{path}[{number}]") for number, part in enumerate(value)]}
        case _:
            raise Malformed(where, f"{path} is of a kind that DynamoDB does not keep, {type(value).__name__}")


def encode_item(item: Item, where: str = "item") -> dict[str, AttributeValue]:
    """The attributes of `item`. Raises Malformed, as `encode` does."""
    return {name: encode(value, where, name) for name, value in item.items()}


def decode(attribute: AttributeValue) -> Value:
    """The plain value of an attribute value as boto3 gives it."""
    kind, value = next(iter(cast("Mapping[str, Any]", attribute).items()))
    match kind:
        case "S" | "BOOL" | "B":
            return cast("Value", value)
        case "N":
            return _number(value)
        case "NULL":
            return None
        case "M":
            return {name: decode(part) for name, part in value.items()}
        case "L":
            return [decode(part) for part in value]
        case "SS" | "BS":
            return list(value)
        case "NS":
            return [_number(part) for part in value]
        case _:
            raise Malformed("item", f"an attribute is of a kind that this release does not know, {kind!r}")


def decode_item(attributes: Mapping[str, AttributeValue]) -> dict[str, Value]:
    return {name: decode(value) for name, value in attributes.items()}


def _storable(text: str, where: str, path: str) -> str:
    # JSON lets half a surrogate pair through, as "\ud800"; no store can hold it.
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Malformed(where, f"{path} is not valid Unicode: it holds half of a surrogate pair") from None
    return str(text)  # a StrEnum's value, as a plain string


def _decimal(value: float, where: str, path: str) -> str:
    smallest, largest = _FLOAT_LIMITS
    if not math.isfinite(value) or (value and not smallest <= abs(value) < largest):
        raise Malformed(where, f"{path} is {value!r}, which is outside the numbers that DynamoDB keeps")
    return str(Decimal(repr(value)))


def _number(text: str) -> int | float:
    try:
        whole = int(text)  # the common case
    except ValueError:
        number = Decimal(text)
        if number != number.to_integral_value() or number.adjusted() >= DIGITS:
            return float(number)
        whole = int(number)
    # Only a float is ever written as large as that.
    return whole if -_TOO_LARGE < whole < _TOO_LARGE else float(text)
