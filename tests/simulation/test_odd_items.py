"""Items that somebody wrote by hand, and items of a neighbouring release: what becomes of them, and of all others.

What cannot be read is reported with its id, left as it is and in nobody's way. What can be read is worked, whatever
`schema` it says, and keeps all that this release does not know.
"""

from collections import Counter

import pytest

from streamlease import inbox, lease, membership, pages
from streamlease.model import LeaseMode
from streamlease.write import Item, Table, Value
from tests.simulation.clock import START_MS
from tests.simulation.kernel import MINUTE, S
from tests.simulation.network import label
from tests.simulation.scenario import BUSIEST, Act, Crash, Deploy, Scale
from tests.simulation.staged import BEGINS_US, Stage, play, scenario
from tests.simulation.store import Landing

both = pytest.mark.parametrize("mode", list(LeaseMode))
SECONDS = START_MS // 1_000
GONE = object()


def _by_hand(connection_id: str, **changes: object) -> Item:
    """A started connection, free for everybody but for what was written wrong."""
    item: dict[str, object] = {
        "schema": 1,
        "connection_id": connection_id,
        "desired_state": "STARTED",
        "desired_state_shard": "STARTED",
        "upstream_url": "wss://by-hand.example/",
        "spec": {},
        "spec_version": 1,
        "lease_epoch": START_MS,
        "lease_expires_at_ms": 0,
        "checkpoint_no": 0,
        **changes,
    }
    return {name: value for name, value in item.items() if value is not GONE}  # type: ignore[misc]


UNREADABLE: dict[str, Item] = {
    item["connection_id"]: item  # type: ignore[misc]
    for item in (
        _by_hand("epoch-as-text", lease_epoch=str(START_MS)),
        _by_hand("epoch-missing", lease_epoch=GONE),
        _by_hand("expiry-in-seconds", lease_expires_at_ms=SECONDS),
        _by_hand("somebodys-expiry-in-seconds", lease_expires_at_ms=SECONDS, lease_owner="somebody", checkpoint_no=5),
        _by_hand("version-as-text", spec_version="1"),
        _by_hand("spec-missing", spec=GONE),
        _by_hand("url-missing", upstream_url=GONE),
        _by_hand("paused", desired_state="PAUSED"),
    )
}
"""As far as the condition of a claim can tell."""
TAKEN_ONCE: dict[str, Item] = {
    item["connection_id"]: item  # type: ignore[misc]
    for item in (
        _by_hand("spec-as-text", spec="{}"),
        _by_hand("position-as-text", position="7"),
        _by_hand("labels-as-list", labels=["a"]),
    )
}
"""What only shows when it is decoded."""


def _claims(stage: Stage, ids: dict[str, Item]) -> Counter[str]:
    """Counts, from now on, the claims that reach the table for `ids`."""
    tried: Counter[str] = Counter()

    def observe(landing: Landing) -> None:
        if landing.key[0] in ids and label(landing.write) == "claim":
            tried[landing.key[0]] += 1

    stage.simulation.store.observers.append(observe)
    return tried


@both
def test_items_that_cannot_be_read_are_reported_with_their_ids_left_as_they_are_and_in_nobodys_way(
    mode: LeaseMode,
) -> None:
    tried: Counter[str] = Counter()

    def plant(stage: Stage) -> None:
        nonlocal tried
        tried = _claims(stage, UNREADABLE)
        for item in UNREADABLE.values():
            stage.simulation.store.plant(Table.CONNECTIONS, item)

    stage = play(scenario(mode, Crash(BEGINS_US, BUSIEST), Scale(BEGINS_US + 15 * S, 1)), plant)
    assert stage.violations == []
    found = stage.simulation.store.tables[Table.CONNECTIONS]
    assert {name: found[name,] for name in UNREADABLE} == UNREADABLE
    reported = stage.simulation.ledger.reported
    assert {f"connection {name!r}" for name in UNREADABLE} <= set(reported)
    minutes = stage.simulation.kernel.now_us / MINUTE
    workers = len(stage.simulation.fleet.everybody)
    assert max(tried.values()) <= workers * (minutes + 1) + minutes + 1, "a minute's rest each, and one offer a minute"


@both
def test_what_shows_only_when_it_is_decoded_is_taken_once_at_most_and_runs_nowhere(mode: LeaseMode) -> None:
    def plant(stage: Stage) -> None:
        for item in TAKEN_ONCE.values():
            stage.simulation.store.plant(Table.CONNECTIONS, item)

    stage = play(scenario(mode, Deploy(BEGINS_US, mode, 2 * S)), plant)
    assert stage.violations == []
    claims = Counter(each.key[0] for each in stage.writes("claim"))
    assert all(claims[name] == 1 for name in TAKEN_ONCE)
    for name, item in TAKEN_ONCE.items():
        after = stage.simulation.store.connection(name)
        assert after is not None
        assert {key: after[key] for key in ("spec", "spec_version", "upstream_url")} == {
            key: item[key] for key in ("spec", "spec_version", "upstream_url")
        }
        assert after.get("position") == item.get("position")
        assert after.get("labels") == item.get("labels")
    assert {f"connection {name!r}" for name in TAKEN_ONCE} <= set(stage.simulation.ledger.reported)


