"""Conditions and updates in DynamoDB's two languages: expressions with placeholders, and PartiQL statements.

`streamlease.write.holds` and `apply` say what they mean; the contract suite holds both languages against those.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streamlease.dynamodb.attributes import AttributeValue, encode
from streamlease.write import (
    KEY_ATTRIBUTES,
    Absent,
    AllOf,
    Always,
    AnyOf,
    Condition,
    Equals,
    Greater,
    Less,
    Not,
    Present,
    Update,
    Value,
    holds,
)


@dataclass(frozen=True, slots=True)
class Placeholders:
    """The names and values of one request's expressions, so that no reserved word or odd character is in their way."""

    where: str
    """What is being written, for the sentence about a value that cannot be."""
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, AttributeValue] = field(default_factory=dict)

    def name(self, attribute: str) -> str:
        return self.names.setdefault(attribute, f"#{len(self.names)}")

    def value(self, attribute: str, value: Value) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = encode(value, self.where, attribute)
        return placeholder

    def parameters(self) -> dict[str, object]:
        """What goes beside the expressions; DynamoDB refuses empty maps."""
        found: dict[str, object] = {}
        if self.names:
            found["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in self.names.items()}
        if self.values:
            found["ExpressionAttributeValues"] = self.values
        return found


def condition_expression(condition: Condition, anywhere: str, into: Placeholders) -> str:
    """`anywhere` is an attribute of every item (of its key), to say true and false with: there are no such words."""
    return _expression(_flat(condition), anywhere, into)


def _expression(condition: Condition, anywhere: str, into: Placeholders) -> str:
    name = into.name
    match condition:
        case Equals(attribute, value):
            return f"{name(attribute)} = {into.value(attribute, value)}"
        case Less(attribute, limit):
            return f"{name(attribute)} < {into.value(attribute, limit)}"
        case Greater(attribute, limit):
            return f"{name(attribute)} > {into.value(attribute, limit)}"
        case Absent(attribute):
            return f"attribute_not_exists({name(attribute)})"
        case Present(attribute):
            return f"attribute_exists({name(attribute)})"
        case Not(term):
            return f"NOT ({_expression(term, anywhere, into)})"
        case AllOf(terms) if terms:
            return " AND ".join(_grouped(term, _expression(term, anywhere, into)) for term in terms)
        case AnyOf(terms) if terms:
            return " OR ".join(_grouped(term, _expression(term, anywhere, into)) for term in terms)
        case Always() | AllOf():
            return f"attribute_exists({name(anywhere)}) OR attribute_not_exists({name(anywhere)})"
        case AnyOf():
            return f"attribute_exists({name(anywhere)}) AND attribute_not_exists({name(anywhere)})"


def update_expression(update: Update, into: Placeholders) -> str:
    """Empty where the update changes nothing."""
    clauses = []
    if update.set:
        parts = [f"{into.name(name)} = {into.value(name, value)}" for name, value in update.set.items()]
        clauses.append(f"SET {', '.join(parts)}")
    if update.remove:
        clauses.append(f"REMOVE {', '.join(into.name(name) for name in update.remove)}")
    if update.add:
        parts = [f"{into.name(name)} {into.value(name, amount)}" for name, amount in update.add.items()]
        clauses.append(f"ADD {', '.join(parts)}")
    return " ".join(clauses)


def partiql(update: Update, table_name: str, where: str) -> tuple[str, list[AttributeValue]]:
    """One conditional update as a statement with parameters.

    PartiQL's UPDATE never makes an item, cannot change nothing, finds no key beside an OR, and says nothing certain of
    NOT over an absent attribute. So an update whose condition holds of an absent item, or is more than clauses that all
    have to hold, raises ValueError, as does one that changes nothing: it is sent on its own (decision 032).
    """
    if not (update.set or update.remove or update.add):
        raise ValueError(f"{where}: it changes nothing, so it does not go into a batch")
    if holds(update.condition, None):
        raise ValueError(f"{where}: its condition holds of an absent item, so it does not go into a batch")
    parameters: list[AttributeValue] = []

    def value(attribute: str, plain: Value) -> str:
        parameters.append(encode(plain, where, attribute))
        return "?"

    clauses = [f"UPDATE {_quoted(table_name)}"]
    clauses += [f"SET {_quoted(name)} = {value(name, plain)}" for name, plain in update.set.items()]
    clauses += [f"SET {_quoted(name)} = {_quoted(name)} + {value(name, n)}" for name, n in update.add.items()]
    clauses += [f"REMOVE {_quoted(name)}" for name in update.remove]
    condition = _flat(update.condition)
    key = [f"{_quoted(name)} = {value(name, update.key[name])}" for name in KEY_ATTRIBUTES[update.table]]
    terms = [_partiql_term(term, value) for term in (condition.terms if isinstance(condition, AllOf) else (condition,))]
    return f"{' '.join(clauses)} WHERE {' AND '.join([*key, *terms])}", parameters


def _partiql_term(term: Condition, value: Callable[[str, Value], str]) -> str:
    match term:
        case Equals(attribute, wanted):
            return f"{_quoted(attribute)} = {value(attribute, wanted)}"
        case Less(attribute, limit):
            return f"{_quoted(attribute)} < {value(attribute, limit)}"
        case Greater(attribute, limit):
            return f"{_quoted(attribute)} > {value(attribute, limit)}"
        case Absent(attribute):
            return f"{_quoted(attribute)} IS MISSING"
        case Present(attribute):
            return f"{_quoted(attribute)} IS NOT MISSING"
        case _:
            raise ValueError(f"a batch cannot say {term}")


def key_attributes(key: Mapping[str, str], where: str) -> dict[str, AttributeValue]:
    return {name: encode(value, where, name) for name, value in key.items()}


def _flat(condition: Condition) -> Condition:
    """The same condition without terms that group nothing: DynamoDB refuses redundant parentheses."""
    match condition:
        case AllOf(terms):
            parts = [_flat(term) for term in terms]
            inner = [part.terms if isinstance(part, AllOf) and part.terms else (part,) for part in parts]
            flat = AllOf(tuple(term for part in inner for term in part))
            return flat.terms[0] if len(flat.terms) == 1 else flat
        case AnyOf(terms):
            parts = [_flat(term) for term in terms]
            inner = [part.terms if isinstance(part, AnyOf) and part.terms else (part,) for part in parts]
            either = AnyOf(tuple(term for part in inner for term in part))
            return either.terms[0] if len(either.terms) == 1 else either
        case Not(term):
            return Not(_flat(term))
        case _:
            return condition


def _grouped(term: Condition, text: str) -> str:
    """Parentheses only where they say something: a parser that backtracks takes twice as long for each pair."""
    return f"({text})" if isinstance(term, AllOf | AnyOf | Always) else text


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
