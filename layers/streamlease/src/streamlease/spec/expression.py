"""JMESPath expressions, compiled once into functions that never raise.

Plain paths, lists of them, and comparisons with a literal, which most are, become closures; all else goes through
jmespath itself. A message that an expression does not fit (a function given the wrong type, say) yields None, or False
for a condition.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import jmespath
from jmespath import functions
from jmespath.exceptions import EmptyExpressionError, IncompleteExpressionError, JMESPathError, LexerError, ParseError

from streamlease.feed.feed import Extract
from streamlease.spec.effort import MOST_MADE, MOST_TIMES, Effort, reach, steps_of
from streamlease.spec.unfit import Unfit
from streamlease.write import Value

LONGEST = 1_000
_CACHED = 4_096
_CLOSURE_US: Final = 0.1
"""For each part of an expression that has become a closure."""
_TROUBLE = (JMESPathError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What jmespath raises on data that an expression does not fit, or that is too deep."""
_RAW: Final = re.compile(r"'(?:\\'|[^'])*'")
_BACKTICKED: Final = re.compile(r"`((?:\\`|[^`])*)`")
_DOUBLE_QUOTED: Final = re.compile(r"""(?:==|!=)\s*"([^"]*)"|"([^"]*)"\s*(?:==|!=)(?!\s*['`])""")
"""A name in quotes where a text is meant: compared with something that is no literal, or on a comparison's right."""
_BARE_NUMBER: Final = re.compile(r"(?:==|!=|<=?|>=?)\s*(-?[0-9]+(?:\.[0-9]+)?)")

_INTERPRETER: Final = jmespath.visitor.TreeInterpreter()
"""It keeps nothing of an expression; jmespath itself makes one for each search, which takes as long as a small one."""

type _Node = Mapping[str, Any]


@lru_cache(_CACHED)
def extractor(text: str) -> Extract:
    """What reads the expression's value out of a message. Raises Unfit."""
    node = _parsed(text)
    return _plain(node) or _through_jmespath(text)


def plain_path(text: str) -> tuple[str | int, ...] | None:
    """The fields and indexes that a plain path takes; None where it is more than that. Raises Unfit."""
    return steps_of(_parsed(text))


@lru_cache(_CACHED)
def condition(text: str) -> Extract:
    """What tells whether the expression is true of a message, as JMESPath counts truth. Raises Unfit."""
    node = _parsed(text)
    return _condition(node) or _truth_of(_through_jmespath(text))


@lru_cache(_CACHED)
def effort(text: str, *, as_condition: bool = False) -> Effort:
    """What reading it, or telling whether it holds, takes at most of a message. Raises Unfit."""
    node = _parsed(text)
    made = _condition(node) if as_condition else _plain(node)
    return reach(node).effort if made is None else Effort(_CLOSURE_US * _size(node))


def _size(node: _Node) -> int:
    return 1 + sum(_size(child) for child in node["children"] if isinstance(child, Mapping))


def _parsed(text: str) -> _Node:
    if len(text) > LONGEST:
        raise Unfit(f"is an expression of {len(text)} characters; {LONGEST} are the most")
    bare = _RAW.sub("''", text)
    quoted = _DOUBLE_QUOTED.search(bare)
    if quoted is not None:
        word = quoted[1] if quoted[1] is not None else quoted[2]
        raise Unfit(
            f"compares with a field named {word}; to compare with the text, use single quotes: '{word}' in {text}"
        )
    for literal in _BACKTICKED.findall(bare):
        if not _is_json(literal.replace("\\`", "`")):
            raise Unfit(f"has `{literal}` in backticks, which are for JSON values; a text stands in single quotes")
    try:
        node: _Node = jmespath.compile(text).parsed
    except EmptyExpressionError:
        raise Unfit("is empty; leave it out, or write a JMESPath expression") from None
    except (JMESPathError, RecursionError) as error:
        raise Unfit(f"is not a JMESPath expression: {text!r} {_where(error)}{_hint(text)}") from None
    problem = next(_problems(node, in_arguments=False), None)
    if problem is not None:
        raise Unfit(f"{problem} in {text!r}")
    found = reach(node)
    if found.times > MOST_TIMES or found.made > MOST_MADE:
        raise Unfit(
            f"may give more than {MOST_TIMES} times what it is given, or {MOST_MADE:,} values of its own: {text!r};"
            " name fewer parts that lie in each other, such as [@, @]"
        )
    return node


def _where(error: Exception) -> str:
    match error:
        case IncompleteExpressionError():
            return "ends too early"
        case LexerError():
            return f"goes wrong at character {error.lexer_position + 1}"
        case ParseError(token_value="") if hasattr(error, "lex_position"):
            return "ends too early"
        case ParseError(token_value=token) if hasattr(error, "lex_position"):
            return f"goes wrong at character {error.lex_position + 1}, at {token!r}"
        case _:
            return "cannot be read"


