"""Faults where the real process is what matters, one at a time: two workers, each with its own way to each service."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from signal import SIGCONT, SIGSTOP, SIGUSR1, SIGUSR2

import pytest

from streamlease.feed.events import Record
from streamlease.flows import audit
from streamlease.model import LeaseMode
from streamlease_cli.local.service import Service
from streamlease_worker.keeper_thread import ENDED_BY_WATCHDOG
from tests.chaos.arena import TIMING, Arena, Fleet, until
from tests.chaos.attempts import What
from tests.chaos.checks import overlapping
from tests.chaos.evidence import read_sink
from tests.chaos.link import Way
from tests.chaos.place import Place, said
from tests.chaos.upstream import record_id

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a full disk is made by prlimit"),
    pytest.mark.chaos,
    pytest.mark.e2e,
    pytest.mark.emulator,
    pytest.mark.xdist_group("chaos"),
    pytest.mark.timeout(240),
]
LEASE_S = TIMING.lease_ms / 1000
FEEDS = 6
WITHIN_S = 30.0
"""For what takes moments on a machine with nothing else to do."""
CONNECTION_MODE = pytest.mark.parametrize("fleet", [LeaseMode.CONNECTION], ids=["connection"], indirect=True)
"""For what has nothing to do with whose lease it is: threads, and sinks."""
READS = frozenset({"Query", "GetItem", "Scan"})


@pytest.fixture(scope="module", params=list(LeaseMode), ids=[mode.value for mode in LeaseMode])
def fleet(request: pytest.FixtureRequest, place: Arena) -> Iterator[Fleet]:
    mode: LeaseMode = request.param
    with place.fleet(f"processes-{mode.value}", mode, 2) as made:
        place.loop.call(made.upstream.publish())
        yield made


@dataclass(slots=True)
class Scene:
    """Feeds that stream, and what to look at."""

    arena: Arena
    fleet: Fleet
    names: Sequence[str]
    first: Place
    """Whose worker the fault is for: it holds at least half of the feeds."""
    second: Place
    held: dict[str, int] = field(default_factory=dict)
    """What `first` held when the scene was set: connection and epoch."""

    def owned_by(self, place: Place) -> set[str]:
        worker_id = place.worker_id
        items = self.arena.session.run(audit.listed(worker_id)) if worker_id is not None else ()
        return {str(item["connection_id"]) for item in items}

    def epochs(self) -> dict[str, int]:
        """Of the newest attempt of each feed."""
        self.fleet.journals.read_on()
        newest = sorted(self.fleet.journals.told, key=lambda told: told.from_s)
        return {told.connection_id: told.epoch for told in newest if told.connection_id in self.names}

    def fenced(self, place: Place) -> set[str]:
        return {str(line["connection_id"]) for line in said(place.worker) if line.get("event") == "fenced"}

    def all_stream(self, past_s: float) -> None:
        """Once each feed has delivered something that was read after `past_s`."""

        def delivered() -> bool:
            self.fleet.journals.read_on()
            since = [told for told in self.fleet.journals.told if told.from_s > past_s and told.what is What.DURABLE]
            return {told.connection_id for told in since} >= set(self.names)

        until(delivered, WITHIN_S, "all feeds deliver")

    def nothing_is_missing(self) -> None:
        """Once everything that had been published is in the sink, as its reader takes it."""
        published = self.arena.loop.call(self.fleet.upstream.published())
        last = {name: published[name] for name in self.names}

        def delivered() -> bool:
            self.fleet.journals.read_on()
            reached: Counter[str] = Counter()
            for told in self.fleet.journals.told:
                if told.what is What.DURABLE:
                    reached[told.connection_id] = max(reached[told.connection_id], told.last or 0)
            return all(reached[name] >= number for name, number in last.items())

        until(delivered, WITHIN_S, "everything is delivered")
        marks = [f'"connection_id":"{name}"'.encode() for name in self.names]
        with self.fleet.records.open("rb") as lines:
            ours = [line for line in lines if any(mark in line for mark in marks)]
        ids = {each.delivery.record_id for each in read_sink(b"".join(ours)).fresh if isinstance(each.delivery, Record)}
        assert ids >= {record_id(name, each) for name, number in last.items() for each in range(1, number + 1)}

    def nothing_overlaps(self) -> None:
        self.fleet.journals.read_on()
        told = [told for told in self.fleet.journals.told if told.connection_id in self.names]
        assert not list(overlapping(told))


@pytest.fixture
def scene(place: Arena, fleet: Fleet) -> Iterator[Scene]:
    with staged(place, fleet, alone=False) as made:
        yield made


@pytest.fixture
def lonely_scene(place: Arena, fleet: Fleet) -> Iterator[Scene]:
    """With one worker, so that nothing moves for balance's sake."""
    with staged(place, fleet, alone=True) as made:
        yield made


