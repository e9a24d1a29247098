"""The executor against real services: offers, what is missing, and what each transition costs."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from streamlease import lease, membership, pages
from streamlease.dynamodb import offers, requests
from streamlease.dynamodb.executor import Executor
from streamlease.errors import Denied, Fault
from streamlease.flow import Batch, SendOffers
from streamlease.lease import Change, Checkpoint
from streamlease.model import DesiredState, LeaseMode, MemberState, Offer, Position, Saved, Status, StatusState
from streamlease.write import Absent, Index, Item, Put, Query, Read, Scan, Table, Write
from tests.contract.connection_cases import EPOCH, NOW, SENT, TIMING, free, held, owned, seen
from tests.contract.member_cases import member
from tests.contract.stores import Store

CONNECTION = {"connection_id": "x"}


@pytest.fixture
def executor(whole_store: Store) -> Executor:
    assert whole_store.executor is not None
    return whole_store.executor


@pytest.fixture
def with_queue(whole_store: Store, executor: Executor) -> Executor:
    if not whole_store.queue:
        pytest.skip("this endpoint is a DynamoDB alone")
    return executor


def received(executor: Executor, wanted: int) -> set[Offer]:
    found: set[Offer] = set()
    for _ in range(50):
        answer = executor.clients.queue.receive_message(
            QueueUrl=executor.offers_queue_url, MaxNumberOfMessages=10, WaitTimeSeconds=0
        )
        for message in answer.get("Messages", []):
            found.add(offers.offer(message["Body"]))
            executor.clients.queue.delete_message(
                QueueUrl=executor.offers_queue_url, ReceiptHandle=message["ReceiptHandle"]
            )
        if len(found) >= wanted:
            break
    return found


def test_offers_arrive_as_they_were_sent(with_queue: Executor, fresh: str) -> None:
    executor = with_queue
    sent = tuple(Offer(f"{fresh}\u0001-{number}", "expired", NOW + number) for number in range(10))
    assert executor.perform(SendOffers(sent)) == ()
    assert received(executor, 10) == set(sent)


def test_no_offers_ask_nothing_of_the_queue(executor: Executor) -> None:
    nowhere = replace(executor, offers_queue_url=f"{executor.offers_queue_url}-gone")
    assert nowhere.perform(SendOffers(())) == ()


def test_a_queue_that_is_not_there_is_denied_by_name(with_queue: Executor) -> None:
    nowhere = replace(with_queue, offers_queue_url=f"{with_queue.offers_queue_url}-gone")
    with pytest.raises(Denied, match=r"there is no queue '.*offers-gone' in .*STREAMLEASE_OFFERS_QUEUE_URL"):
        nowhere.perform(SendOffers((Offer("a", "control", 1),)))


@pytest.mark.parametrize(
    "request_",
    [
        Read(Table.CONNECTIONS, CONNECTION),
        Query(Table.CONNECTIONS, "STARTED", Index.BY_EXPIRY),
        Scan(Table.CONNECTIONS),
        lease.checkpoint(held("x"), Checkpoint(1)),
        lease.delete("x", now_ms=NOW, timing=TIMING),
        Put(Table.CONNECTIONS, free("x"), Absent("connection_id")),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_table_that_is_not_there_is_denied_by_name(executor: Executor, request_: Read | Query | Scan | Write) -> None:
    nowhere = replace(executor, tables=dict.fromkeys(Table, "no-such-table"))
    with pytest.raises(Denied, match=r"there is no table 'no-such-table' in .*STREAMLEASE_CONNECTIONS_TABLE"):
        nowhere.perform(request_)


def test_a_batch_over_a_table_that_is_not_there_is_denied_for_each(executor: Executor) -> None:
    nowhere = replace(executor, tables=dict.fromkeys(Table, "no-such-table"))
    renewal = lease.renew(held("x"), sent=SENT, timing=TIMING)
    try:
        answers = nowhere.perform(Batch((renewal, renewal)))
    except Fault as fault:  # a service may also refuse the whole
        answers = (fault,)
    assert isinstance(answers, tuple)
    for answer in answers:
        assert isinstance(answer, Denied)
        assert "there is no table 'no-such-table' in " in str(answer)


# --- what it costs (design §2, §3, invariant 8) ---


def cost(executor: Executor, write: Write) -> tuple[float, dict[str, float]]:
    """Write units of the table, and of each index that the write touched."""
    call = requests.call(write, executor.tables)
    parameters = {**call.parameters, "ReturnConsumedCapacity": "INDEXES"}
    consumed = getattr(executor.clients.writes, call.operation)(**parameters)["ConsumedCapacity"]
    indexes = consumed.get("GlobalSecondaryIndexes", {})
    of_each = {name: float(index["CapacityUnits"]) for name, index in indexes.items() if index["CapacityUnits"]}
    return float(consumed["Table"]["CapacityUnits"]), of_each


POSITION = Position(1_732_900_000_123_456, "stream.example", None, None)
CHECKPOINT = Checkpoint(4, POSITION, Status(StatusState.STREAMING, NOW))
DEAD = "worker-rival"


@pytest.mark.parametrize(
    ("write", "before", "units"),
    [
        pytest.param(
            lambda i: lease.renew(held(i), sent=SENT, timing=TIMING), owned, (1, {"by_expiry": 2}), id="renewal"
        ),
        pytest.param(
            lambda i: lease.renew(held(i), sent=SENT, timing=TIMING, checkpoint=CHECKPOINT),
            owned,
            (1, {"by_expiry": 2}),
            id="renewal with a checkpoint",
        ),
        pytest.param(lambda i: lease.checkpoint(held(i), CHECKPOINT), owned, (1, {}), id="checkpoint alone"),
        pytest.param(
            lambda i: lease.claim(i, worker_id="w", nonce="n", sent=SENT, timing=TIMING, mode=LeaseMode.CONNECTION),
            free,
            (1, {"by_expiry": 2, "by_owner": 1}),
            id="claim, connection mode",
        ),
        pytest.param(
            lambda i: lease.claim(i, worker_id="w", nonce="n", sent=SENT, timing=TIMING, mode=LeaseMode.WORKER),
            free,
            (1, {"by_expiry": 1, "by_owner": 1}),
            id="claim, worker mode",
        ),
        pytest.param(
            lambda i: lease.release(held(i), checkpoint=CHECKPOINT, now_ms=NOW),
            owned,
            (1, {"by_expiry": 2, "by_owner": 1}),
            id="release, connection mode",
        ),
    ],
)
def test_a_connections_transition_costs_what_the_design_says(
    executor: Executor,
    whole_store: Store,
    fresh: str,
    write: Callable[[str], Write],
    before: Callable[[str], Item],
    units: tuple[float, dict[str, float]],
) -> None:
    whole_store.put(Table.CONNECTIONS, before(fresh))
    assert cost(executor, write(fresh)) == units


def test_an_orphaning_costs_one_unit_of_the_table_and_of_each_index(
    executor: Executor, whole_store: Store, fresh: str
) -> None:
    dead = owned(fresh, DEAD)
    del dead["lease_expires_at_ms"]
    whole_store.put(Table.CONNECTIONS, dead)
    write = lease.orphan(seen(fresh, checkpoint_no=3), dead_worker_id=DEAD, now_ms=NOW)
    assert cost(executor, write) == (1, {"by_expiry": 1, "by_owner": 1})


def test_a_change_of_an_owned_connection_costs_the_owner_index_its_projection(
    executor: Executor, whole_store: Store, fresh: str
) -> None:
    whole_store.put(Table.CONNECTIONS, owned(fresh))
    change = Change(desired_state=DesiredState.STOPPED)
    write = lease.control(seen(fresh, lease_epoch=EPOCH), change, shard="STARTED#cases", now_ms=NOW, updated_by="me")
    assert cost(executor, write) == (1, {"by_expiry": 1, "by_owner": 1})


def test_a_heartbeat_costs_one_unit_however_much_load_it_tells(
    executor: Executor, whole_store: Store, fresh: str
) -> None:
    whole_store.put(Table.MEMBERS, member(fresh))
    load = {f"measure_{number}": 123_456.789 for number in range(16)}
    write = membership.heartbeat(
        fresh, seen=8, state=MemberState.LIVE, owned=2_000, load=load, sent=SENT, timing=TIMING
    )
    assert cost(executor, write) == (1, {})


def test_a_page_costs_one_unit_for_as_many_positions_as_are_said_to_fit(
    executor: Executor, whole_store: Store, fresh: str
) -> None:
    entries: list[Saved] = []
    while pages.size(fresh, 312, len(pages.pack([*entries, _plain(len(entries))]))) <= pages.PAGE_BYTES:
        entries.append(_plain(len(entries)))
    whole_store.write(pages.create(fresh, 312))

    assert len(entries) >= 20
    assert cost(executor, pages.write(fresh, 312, version=1_000_000, entries=entries)) == (1, {})
    more = [*entries, *(_plain(number) for number in range(100, 103))]
    assert cost(executor, pages.write(fresh, 312, version=1_000_001, entries=more)) == (2, {})


def _plain(number: int) -> Saved:
    """36 characters that do not repeat, and one number."""
    draws = Random(number)
    connection_id = str(uuid.UUID(int=draws.getrandbits(128)))
    position = Position(1_764_400_000_000_000 + draws.randrange(10**12))
    return Saved(connection_id, 1_764_400_000_000 + draws.randrange(10**9), draws.randrange(1, 5_000), 1, position)
