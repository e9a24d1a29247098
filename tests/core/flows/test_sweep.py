"""Finding what nobody owns: all shards, all pages, the members, and the summary that the others read."""

from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import items, plan
from streamlease.flow import Request, run
from streamlease.flows.sweep import known, members, recount, shard_page, stored_fleet, sweep
from streamlease.membership import raise_shards
from streamlease.model import FleetSummary, LeaseMode
from streamlease.plan import Candidate
from streamlease.write import Always, Page, Put, Query, Read, Scan, Table
from tests.core.flows.stores import SHARDS, TIMING, Fleet
from tests.fakes.trouble import Troubled


def full_sweep(fleet: Fleet, *, shards: int = SHARDS, enough: int = 1_000, turn: int = 0) -> object:
    return run(sweep(shards=shards, timing=TIMING, enough=enough, turn=turn), fleet.perform)


@given(st.integers(0, 30), st.integers(0, 40), st.integers(0, 9))
def test_all_are_counted_and_enough_are_listed(count: int, enough: int, turn: int) -> None:
    fleet = Fleet()
    for number in range(count):
        fleet.add(f"c{number}")
    fleet.own("owned", "w1")
    seen = run(sweep(shards=SHARDS, timing=TIMING, enough=enough, turn=turn), fleet.perform)
    ids = {candidate.connection_id for candidate in seen.candidates}
    assert len(ids) == len(seen.candidates) == min(count, enough)
    assert ids <= {f"c{number}" for number in range(count)}
    assert seen.fleet.unowned == count


def test_a_turn_begins_with_another_shard() -> None:
    fleet = Fleet()
    firsts = set()
    for turn in range(2 * (SHARDS + 1)):
        troubled = Troubled(fleet.perform)
        run(sweep(shards=SHARDS, timing=TIMING, enough=9, turn=turn), troubled.perform)
        queried = [request.partition for request in troubled.performed if isinstance(request, Query)]
        assert len(queried) == len(set(queried)) == SHARDS + 1
        firsts.add(queried[0])
    assert len(firsts) == SHARDS + 1


def test_every_page_of_a_shard_is_read() -> None:
    fleet = Fleet()
    for number in range(7):
        fleet.add(f"c{number}")
        fleet.edit(f"c{number}", desired_state_shard="STARTED")
    found: list[Candidate] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        some, cursor = run(shard_page("STARTED", timing=TIMING, cursor=cursor, limit=3), fleet.perform)
        found += some
        pages += 1
    assert [candidate.connection_id for candidate in found] == [f"c{number}" for number in range(7)]
    assert pages == 3


@pytest.mark.parametrize(("behind_ms", "seen"), [(0, True), (1, False), (5_000, False), (None, True)])
def test_a_clock_that_runs_ahead_of_the_services_does_not_see_a_lease_as_expired_early(
    behind_ms: int | None, seen: bool
) -> None:
    fleet = Fleet()
    fleet.own("c1", "w1")
    fleet.edit("c1", desired_state_shard="STARTED")
    fleet.clock.advance(TIMING.lease_ms + TIMING.skew_ms + 1)

    def perform(request: Request) -> object:
        answer = fleet.perform(request)
        if isinstance(answer, Page):
            date_ms = None if behind_ms is None else fleet.clock.wall_ms - behind_ms
            return Page(answer.items, answer.cursor, date_ms)
        return answer

    found, _ = run(shard_page("STARTED", timing=TIMING), perform)
    assert bool(found) is seen


