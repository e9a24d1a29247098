"""What an expression takes at most, and how large its result may be, reckoned from its parts before any message comes.

An upper bound in microseconds (see `feed.bounds`), as a sum of a fixed part and a part for each value of the message.
It is linear because the elements of a list are no more than the list: a projection looks at each of them once. What
makes a message larger, a list that holds it several times and is flattened, say, could grow without end; how large a
result may be is therefore bounded itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

MOST_TIMES: Final = 16
"""A result is at most so many times as large as the message."""
MOST_MADE: Final = 10_000
"""And at most so many values more: literals."""
_SEARCH_US: Final = 1.5
_NODE_US: Final = 0.5
_CALL_US: Final = 2.0
"""Of a function, beside its arguments."""
_PASSED_US: Final = 0.1
"""Of a value that compiled code passes: compared, sorted, copied, written out."""

_SHALLOW: Final = frozenset(
    {"abs", "ceil", "ends_with", "floor", "length", "not_null", "starts_with", "to_array", "to_number", "type"}
)
"""Functions that look at no value within their arguments."""

type Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Effort:
    """Microseconds, for a message and for each value in it."""

    per_message_us: float = 0.0
    per_value_us: float = 0.0

    def __add__(self, other: "Effort") -> "Effort":
        return Effort(self.per_message_us + other.per_message_us, self.per_value_us + other.per_value_us)


@dataclass(frozen=True, slots=True)
class Reach:
    """Of an expression on n values: it takes `fixed + each * n` µs, and gives at most `made + times * n` values."""

    fixed: float
    each: float = 0.0
    times: float = 1.0
    made: float = 0.0

    def then(self, after: "Reach") -> "Reach":
        """Of both, the second on what the first gives."""
        return Reach(
            self.fixed + after.fixed + after.each * self.made,
            self.each + after.each * self.times,
            self.times * after.times,
            self.made * after.times + after.made,
        )

    def for_each(self, after: "Reach") -> "Reach":
        """Of both, the second on each element of what the first gives: none is counted twice."""
        a_value = after.fixed + after.each
        grows = after.times + after.made
        return Reach(
            self.fixed + a_value * self.made,
            self.each + a_value * self.times,
            self.times * grows,
            self.made * grows,
        )

    def passed(self) -> "Reach":
        """And then passed over whole."""
        return Reach(self.fixed + _PASSED_US * self.made, self.each + _PASSED_US * self.times, self.times, self.made)

    @property
    def effort(self) -> Effort:
        return Effort(_SEARCH_US + self.fixed, self.each)


def reach(node: Node) -> Reach:
    """Of an expression as jmespath has parsed it, and looks it through."""
    children = node["children"]
    match node["type"]:
        case "literal":
            return Reach(_NODE_US, times=0.0, made=_values(node["value"]))
        case "subexpression" | "index_expression" | "pipe":
            found = Reach(_NODE_US)
            for child in children:
                found = found.then(reach(child))
            return found
        case "flatten":
            return Reach(_NODE_US).then(reach(children[0])).passed()
        case "slice":
            return Reach(_NODE_US).passed()
        case "projection" | "value_projection":
            return Reach(_NODE_US).then(reach(children[0])).for_each(reach(children[1]))
        case "filter_projection":
            base, given = Reach(_NODE_US).then(reach(children[0])), reach(children[1])
            return _sized(base.for_each(_together([reach(children[2]), given])), base.for_each(given))
        case "multi_select_list" | "multi_select_dict":
            return _selected(children)
        case "key_val_pair" | "expref":
            return Reach(_NODE_US).then(reach(children[0]))
        case "function_expression":
            return _called(node["value"], children)
        case "comparator":
            left, right = reach(children[0]), reach(children[1])
            both = _together([left, right])
            # Of what a literal is compared with, no more is looked at than the literal has.
            literal = any(child["type"] == "literal" for child in children)
            taken = Reach(both.fixed + _PASSED_US * both.made, both.each) if literal else both.passed()
            return _sized(taken, Reach(0.0, times=0.0, made=1.0))
        case "or_expression" | "and_expression" | "not_expression":
            return _together([reach(child) for child in children])
        case _:
            return Reach(_NODE_US)


def _together(parts: Sequence[Reach]) -> Reach:
    """All of them on the same."""
    return Reach(
        _NODE_US + sum(part.fixed for part in parts),
        sum(part.each for part in parts),
        sum(part.times for part in parts),
        1.0 + sum(part.made for part in parts),
    )


def _sized(taken: Reach, given: Reach) -> Reach:
    return Reach(taken.fixed, taken.each, given.times, given.made)


def _selected(children: Sequence[Node]) -> Reach:
    """Parts of which none lies in another are together no larger than the message."""
    parts = [child["children"][0] if child["type"] == "key_val_pair" else child for child in children]
    whole = _together([reach(child) for child in children])
    paths = [steps_of(part) for part in parts]
    known = [path for path in paths if path is not None]
    if len(known) < len(paths):
        return whole
    ordered = sorted([str(step) if isinstance(step, str) else f"\0{step}" for step in path] for path in known)
    # In order, whatever lies in another comes right after it, or after one that does. An index from the end may be any.
    apart = all(second[: len(first)] != first for first, second in pairwise(ordered))
    from_the_end = any(isinstance(step, int) and step < 0 for path in known for step in path)
    return _sized(whole, Reach(0.0, times=1.0, made=1.0)) if apart and not from_the_end else whole


def _called(name: str, children: Sequence[Node]) -> Reach:
    given = _together([reach(child) for child in children if child["type"] != "expref"])
    found = Reach(given.fixed + _CALL_US, given.each, given.times, given.made)
    if name not in _SHALLOW:
        found = found.passed()
    for child in children:
        if child["type"] == "expref":
            found = found.for_each(reach(child))
    return found


def _values(value: object) -> float:
    if isinstance(value, dict):
        return 1.0 + sum(1.0 + _values(entry) for entry in value.values())
    return 1.0 + sum(map(_values, value)) if isinstance(value, list) else 1.0


def steps_of(node: Node) -> tuple[str | int, ...] | None:
    """The fields and indexes of a plain path; None where it is more than that."""
    match node["type"]:
        case "identity" | "current":
            return ()
        case "field":
            return (str(node["value"]),)
        case "index":
            return (int(node["value"]),)
        case "subexpression" | "index_expression":
            parts = [steps_of(child) for child in node["children"]]
            return None if None in parts else tuple(step for part in parts if part is not None for step in part)
        case _:
            return None
