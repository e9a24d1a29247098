"""Stories of several requests, on every store: doubtful answers, people, deaths, batches, sequences of any kind."""

from dataclasses import replace
from itertools import pairwise

import pytest

from streamlease import inbox, items, lease, membership, plan
from streamlease.budget import Ask, Ledger, Limit, Taken, host_budget
from streamlease.errors import Unreachable
from streamlease.flow import Batch, Request, run
from streamlease.flows import audit, bury, control
from streamlease.flows.budget import take as take_slice
from streamlease.flows.claim import Claimer, claim
from streamlease.flows.control import Operator
from streamlease.flows.pages import PageWrite, save
from streamlease.lease import Change, Changed, Checkpoint, Claimed, Done, Exists, Held, Lost, Released, Renewed
from streamlease.model import DesiredState, Lease, LeaseMode, Position, Saved, Sequence, Status, StatusState
from streamlease.plan import Notice
from streamlease.timing import Timing
from streamlease.write import Applied, Index, Item, Put, Query, Refused, Table, Update
from tests.contract.connection_cases import TIMING, free
from tests.contract.stores import Store, all_pages
from tests.fakes.trouble import Landing, Troubled

OPERATOR = Operator("arn:aws:iam::1:user/ä", shards=1, timing=TIMING)
LOST = Unreachable("the answer was lost")


def claimer(worker_id: str, mode: LeaseMode = LeaseMode.CONNECTION) -> Claimer:
    return Claimer(worker_id, TIMING, mode)


def stored(store: Store, connection_id: str) -> Item:
    item = store.read(Table.CONNECTIONS, connection_id=connection_id)
    assert item is not None
    return item


def started(store: Store, connection_id: str) -> int:
    """Creates a connection; its epoch."""
    assert create(store, connection_id) == Done()
    epoch = stored(store, connection_id)["lease_epoch"]
    assert isinstance(epoch, int)
    return epoch


def create(store: Store, connection_id: str) -> Done | Exists:
    return store.run(
        control.create(
            connection_id,
            upstream_url="wss://upstream.example/feed",
            spec={},
            labels={},
            desired_state=DesiredState.STARTED,
            operator=OPERATOR,
        )
    )


def take(store: Store, connection_id: str, worker_id: str, mode: LeaseMode = LeaseMode.CONNECTION) -> Lease:
    outcome = store.run(claim(connection_id, nonce=f"nonce-{worker_id}", claimer=claimer(worker_id, mode)))
    assert isinstance(outcome, Claimed)
    return outcome.lease


def is_claim(request: Request) -> bool:
    return isinstance(request, Update) and "lease_nonce" in request.set


def owned_by(worker_id: str) -> Query:
    return Query(Table.CONNECTIONS, worker_id, Index.BY_OWNER)


# --- doubtful answers ---


def test_a_claim_whose_answer_was_lost_is_settled_by_its_nonce(store: Store, fresh: str) -> None:
    epoch = started(store, fresh)
    troubled = Troubled(store.perform)
    troubled.trouble(LOST, when=is_claim, landing=Landing.BEFORE)

    outcome = run(claim(fresh, nonce="n-1", claimer=claimer(fresh)), troubled.perform)

    assert isinstance(outcome, Claimed)
    assert outcome.lease.epoch == epoch + 1
    assert outcome.deadline_s == TIMING.deadline_s(store.clock())


def test_a_claim_that_never_arrived_is_a_fault_and_leaves_the_connection_free(store: Store, fresh: str) -> None:
    epoch = started(store, fresh)
    troubled = Troubled(store.perform)
    troubled.trouble(LOST, when=is_claim)

    with pytest.raises(Unreachable):
        run(claim(fresh, nonce="n-1", claimer=claimer(fresh)), troubled.perform)

    assert take(store, fresh, "rival").epoch == epoch + 1


def test_a_claim_that_lands_late_is_found_by_the_audit_and_given_back(store: Store, fresh: str) -> None:
    epoch = started(store, fresh)
    troubled = Troubled(store.perform)
    troubled.trouble(LOST, when=is_claim, landing=Landing.LATER)
    with pytest.raises(Unreachable):
        run(claim(fresh, nonce="n-1", claimer=claimer(fresh)), troubled.perform)
    troubled.land()

    assert store.eventually(owned_by(fresh), lambda shown: shown == (fresh,)) == (fresh,)
    listed = store.run(audit.listed(fresh))
    assert plan.audit(listed, running={}).unknown == (fresh,)
    store.run(audit.release_unknown(fresh, fresh))

    assert "lease_owner" not in stored(store, fresh)
    assert take(store, fresh, "rival").epoch == epoch + 2


