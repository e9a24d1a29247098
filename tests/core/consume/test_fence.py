"""The highest epoch of each connection."""

from hypothesis import given
from hypothesis import strategies as st

from streamlease.consume.fence import Fence


def test_an_older_epoch_is_stale_once_a_newer_was_processed_and_not_before() -> None:
    fence = Fence()
    assert not fence.is_stale("c", 1)
    fence.advance("c", 2)
    assert [fence.is_stale("c", epoch) for epoch in (1, 2, 3)] == [True, False, False]


def test_each_connection_has_its_own_fence() -> None:
    fence = Fence()
    fence.advance("c", 2)
    assert not fence.is_stale("d", 1)
    assert (fence.highest("c"), fence.highest("d")) == (2, None)


@given(st.lists(st.integers(-5, 5), min_size=1))
def test_a_fence_never_falls(epochs: list[int]) -> None:
    fence = Fence()
    for number, epoch in enumerate(epochs, 1):
        fence.advance("c", epoch)
        assert fence.highest("c") == max(epochs[:number])


def test_of_too_many_connections_the_one_longest_without_a_record_is_forgotten() -> None:
    fence = Fence(most=2)
    for connection_id in ("a", "b", "a", "c"):
        fence.advance(connection_id, 7)
    assert list(fence) == ["a", "c"]
    assert len(fence) == 2
    assert not fence.is_stale("b", 1)
