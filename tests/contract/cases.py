"""What a case of the contract is: an item as it stands, one transition over it, and the outcome there must be.

The cases of a transition are complete when each clause of its condition decides one of them on its own, each way;
`undecided` finds those that do not.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from streamlease.errors import Malformed
from streamlease.write import (
    Absent,
    AllOf,
    Always,
    Answer,
    AnyOf,
    Applied,
    Condition,
    Equals,
    Greater,
    Item,
    Less,
    Not,
    Present,
    Value,
    Write,
    holds,
)


class Without(Enum):
    """Stands for an attribute that an item does not have."""

    IT = "without"


WITHOUT = Without.IT


@dataclass(frozen=True, slots=True)
class Case:
    """`before` and `write` are made for an id that nobody else uses."""

    transition: str
    says: str
    write: Callable[[str], Write]
    before: Callable[[str], Item | None]
    decode: Callable[[Answer], object]
    """The transition's own reading of the answer. `Malformed` counts as an outcome."""
    outcome: object
    """The very outcome, or its type where it holds a whole item."""
    applied: bool

    def __str__(self) -> str:
        return f"{self.transition}: {self.says}"

    def outcome_of(self, answer: Answer) -> object:
        try:
            return self.decode(answer)
        except Malformed as problem:
            return problem

    def is_met_by(self, outcome: object) -> bool:
        return isinstance(outcome, self.outcome) if isinstance(self.outcome, type) else outcome == self.outcome


def changed(item: Item, **attributes: Value | Without) -> dict[str, Value]:
    """`item` with some attributes different, or without them."""
    kept = {name: value for name, value in item.items() if name not in attributes}
    return kept | {name: value for name, value in attributes.items() if not isinstance(value, Without)}


type Items = Callable[[str], Item | None]


def nothing(_: str) -> None:
    """There is no such item."""


class Of:
    """The cases of one transition."""

    def __init__(self, transition: str, write: Callable[[str], Write], decode: Callable[[Answer], object]) -> None:
        self.transition, self.write, self.decode = transition, write, decode
        self.cases: list[Case] = []

    def applies(self, says: str, before: Items, outcome: object) -> "Of":
        return self._add(says, before, outcome, applied=True)

    def refuses(self, says: str, before: Items, outcome: object) -> "Of":
        return self._add(says, before, outcome, applied=False)

    def _add(self, says: str, before: Items, outcome: object, *, applied: bool) -> "Of":
        self.cases.append(Case(self.transition, says, self.write, before, self.decode, outcome, applied))
        return self


def landed(answer: Answer) -> bool:
    """Where a transition has no outcome but this."""
    return isinstance(answer, Applied)


def undecided(cases: Iterable[Case]) -> list[str]:
    """The clauses that decide no case on their own: no case would show it if they were lost, or always true."""
    cases = list(cases)
    found = []
    clauses = clauses_of(cases[0].write("x").condition)
    for place, clause in clauses.items():
        for applied in (True, False):
            shown = any(case.applied is applied and _decides(place, case) for case in cases)
            if not shown:
                found.append(f"{clause} {'holding' if applied else 'failing'}")
    return found


type Place = tuple[int, ...]
"""Where a clause stands in a condition: which term of which term."""


def clauses_of(condition: Condition, place: Place = ()) -> dict[Place, Condition]:
    match condition:
        case AllOf(terms) | AnyOf(terms):
            found: dict[Place, Condition] = {}
            for number, term in enumerate(terms):
                found |= clauses_of(term, (*place, number))
            return found
        case Not(term):
            return clauses_of(term, (*place, 0))
        case Always():
            return {}
        case Equals() | Less() | Greater() | Absent() | Present():
            return {place: condition}


def _decides(place: Place, case: Case) -> bool:
    condition, item = case.write("x").condition, case.before("x")
    return _holds_but(condition, item, place) != holds(condition, item)


def _holds_but(condition: Condition, item: Item | None, place: Place) -> bool:
    """Whether `condition` holds when the clause at `place` is taken for the opposite of what it is."""
    if not place:
        return not holds(condition, item)
    first, rest = place[0], place[1:]
    match condition:
        case AllOf(terms):
            return all(_holds_but(t, item, rest) if n == first else holds(t, item) for n, t in enumerate(terms))
        case AnyOf(terms):
            return any(_holds_but(t, item, rest) if n == first else holds(t, item) for n, t in enumerate(terms))
        case Not(term):
            return not _holds_but(term, item, rest)
        case _:
            raise AssertionError(place)
