"""Runners that wait for their turn to dial, in virtual time: what they tell, and what becomes of those that give up."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace

from streamlease.errors import Unreachable
from streamlease.feed.events import Closed, Fetched
from streamlease.feed.feed import DialLimit, Fetching
from streamlease.feed.feed import Feed as FeedOf
from streamlease.model import StatusState
from streamlease_worker.dial_gate import MOST_UNDER_WAY_TO_A_HOST
from streamlease_worker.routes import HANDSHAKES_A_HOST
from streamlease_worker.turns import Turns
from tests.fakes.loop import run
from tests.fakes.memory import MemoryStore
from tests.fakes.trouble import Troubled
from tests.worker.test_runner import FEED, Bench
from tests.worker.turning import now, turns

LIMITED = replace(FEED, dials=(DialLimit(2, 60.0),))


def in_time(scenario: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    def test() -> None:
        run(scenario())

    test.__name__ = scenario.__name__
    return test


def benches(count: int, feed: FeedOf = LIMITED, shared: Turns | None = None) -> tuple[Turns, list[Bench]]:
    shared = shared or turns()
    return shared, [Bench(feed=feed, turns=shared) for _ in range(count)]


async def stop(*some: Bench) -> None:
    for bench in some:
        await bench.stop(flush=False)


@in_time
async def test_what_is_over_the_budget_waits_and_says_for_what_and_dials_in_its_time() -> None:
    shared, (first, second, third) = benches(3)
    await asyncio.sleep(5)
    assert [len(bench.transport.dials) for bench in (first, second, third)] == [1, 1, 0]
    assert third.states == [
        (StatusState.CONNECTING, None),
        (StatusState.CONNECTING, "waiting for the dial budget of upstream.example (2 in 60 s), about 60 s"),
    ]
    assert shared.waiting == 1
    await asyncio.sleep(55)
    assert third.transport.dials == []
    await asyncio.sleep(15)
    assert third.states[-1][0] is StatusState.STREAMING
    assert shared.waiting == 0
    await stop(first, second, third)


@in_time
async def test_who_is_fenced_while_it_waits_never_dials() -> None:
    shared, (first, second, third) = benches(3)
    await asyncio.sleep(5)
    third.fence.close("stolen")
    await asyncio.sleep(100)
    assert third.transport.dials == []
    assert StatusState.BACKOFF in [state for state, _ in third.states]
    await stop(first, second, third)
    assert shared.waiting == 0


@in_time
async def test_a_stop_ends_the_wait_at_once_and_leaves_the_turn_to_the_next() -> None:
    shared, (first, second, third, fourth) = benches(4)
    await asyncio.sleep(5)
    began_s = asyncio.get_running_loop().time()
    assert (await third.stop()).outcome == "stopped"
    assert asyncio.get_running_loop().time() - began_s < 0.1
    assert shared.waiting == 1
    await asyncio.sleep(70)
    assert len(fourth.transport.dials) == 1
    await stop(first, second, fourth)


@in_time
async def test_a_token_whose_time_passes_while_secrets_are_looked_up_is_not_spent() -> None:
    bench = Bench(feed=LIMITED, turns=turns())
    looked_up: list[float] = []

    async def slowly(references: Iterable[str], *, fresh: bool = False) -> dict[str, str]:
        looked_up.append(asyncio.get_running_loop().time())
        if len(looked_up) == 1:
            await asyncio.sleep(9)
        return {}

    object.__setattr__(bench.around, "secrets", slowly)
    await asyncio.sleep(8)
    assert bench.transport.dials == []
    await asyncio.sleep(2)
    assert len(looked_up) == 2, "it took another turn, and looked them up for that"
    assert len(bench.transport.dials) == 1
    await stop(bench)


@in_time
async def test_the_call_before_a_dial_takes_its_turn_and_leaves_it_to_the_dial() -> None:
    feed = replace(LIMITED, fetch=Fetching(url="https://upstream.example/ticket"), dials=(DialLimit(1, 60.0),))
    shared = turns()
    first, second = Bench(feed=feed, turns=shared), Bench(feed=feed, turns=shared)
    for bench in (first, second):
        bench.transport.fetched = [Fetched(0, status=200, body="{}")]
    await asyncio.sleep(5)
    assert (len(first.transport.calls), len(first.transport.dials)) == (1, 1)
    assert (len(second.transport.calls), len(second.transport.dials)) == (0, 0)
    await asyncio.sleep(70)
    assert (len(second.transport.calls), len(second.transport.dials)) == (1, 1)
    await stop(first, second)


@in_time
async def test_a_call_that_fails_is_a_dial_that_counts_and_holds_no_place() -> None:
    feed = replace(FEED, fetch=Fetching(url="https://upstream.example/ticket"))
    shared = turns()
    failing = [Bench(feed=feed, turns=shared) for _ in range(60)]
    for bench in failing:
        bench.transport.fetched = [Fetched(0, status=503)]
    await asyncio.sleep(10)
    assert all(bench.transport.calls for bench in failing), "none of them stands in the way of the rest"
    await stop(*failing)


@in_time
async def test_dials_that_fail_give_their_places_back() -> None:
    shared = turns()
    failing = [Bench(Closed("nothing accepts connections"), turns=shared) for _ in range(120)]
    await asyncio.sleep(3)
    assert all(bench.transport.dials for bench in failing)
    await stop(*failing)
    assert shared.waiting == 0


@in_time
async def test_while_the_table_is_out_of_reach_a_dial_waits_and_goes_on_by_itself() -> None:
    store = Troubled(MemoryStore(now).perform)
    store.trouble(Unreachable("no answer"), when=lambda _: True, times=8)
    bench = Bench(feed=LIMITED, turns=turns(store.perform))
    await asyncio.sleep(2)
    assert bench.transport.dials == []
    assert bench.states[-1] == (StatusState.CONNECTING, "waiting for the dial budget of upstream.example")
    await asyncio.sleep(60)
    assert len(bench.transport.dials) == 1
    await stop(bench)


@in_time
async def test_w36_of_many_dials_at_once_only_so_many_are_under_way() -> None:
    shared = turns()
    hanging = [Bench(turns=shared) for _ in range(300)]
    for bench in hanging:
        bench.transport.hangs = True
    await asyncio.sleep(1)
    assert sum(len(bench.transport.dials) for bench in hanging) == MOST_UNDER_WAY_TO_A_HOST
    states = {state for bench in hanging for state, _ in bench.states}
    assert states == {StatusState.CONNECTING}
    await stop(*hanging)


def test_no_dial_that_has_its_turn_waits_for_another_while_its_time_runs() -> None:
    assert MOST_UNDER_WAY_TO_A_HOST <= HANDSHAKES_A_HOST