@contextmanager
def staged(arena: Arena, fleet: Fleet, *, alone: bool) -> Iterator[Scene]:
    """Feeds of their own that stream. Nothing of them is left afterwards."""
    for each in fleet.places:
        assert each.settle()
    if alone:
        assert fleet.places[1].worker.process.stop(WITHIN_S) == 0
    number = 1 + len(arena.loop.call(fleet.upstream.published())) // FEEDS
    names = [f"{fleet.mode.value}-{number}-{feed}" for feed in range(FEEDS)]
    arena.add(fleet, names)
    one, other = fleet.places
    made = Scene(arena, fleet, names, one, other)
    made.all_stream(past_s=0.0)

    until(
        lambda: sum(len(made.owned_by(place)) for place in fleet.places) == FEEDS, WITHIN_S, "the feeds are shared out"
    )
    if len(made.owned_by(one)) < len(made.owned_by(other)):
        made.first, made.second = other, one
    owned, epochs = made.owned_by(made.first), made.epochs()
    made.held = {name: epoch for name, epoch in epochs.items() if name in owned}
    try:
        yield made
    finally:
        made.first.send(SIGCONT)
        for each in fleet.places:
            for link in each.links.values():
                arena.loop.call(link.end())
            assert each.settle()
        arena.remove(names)


def test_l13_renewals_are_in_time_behind_a_data_path_that_is_full(lonely_scene: Scene) -> None:
    scene = lonely_scene
    arena, upstream = scene.arena, scene.fleet.upstream
    spells = [arena.loop.call(scene.first.links[name].begin(Way.SILENT, 0.0, READS)) for name in ("dynamodb", "sqs")]
    for _ in range(3):
        for name in scene.held:
            arena.loop.call(upstream.burst(name, 3_000))
        time.sleep(LEASE_S)
    assert spells[0].hits, "no read was ever kept waiting"
    assert not scene.fenced(scene.first) & set(scene.names)
    assert scene.epochs().items() >= scene.held.items()
    arena.loop.call(scene.first.links["dynamodb"].end())
    scene.nothing_is_missing()


def test_l16_who_loses_its_lease_while_it_cannot_reach_the_table_closes_its_sockets_before_another_opens_them(
    scene: Scene,
) -> None:
    arena, upstream = scene.arena, scene.fleet.upstream
    cut_s = arena.now_s()
    arena.loop.call(scene.first.links["dynamodb"].begin(Way.CUT))
    until(lambda: scene.owned_by(scene.second) >= set(scene.names), WITHIN_S, "the other worker has them all")
    scene.all_stream(past_s=arena.now_s())
    visits = arena.loop.call(upstream.all_visits())
    opened = attrgetter("opened_s")
    taken = {visit.feed: visit for visit in sorted(visits, key=opened, reverse=True) if visit.opened_s > cut_s}
    assert taken.keys() & scene.held.keys()  # unless they had all been given away for balance just then
    for name, after in taken.items():
        if name in scene.held:
            before = max((visit for visit in visits if visit.feed == name and visit.opened_s < cut_s), key=opened)
            assert before.closed_s is not None
            assert before.closed_s < after.opened_s
    scene.nothing_overlaps()
    scene.nothing_is_missing()