@both
def test_a_connection_whose_item_is_put_right_again_streams_again(mode: LeaseMode) -> None:
    def spoil(stage: Stage) -> None:
        store = stage.simulation.store

        def change(**attributes: Value) -> None:
            item = store.connection("c1")
            assert item is not None
            store.plant(Table.CONNECTIONS, {**item, **attributes})

        stage.simulation.kernel.at(BEGINS_US, lambda: change(spec_version="two"))
        stage.simulation.kernel.at(BEGINS_US + 100 * S, lambda: change(spec_version=2))

    stage = play(scenario(mode, Act(BEGINS_US + 50 * S, "c2", "edit"), lasts_us=110 * S), spoil)
    assert stage.violations == []
    assert stage.simulation.ledger.reported["connection 'c1'"] > 0


@both
def test_odd_members_pages_and_notices_disturb_nobody(mode: LeaseMode) -> None:
    def plant(stage: Stage) -> None:
        store = stage.simulation.store
        odd_members: tuple[Item, ...] = (
            {"worker_id": "asleep", "state": "SLEEPING", "heartbeat": 1, "lease_expires_at_ms": START_MS},
            {"worker_id": "beat-as-text", "state": "LIVE", "heartbeat": "1", "lease_expires_at_ms": START_MS},
            {"worker_id": "bare"},
        )
        for member in odd_members:
            store.plant(Table.MEMBERS, member)

        def among_the_living() -> None:
            for worker_id in [each["worker_id"] for each in store.tables[Table.MEMBERS].values() if "zone" in each]:
                for name in ("page#x", "page#7", "inbox#", "inbox#c1"):
                    odd: Item = {"worker_id": worker_id, "item": name, "version": "1", "spec_version": "two"}
                    store.plant(Table.WORKER_ITEMS, odd)

        stage.simulation.kernel.at(BEGINS_US - 2 * S, among_the_living)

    stage = play(scenario(mode, Crash(BEGINS_US, BUSIEST), Act(BEGINS_US + S, "c1", "edit")), plant)
    assert stage.violations == []
    members = stage.simulation.store.tables[Table.MEMBERS]
    assert members["asleep",]["state"] == "SLEEPING"
    assert {"member 'asleep'", "member 'beat-as-text'", "member 'bare'"} <= set(stage.simulation.ledger.reported)


@both
def test_items_of_the_neighbouring_schemas_are_worked_in_one_fleet_and_keep_what_they_say(mode: LeaseMode) -> None:
    """Half of everything is of the release before, half of the one after, with an attribute that this one does not
    know; the busiest worker dies, all are redeployed, and people edit meanwhile."""

    def age(stage: Stage) -> None:
        store = stage.simulation.store

        def change() -> None:
            for table in Table:
                for number, item in enumerate(list(store.tables[table].values())):
                    if "schema" in item:
                        store.plant(table, {**item, "schema": 2 * (number % 2), "of_another_release": {"kept": True}})

        stage.simulation.kernel.at(BEGINS_US - S, change)

    plan = (Crash(BEGINS_US, BUSIEST), Act(BEGINS_US + 20 * S, "c1", "edit"), Deploy(BEGINS_US + 25 * S, mode, 2 * S))
    stage = play(scenario(mode, *plan), age)
    assert stage.violations == []
    assert stage.simulation.ledger.reported == {}
    found = {str(each["connection_id"]): each for each in stage.simulation.store.connections()}
    assert {name: each["schema"] for name, each in found.items()} == {f"c{n}": 2 * (n % 2) for n in range(6)}
    assert all(each["of_another_release"] == {"kept": True} for each in found.values())
    assert all(each.get("lease_owner") for each in found.values())


@both
@pytest.mark.parametrize("written", [0, 2])
def test_a_fleet_that_begins_to_write_a_neighbouring_schema_hands_everything_on(
    mode: LeaseMode, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an upgrade in place does once its parameter is raised, and what rolling it back does."""

    def raise_it() -> None:
        for module in (inbox, lease, membership, pages):
            monkeypatch.setattr(module, "SCHEMA", written)

    plan = (
        Act(BEGINS_US + S, "c1", "replace"),
        Deploy(BEGINS_US + 2 * S, mode, 2 * S),
        Crash(BEGINS_US + 30 * S, BUSIEST),
    )
    stage = play(scenario(mode, *plan), lambda stage: stage.simulation.kernel.at(BEGINS_US, raise_it))
    assert stage.violations == []
    assert stage.simulation.ledger.reported == {}
    tables = stage.simulation.store.tables
    assert {each["schema"] for each in tables[Table.CONNECTIONS].values()} == {1, written}
    assert {each["schema"] for each in tables[Table.MEMBERS].values() if each.get("state") == "LIVE"} == {written}
