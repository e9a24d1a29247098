"""Requests to the store, as values: conditional writes, reads and queries, free of any one database's syntax.

`holds` and `apply` are the meaning of a condition and a write; `dynamodb.requests` says the same in DynamoDB's words,
and the contract suite holds the two against each other. Only top-level attributes are addressed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeGuard

from streamlease.errors import Malformed

type Value = str | int | float | bool | Sequence[Value] | Mapping[str, Value] | None
type Item = Mapping[str, Value]
type Key = Mapping[str, str]


class Table(StrEnum):
    """The three tables of design §2."""

    CONNECTIONS = "connections"
    MEMBERS = "members"
    WORKER_ITEMS = "worker_items"


class Index(StrEnum):
    """The connections table's two indexes."""

    BY_EXPIRY = "by_expiry"
    BY_OWNER = "by_owner"


KEY_ATTRIBUTES: Mapping[Table, tuple[str, ...]] = {
    Table.CONNECTIONS: ("connection_id",),
    Table.MEMBERS: ("worker_id",),
    Table.WORKER_ITEMS: ("worker_id", "item"),
}
INDEX_ATTRIBUTES: Mapping[Index, tuple[str, ...]] = {
    Index.BY_EXPIRY: ("desired_state_shard", "lease_expires_at_ms"),
    Index.BY_OWNER: ("lease_owner",),
}
INDEX_PROJECTED: Mapping[Index, tuple[str, ...]] = {
    Index.BY_EXPIRY: (),
    Index.BY_OWNER: ("spec_version", "desired_state"),
}


# --- conditions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Always:
    """No condition. Only for items that are hints, and that nobody reasons with."""


@dataclass(frozen=True, slots=True)
class Equals:
    attribute: str
    value: str | int | bool


@dataclass(frozen=True, slots=True)
class Less:
    """`attribute` < `value`; false where the attribute is absent or of another type, as in DynamoDB."""

    attribute: str
    value: int


@dataclass(frozen=True, slots=True)
class Greater:
    """`attribute` > `value`; false where the attribute is absent or of another type, as in DynamoDB."""

    attribute: str
    value: int


@dataclass(frozen=True, slots=True)
class Absent:
    attribute: str


@dataclass(frozen=True, slots=True)
class Present:
    attribute: str


@dataclass(frozen=True, slots=True)
class AllOf:
    terms: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    terms: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class Not:
    term: "Condition"


type Condition = Always | Equals | Less | Greater | Absent | Present | AllOf | AnyOf | Not


def all_of(*terms: Condition) -> AllOf:
    return AllOf(terms)


def any_of(*terms: Condition) -> AnyOf:
    return AnyOf(terms)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(left: Value, right: str | int | bool) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def holds(condition: Condition, item: Item | None) -> bool:
    """Whether `condition` is true of `item` (None: no such item), with DynamoDB's rules for absent attributes."""
    attributes: Item = item or {}
    match condition:
        case Always():
            return True
        case Equals(attribute, value):
            return attribute in attributes and _same(attributes[attribute], value)
        case Less(attribute, limit):
            found = attributes.get(attribute)
            return _is_number(found) and found < limit
        case Greater(attribute, limit):
            found = attributes.get(attribute)
            return _is_number(found) and found > limit
        case Absent(attribute):
            return attribute not in attributes
        case Present(attribute):
            return attribute in attributes
        case AllOf(terms):
            return all(holds(term, item) for term in terms)
        case AnyOf(terms):
            return any(holds(term, item) for term in terms)
        case Not(term):
            return not holds(term, item)


# --- writes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Put:
    """Write a whole item."""

    table: Table
    item: Item
    condition: Condition

    @property
    def key(self) -> Key:
        return {name: str(self.item[name]) for name in KEY_ATTRIBUTES[self.table]}


@dataclass(frozen=True, slots=True)
class Update:
    """Change some attributes of an item. Where `condition` holds of an absent item, it is made (as in DynamoDB)."""

    table: Table
    key: Key
    condition: Condition
    set: Item = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    add: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove an item."""

    table: Table
    key: Key
    condition: Condition


type Write = Put | Update | Delete


def apply(write: Write, item: Item | None) -> Item | None:
    """The item after `write`, whose condition holds of `item`. None: no item is left.

    Raises Malformed where it adds to what is no number, as DynamoDB refuses it: an epoch must not begin anew.
    """
    match write:
        case Put():
            return dict(write.item)
        case Delete():
            return None
        case Update():
            after: dict[str, Value] = dict(item or write.key)
            after.update(write.set)
            for name in write.remove:
                after.pop(name, None)
            for name, amount in write.add.items():
                before = after.get(name, 0)
                if not _is_number(before):
                    raise Malformed(f"{write.table} {dict(write.key)}", f"{name} must be a number to be added to")
                after[name] = before + amount
            return after


@dataclass(frozen=True, slots=True)
class Applied:
    """The write landed. `item` is the item after it; None after a delete, and where a batch does not return it."""

    item: Item | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The condition did not hold of `item`, as it stood then; None: there was no item. Nothing was written."""

    item: Item | None


type Answer = Applied | Refused


# --- reads -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """One consistent read by key. Answered with the item, or None."""

    table: Table
    key: Key


@dataclass(frozen=True, slots=True)
class Query:
    """One page of an index or of a worker's items. Index answers may lag. Answered with a `Page`."""

    table: Table
    partition: str
    index: Index | None = None
    below: int | None = None
    """Only for by_expiry: sort keys below this."""
    cursor: Item | None = None
    limit: int = 1_000
    prefix: str | None = None
    """Only for a worker's items: those whose `item` begins with this."""


@dataclass(frozen=True, slots=True)
class Scan:
    """One page of a whole table, or of an index (never consistent). Answered with a `Page`."""

    table: Table
    index: Index | None = None
    cursor: Item | None = None
    limit: int = 1_000
    consistent: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """`cursor` is None on the last page. `date_ms` is the service's own clock at the answer, where it gave one."""

    items: tuple[Item, ...]
    cursor: Item | None = None
    date_ms: int | None = None
