"""Expressions mean what jmespath says they mean, and never raise on what an upstream sends."""

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jmespath.exceptions import JMESPathError

from streamlease.spec.expression import condition, extractor

EXPRESSIONS = [
    "@",
    "a",
    "a.b",
    "[0]",
    "[-1]",
    "[2].a",
    "a[0].b",
    "a[0][1]",
    '"a b".c',
    "\"a b\"=='x'",
    '"a b" != `1`',
    "a[*].b",
    "a || b",
    "keys(@)",
    "length(a)",
    "starts_with(a, 'x')",
    "[0]=='x'",
    "'x'==a",
    "a!='x'",
    "a=='x' && b",
    "!a",
    "!(a=='x') || b.c=='x'",
    "a==`1`",
    "a==`true`",
    "a.b==a",
    "a > `1`",
    "a == 'x==\"y\" `z`'",
    "{x: a, y: b}",
    "[a, b]",
    "[a.b, c[0], [0]]",
    "[a, length(b)]",
    "a!=`1`",
    "a.b==`1.0`",
    "`2`==c && a!=`false`",
    "a==`null`",
    "a==`[1]`",
    "max_by(@, &a).b",
]
scalars = st.one_of(st.none(), st.booleans(), st.sampled_from([0, 1, 2, 1.0, 1.5]), st.sampled_from(["", "x", "xy"]))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "c", "a b"]), inner, max_size=3)
    ),
    max_leaves=12,
)


def truth(found: object) -> bool:
    return not (found is None or found is False or found in ("", [], {}))


@given(st.sampled_from(EXPRESSIONS), values)
def test_a_compiled_expression_agrees_with_jmespath(text: str, value: object) -> None:
    try:
        expected = jmespath.search(text, value)
    except (JMESPathError, TypeError):  # a comparison of a text with a number, which jmespath does not foresee
        expected = None
    found = extractor(text)(value)  # type: ignore[arg-type]
    assert (found, type(found)) == (expected, type(expected))
    assert condition(text)(value) is truth(expected)  # type: ignore[arg-type]


@given(st.text("ab.[]0'`&!|()@*:,\"=<>? ", max_size=14), values)
def test_whatever_is_written_either_compiles_or_is_refused_in_words(text: str, value: object) -> None:
    refusals = []
    try:
        read, holds = extractor(text), condition(text)
    except ValueError as error:
        refusals.append(error)
    else:
        read(value)  # type: ignore[arg-type]
        holds(value)  # type: ignore[arg-type]
    assert not any(isinstance(refusal, JMESPathError) for refusal in refusals)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("a.", "ends too early"),
        ("[2.created_at", "goes wrong at character"),
        ("a ~ b", "goes wrong at character 3"),
        ('[0]=="EOSE"', "use single quotes: 'EOSE'"),
        ('"EOSE"==[0]', "use single quotes: 'EOSE'"),
        ("a==`x`", "a text stands in single quotes"),
        ("op==10", "stands in backticks: `10`"),
        ("lenght(a)", "calls lenght\\(\\), which JMESPath does not have"),
        ("length(a, b)", "gives length\\(\\) 2 arguments instead of 1"),
        ("&a", "outside of a function's arguments"),
        ("[&a, b]", "outside of a function's arguments"),
        ("a" * 1_001, "1000 are the most"),
        ("(" * 900, "ends too early|cannot be read"),
    ],
)
def test_a_bad_expression_is_refused_with_what_to_do(text: str, says: str) -> None:
    for compile_ in (extractor, condition):
        with pytest.raises(ValueError, match=says):
            compile_(text)
