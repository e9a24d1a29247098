"""Reads, queries and scans: what an index shows, in which order, and that pages add up."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from streamlease import lease
from streamlease.errors import Denied
from streamlease.lease import Claimed
from streamlease.model import LeaseMode
from streamlease.write import Always, Index, Put, Query, Scan, Table, Value
from tests.contract.cases import WITHOUT
from tests.contract.connection_cases import NOW, SENT, TIMING, free, owned, stopped
from tests.contract.stores import Store, all_pages


def by_expiry(shard: str, below: int | None = None, limit: int = 1_000) -> Query:
    return Query(Table.CONNECTIONS, shard, Index.BY_EXPIRY, below=below, limit=limit)


def by_owner(owner: str, limit: int = 1_000) -> Query:
    return Query(Table.CONNECTIONS, owner, Index.BY_OWNER, limit=limit)


def test_an_absent_item_is_read_as_none(store: Store, fresh: str) -> None:
    assert store.read(Table.CONNECTIONS, connection_id=fresh) is None


@pytest.mark.parametrize("limit", [1, 2, 3, 1_000])
def test_the_expiry_index_shows_what_lies_below_in_order_through_any_pages(
    store: Store, fresh: str, limit: int
) -> None:
    expiries = [NOW + 1, 0, NOW, NOW - 1, 5]
    for expires_at_ms in expiries:
        store.put(
            Table.CONNECTIONS,
            free(f"{fresh}-{expires_at_ms}", desired_state_shard=fresh, lease_expires_at_ms=expires_at_ms),
        )
    expected = tuple(f"{fresh}-{expires_at_ms}" for expires_at_ms in sorted(expiries) if expires_at_ms < NOW)

    assert store.eventually(by_expiry(fresh, NOW, limit), lambda shown: shown == expected) == expected


def test_a_page_holds_no_more_than_its_limit_and_the_cursor_goes_on_from_it(store: Store, fresh: str) -> None:
    for number in range(3):
        store.put(Table.CONNECTIONS, free(f"{fresh}-{number}", desired_state_shard=fresh, lease_expires_at_ms=number))
    store.eventually(by_expiry(fresh), lambda shown: len(shown) == 3)

    first = store.page(by_expiry(fresh, limit=2))
    second = store.page(replace(by_expiry(fresh, limit=2), cursor=first.cursor))

    assert [item["lease_expires_at_ms"] for item in first.items] == [0, 1]
    assert first.cursor is not None
    assert [item["lease_expires_at_ms"] for item in second.items] == [2]
    assert second.cursor is None


def test_a_cursor_goes_on_after_it_was_kept_in_an_item(store: Store, fresh: str) -> None:
    for number in range(3):
        store.put(Table.CONNECTIONS, free(f"{fresh}-{number}", desired_state_shard=fresh, lease_expires_at_ms=number))
    store.eventually(by_expiry(fresh), lambda shown: len(shown) == 3)
    first = store.page(by_expiry(fresh, limit=1))

    store.put(Table.MEMBERS, {"worker_id": fresh, "cursor": first.cursor})
    kept = store.read(Table.MEMBERS, worker_id=fresh)
    assert kept is not None
    cursor = kept["cursor"]
    assert isinstance(cursor, Mapping)
    rest = store.page(replace(by_expiry(fresh), cursor=cursor))

    assert [item["lease_expires_at_ms"] for item in rest.items] == [1, 2]


def test_the_expiry_index_holds_keys_alone_and_neither_the_stopped_nor_the_held_in_worker_mode(
    store: Store, fresh: str
) -> None:
    store.put(Table.CONNECTIONS, free(f"{fresh}-free", desired_state_shard=fresh))
    store.put(Table.CONNECTIONS, stopped(f"{fresh}-stopped", lease_owner="w"))
    store.put(
        Table.CONNECTIONS,
        free(f"{fresh}-held", desired_state_shard=fresh, lease_owner="w", lease_expires_at_ms=WITHOUT),
    )
    expected = (f"{fresh}-free",)

    assert store.eventually(by_expiry(fresh), lambda shown: shown == expected) == expected
    assert all_pages(store.perform, by_expiry(fresh)) == [
        {"connection_id": f"{fresh}-free", "desired_state_shard": fresh, "lease_expires_at_ms": 0}
    ]


@pytest.mark.parametrize("limit", [1, 2, 1_000])
def test_the_owner_index_shows_version_and_desired_state_of_one_owners_connections(
    store: Store, fresh: str, limit: int
) -> None:
    mine = {f"{fresh}-{number}" for number in range(3)}
    for connection_id in mine:
        store.put(Table.CONNECTIONS, owned(connection_id, owner=fresh, spec_version=7))
    store.put(Table.CONNECTIONS, owned(f"{fresh}-other", owner=f"{fresh}-other"))

    store.eventually(by_owner(fresh), lambda shown: set(shown) == mine)
    shown = all_pages(store.perform, by_owner(fresh, limit))

    assert sorted(shown, key=lambda item: str(item["connection_id"])) == [
        {"connection_id": connection_id, "lease_owner": fresh, "spec_version": 7, "desired_state": "STARTED"}
        for connection_id in sorted(mine)
    ]


def test_a_renewal_moves_the_connection_in_the_expiry_index_and_not_in_the_owner_index(
    store: Store, fresh: str
) -> None:
    store.put(Table.CONNECTIONS, free(fresh, desired_state_shard=fresh))
    claim = lease.claim(fresh, worker_id=fresh, nonce="n", sent=SENT, timing=TIMING, mode=LeaseMode.CONNECTION)
    claimed = lease.claimed(store.write(claim), worker_id=fresh, nonce="n", sent=SENT, timing=TIMING)
    assert isinstance(claimed, Claimed)
    expires_at_ms = NOW + TIMING.lease_ms
    later = replace(SENT, wall_ms=SENT.wall_ms + 1_000)

    assert store.eventually(by_expiry(fresh, expires_at_ms + 1), lambda shown: shown == (fresh,)) == (fresh,)
    store.write(lease.renew(claimed.lease, sent=later, timing=TIMING))

    assert store.eventually(by_expiry(fresh, expires_at_ms + 1), lambda shown: shown == ()) == ()
    assert store.eventually(by_expiry(fresh, expires_at_ms + 1_001), lambda shown: shown == (fresh,)) == (fresh,)
    assert store.eventually(by_owner(fresh), lambda shown: shown == (fresh,)) == (fresh,)


def test_a_scan_shows_every_member_once_through_any_pages(store: Store, fresh: str) -> None:
    mine = [f"{fresh}-{number}" for number in range(5)]
    for worker_id in mine:
        store.put(Table.MEMBERS, {"worker_id": worker_id, "owned": 1})

    shown = all_pages(store.perform, Scan(Table.MEMBERS, limit=2, consistent=True))

    found = [str(item["worker_id"]) for item in shown]
    assert sorted(name for name in found if name.startswith(fresh)) == mine
    assert len(found) == len(set(found))


def test_a_scan_of_the_owner_index_shows_the_owned_only(store: Store, fresh: str) -> None:
    store.put(Table.CONNECTIONS, owned(f"{fresh}-owned", owner=fresh))
    store.put(Table.CONNECTIONS, free(f"{fresh}-free"))
    scan = Scan(Table.CONNECTIONS, Index.BY_OWNER, limit=3)

    shown = store.eventually(scan, lambda shown: f"{fresh}-owned" in shown)

    assert [name for name in shown if name.startswith(fresh)] == [f"{fresh}-owned"]


def test_a_workers_items_are_read_consistently_and_in_order(store: Store, fresh: str) -> None:
    for name in ("inbox#b", "page#1", "inbox#a"):
        store.put(Table.WORKER_ITEMS, {"worker_id": fresh, "item": name, "spec_version": 1})
    store.put(Table.WORKER_ITEMS, {"worker_id": f"{fresh}-other", "item": "inbox#a", "spec_version": 1})

    shown = all_pages(store.perform, Query(Table.WORKER_ITEMS, fresh, limit=2))

    assert [item["item"] for item in shown] == ["inbox#a", "inbox#b", "page#1"]


@pytest.mark.parametrize("limit", [1, 1_000])
def test_a_workers_items_of_one_kind_are_read_without_the_others(store: Store, fresh: str, limit: int) -> None:
    for name in ("inbox#b", "page#1", "inbox#a", "inbox", "page#0", "zoo"):
        store.put(Table.WORKER_ITEMS, {"worker_id": fresh, "item": name})

    shown = all_pages(store.perform, Query(Table.WORKER_ITEMS, fresh, prefix="inbox#", limit=limit))

    assert [item["item"] for item in shown] == ["inbox#a", "inbox#b"]


def test_an_answer_tells_the_services_own_clock_in_whole_seconds(store: Store, fresh: str) -> None:
    page = store.page(by_expiry(fresh))
    assert page.date_ms is not None
    assert page.date_ms % 1_000 == 0
    assert page.date_ms > 1_700_000_000_000


@pytest.mark.parametrize(
    "key",
    [{"lease_expires_at_ms": "0"}, {"lease_expires_at_ms": None}, {"lease_owner": ""}, {"lease_owner": 7}],
    ids=str,
)
def test_an_item_that_no_index_could_hold_is_denied_and_not_written(
    store: Store, fresh: str, key: dict[str, Value]
) -> None:
    if store.name == "dynalite" and "" in key.values():
        pytest.skip("dynalite lets an empty index key pass, DynamoDB does not")
    with pytest.raises(Denied):
        store.perform(Put(Table.CONNECTIONS, free(fresh, **key), Always()))
    assert store.read(Table.CONNECTIONS, connection_id=fresh) is None
