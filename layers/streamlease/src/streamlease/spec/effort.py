"""What an expression takes at most, and how large its result may be, reckoned from its parts before any message comes.

An upper bound in microseconds (see `feed.bounds`), as a sum of a fixed part, a part for each value of the message, and
a part for each entry of a list in it. It is linear because the elements of a list are no more than the list: a
projection looks at each of them once. What makes a message larger, a list that holds it several times and is flattened,
say, could grow without end; how large a result may be is therefore bounded itself.

Filters and projections look at the entries of lists, of which most messages have far fewer than values: a record of ten
fields is one. Only where a list was made of something else (a map's values, say) may it have as many as there are
values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Microseconds, for a message, for each value in it, and for each that is the entry of a list besides."""

    per_message_us: float = 0.0
    per_value_us: float = 0.0
    per_entry_us: float = 0.0

    def __add__(self, other: "Effort") -> "Effort":
        return Effort(
            self.per_message_us + other.per_message_us,
            self.per_value_us + other.per_value_us,
            self.per_entry_us + other.per_entry_us,
        )


@dataclass(frozen=True, slots=True)
class Reach:
    """Of an expression on n values, e of them entries of lists: it takes `fixed + each * n + entry * e` µs, and gives
    at most `made + times * n` values."""

    fixed: float
    each: float = 0.0
    times: float = 1.0
    made: float = 0.0
    entry: float = 0.0
    found: bool = True
    """Whether all that it gives was found in the message, so that its lists have no more entries than those there."""

    def then(self, after: "Reach") -> "Reach":
        """Of both, the second on what the first gives."""
        return self._taking(after.fixed, after.each, after.entry).giving(
            Reach(0.0, 0.0, self.times * after.times, self.made * after.times + after.made, found=after.found)
        )

    def for_each(self, after: "Reach") -> "Reach":
        """Of both, the second on each element of what the first gives: none is counted twice."""
        grows = after.times + after.made
        return self._taking(0.0, after.each, after.fixed + after.entry).giving(
            Reach(0.0, 0.0, self.times * grows, self.made * grows, found=after.found)
        )

    def passed(self) -> "Reach":
        """And then passed over whole."""
        return self._taking(0.0, _PASSED_US, 0.0)

    def listed(self) -> "Reach":
        """And then made a list anew, of the same entries."""
        return self._taking(0.0, 0.0, _PASSED_US)

    def giving(self, given: "Reach") -> "Reach":
        """What it takes, and what another gives, of what was found where both were."""
        found = self.found and given.found
        return Reach(self.fixed, self.each, given.times, given.made, self.entry, found)

    def _taking(self, fixed: float, each: float, entry: float) -> "Reach":
        """And so much more, for each value and each entry of what it gives."""
        made = (each + entry) * self.made
        of_values = each if self.found else each + entry
        return Reach(
            self.fixed + fixed + made,
            self.each + of_values * self.times,
            self.times,
            self.made,
            self.entry + (entry if self.found else 0.0),
            self.found,
        )

    @property
    def effort(self) -> Effort:
        return Effort(_SEARCH_US + self.fixed, self.each, self.entry)


def reach(node: Node) -> Reach:
    """Of an expression as jmespath has parsed it, and looks it through."""
    children = node["children"]
    match node["type"]:
        case "literal":
            return Reach(_NODE_US, times=0.0, made=_values(node["value"]), found=False)
        case "subexpression" | "index_expression" | "pipe":
            found = Reach(_NODE_US)
            for child in children:
                found = found.then(reach(child))
            return found
        case "flatten":
            return Reach(_NODE_US).then(reach(children[0])).listed()
        case "slice":
            return Reach(_NODE_US).listed()
        case "projection":
            return Reach(_NODE_US).then(reach(children[0])).for_each(reach(children[1]))
        case "value_projection":  # of a map's values, which are no entries of a list
            return _made(Reach(_NODE_US).then(reach(children[0]))).for_each(reach(children[1]))
        case "filter_projection":
            base, given = Reach(_NODE_US).then(reach(children[0])), reach(children[1])
            return base.for_each(_together([reach(children[2]), given])).giving(base.for_each(given))
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
            taken = replace(both, fixed=both.fixed + _PASSED_US * both.made) if literal else both.passed()
            return taken.giving(Reach(0.0, times=0.0, made=1.0))
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
        sum(part.entry for part in parts),
        all(part.found for part in parts),
    )


def _made(reach: Reach) -> Reach:
    """What it gives counts as made: there may be as many entries of lists in it as values."""
    return replace(reach, found=False)


def _selected(children: Sequence[Node]) -> Reach:
    """Parts of which none lies in another are together no larger than the message."""
    parts = [child["children"][0] if child["type"] == "key_val_pair" else child for child in children]
    whole = _made(_together([reach(child) for child in children]))
    paths = [steps_of(part) for part in parts]
    known = [path for path in paths if path is not None]
    if len(known) < len(paths):
        return whole
    ordered = sorted([str(step) if isinstance(step, str) else f"\0{step}" for step in path] for path in known)
    # In order, whatever lies in another comes right after it, or after one that does. An index from the end may be any.
    apart = all(second[: len(first)] != first for first, second in pairwise(ordered))
    from_the_end = any(isinstance(step, int) and step < 0 for path in known for step in path)
    return whole.giving(Reach(0.0, times=1.0, made=1.0)) if apart and not from_the_end else whole


def _called(name: str, children: Sequence[Node]) -> Reach:
    given = _together([reach(child) for child in children if child["type"] != "expref"])
    found = replace(given, fixed=given.fixed + _CALL_US)
    if name not in _SHALLOW:
        found = found.passed()
    for child in children:
        if child["type"] == "expref":
            found = found.for_each(reach(child))
    return _made(found)


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