def test_a_claim_that_lands_after_another_took_it_changes_nothing(store: Store, fresh: str) -> None:
    started(store, fresh)
    troubled = Troubled(store.perform)
    troubled.trouble(LOST, when=is_claim, landing=Landing.LATER)
    with pytest.raises(Unreachable):
        run(claim(fresh, nonce="n-1", claimer=claimer(fresh)), troubled.perform)
    take(store, fresh, "rival")
    before = stored(store, fresh)

    troubled.land()

    assert stored(store, fresh) == before


def test_a_claim_sent_again_meets_its_own_write_and_holds_one_epoch(store: Store, fresh: str) -> None:
    epoch = started(store, fresh)
    outcomes = [store.run(claim(fresh, nonce="n-1", claimer=claimer(fresh))) for _ in range(3)]
    assert [outcome.lease.epoch for outcome in outcomes if isinstance(outcome, Claimed)] == [epoch + 1] * 3


def test_a_release_sent_again_changes_nothing_more(store: Store, fresh: str) -> None:
    started(store, fresh)
    release = lease.release(take(store, fresh, fresh), checkpoint=Checkpoint(1, Position(5)), now_ms=1)

    assert lease.released(store.write(release)) == Released(landed=True)
    before = stored(store, fresh)
    assert lease.released(store.write(release)) == Released(landed=False)
    assert stored(store, fresh) == before


def test_a_renewal_that_lands_late_does_not_shorten_the_lease(store: Store, fresh: str) -> None:
    started(store, fresh)
    held = take(store, fresh, fresh)
    late = lease.renew(held, sent=replace(store.clock(), wall_ms=store.clock().wall_ms + 1_000), timing=TIMING)
    newer = lease.renew(held, sent=replace(store.clock(), wall_ms=store.clock().wall_ms + 9_000), timing=TIMING)
    store.write(newer)
    before = stored(store, fresh)

    store.write(late)

    assert stored(store, fresh) == before


# --- people ---


def test_a_recreated_connection_never_repeats_an_epoch(store: Store, fresh: str) -> None:
    epochs = []
    for _ in range(3):
        started(store, fresh)
        held = take(store, fresh, fresh)
        epochs.append(held.epoch)
        store.run(control.change(fresh, Change(desired_state=DesiredState.STOPPED), operator=OPERATOR))
        assert not isinstance(store.run(control.delete(fresh, operator=OPERATOR)), Done)
        store.write(lease.release(held, checkpoint=Checkpoint(1), now_ms=1))
        assert store.run(control.delete(fresh, operator=OPERATOR)) == Done()
        store.clock.advance(5)
    started(store, fresh)

    stale = lease.renew(Lease(fresh, fresh, epochs[-1], 1, None), sent=store.clock(), timing=TIMING)
    assert lease.renewed(store.write(stale), lease=Lease(fresh, fresh, 0, 1, None), expires_at_ms=0) == Lost("released")
    assert all(earlier < later for earlier, later in pairwise(epochs))


def test_a_create_whose_answer_was_lost_is_done_and_a_second_one_finds_it(store: Store, fresh: str) -> None:
    troubled = Troubled(store.perform)
    troubled.trouble(LOST, landing=Landing.BEFORE)
    assert create(replace(store, perform=troubled.perform), fresh) == Done()
    store.clock.advance(1)
    assert create(store, fresh) == Exists()


def test_of_two_changes_of_the_same_version_one_is_refused_and_then_made_on_the_next(store: Store, fresh: str) -> None:
    started(store, fresh)
    seen = items.connection(stored(store, fresh))
    first, second = (
        lease.control(seen, Change(labels={"who": who}), shard="STARTED", now_ms=1, updated_by=who) for who in "ab"
    )

    assert isinstance(lease.controlled(store.write(first)), Done)
    assert isinstance(lease.controlled(store.write(second)), Changed)
    done = store.run(control.change(fresh, Change(labels={"who": "b"}), operator=OPERATOR))

    assert isinstance(done, Done)
    assert done.connection is not None
    assert (done.connection.labels, done.connection.spec_version) == ({"who": "b"}, seen.spec_version + 2)


def test_a_change_while_owned_leaves_the_lease_and_tells_the_owner_at_its_renewal(store: Store, fresh: str) -> None:
    started(store, fresh)
    held = take(store, fresh, fresh)
    store.run(control.change(fresh, Change(spec={"n": 1}), operator=OPERATOR))
    store.clock.advance(1_000)
    sent = store.clock()

    told = lease.renewed(
        store.write(lease.renew(held, sent=sent, timing=TIMING)), lease=held, expires_at_ms=TIMING.expires_at_ms(sent)
    )
    assert isinstance(told, Changed)
    again = replace(held, spec_version=told.connection.spec_version)
    answer = store.write(lease.renew(again, sent=sent, timing=TIMING))

    expires_at_ms = TIMING.expires_at_ms(sent)
    assert lease.renewed(answer, lease=again, expires_at_ms=expires_at_ms) == Renewed(expires_at_ms)


