"""A whole worker in worker mode, as in `test_life`: positions on pages, changes by inbox, a new id after a burial."""

import threading
from functools import partial
from pathlib import Path

import pytest

from streamlease import pages
from streamlease.flow import Request, run
from streamlease.flows import control
from streamlease.flows.pages import items_of
from streamlease.flows.stream import react
from streamlease.lease import Change
from streamlease.model import DesiredState
from streamlease.write import Always, Table, Update
from streamlease_worker import life as life_module
from streamlease_worker.keeper import Keeper
from tests.worker.sinking import MemorySink
from tests.worker.test_life import WITHIN_S, Bench, live, sequences, until


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bench:
    return Bench(monkeypatch, tmp_path, mode="worker")


def change(bench: Bench, name: str, **wanted: object) -> None:
    """Somebody changes it, and the stream function tells of it."""
    run(control.change(name, Change(**wanted), operator=bench.operator), bench.memory.perform)  # type: ignore[arg-type]
    run(react(bench.item(name)), bench.memory.perform)


def inboxes(bench: Bench) -> list[str]:
    found = [str(item["item"]) for item in bench.memory.items(Table.WORKER_ITEMS)]
    return [name for name in found if name.startswith("inbox#")]


def test_an_edit_and_a_stop_reach_the_owner_by_its_inbox_which_is_empty_afterwards(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.create("a")
    are_counted, heartbeats = threading.Event(), threading.Semaphore(2)

    def meet(request: Request) -> None:
        if are_counted.is_set() and threading.current_thread().name.startswith("keeper-heartbeat"):
            heartbeats.acquire(timeout=WITHIN_S)

    bench.meets = meet

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: len(sequences(sink, "a")) == 5)
        epoch = bench.item("a")["lease_epoch"]
        change(bench, "a", upstream_url="wss://other.example/")
        assert inboxes(bench) == ["inbox#a"]
        await until(lambda: bench.transport.dials[-1].url.startswith("wss://other.example/"))
        assert bench.item("a")["lease_epoch"] == epoch
        await until(lambda: inboxes(bench) == [])
        socket = bench.transport.sockets[-1]
        are_counted.set()
        change(bench, "a", desired_state=DesiredState.STOPPED)
        await until(lambda: socket.closed_with is not None)  # invariant 6: there are no more than two heartbeats
        are_counted.clear()
        heartbeats.release()
        await until(lambda: "lease_owner" not in bench.item("a"))
        await until(lambda: inboxes(bench) == [])

    assert live(bench, monkeypatch, scenario).outcome == "drained"


def test_positions_stand_on_a_page_while_it_runs_and_in_the_item_once_it_is_released(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life_module, "Keeper", partial(Keeper, checkpoint_s=0.2))
    bench.create("a")
    written = []

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: bench.status("a") == "STREAMING")
        bench.transport.sockets[-1].say('{"seq": 6}')
        owner = str(bench.item("a")["lease_owner"])

        def paged() -> bool:
            listed = run(items_of(owner, pages.PREFIX), bench.memory.perform)
            found = pages.newest(pages.page(item) for item in listed).get("a")
            return found is not None and found.position.sequence == 6

        await until(paged)
        written.append(bench.item("a").get("last_sequence"))

    assert live(bench, monkeypatch, scenario).outcome == "drained"
    assert written != ["6"], "the page was ahead of the item"
    assert bench.item("a")["last_sequence"] == "6"


def test_a_worker_taken_for_dead_closes_every_socket_and_begins_again_under_a_new_id(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "b", "c"]
    for name in names:
        bench.create(name)

    async def scenario(sink: MemorySink) -> None:
        await until(lambda: all(len(sequences(sink, name)) == 5 for name in names))
        first = str(bench.item("a")["lease_owner"])
        sockets = list(bench.transport.sockets)
        bench.memory.perform(Update(Table.MEMBERS, {"worker_id": first}, Always(), set={"state": "DEAD"}))
        await until(lambda: all(bench.item(name).get("lease_owner") not in (first, None) for name in names))
        assert len(sockets) == 3
        assert all(socket.closed_with is not None for socket in sockets)

    assert live(bench, monkeypatch, scenario).outcome == "drained"
    assert len([item for item in bench.memory.items(Table.MEMBERS) if "state" in item]) == 2
