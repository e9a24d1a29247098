"""msgpack and CBOR are counted by their heads as a decoder would, and no further than asked."""

from typing import Any

import cbor2
import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.spec.items import CBOR, MSGPACK, Heads, count

MOST = 10_000
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=300),
    st.binary(max_size=300),
    st.sampled_from(["x" * 70_000, b"x" * 70_000]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=20), st.dictionaries(st.text(max_size=40), inner, max_size=20)),
    max_leaves=40,
)


def held(value: Any) -> int:
    """Values and names."""
    if isinstance(value, dict):
        return 1 + sum(1 + held(entry) for entry in value.values())
    return 1 + sum(map(held, value)) if isinstance(value, list) else 1


@given(values)
def test_msgpack_holds_as_many_items_as_it_was_made_of(value: Any) -> None:
    assert count(ormsgpack.packb(value), MSGPACK, MOST) == held(value)


@given(values)
def test_cbor_holds_as_many_items_as_it_was_made_of(value: Any) -> None:
    assert count(cbor2.dumps(value), CBOR, MOST) == held(value)


@pytest.mark.parametrize(
    ("data", "heads", "items"),
    [
        (ormsgpack.packb(ormsgpack.Ext(5, bytes(length))) + b"\xc0", MSGPACK, 2)
        for length in (0, 1, 2, 3, 4, 8, 16, 17, 300, 70_000)
    ]
    + [
        (b"\x9f\x00\xff", CBOR, 3),
        (b"\x7f\x61a\x61b\xff", CBOR, 4),
        (cbor2.dumps(cbor2.CBORTag(42, b"x")), CBOR, 2),
        (b"\x81" * 50, CBOR, 50),
        (b"", CBOR, 0),
    ],
)
def test_extensions_tags_and_what_has_no_length_of_its_own_are_counted(data: bytes, heads: Heads, items: int) -> None:
    assert count(data, heads, MOST) == items


@given(st.binary(max_size=200), st.integers(0, 20), st.sampled_from([CBOR, MSGPACK]))
def test_of_any_bytes_no_more_is_counted_than_asked_and_no_more_than_there_are(
    data: bytes, most: int, heads: Heads
) -> None:
    assert count(data, heads, most) <= min(most + 1, len(data))
    assert count(data, heads, most) == min(count(data, heads, MOST), most + 1)
