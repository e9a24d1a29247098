"""What an expression takes is reckoned before any message is there, and is never less than what it then takes."""

from typing import Any

import jmespath
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamlease.spec.effort import _NODE_US, MOST_TIMES, reach
from streamlease.spec.expression import effort, extractor
from streamlease.spec.unfit import Unfit


class Counting(jmespath.visitor.TreeInterpreter):
    """How many parts of expressions were looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.visits = 0

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        self.visits += 1
        return super().visit(node, *args, **kwargs)


def size(value: object) -> int:
    """Values, names left out; what is held twice counts twice."""
    if isinstance(value, dict):
        return 1 + sum(map(size, value.values()))
    return 1 + sum(map(size, value)) if isinstance(value, list) else 1


def entries(value: object) -> int:
    """Of lists."""
    if isinstance(value, dict):
        return sum(map(entries, value.values()))
    return len(value) + sum(map(entries, value)) if isinstance(value, list) else 0


def chained(first: str, second: str) -> str:
    return f"{first} | {second}"


leaves = st.sampled_from(["a", "b", "@", "[0]", "a.b", "a[1]", "'x'", "`1`", "`[1, 2, 3]`", "*", "[*]", "a[]", "a[:2]"])
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(chained, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{x: {}, y: {}}}".format, inner, inner),
        st.builds("[?{}].a".format, inner),
        st.builds("({}) | [].{{x: a, y: @}}".format, inner),
        st.builds("({}) | [*].[a, a]".format, inner),
        st.builds("({}) | *.b".format, inner),
        st.builds("{} == {}".format, inner, inner),
        st.builds("({}) || ({})".format, inner, inner),
        st.builds("({}) && ({})".format, inner, inner),
        st.builds("not_null({}, {})".format, inner, inner),
        st.builds("to_array({})".format, inner),
        st.builds("map(&({}), to_array({}))".format, inner, inner),
        st.builds("values({})[]".format, inner),
        st.builds("keys({})[?{}]".format, inner, inner),
        st.builds("max_by({}, &({}))".format, inner, inner),
    ),
    max_leaves=6,
)
messages = st.recursive(
    st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["", "x"])),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=30,
)


@given(expressions, messages)
@example("[*].[*].[a, b, c]", [[0] * 50])
@example("[*].[`[1, 2, 3, 4, 5]`]", [0] * 50)
@example("map(&[@, @], @)[]", [[0] * 20])
@example("[?a == b].[@, @]", [{"a": 1, "b": 1, "c": [1, 2]}] * 20)
@example("values(@)[?@ == 'x']", {str(index): 0 for index in range(99)})
@example("*.[a, b][]", {str(index): {"a": 0} for index in range(99)})
@example("[*].[a, b, c] | [][?@ == 'x']", [{"a": 0, "b": 0, "c": 0}] * 50)
@example("(a || [b, b, b])[?@ == 'x']", {"b": 0})
@example("not_null(a, b)[*].[*].c", {"b": [[0] * 50]})
def test_nothing_takes_more_or_becomes_larger_than_was_reckoned(text: str, message: Any) -> None:
    parsed = jmespath.compile(text).parsed
    reckoned, counting = reach(parsed), Counting()
    try:
        found = counting.visit(parsed, message)
    except (jmespath.exceptions.JMESPathError, TypeError):  # max_by of texts and numbers
        assume(False)
    number = size(message)
    most_us = reckoned.fixed + reckoned.each * number + reckoned.entry * entries(message)
    assert counting.visits * _NODE_US <= most_us + _NODE_US
    assert size(found) <= reckoned.times * number + reckoned.made + 1
    assert not reckoned.found or entries(found) <= entries(message)


@pytest.mark.parametrize(
    "text",
    [
        " | ".join(["[@, @][]"] * 5),
        " | ".join(["{a: @, b: @} | *"] * 5),
        " | ".join(["map(&[@, @], to_array(@))"] * 6),
        "[" + ", ".join(["@"] * 17) + "]",
        "[a, a.b, a.c, a.d, a, a, a, a, a, a, a, a, a, a, a, a, a]",
        " | ".join(["[`[1,2,3,4,5,6,7,8,9,10]`, @, @][]"] * 20),
    ],
)
def test_what_makes_many_times_as_much_of_a_message_is_refused(text: str) -> None:
    with pytest.raises(Unfit, match=f"may give more than {MOST_TIMES} times what it is given"):
        extractor(text)


def test_parts_that_do_not_lie_in_each_other_are_no_more_than_the_message() -> None:
    many = ", ".join(f"f{index}" for index in range(50))
    assert reach(jmespath.compile(f"[{many}]").parsed).times == 1
    assert extractor(f"[{many}, a.b, a.c, a.d[0], a.d[1]]")({"f1": 7}) is not None
    assert reach(jmespath.compile("[a.b, a]").parsed).times == 2
    assert reach(jmespath.compile("[a[0], a[-1]]").parsed).times == 2


def test_paths_and_comparisons_look_at_no_more_of_a_longer_message_and_filters_do() -> None:
    assert effort("a.b[0].c").per_value_us == 0
    assert effort("a.b[0].c").per_entry_us == 0
    assert effort("[symbol, trade_id]").per_value_us == 0
    assert effort("type=='x' && (op==`1` || !done)", as_condition=True).per_value_us == 0
    assert effort("starts_with(topic || '', 'publicTrade.')", as_condition=True).per_value_us == 0
    one, two = effort("events[?type=='x']"), effort("events[].trades[?type=='x'].price")
    assert 0 < one.per_entry_us < two.per_entry_us
    assert one.per_value_us == two.per_value_us == 0


def test_a_filter_goes_by_the_entries_of_lists_and_not_by_what_is_in_them() -> None:
    """A list made of something else, whose entries are none of the message's, goes by the values."""
    for text in ("d[?a=='x'].{a: a, b: b}", "a[].b[]", "sort_by(d, &a)[0]", "d[?a=='x' || b>`3`] | [0]", "d[:9]"):
        assert 0 < effort(text).per_entry_us < 7
    for text in ("*[]", "values(@)[?a=='x']", "keys(@)[*]", "[a, b, c][?d]", "d[].[a, b][]", "to_array(@)[*]"):
        assert effort(text).per_value_us > 0.3


def test_filters_of_filters_are_reckoned_at_once() -> None:
    assert reach(jmespath.compile("a" + "[?b]" * 200).parsed).entry < 1_000
