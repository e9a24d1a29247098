"""Which record ids are remembered, and for how long."""

from hypothesis import given
from hypothesis import strategies as st

from streamlease.consume.dedupe import LONGEST, Window, remembered

USES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("123456789")), max_size=60)


@given(USES, st.integers(1, 5), st.integers(1, 9))
def test_an_id_is_known_until_too_many_others_have_been_used_since(
    uses: list[tuple[str, str]], per_connection: int, total: int
) -> None:
    window = Window(per_connection, total)
    for number, use in enumerate(uses):
        window.add(*use)
        assert len(window) <= total
        for seen in set(uses[: number + 1]):
            last = max(at for at in range(number + 1) if uses[at] == seen)
            since = set(uses[last + 1 : number + 1]) - {seen}
            of_its_own = sum(owner == seen[0] for owner, _ in since)
            if of_its_own >= per_connection:
                assert not window.knows(*seen)
            elif len(since) < total:
                assert window.knows(*seen)
        for connection_id in "abc":
            ids = window.ids(connection_id)
            assert len(ids) <= per_connection
            assert all(window.knows(connection_id, record_id) for record_id in ids)


@given(USES, st.integers(1, 5), st.integers(1, 9))
def test_no_memory_is_left_of_connections_without_ids(
    uses: list[tuple[str, str]], per_connection: int, total: int
) -> None:
    window = Window(per_connection, total)
    for use in uses:
        window.add(*use)
    assert all(window._by_connection.values())
    for connection_id in "abc":
        window.forget(connection_id)
    assert (len(window), window._by_connection) == (0, {})


def test_a_window_of_no_size_remembers_nothing() -> None:
    for window in (Window(0, 9), Window(9, 0)):
        window.add("c", "1")
        assert (len(window), window._by_connection) == (0, {})


def test_ids_are_told_apart_by_connection() -> None:
    window = Window()
    window.add("c", "1")
    assert not window.knows("d", "1")


def test_the_ids_of_a_connection_come_oldest_first_and_use_makes_one_new() -> None:
    window = Window()
    for record_id in ("1", "2", "3", "1"):
        window.add("c", record_id)
    assert window.ids("c") == ("2", "3", "1")
    assert window.ids("d") == ()


def test_an_id_of_any_length_or_script_takes_bounded_plain_memory_and_is_still_told_from_others() -> None:
    window = Window()
    strange = ["a" * LONGEST, "a" * (LONGEST + 1), "a" * 1_000_000, "ü", "\ud800", ""]
    for record_id in strange:
        assert not window.knows("c", record_id)
        window.add("c", record_id)
        assert window.knows("c", record_id)
    assert all(len(kept) <= LONGEST and kept.isascii() for kept in window.ids("c"))


@given(st.text())
def test_what_is_remembered_of_an_id_is_remembered_as_it_is(record_id: str) -> None:
    assert remembered(remembered(record_id)) == remembered(record_id)