# --- deaths ---


def test_a_lease_that_ran_out_is_anybodys_only_after_the_skew(store: Store, fresh: str) -> None:
    started(store, fresh)
    held = take(store, fresh, fresh)
    store.write(lease.checkpoint(held, Checkpoint(1)))
    store.clock.advance(TIMING.lease_ms + TIMING.skew_ms)
    outcome = store.run(claim(fresh, nonce="n", claimer=claimer("rival")))
    assert isinstance(outcome, Held)
    store.clock.advance(1)
    assert take(store, fresh, "rival").epoch == held.epoch + 1


def test_a_connection_that_cost_two_owners_is_postponed(store: Store, fresh: str) -> None:
    started(store, fresh)
    for worker in ("first", "second"):
        take(store, fresh, worker)
        store.clock.advance(TIMING.lease_ms + TIMING.skew_ms + 1)

    outcome = store.run(claim(fresh, nonce="n", claimer=claimer("third")))

    assert isinstance(outcome, Held)
    assert outcome.until_ms == store.clock.wall_ms + lease.FIRST_POSTPONEMENT_MS
    assert stored(store, fresh)["crashes"] == 2
    store.clock.advance(lease.FIRST_POSTPONEMENT_MS + 1)
    take(store, fresh, "third")


def test_in_worker_mode_a_dead_workers_connections_are_freed_by_its_burial_with_its_newest_positions(
    batching_store: Store, fresh: str
) -> None:
    store = batching_store
    timing = Timing(heartbeat_ms=2_000, lease_ms=6_000)
    sent = store.clock()
    join = membership.join(fresh, generation=1, capacity=9, zone="", started_at_ms=0, sent=sent, timing=timing)
    assert isinstance(store.write(join), Applied)
    mine = tuple(f"{fresh}-{number}" for number in range(3))
    entries: list[Saved] = []
    for connection_id in mine:
        started(store, connection_id)
        held = take(store, connection_id, fresh, LeaseMode.WORKER)
        entries.append(Saved(connection_id, held.epoch, 2, 1, Position("ü-9", "host", None, "t0k3n")))
    store.eventually(owned_by(fresh), lambda shown: len(shown) == 3)
    assert store.run(save(fresh, (PageWrite(0, 1, tuple(entries[:2]), fresh=True),))) == (Applied(),)
    store.write(inbox.put(Notice(fresh, mine[0], 2)))
    store.clock.advance(timing.lease_ms + timing.skew_ms + 1)

    member = store.read(Table.MEMBERS, worker_id=fresh)
    assert member is not None
    burials = store.run(bury.bury_expired((items.member(member),), timing=timing))

    assert (burials.buried, burials.orphaned) == (1, 3)
    for number, connection_id in enumerate(mine):
        found = items.connection(stored(store, connection_id))
        newest = entries[number].position if number < 2 else None
        assert (found.position, found.crashes) == (newest, 0 if newest else 1)
    [late] = store.run(save(fresh, (PageWrite(0, 9, tuple(entries), fresh=True),)))
    assert isinstance(late, Refused), "its page is sealed"
    store.clock.advance(membership.GONE_AFTER_MS)
    member = store.read(Table.MEMBERS, worker_id=fresh)
    assert member is not None
    store.eventually(owned_by(fresh), lambda shown: not shown)
    store.run(bury.bury_expired((items.member(member),), timing=timing))
    assert all_pages(store.perform, Query(Table.WORKER_ITEMS, fresh)) == []
    assert [take(store, connection_id, "rival").epoch for connection_id in mine]
    beat = membership.heartbeat(
        fresh, seen=0, state=items.member(member).state, owned=3, load={}, sent=store.clock(), timing=timing
    )
    assert membership.beaten(store.write(beat), seen=0) == membership.Buried()


# --- batches ---


