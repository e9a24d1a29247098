"""The world of the simulator: it must be as bad as the real one, and no worse."""

import json
from pathlib import Path

import pytest
import yaml

from streamlease.errors import Unreachable
from streamlease.flow import Request
from streamlease.model import Offer
from streamlease.timing import Instant
from streamlease.write import Absent, Always, Index, Item, Less, Page, Put, Query, Scan, Table, Update
from tests.simulation.clock import Clock
from tests.simulation.kernel import MS, Kernel, S
from tests.simulation.ledger import Ledger
from tests.simulation.network import Cut, Network, RequestFault, Service, Twist
from tests.simulation.offers import Delivery, OffersQueue
from tests.simulation.process import Process, Thread, Trap
from tests.simulation.store import Store
from tests.simulation.stream import PATTERNS, passes

TEMPLATE = Path(__file__).parents[2] / "template.yaml"


class World:
    def __init__(self) -> None:
        self.kernel = Kernel("world")
        self.ledger = Ledger(self.kernel)
        self.store = Store(self.kernel)
        self.queue = OffersQueue(self.kernel, self.ledger)
        self.network = Network(self.kernel, self.store, self.queue, self.ledger)
        self.process = Process("p", self.kernel, Clock(), "w0")
        self.thread: Thread = self.process.thread()
        self.heard: list[object] = []

    def send(self, request: Request) -> None:
        self.network.send(self.thread, request, 1 * S, self.heard.append)


def count() -> Update:
    return Update(Table.CONNECTIONS, {"connection_id": "a"}, Always(), add={"lease_epoch": 1})


@pytest.mark.parametrize(
    ("twist", "times_landed", "is_heard"),
    [(Twist.LOST, 0, False), (Twist.ANSWER_LOST, 1, False), (Twist.LANDS_LATE, 1, False), (Twist.TWICE, 2, True)],
)
def test_a_write_in_doubt_lands_as_often_as_its_fault_says(twist: Twist, times_landed: int, *, is_heard: bool) -> None:
    world = World()
    world.network.waiting.append(RequestFault(twist, "*", "*", 30 * S, 1))
    world.send(count())
    world.kernel.run_until(60 * S)
    item = world.store.connection("a")
    assert (0 if item is None else item["lease_epoch"]) == times_landed
    assert len(world.heard) == 1
    assert isinstance(world.heard[0], Unreachable) is not is_heard


def test_a_write_that_lands_late_is_judged_by_what_it_finds_then() -> None:
    world = World()
    world.network.waiting.append(RequestFault(Twist.LANDS_LATE, "*", "*", 30 * S, 1))
    create = Put(Table.CONNECTIONS, {"connection_id": "a", "by": "late"}, Absent("connection_id"))
    world.send(create)
    world.kernel.run_until(10 * S)
    world.send(Put(Table.CONNECTIONS, {"connection_id": "a", "by": "early"}, Absent("connection_id")))
    world.kernel.run_until(60 * S)
    item = world.store.connection("a")
    assert item is not None
    assert item["by"] == "early"


def test_a_cut_may_let_requests_through_and_lose_their_answers() -> None:
    world = World()
    world.network.cuts.append(Cut("w0", Service.STORE, 10 * S, True, 1))
    world.send(count())
    world.kernel.run_until(5 * S)
    assert isinstance(world.heard[0], Unreachable)
    item = world.store.connection("a")
    assert item is not None
    assert item["lease_epoch"] == 1


def test_a_pause_between_the_two_clocks_makes_the_second_late() -> None:
    world = World()
    world.process.traps["clock"] = [Trap(3 * S, 1)]
    read = world.process.instant(world.thread)
    later = world.process.reading(world.thread.now_us)
    assert read == Instant(0.0, later.wall_ms)
    assert later.mono_s == pytest.approx(3.0)


def test_what_a_paused_step_still_does_comes_after_the_pause_and_before_anything_new() -> None:
    world = World()
    done: list[tuple[str, int]] = []
    world.process.pause(2 * S)
    world.thread.event(lambda: done.append(("event", world.kernel.now_us)))
    world.thread.effect(lambda: done.append(("effect", world.kernel.now_us)))
    world.kernel.run_until(5 * S)
    assert done == [("effect", 2 * S), ("event", 2 * S)]


