"""What is read and not yet durable: its order, its bounds."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from streamlease_worker.pending import LINE_COST, Budget, Pending
from tests.fakes.loop import run


def test_envelopes_come_out_in_order_and_stay_until_they_are_done() -> None:
    async def main() -> None:
        pending = Pending(Budget())
        for number in range(1, 4):
            pending.put(number, b"x%d" % number, 0)
        assert await pending.some(2, 1_000) == (b"x1", b"x2")
        assert len(pending) == 3
        assert pending.done() == 2
        assert await pending.some(2, 1_000) == (b"x3",)
        assert pending.done() == 3

    run(main())


def test_a_batch_keeps_to_its_bytes_but_holds_at_least_one() -> None:
    async def main() -> None:
        pending = Pending(Budget())
        for number, size in enumerate((10, 10, 500), 1):
            pending.put(number, b"x" * size, 0)
        assert [len(line) for line in await pending.some(100, 22)] == [10, 10]
        pending.done()
        assert [len(line) for line in await pending.some(100, 22)] == [500]

    run(main())


def test_some_waits_for_the_first_envelope_and_ends_when_closed() -> None:
    async def main() -> None:
        pending = Pending(Budget())
        waiting = asyncio.create_task(pending.some(10, 1_000))
        await asyncio.sleep(0)
        pending.put(1, b"x", 0)
        assert await waiting == (b"x",)
        pending.done()
        waiting = asyncio.create_task(pending.some(10, 1_000))
        await asyncio.sleep(0)
        pending.close()
        assert await waiting == ()

    run(main())


def test_full_by_count_or_bytes_there_is_room_again_only_when_half_is_gone() -> None:
    async def main() -> None:
        for pending, size in ((Pending(Budget(), most_lines=4), 1), (Pending(Budget(), most_bytes=4_000), 1_000)):
            for number in range(1, 5):
                assert pending.room.is_set()
                pending.put(number, b"x" * size, 0)
            assert not pending.room.is_set()
            assert not pending.room.is_set()
            await pending.some(1, 1)
            pending.done()
            assert not pending.room.is_set()
            await pending.some(1, 1)
            pending.done()
            assert pending.room.is_set() == (size == 1)
            await pending.some(1, 1)
            pending.done()
            assert pending.room.is_set()

    run(main())


def test_all_connections_share_a_budget_and_each_may_hold_at_least_one() -> None:
    async def main() -> None:
        budget = Budget(2_000)
        one, other = Pending(budget), Pending(budget)
        one.put(1, b"x" * 2_000, 0)
        assert (one.room.is_set(), other.room.is_set()) == (False, True)
        other.put(1, b"x", 0)
        assert (one.room.is_set(), other.room.is_set()) == (False, False)
        await one.some(1, 1)
        one.done()
        assert (one.room.is_set(), other.room.is_set()) == (True, False)
        assert budget.used_bytes == 1 + LINE_COST
        await other.some(1, 1)
        other.done()
        assert (one.room.is_set(), other.room.is_set()) == (True, True)

    run(main())


def test_what_is_abandoned_frees_its_bytes_and_the_reader() -> None:
    async def main() -> None:
        budget = Budget()
        pending = Pending(budget, most_lines=1)
        pending.put(1, b"x", 0)
        pending.abandon()
        assert budget.used_bytes == 0
        assert pending.room.is_set()
        assert await pending.some(1, 1) == ()

    run(main())


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 10), st.integers(1, 500))
def test_batches_are_the_envelopes_in_order_whatever_the_limits(sizes: list[int], lines: int, size: int) -> None:
    async def main() -> list[bytes]:
        budget = Budget()
        pending = Pending(budget)
        for number, length in enumerate(sizes, 1):
            pending.put(number, b"%d" % number + b"x" * length, 0)
        pending.close()
        found: list[bytes] = []
        while batch := await pending.some(lines, size):
            assert len(batch) <= lines
            assert len(batch) == 1 or sum(len(line) + 1 for line in batch) <= size
            found += batch
            assert pending.done() == len(found)
        assert budget.used_bytes == 0
        return found

    assert run(main()) == [b"%d" % number + b"x" * length for number, length in enumerate(sizes, 1)]