def test_a_batch_renews_each_on_its_own_and_answers_in_order(batching_store: Store, fresh: str) -> None:
    store = batching_store
    held = []
    for number in range(25):
        connection_id = f"{fresh}-{number}"
        started(store, connection_id)
        held.append(take(store, connection_id, fresh))
    store.run(control.change(held[3].connection_id, Change(spec={"n": 1}), operator=OPERATOR))
    store.run(control.change(held[5].connection_id, Change(desired_state=DesiredState.STOPPED), operator=OPERATOR))
    store.write(lease.release(held[7], checkpoint=Checkpoint(1), now_ms=1))
    store.clock.advance(1_000)
    sent = store.clock()
    expires_at_ms = TIMING.expires_at_ms(sent)
    unstorable = Checkpoint(1, Position(1, token="half of a pair: \ud800"))
    checkpoints = {9: unstorable, 11: Checkpoint(1, Position(10**39, "host"))}

    answers = store.perform(
        Batch(
            tuple(
                lease.renew(each, sent=sent, timing=TIMING, checkpoint=checkpoints.get(number))
                for number, each in enumerate(held)
            )
        )
    )

    assert isinstance(answers, tuple)
    outcomes = {
        number: type(
            answer
            if isinstance(answer, Exception)
            else lease.renewed(answer, lease=held[number], expires_at_ms=expires_at_ms)
        ).__name__
        for number, answer in enumerate(answers)
    }
    assert outcomes == dict.fromkeys(range(25), "Renewed") | {3: "Changed", 5: "Stopped", 7: "Lost", 9: "Denied"}
    renewed = [
        number
        for number in range(25)
        if stored(store, held[number].connection_id)["lease_expires_at_ms"] == expires_at_ms
    ]
    assert renewed == [number for number, outcome in outcomes.items() if outcome == "Renewed"]


# --- positions ---


@pytest.mark.parametrize(
    "sequence",
    [
        0,
        -1,
        10**38 - 1,
        10**38,
        1234567890123456789012345678901234567890,
        -(10**40) - 1,
        0.1,
        1732900000.123456,
        1e22,
        1e300,
        1e-200,
        "0001234567890123456789012345678901234567890",
        "",
        "ü☃𝄞\u0000",
    ],
    ids=repr,
)
def test_any_sequence_comes_back_as_it_was(store: Store, fresh: str, sequence: Sequence) -> None:
    store.put(Table.CONNECTIONS, free(fresh))
    held = take(store, fresh, fresh)
    position = Position(sequence, "host-1", "wss://resume.example/?a=b", "tok\u00e9n")

    store.write(lease.checkpoint(held, Checkpoint(1, position)))

    found = items.connection(stored(store, fresh)).position
    assert found == position
    assert found is not None
    assert isinstance(found.sequence, str) == isinstance(sequence, str)
    assert stored(store, fresh)["last_sequence"] == str(sequence)


# --- dial budgets -----------------------------------------------------------------------------------------------------


def test_of_two_slices_taken_at_once_one_waits_for_the_other_and_a_lost_answer_costs_none(
    store: Store, fresh: str
) -> None:
    budget = host_budget(f"{fresh}.example", "eu", Limit(dials=10, per_ms=60_000))
    since_ms = store.clock.wall_ms
    first = store.run(take_slice(budget, Ask("worker-1", "one", (since_ms,)), None))
    assert isinstance(first, Taken)
    late = store.run(take_slice(budget, Ask("worker-2", "two", (since_ms,)), Ledger()))
    assert isinstance(late, Taken)
    assert [each.slice_id for each in late.ledger.slices] == ["one", "two"], "it saw nothing, and was shown the first"
    troubled = Troubled(store.perform)
    troubled.trouble(LOST, when=lambda request: isinstance(request, Put), landing=Landing.BEFORE)
    ask = Ask("worker-1", "three", (since_ms,))
    with pytest.raises(Unreachable):
        run(take_slice(budget, ask, None), troubled.perform)
    again = run(take_slice(budget, ask, None), troubled.perform)
    assert isinstance(again, Taken)
    assert [each.slice_id for each in again.ledger.slices] == ["one", "two", "three"]


def test_what_is_put_off_is_in_no_sweep_and_claimed_by_nobody_until_its_time(store: Store, fresh: str) -> None:
    epoch = started(store, fresh)
    held = take(store, fresh, "worker-1")
    assert held.epoch == epoch + 1
    until_ms = store.clock.wall_ms + 60_000
    status = Status(StatusState.QUARANTINED, store.clock.wall_ms, "no message for 60 s", until_ms)
    write = lease.release(held, checkpoint=Checkpoint(1, Position(7), status), now_ms=store.clock.wall_ms)
    assert lease.released(store.write(write)) == Released(landed=True)
    assert items.connection(stored(store, fresh)).status == status
    outcome = store.run(claim(fresh, nonce="two", claimer=claimer("worker-2")))
    assert outcome == Held(None, until_ms)
    assert isinstance(store.run(control.change(fresh, Change(again=True), operator=OPERATOR)), Done)
    assert isinstance(store.run(claim(fresh, nonce="three", claimer=claimer("worker-2"))), Claimed)
