"""The keeper: releases, and answers that mean nothing."""

from streamlease.errors import Throttled, Unreachable
from streamlease.flow import Batch
from streamlease.lease import lease_of
from streamlease.model import DesiredState, Status, StatusState
from streamlease.write import Always, Applied, Refused, Table, Update
from streamlease_worker.keeper_events import (
    Answered,
    Changed,
    Fence,
    HeartbeatAnswered,
    PositionAdvanced,
    Release,
    ReleaseRequested,
    ReleasesRequested,
    Renew,
    SendOffers,
    Settled,
    StopWanted,
    Tick,
    VersionSeen,
)
from tests.fakes.trouble import Landing
from tests.worker.keeping import WORKER, Bench, at

# --- releases ---------------------------------------------------------------------------------------------------------


def test_a_release_carries_the_newest_position_and_is_offered_at_once() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(9)))
    (release,) = bench.do(ReleaseRequested("a", claimed.lease.epoch))
    said = bench.answer(release)
    assert said[:2] == [Settled("a", claimed.lease.epoch, landed=True), SendOffers(("a",))]
    item = bench.item()
    assert item["last_sequence"] == "9"
    assert item["lease_expires_at_ms"] == 0
    assert "lease_owner" not in item


def test_a_yield_says_why_and_is_offered_at_once() -> None:
    bench = Bench()
    claimed = bench.hold()
    status = Status(StatusState.YIELDED, bench.clock.wall_ms, "no message for 60 s")
    (release,) = bench.do(ReleaseRequested("a", claimed.lease.epoch, status))
    assert SendOffers(("a",)) in bench.answer(release)
    assert bench.item()["status"] == {
        "state": "YIELDED",
        "since_ms": bench.clock.wall_ms,
        "reason": "no message for 60 s",
    }


def test_what_is_put_off_is_released_until_then_and_offered_to_nobody() -> None:
    bench = Bench()
    claimed = bench.hold()
    until_ms = bench.clock.wall_ms + 300_000
    status = Status(StatusState.QUARANTINED, bench.clock.wall_ms, "no message for 60 s", until_ms)
    bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(9)))
    (release,) = bench.do(ReleaseRequested("a", claimed.lease.epoch, status))
    assert bench.answer(release) == [Settled("a", claimed.lease.epoch, landed=True)]
    item = bench.item()
    assert "lease_owner" not in item
    assert (item["not_before_ms"], item["lease_expires_at_ms"]) == (until_ms, until_ms)
    assert item["last_sequence"] == "9"


def test_a_release_waits_for_the_renewal_in_flight_and_no_renewal_follows_it() -> None:
    bench = Bench()
    claimed = bench.hold()
    renew = bench.wait_for(Renew)
    assert bench.do(ReleaseRequested("a", claimed.lease.epoch)) == []
    assert bench.do(ReleaseRequested("a", claimed.lease.epoch)) == []
    said = bench.answer(renew)
    assert [type(command) for command in said] == [Release]
    for _ in range(20):
        assert not any(isinstance(command, Renew) for command in bench.tick())


def test_an_unsettled_release_is_only_ever_sent_again() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.store.trouble(
        Unreachable("no answer"), when=lambda r: isinstance(r, Update) and "lease_owner" in r.remove, times=3
    )
    bench.do(ReleaseRequested("a", claimed.lease.epoch))
    bench.live(3_000)
    for command in bench.all(Release)[:1]:
        bench.answer(command)
    bench.live(3_000)
    assert len(bench.all(Release)) == 4
    assert not any(isinstance(command, Fence | Renew) for command in bench.said)
    assert [settled.landed for settled in bench.all(Settled)] == [True]


def test_a_release_that_had_landed_unanswered_is_known_by_what_it_left_and_offered() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.store.trouble(Unreachable("no answer"), when=lambda r: isinstance(r, Update), landing=Landing.BEFORE)
    (release,) = bench.do(ReleaseRequested("a", claimed.lease.epoch))
    bench.answer(release)
    bench.live(500)
    assert [settled.landed for settled in bench.all(Settled)] == [True]
    assert bench.all(SendOffers) == [SendOffers(("a",))]


def test_a_release_refused_because_another_has_it_is_settled_and_offers_nothing() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.memory.perform(
        Update(
            Table.CONNECTIONS, {"connection_id": "a"}, Always(), set={"lease_owner": "other"}, add={"lease_epoch": 1}
        )
    )
    (release,) = bench.do(ReleaseRequested("a", claimed.lease.epoch))
    said = bench.answer(release)
    assert said == [Settled("a", claimed.lease.epoch, landed=False)]


def test_a_stopped_connection_is_released_without_an_offer() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.change(desired_state=DesiredState.STOPPED)
    bench.live(1_500)
    bench.do(ReleaseRequested("a", claimed.lease.epoch))
    bench.live(500)
    assert [settled.landed for settled in bench.all(Settled)] == [True]
    assert bench.all(SendOffers) == []


def test_one_release_that_fails_holds_up_no_other() -> None:
    bench = Bench()
    epochs = {name: bench.hold(name).lease.epoch for name in "abc"}
    bench.store.trouble(
        Throttled("slow down"), when=lambda r: isinstance(r, Update) and r.key == {"connection_id": "b"}, times=1_000
    )
    for name, epoch in epochs.items():
        bench.do(ReleaseRequested(name, epoch))
    bench.live(2_000)
    assert {settled.connection_id for settled in bench.all(Settled)} == {"a", "c"}
    assert "lease_owner" in bench.item("b")


