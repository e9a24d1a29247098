"""Plain values survive the store exactly, or are refused before they are sent."""

import math
from collections.abc import Mapping
from decimal import Decimal

import pytest
from boto3.dynamodb.types import TypeDeserializer
from hypothesis import given
from hypothesis import strategies as st

from streamlease.dynamodb.attributes import decode, decode_item, encode, encode_item
from streamlease.errors import Malformed
from streamlease.model import LastEvent
from streamlease.write import Value

INTEGERS = st.integers(-(10**38) + 1, 10**38 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: number == 0 or 1e-130 <= abs(number) < 1e126
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
EXACT: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXTS | st.binary(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(TEXTS, parts, max_size=4),
    max_leaves=12,
)


@given(value=EXACT)
def test_a_value_comes_back_as_it_was(value: Value) -> None:
    back = decode(encode(value))
    assert back == value
    assert type(back) is type(value)


@given(value=FLOATS)
def test_a_float_comes_back_as_the_same_float(value: float) -> None:
    back = decode(encode(value))
    assert isinstance(back, int | float)
    assert float(back) == value


@given(value=FLOATS)
def test_a_float_is_written_as_the_shortest_decimal_that_means_it(value: float) -> None:
    written = encode(value)["N"]
    assert isinstance(written, str)
    assert Decimal(written) == Decimal(repr(value))


@given(value=EXACT | FLOATS)
def test_boto3_reads_what_is_written(value: Value) -> None:
    TypeDeserializer().deserialize(encode(value))


@pytest.mark.parametrize("written", ["1E+2", "100", "100.0", "1.0E2"])
def test_a_whole_number_is_an_int_however_the_store_writes_it(written: str) -> None:
    back = decode({"N": written})
    assert back == 100
    assert isinstance(back, int)


@pytest.mark.parametrize("written", ["1E+60", "1" + "0" * 60])
def test_a_number_of_more_digits_than_an_int_may_have_was_a_float(written: str) -> None:
    assert decode({"N": written}) == 1e60


@given(value=st.integers(min_value=10**38) | st.integers(max_value=-(10**38)) | st.just(-(10**5000)))
def test_a_longer_int_is_refused_by_name(value: int) -> None:
    with pytest.raises(Malformed, match=r"connection 'a': position\.sequence has more than the 38 digits"):
        encode_item({"position": {"sequence": value}}, "connection 'a'")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 5e-324, 1e126, -1e300])
def test_a_float_that_no_store_keeps_is_refused(value: float) -> None:
    with pytest.raises(Malformed, match="outside the numbers"):
        encode(value)


def test_half_of_a_surrogate_pair_is_refused_by_name() -> None:
    with pytest.raises(Malformed, match=r"item: spec\.a\[1\] is not valid Unicode"):
        encode_item({"spec": {"a": ["fine: ü☃𝄞", "\ud800"]}})


def test_a_kind_that_no_item_has_is_refused_by_name() -> None:
    with pytest.raises(Malformed, match=r"item: when is of a kind that DynamoDB does not keep, object"):
        encode_item({"when": object()})  # type: ignore[dict-item]


def test_an_enumerations_member_becomes_its_plain_text() -> None:
    text = encode(LastEvent.CLAIMED)["S"]
    assert text == "CLAIMED"
    assert type(text) is str


def test_sets_that_strangers_wrote_are_read_as_lists() -> None:
    strange: Mapping[str, object] = {"a": {"SS": ["x"]}, "b": {"NS": ["1", "0.5"]}, "c": {"BS": [b"x"]}}
    assert decode_item(strange) == {"a": ["x"], "b": [1, 0.5], "c": [b"x"]}  # type: ignore[arg-type]