def test_nothing_of_a_killed_process_happens_any_more() -> None:
    world = World()
    world.send(count())
    world.process.kill()
    world.kernel.run_until(5 * S)
    assert world.heard == []


def test_an_index_shows_a_change_later_and_never_an_older_one_after_a_newer() -> None:
    world = World()
    kernel, store = world.kernel, world.store
    store.lag.least_us, store.lag.most_us = 10 * MS, 500 * MS
    for number in range(20):
        item: Item = {"connection_id": "a", "desired_state_shard": "STARTED", "lease_expires_at_ms": number}
        store.write(Put(Table.CONNECTIONS, item, Always()), "p")
    query = Query(Table.CONNECTIONS, "STARTED", Index.BY_EXPIRY)
    assert store.query(query).items == ()
    shown = []
    for _ in range(60):
        kernel.run_until(kernel.now_us + 10 * MS)
        shown += [each["lease_expires_at_ms"] for each in store.query(query).items]
    assert shown == sorted(shown, key=lambda each: int(str(each)))
    assert shown[-1] == 19


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_show_everything_once(limit: int) -> None:
    store = Store(Kernel("pages"), page_limit=limit)
    for number in range(7):
        store.write(Put(Table.MEMBERS, {"worker_id": f"w{number}"}, Always()), "p")
    seen: list[object] = []
    page = Page((), None)
    while True:
        page = store.scan(Scan(Table.MEMBERS, cursor=page.cursor))
        seen += [item["worker_id"] for item in page.items]
        if page.cursor is None:
            break
    assert seen == [f"w{number}" for number in range(7)]


def test_an_offer_not_deleted_comes_again_and_old_ones_vanish() -> None:
    world = World()
    got: list[tuple[Delivery, ...]] = []
    world.queue.send((Offer("a", "control", 0),))
    for at_s in (1, 5, 17, 130):
        world.kernel.at(at_s * S, lambda: world.queue.receive(10, 1 * S, got.append))
    world.kernel.run_until(140 * S)
    assert [len(each) for each in got] == [1, 0, 1, 0]


def test_the_stream_filter_is_the_deployed_one() -> None:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("!", lambda loader, suffix, node: None)
    template = yaml.load(TEMPLATE.read_text(), Loader)  # noqa: S506  # a safe loader that passes over CloudFormation's tags
    found = [
        [json.loads(each["Pattern"]) for each in event["Properties"]["FilterCriteria"]["Filters"]]
        for resource in template["Resources"].values()
        for event in (resource.get("Properties", {}).get("Events") or {}).values()
        if "FilterCriteria" in event.get("Properties", {})
    ]
    ours = [
        {"dynamodb": {"NewImage": {name: {"S": list(wanted)} for name, wanted in pattern.items()}}}
        for pattern in PATTERNS
    ]
    assert found == [ours]


def test_the_stream_tells_of_no_renewal_claim_or_deletion() -> None:
    started = {"connection_id": "a", "desired_state": "STARTED", "lease_owner": "w"}
    assert not passes(None)
    assert not any(passes({**started, "last_event": event}) for event in ("RENEWED", "CLAIMED", "CHECKPOINT"))
    assert passes({**started, "last_event": "RELEASED"})
    assert passes({**started, "desired_state": "STOPPED", "last_event": "CONTROL"})
    stopped = {"connection_id": "a", "desired_state": "STOPPED", "last_event": "CONTROL"}
    assert not passes(stopped)


def test_a_condition_is_judged_at_the_instant_of_landing() -> None:
    world = World()
    world.store.write(Put(Table.MEMBERS, {"worker_id": "w", "heartbeat": 1}, Always()), "p")
    below = Update(Table.MEMBERS, {"worker_id": "w"}, Less("heartbeat", 2), set={"heartbeat": 2})
    world.send(below)
    world.send(below)
    world.kernel.run_until(5 * S)
    assert sorted(type(each).__name__ for each in world.heard) == ["Applied", "Refused"]
