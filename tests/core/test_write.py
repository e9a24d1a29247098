"""Conditions and writes mean what DynamoDB means by them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.errors import Malformed
from streamlease.write import (
    Absent,
    Always,
    Condition,
    Delete,
    Equals,
    Greater,
    Item,
    Less,
    Not,
    Present,
    Put,
    Table,
    Update,
    all_of,
    any_of,
    apply,
    holds,
)

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS: st.SearchStrategy[Any] = st.integers(-3, 3) | st.sampled_from(["", "x", "3"]) | st.booleans()
ITEMS: st.SearchStrategy[Item | None] = st.none() | st.dictionaries(NAMES, SCALARS | st.none(), max_size=3)
LEAVES: st.SearchStrategy[Condition] = st.one_of(
    st.just(Always()),
    st.builds(Equals, NAMES, SCALARS),
    st.builds(Less, NAMES, st.integers(-3, 3)),
    st.builds(Greater, NAMES, st.integers(-3, 3)),
    st.builds(Absent, NAMES),
    st.builds(Present, NAMES),
)
CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, max_size=3).map(lambda terms: all_of(*terms)),
        st.lists(inner, max_size=3).map(lambda terms: any_of(*terms)),
    ),
    max_leaves=6,
)


@given(CONDITIONS, ITEMS)
def test_not_is_the_opposite_and_de_morgan_holds(condition: Condition, item: Item | None) -> None:
    assert holds(Not(condition), item) is not holds(condition, item)
    assert holds(Not(all_of(condition, Always())), item) is holds(any_of(Not(condition), Not(Always())), item)


@given(NAMES, ITEMS)
def test_an_attribute_is_either_absent_or_present(name: str, item: Item | None) -> None:
    assert holds(Absent(name), item) is not holds(Present(name), item)


@given(CONDITIONS)
def test_no_item_is_judged_as_an_item_without_attributes(condition: Condition) -> None:
    assert holds(condition, None) is holds(condition, {})


@given(NAMES, SCALARS, st.integers(-3, 3))
def test_comparisons_with_an_absent_attribute_are_false(name: str, value: Any, limit: int) -> None:
    assert not holds(Equals(name, value), {})
    assert not holds(Less(name, limit), {})
    assert not holds(Greater(name, limit), {})


@pytest.mark.parametrize("stored", ["1", True, None, [], {}])
def test_only_a_number_is_less_or_greater_than_a_number(stored: Any) -> None:
    assert not holds(Less("a", 10**15), {"a": stored})
    assert not holds(Greater("a", -(10**15)), {"a": stored})


@given(st.integers(-3, 3), st.integers(-3, 3))
def test_a_number_is_less_equal_or_greater(stored: int, limit: int) -> None:
    item = {"a": stored}
    told = [holds(term, item) for term in (Less("a", limit), Equals("a", limit), Greater("a", limit))]
    assert told == [stored < limit, stored == limit, stored > limit]


@pytest.mark.parametrize("stored", [True, "1", 1.5, None])
def test_values_of_another_kind_are_not_equal(stored: Any) -> None:
    assert not holds(Equals("a", 1), {"a": stored})


def test_numbers_are_equal_however_they_are_written() -> None:
    assert holds(Equals("a", 1), {"a": 1.0})


def test_true_equals_only_true() -> None:
    assert holds(Equals("a", True), {"a": True})
    assert not holds(Equals("a", True), {"a": 1})


KEY = {"connection_id": "x"}


def test_a_put_replaces_the_whole_item() -> None:
    write = Put(Table.CONNECTIONS, {"connection_id": "x", "b": 2}, Always())
    assert apply(write, {"connection_id": "x", "a": 1}) == {"connection_id": "x", "b": 2}
    assert write.key == KEY


def test_a_delete_leaves_no_item() -> None:
    assert apply(Delete(Table.CONNECTIONS, KEY, Always()), {"connection_id": "x"}) is None


def test_an_update_of_no_item_makes_one() -> None:
    update = Update(Table.CONNECTIONS, KEY, Always(), set={"a": 1}, add={"n": 2})
    assert apply(update, None) == {"connection_id": "x", "a": 1, "n": 2}


@given(
    st.dictionaries(NAMES, SCALARS),
    st.dictionaries(NAMES, SCALARS),
    st.sets(NAMES),
    st.dictionaries(st.sampled_from(["n", "m"]), st.integers(-9, 9)),
)
def test_an_update_changes_what_it_names_and_nothing_else(
    before: dict[str, Any], changes: dict[str, Any], removed: set[str], added: dict[str, int]
) -> None:
    removed -= changes.keys()
    item = {"connection_id": "x", "n": 5, **before}
    untouched = dict(item)
    update = Update(Table.CONNECTIONS, KEY, Always(), set=changes, remove=tuple(removed), add=added)
    after = apply(update, item)
    assert after is not None
    for name in ("a", "b", "c"):
        assert after.get(name) == changes.get(name, None if name in removed else before.get(name))
    assert removed.isdisjoint(after)
    assert (after.get("n"), after.get("m")) == (5 + added.get("n", 0), added.get("m"))
    assert item == untouched, "the item before is not touched"


@pytest.mark.parametrize("epoch", ["7", None, True, {}])
def test_adding_to_what_is_no_number_is_refused_and_never_begins_anew(epoch: Any) -> None:
    update = Update(Table.CONNECTIONS, KEY, Always(), add={"lease_epoch": 1})
    with pytest.raises(Malformed, match=r"connections .*'x'.*lease_epoch must be a number"):
        apply(update, {"connection_id": "x", "lease_epoch": epoch})