def test_l19_who_stood_still_for_three_leases_sends_nothing_in_its_old_epochs_and_closes_its_sockets(
    scene: Scene,
) -> None:
    arena, upstream = scene.arena, scene.fleet.upstream
    scene.first.send(SIGSTOP)
    time.sleep(3 * LEASE_S)
    scene.all_stream(past_s=arena.now_s())  # by the other one
    on_s = arena.now_s()
    scene.first.send(SIGCONT)

    def one_socket_each() -> bool:
        visits = arena.loop.call(upstream.all_visits())
        return all(sum(visit.feed == name and visit.closed_s is None for visit in visits) == 1 for name in scene.names)

    until(one_socket_each, WITHIN_S, "the sockets of before are closed")
    scene.all_stream(past_s=on_s)
    told = [told for told in scene.fleet.journals.told if told.pid == scene.first.pid and told.from_s > on_s]
    assert not [one for one in told if one.what is What.BEGAN and scene.held.get(one.connection_id) == one.epoch]
    scene.nothing_overlaps()
    scene.nothing_is_missing()


def test_l21_a_process_whose_event_loop_is_blocked_for_two_leases_is_ended_by_its_watchdog_thread(scene: Scene) -> None:
    blocked_s, worker = scene.arena.now_s(), scene.first.worker
    scene.first.order(SIGUSR1, f"{2 * LEASE_S}")
    assert worker.process.wait(WITHIN_S) == ENDED_BY_WATCHDOG
    assert scene.arena.now_s() - blocked_s < 2 * LEASE_S, "it ended only once its loop ran again"
    assert "the event loop stood still" in worker.process.last_words()
    until(lambda: scene.owned_by(scene.second) >= set(scene.names), WITHIN_S, "the other worker has them all")
    scene.all_stream(past_s=scene.arena.now_s())
    scene.nothing_overlaps()
    scene.nothing_is_missing()


@CONNECTION_MODE
@pytest.mark.parametrize("how", ["crash", "end"])
def test_l40_a_process_whose_keeper_ends_ends_too_and_is_followed_by_another(scene: Scene, how: str) -> None:
    struck = scene.first.worker
    scene.first.order(SIGUSR2, how)
    assert struck.process.wait(WITHIN_S) == ENDED_BY_WATCHDOG
    service = Service(scene.first.fleet, 1)
    assert service.workers[0].worker_id != struck.worker_id
    scene.all_stream(past_s=scene.arena.now_s())
    scene.nothing_is_missing()


@CONNECTION_MODE
def test_l40_a_keeper_that_stands_still_fails_the_health_probe_and_delivers_nothing_meanwhile(scene: Scene) -> None:
    place = scene.first
    scene.first.order(SIGUSR2, "hang")

    def probed() -> subprocess.CompletedProcess[str]:
        health_file = place.folder / f"{place.worker.name}.health"
        return subprocess.run(
            [sys.executable, "-m", "streamlease_worker", "--health"],
            env={**os.environ, "STREAMLEASE_HEALTH_FILE": str(health_file)},
            capture_output=True,
            text=True,
            check=False,
        )

    time.sleep(2 * LEASE_S)  # longer than a probe bears a silent keeper
    until(lambda: probed().returncode == 1, WITHIN_S, "the probe fails")
    assert "keeper has said nothing" in probed().stderr
    assert place.is_there()
    scene.all_stream(past_s=scene.arena.now_s())  # by the other one, in spite of a process that looks alive
    late = [told for told in scene.fleet.journals.of(place.pid) if told.from_s > scene.arena.now_s() - 1.0]
    assert not late
    place.worker.process.kill()  # as the platform does
    assert place.worker.process.wait(WITHIN_S) < 0
    scene.nothing_overlaps()
    scene.nothing_is_missing()


@CONNECTION_MODE
def test_w2_a_sink_without_room_costs_neither_a_socket_nor_a_record(lonely_scene: Scene) -> None:
    scene = lonely_scene
    arena, upstream = scene.arena, scene.fleet.upstream
    began_s = arena.now_s()
    with scene.first.full_disk(room_bytes=100):
        for name in scene.held:
            arena.loop.call(upstream.burst(name, 8_000))  # more than may wait in the worker
        time.sleep(2 * LEASE_S)
    refused = [told for told in scene.fleet.journals.of(scene.first.pid) if told.what is What.REFUSED]
    assert {told.connection_id for told in refused if told.from_s > began_s} >= set(scene.held)
    scene.nothing_is_missing()
    visits = arena.loop.call(upstream.all_visits())
    assert not [visit for visit in visits if visit.feed in scene.held and (visit.closed_s or 0.0) > began_s]
    assert scene.epochs().items() >= scene.held.items()
