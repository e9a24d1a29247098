"""The fakes themselves: indexes that lag, troubles as scripted, tables as the template has them."""

import pytest

from streamlease import lease
from streamlease.errors import Throttled, Unreachable
from streamlease.flow import Batch, SendOffers
from streamlease.lease import Checkpoint
from streamlease.model import Offer
from streamlease.write import (
    INDEX_ATTRIBUTES,
    INDEX_PROJECTED,
    KEY_ATTRIBUTES,
    Always,
    Applied,
    Index,
    Put,
    Query,
    Read,
    Table,
)
from tests.contract.connection_cases import SENT, TIMING, free, held, owned
from tests.fakes.memory import MemoryStore
from tests.fakes.tables import create_table_requests
from tests.fakes.trouble import Landing, Troubled

BY_EXPIRY = Query(Table.CONNECTIONS, "STARTED#cases", Index.BY_EXPIRY)
LOST = Unreachable("lost")


def shown(store: MemoryStore) -> list[object]:
    return [item["connection_id"] for item in store.perform(BY_EXPIRY).items]  # type: ignore[union-attr]


def test_a_lagging_index_shows_changes_only_as_it_catches_up_and_in_order() -> None:
    store = MemoryStore(lagging=True)
    for connection_id in ("a", "b"):
        store.perform(Put(Table.CONNECTIONS, free(connection_id), Always()))
    store.perform(lease.delete("a", now_ms=1, timing=TIMING))
    store.perform(Put(Table.CONNECTIONS, free("a", desired_state_shard="elsewhere"), Always()))

    assert store.item(Table.CONNECTIONS, "a") is not None
    assert shown(store) == []
    store.catch_up(2)
    assert shown(store) == ["a", "b"]
    store.catch_up()
    assert shown(store) == ["b"]


def test_a_full_queue_takes_no_offers() -> None:
    store = MemoryStore()
    some = (Offer("a", "control", 1), Offer("b", "released", 2))
    assert store.perform(SendOffers(some)) == ()
    store.full = True
    assert store.perform(SendOffers(some)) == some
    assert store.offers == list(some)


def test_a_trouble_strikes_as_often_as_it_is_told_and_lands_as_it_is_told() -> None:
    store = MemoryStore()
    store.perform(Put(Table.CONNECTIONS, owned("a"), Always()))
    troubled = Troubled(store.perform)
    write = lease.checkpoint(held("a"), Checkpoint(4))

    for landing, number in ((Landing.NEVER, 3), (Landing.LATER, 3), (Landing.BEFORE, 4)):
        troubled.trouble(LOST, landing=landing)
        with pytest.raises(Unreachable):
            troubled.perform(write)
        item = store.item(Table.CONNECTIONS, "a")
        assert item is not None
        assert item["checkpoint_no"] == number
    assert troubled.perform(Read(Table.CONNECTIONS, {"connection_id": "a"})) == store.item(Table.CONNECTIONS, "a")
    late = troubled.land()
    assert len(late) == 1
    assert not isinstance(late[0], Applied)
    assert troubled.land() == []


def test_a_trouble_of_one_member_leaves_the_rest_of_its_batch() -> None:
    store = MemoryStore()
    for connection_id in ("a", "b", "c"):
        store.perform(Put(Table.CONNECTIONS, owned(connection_id), Always()))
    troubled = Troubled(store.perform)
    throttled = Throttled("too much")
    renewals = tuple(lease.renew(held(each), sent=SENT, timing=TIMING) for each in ("a", "b", "c"))
    troubled.trouble(throttled, when=lambda request: request == renewals[1])

    assert troubled.perform(Batch(renewals)) == (Applied(), throttled, Applied())
    troubled.trouble(LOST, when=lambda request: isinstance(request, Batch), landing=Landing.BEFORE)
    with pytest.raises(Unreachable):
        troubled.perform(Batch(renewals))
    item = store.item(Table.CONNECTIONS, "b")
    assert item is not None
    assert item["lease_expires_at_ms"] == TIMING.expires_at_ms(SENT)


def test_the_templates_tables_have_the_keys_that_the_core_goes_by() -> None:
    for table, request in create_table_requests("x-").items():
        assert tuple(part["AttributeName"] for part in request["KeySchema"]) == KEY_ATTRIBUTES[table]
    indexes = {
        index["IndexName"]: index for index in create_table_requests("x-")[Table.CONNECTIONS]["GlobalSecondaryIndexes"]
    }
    assert set(indexes) == set(Index)
    for name, index in indexes.items():
        assert tuple(part["AttributeName"] for part in index["KeySchema"]) == INDEX_ATTRIBUTES[Index(name)]
        assert tuple(index["Projection"].get("NonKeyAttributes", ())) == INDEX_PROJECTED[Index(name)]
        assert index["Projection"]["ProjectionType"] == ("INCLUDE" if INDEX_PROJECTED[Index(name)] else "KEYS_ONLY")
