"""Requests as boto3 calls, and boto3's answers as values. Pure: nothing here is sent.

A refused write asks for the item as it stood (ALL_OLD), so that stolen, changed and stopped are told apart with no
extra read. An update returns the item after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streamlease.dynamodb.attributes import AttributeValue, decode_item, encode, encode_item
from streamlease.dynamodb.expressions import (
    Placeholders,
    condition_expression,
    key_attributes,
    partiql,
    update_expression,
)
from streamlease.errors import Unreachable
from streamlease.flow import BATCH_WRITES
from streamlease.write import (
    INDEX_ATTRIBUTES,
    KEY_ATTRIBUTES,
    Always,
    Answer,
    Applied,
    Delete,
    Item,
    Key,
    Page,
    Put,
    Query,
    Read,
    Refused,
    Scan,
    Table,
    Update,
    Write,
)

type Operation = Literal[
    "put_item", "update_item", "delete_item", "get_item", "query", "scan", "batch_execute_statement"
]
type Names = Mapping[Table, str]
"""The physical name of each table."""
type Statement = dict[str, Any]
type Response = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the boto3 client: its method, and that method's keyword arguments."""

    operation: Operation
    parameters: dict[str, Any]


def call(request: Write | Read | Query | Scan, names: Names) -> Call:
    """Raises Malformed for a value that DynamoDB cannot keep."""
    match request:
        case Put() | Update() | Delete():
            return _write(request, names)
        case Read(table, key):
            where = described(table, key)
            parameters = {"Key": key_attributes(key, where), "ConsistentRead": True}
            return Call("get_item", {"TableName": names[table], **parameters})
        case Query():
            return _query(request, names)
        case Scan(table, index, cursor, limit, consistent):
            if index is not None and consistent:
                raise ValueError("an index is never read consistently")
            parameters = {"TableName": names[table], "Limit": limit, "ConsistentRead": consistent}
            return Call("scan", {**parameters, **_place(index, cursor)})


def statement(update: Update, names: Names) -> Statement:
    """One member of a batch. Raises Malformed for a value that DynamoDB cannot keep; see `expressions.partiql`."""
    text, parameters = partiql(update, names[update.table], described(update.table, update.key))
    return {"Statement": text, "Parameters": parameters, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def batch_call(statements: Sequence[Statement]) -> Call:
    if not 0 < len(statements) <= BATCH_WRITES:
        raise ValueError(f"a batch has 1 to {BATCH_WRITES} statements, not {len(statements)}")
    return Call("batch_execute_statement", {"Statements": list(statements)})


def described(table: Table, key: Key) -> str:
    """An item, for a sentence."""
    return f"{table} {', '.join(repr(key[name]) for name in KEY_ATTRIBUTES[table] if name in key)}"


# --- answers ---------------------------------------------------------------------------------------------------------


def applied(write: Write, response: Response) -> Applied:
    """Raises Unreachable where the answer lacks what it must have: whether the write landed is then unknown."""
    match write:
        case Put(item=item):
            return Applied(decode_item(encode_item(item)))
        case Delete():
            return Applied()
        case Update(table=table, key=key):
            if "Attributes" not in response:
                raise Unreachable(f"the answer to the update of {described(table, key)} came without the item")
            return Applied(decode_item(response["Attributes"]))


def refused(error: Response) -> Refused:
    """`error` is what holds the item: a failed call's whole response, or a failed statement's error."""
    item = error.get("Item")
    return Refused(decode_item(item) if item else None)


def found(response: Response) -> Item | None:
    item = response.get("Item")
    return decode_item(item) if item is not None else None


def page(response: Response, date_ms: int | None) -> Page:
    """Raises Unreachable where the answer has no list of items."""
    if "Items" not in response:
        raise Unreachable("the answer to a query came without items")
    last = response.get("LastEvaluatedKey")
    return Page(tuple(decode_item(item) for item in response["Items"]), decode_item(last) if last else None, date_ms)


@dataclass(frozen=True, slots=True)
class StatementError:
    """Why one statement of a batch failed, other than by its condition."""

    code: str
    message: str


def statement_answer(response: Response) -> Answer | StatementError:
    error = response.get("Error")
    if not error:
        return Applied()
    if error.get("Code") == "ConditionalCheckFailed":
        return refused(error)
    return StatementError(str(error.get("Code", "")), str(error.get("Message", "")))


# --- calls -----------------------------------------------------------------------------------------------------------


def _write(write: Write, names: Names) -> Call:
    where = described(write.table, write.key)
    into = Placeholders(where)
    parameters: dict[str, Any] = {"TableName": names[write.table]}
    operation: Operation
    match write:
        case Put(item=item):
            operation = "put_item"
            parameters["Item"] = encode_item(item, where)
        case Delete(key=key):
            operation = "delete_item"
            parameters["Key"] = key_attributes(key, where)
        case Update(key=key):
            operation = "update_item"
            parameters["Key"] = key_attributes(key, where)
            parameters["ReturnValues"] = "ALL_NEW"
            expression = update_expression(write, into)
            if expression:
                parameters["UpdateExpression"] = expression
    if not isinstance(write.condition, Always):
        anywhere = KEY_ATTRIBUTES[write.table][0]
        parameters["ConditionExpression"] = condition_expression(write.condition, anywhere, into)
        parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return Call(operation, {**parameters, **into.parameters()})


def _query(query: Query, names: Names) -> Call:
    hash_name, *range_names = KEY_ATTRIBUTES[query.table] if query.index is None else INDEX_ATTRIBUTES[query.index]
    into = Placeholders(f"query of {query.table}")
    expression = f"{into.name(hash_name)} = {into.value(hash_name, query.partition)}"
    if query.below is not None:
        if query.index is None or not range_names:
            raise ValueError("only by_expiry has a sort key to be below")
        expression += f" AND {into.name(range_names[0])} < {into.value(range_names[0], query.below)}"
    if query.prefix is not None:
        if query.index is not None or not range_names:
            raise ValueError("only a worker's items have a sort key to begin with something")
        expression += f" AND begins_with({into.name(range_names[0])}, {into.value(range_names[0], query.prefix)})"
    parameters: dict[str, Any] = {
        "TableName": names[query.table],
        "KeyConditionExpression": expression,
        "Limit": query.limit,
        # A worker's own items are read to be acted upon; an index has no consistent reads.
        "ConsistentRead": query.index is None,
    }
    return Call("query", {**parameters, **_place(query.index, query.cursor), **into.parameters()})


def _place(index: str | None, cursor: Item | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if index is not None:
        found["IndexName"] = str(index)
    if cursor is not None:
        start: dict[str, AttributeValue] = {name: encode(value, "cursor", name) for name, value in cursor.items()}
        found["ExclusiveStartKey"] = start
    return found