def test_a_worker_sees_what_has_run_out_by_its_own_watched_clock() -> None:
    fleet = Fleet()
    fleet.own("c1", "w1")
    fleet.edit("c1", desired_state_shard=plan.shard("c1", SHARDS))
    fleet.clock.advance(TIMING.lease_ms + TIMING.skew_ms + 1)

    def perform(request: Request) -> object:
        answer = fleet.perform(request)
        return replace(answer, date_ms=fleet.clock.wall_ms // 1_000 * 1_000 - 1) if isinstance(answer, Page) else answer

    seen = run(sweep(shards=SHARDS, timing=TIMING, enough=9, turn=0), perform)
    assert [candidate.connection_id for candidate in seen.candidates] == ["c1"]


def test_what_was_written_over_more_shards_is_found() -> None:
    fleet = Fleet()
    for number in range(20):
        fleet.add(f"c{number}")
    fleet.perform(raise_shards(SHARDS))
    for configured in (1, 2, SHARDS):
        seen = run(sweep(shards=configured, timing=TIMING, enough=99, turn=0), fleet.perform)
        assert len(seen.candidates) == 20
        assert seen.fleet.shards == SHARDS


def test_an_unreadable_summary_is_reported_and_stops_no_sweep() -> None:
    fleet = Fleet()
    fleet.add("c1")
    fleet.perform(Put(Table.MEMBERS, {"worker_id": "#fleet", "shards": "many"}, Always()))
    seen = run(sweep(shards=SHARDS, timing=TIMING, enough=9, turn=0), fleet.perform)
    assert [c.connection_id for c in seen.candidates] == ["c1"]
    assert [problem.where for problem in seen.malformed] == ["fleet summary"]
    assert run(known(7), fleet.perform).shards == 7


def test_members_are_read_whole_and_a_bad_one_hides_no_other() -> None:
    fleet = Fleet()
    fleet.perform(raise_shards(3))
    for number in range(1_005):
        fleet.join(f"w{number}")
    fleet.perform(Put(Table.MEMBERS, {"worker_id": "bad", "state": "LIVE"}, Always()))
    troubled = Troubled(fleet.perform)
    roster = run(members(), troubled.perform)
    assert {member.worker_id for member in roster.members} == {f"w{number}" for number in range(1_005)}
    assert [problem.where for problem in roster.malformed] == ["member 'bad'"]
    scans = [cast("Scan", request) for request in troubled.performed]
    assert len(scans) == 2
    assert all(scan.consistent for scan in scans)


def test_a_summary_by_a_clock_a_little_behind_is_written_all_the_same() -> None:
    fleet = Fleet()
    fleet.join("w1", owned=3)
    full_sweep(fleet)
    fleet.clock.advance(-900)
    fleet.join("w2", owned=4)
    run(recount(shards=SHARDS), fleet.perform)
    stored = run(stored_fleet(), fleet.perform)
    assert stored is not None
    assert (stored.at_ms, stored.live) == (fleet.clock.wall_ms + 901, 2)


def test_a_sweep_leaves_the_summary_behind() -> None:
    fleet = Fleet()
    fleet.join("w1", owned=3)
    fleet.join("w2", owned=4)
    fleet.add("c1")
    fleet.own("c2", "w1", LeaseMode.WORKER)
    full_sweep(fleet)
    stored = run(stored_fleet(), fleet.perform)
    assert stored is not None
    assert replace(stored, shares=None) == FleetSummary(fleet.clock.wall_ms, 2, 7, 1, 0)
    assert stored.shares is not None
    assert stored.shares.whole == 8
    fleet.clock.advance(-5_000)
    fleet.add("c3")
    full_sweep(fleet)
    summary = run(stored_fleet(), fleet.perform)
    assert summary is not None
    assert summary.unowned == 1, "an older one does not replace it"


def test_a_sweep_reads_no_item_and_writes_only_the_summary() -> None:
    fleet = Fleet()
    for number in range(5):
        fleet.add(f"c{number}")
    troubled = Troubled(fleet.perform)
    run(sweep(shards=SHARDS, timing=TIMING, enough=9, turn=0), troubled.perform)
    reads = [request for request in troubled.performed if isinstance(request, Read)]
    assert [dict(request.key) for request in reads] == [{"worker_id": "#fleet"}]
    assert items.fleet_summary(fleet.member("#fleet")).unowned == 5