def test_a_fenced_lease_is_released_when_asked_and_never_renewed() -> None:
    bench = Bench()
    claimed = bench.hold()
    down = [True]
    bench.store.trouble(Throttled("slow down"), when=lambda r: isinstance(r, Batch) and down[0], times=1_000)
    bench.live(4_000)
    down.clear()
    down.append(False)
    assert bench.all(Fence) == [Fence("a", claimed.lease.epoch, "throttled")]
    renewals = len(bench.all(Renew))
    bench.do(ReleaseRequested("a", claimed.lease.epoch))
    bench.live(3_000)
    assert len(bench.all(Renew)) == renewals
    assert [settled.landed for settled in bench.all(Settled)] == [True]


def test_a_lease_lost_while_its_release_waits_is_settled_at_once() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.memory.perform(
        Update(
            Table.CONNECTIONS, {"connection_id": "a"}, Always(), set={"lease_owner": "other"}, add={"lease_epoch": 1}
        )
    )
    renew = bench.wait_for(Renew)
    bench.do(ReleaseRequested("a", claimed.lease.epoch))
    assert bench.answer(renew) == [Settled("a", claimed.lease.epoch, landed=False)]
    assert bench.all(Release) == []


def test_a_lease_found_lost_after_its_fence_says_nothing_more() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.memory.perform(
        Update(
            Table.CONNECTIONS, {"connection_id": "a"}, Always(), set={"lease_owner": "other"}, add={"lease_epoch": 1}
        )
    )
    renew = bench.wait_for(Renew)
    bench.clock.advance(3_000)
    bench.do(Tick())
    bench.answer(renew)
    assert [fence.reason for fence in bench.all(Fence)] == ["expired"]
    assert bench.do(ReleaseRequested("a", claimed.lease.epoch)) == [Settled("a", claimed.lease.epoch, landed=False)]


def test_a_change_seen_while_releasing_decides_about_the_offer_only() -> None:
    bench = Bench()
    claimed = bench.hold()
    bench.change(desired_state=DesiredState.STOPPED)
    renew = bench.wait_for(Renew)
    bench.do(ReleaseRequested("a", claimed.lease.epoch))
    bench.answer(renew)
    bench.live(500)
    assert not any(isinstance(command, StopWanted | Changed | SendOffers) for command in bench.said)
    assert [settled.landed for settled in bench.all(Settled)] == [True]


def test_releases_that_came_together_go_out_in_one_call_and_their_offers_too() -> None:
    bench = Bench()
    epochs = [(f"c{number}", bench.hold(f"c{number}").lease.epoch) for number in range(9)]
    requests = [ReleaseRequested(name, epoch) for name, epoch in epochs]
    said = bench.do(ReleasesRequested((*requests, ReleaseRequested("nobody's", 1))))
    assert said[0] == Settled("nobody's", 1, landed=False)
    (release,) = said[1:]
    assert isinstance(release, Release)
    assert [attempt.lease.connection_id for attempt in release.attempts] == [name for name, _ in epochs]
    bench.answer(release)
    (offers,) = bench.all(SendOffers)
    assert offers.connection_ids == tuple(name for name, _ in epochs)


def test_offers_go_out_ten_at_a_time_and_a_few_calls_at_once() -> None:
    bench = Bench(parallel=2)
    epochs = [(f"c{number:02}", bench.hold(f"c{number:02}").lease.epoch) for number in range(50)]
    for name, epoch in epochs:
        bench.do(ReleaseRequested(name, epoch))
    bench.live(1_000)
    offered = [name for command in bench.all(SendOffers) for name in command.connection_ids]
    assert sorted(offered) == [name for name, _ in epochs]
    assert max(len(command.connection_ids) for command in bench.all(SendOffers)) <= 10


def test_a_keeper_that_ends_offers_all_that_still_waits_its_turn() -> None:
    bench = Bench(parallel=1)
    names = [f"c{number:02}" for number in range(35)]
    for name, epoch in [(name, bench.hold(name).lease.epoch) for name in names]:
        bench.do(ReleaseRequested(name, epoch))
    while releases := [command for command in bench.asked if isinstance(command, Release)]:
        bench.answer(releases[0])
    offered = [name for command in bench.all(SendOffers) for name in command.connection_ids]
    last = [command for command in bench.keeper.last_offers() if isinstance(command, SendOffers)]
    assert len(offered) < len(names)
    assert sorted([*offered, *(name for command in last for name in command.connection_ids)]) == names
    assert max(len(command.connection_ids) for command in last) <= 10
    assert bench.keeper.last_offers() == []


# --- answers that mean nothing ----------------------------------------------------------------------------------------


def test_an_answer_to_a_batch_that_was_answered_before_changes_nothing() -> None:
    bench = Bench()
    bench.hold()
    renew = bench.wait_for(Renew)
    sent = bench.clock()
    bench.do(Answered(renew.batch, sent, (Applied(),)))
    assert bench.do(Answered(renew.batch, sent, (Refused(None),))) == []
    assert bench.all(Fence) == []


def test_news_of_leases_that_are_not_held_changes_nothing() -> None:
    bench = Bench()
    claimed = bench.claim()
    bench.report(claimed)
    assert bench.do(PositionAdvanced("a", claimed.lease.epoch, 1, at(1))) == []
    assert bench.do(VersionSeen(claimed.connection)) == []
    assert lease_of(claimed.connection, WORKER) == claimed.lease
    assert bench.do(HeartbeatAnswered(bench.clock(), Throttled("slow down"))) == []