def _is_json(literal: str) -> bool:
    try:
        json.loads(literal)
    except (ValueError, RecursionError):
        return False
    return True


def _hint(text: str) -> str:
    number = _BARE_NUMBER.search(text)
    return f"; a number to compare with stands in backticks: `{number[1]}`" if number else ""


def _problems(node: _Node, *, in_arguments: bool) -> Iterator[str]:
    """What jmespath would only find out at the first message."""
    if node["type"] == "expref" and not in_arguments:
        yield "has a & outside of a function's arguments"
    is_call = node["type"] == "function_expression"
    if is_call:
        known = functions.Functions.FUNCTION_TABLE.get(node["value"])
        if known is None:
            yield f"calls {node['value']}(), which JMESPath does not have,"
        else:
            wanted, given = known["signature"], len(node["children"])
            variadic = bool(wanted) and bool(wanted[-1].get("variadic"))
            if given < len(wanted) or (given > len(wanted) and not variadic):
                yield f"gives {node['value']}() {given} arguments instead of {len(wanted)}"
    for child in node["children"]:
        if isinstance(child, Mapping):
            yield from _problems(child, in_arguments=is_call)


def _plain(node: _Node) -> Extract | None:
    if node["type"] == "multi_select_list":
        parts = [_plain(child) for child in node["children"]]
        reads = [part for part in parts if part is not None]
        if len(reads) < len(parts):
            return None
        return lambda value: None if value is None else [read(value) for read in reads]
    steps = steps_of(node)
    return None if steps is None else _path(steps)


def _path(steps: tuple[str | int, ...]) -> Extract:
    if len(steps) == 1 and isinstance(steps[0], str):
        field = steps[0]
        return lambda value: value.get(field) if isinstance(value, dict) else None
    if len(steps) == 2 and isinstance(steps[0], str) and isinstance(steps[1], str):
        outer, inner = steps

        def read_two(value: Value) -> Value:
            found = value.get(outer) if isinstance(value, dict) else None
            return found.get(inner) if isinstance(found, dict) else None

        return read_two

    def read(value: Value) -> Value:
        for step in steps:
            if isinstance(step, str):
                if not isinstance(value, dict):
                    return None
                value = value.get(step)
            else:
                if not isinstance(value, list):
                    return None
                try:
                    value = value[step]
                except IndexError:
                    return None
        return value

    return read


def _through_jmespath(text: str) -> Extract:
    node = jmespath.compile(text).parsed
    visit = _INTERPRETER.visit

    def read(value: Value) -> Value:
        try:
            found: Value = visit(node, value)
        except _TROUBLE:
            return None
        return found

    return read


def _truth_of(read: Extract) -> Extract:
    def holds(value: Value) -> Value:
        found = read(value)
        # JMESPath: false are null, false and whatever is empty; 0 is true.
        return found is not None and found is not False and found != "" and found != [] and found != {}

    return holds


def _condition(node: _Node) -> Extract | None:
    """A condition of paths, texts, and, or and not; None where it is more than that."""
    match node["type"]:
        case "comparator" if node["value"] in ("eq", "ne"):
            return _comparison(node)
        case "not_expression":
            inner = _condition(node["children"][0])
            return None if inner is None else lambda value: not inner(value)
        case "and_expression" | "or_expression":
            left, right = (_condition(child) for child in node["children"])
            if left is None or right is None:
                return None
            if node["type"] == "and_expression":
                return lambda value: bool(left(value)) and bool(right(value))
            return lambda value: bool(left(value)) or bool(right(value))
        case _:
            steps = steps_of(node)
            return None if steps is None else _truth_of(_path(steps))


def _comparison(node: _Node) -> Extract | None:
    left, right = node["children"]
    if left["type"] == "literal":
        left, right = right, left
    steps = steps_of(left)
    if steps is None or right["type"] != "literal":
        return None
    equal = _equal(_path(steps), right["value"])
    if equal is None or node["value"] == "eq":
        return equal
    return lambda value: not equal(value)


def _equal(read: Extract, literal: Any) -> Extract | None:
    """As JMESPath has it: a number equals no boolean. None for a list or map, whose entries have the same rule."""
    if isinstance(literal, bool) or literal is None:
        return lambda value: read(value) is literal
    if isinstance(literal, str):
        return lambda value: read(value) == literal
    if not isinstance(literal, int | float):
        return None

    def holds(value: Value) -> Value:
        found = read(value)
        return found == literal and found is not True and found is not False

    return holds
