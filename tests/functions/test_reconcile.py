"""The reconcile function over its sample events, on tables in every state it is there for."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.parser import ValidationError
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory

from functions.reconcile.app import RESERVE_MS, handler, metrics
from streamlease import lease, membership
from streamlease.errors import Denied, Throttled
from streamlease.flow import Request
from streamlease.flows.reconcile import OWNER_WALK_EVERY_MS
from streamlease.model import DesiredState
from streamlease.settings import Misconfigured
from streamlease.timing import Instant, Timing
from streamlease.write import Item, Query, Scan, Table
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore
from tests.fakes.trouble import Troubled
from tests.functions.conftest import ROOT, STACK, Context, Deployed, Output, event
from tests.template.document import environment_of, resources_of, template

NOW = "2026-11-29T09:01:00Z"
NOW_MS = 1_795_942_860_000
TIMING = Timing()
SAMPLES = ("by-hand", "schedule")


def connection(connection_id: str, **changes: Any) -> Item:
    put = lease.create(
        connection_id,
        upstream_url="wss://up.example",
        spec={"secret-of-the-spec": "value-of-the-spec"},
        labels={},
        desired_state=DesiredState.STARTED,
        shard="STARTED#1",
        now_ms=NOW_MS - 600_000,
        updated_by="me",
    )
    return {name: value for name, value in {**put.item, **changes}.items() if value is not None}


def member(worker_id: str, expires_at_ms: int, **changes: Any) -> Item:
    sent = Instant(0.0, expires_at_ms - TIMING.lease_ms)
    put = membership.join(
        worker_id, generation=1, capacity=100, zone="", started_at_ms=NOW_MS, sent=sent, timing=TIMING
    )
    return {**put.item, **changes}


def test_every_sample_is_tried() -> None:
    assert {path.stem for path in (ROOT / "events/reconcile").glob("*.json")} == set(SAMPLES)


@pytest.mark.parametrize("sample", SAMPLES)
@freeze_time(NOW)
def test_a_fleet_in_order_is_left_alone(sample: str, deployed: Deployed, output: Output) -> None:
    deployed.put(Table.MEMBERS, member("w1", NOW_MS + 20_000, owned=1, load={"streaming": 1}))
    owned = connection("c1", lease_owner="w1", lease_nonce="n", lease_expires_at_ms=NOW_MS + 20_000, checkpoint_no=1)
    deployed.put(Table.CONNECTIONS, owned)
    answer = handler(event(f"reconcile/{sample}.json"), Context())
    assert (answer["complete"], answer["live_members"], answer["unowned"]) == (True, 1, 0)
    assert deployed.offers() == []
    assert deployed.items(Table.CONNECTIONS) == [owned]
    assert set(output.metrics().values()) == {0.0}
    [line] = output.lines()
    assert (line["message"], line["level"]) == ("reconciled", "INFO")
    assert line["trigger"] == {"schedule": "aws.scheduler", "by-hand": "invoke"}[sample]


@freeze_time(NOW)
def test_what_nobody_owns_is_offered_counted_and_dated(deployed: Deployed, output: Output) -> None:
    deployed.put(Table.MEMBERS, member("w1", NOW_MS + 20_000, owned=5, load={"streaming": 3}))
    expired = NOW_MS - 45_000
    deployed.put(Table.CONNECTIONS, connection("freed", updated_at_ms=NOW_MS - 30_000))
    deployed.put(
        Table.CONNECTIONS,
        connection("expired", lease_owner="w0", lease_nonce="n", lease_expires_at_ms=expired, checkpoint_no=4),
    )
    within_skew = connection("within-skew", lease_owner="w0", lease_nonce="n", lease_expires_at_ms=NOW_MS - 1_000)
    deployed.put(Table.CONNECTIONS, within_skew)
    handler(event("reconcile/schedule.json"), Context())
    assert sorted((offer["connection_id"], offer["reason"]) for offer in deployed.offers()) == [
        ("expired", "expired"),
        ("freed", "released"),
    ]
    assert output.metrics() == {
        "OldestUnownedSeconds": 45.0,
        "Unowned": 2,
        "StartedNotStreaming": 4,
        "Offered": 2,
        "Buried": 0,
        "Orphaned": 0,
        "Malformed": 0,
    }


@freeze_time(NOW)
def test_a_dead_worker_is_buried_and_its_worker_mode_leases_are_freed(deployed: Deployed, output: Output) -> None:
    deployed.put(Table.MEMBERS, member("dead", NOW_MS - 5_000, owned=2))
    for number in range(2):
        held = connection(f"c{number}", lease_owner="dead", lease_nonce="n", lease_expires_at_ms=None, checkpoint_no=1)
        deployed.put(Table.CONNECTIONS, held)
    answer = handler(event("reconcile/schedule.json"), Context())
    assert (answer["buried"], answer["orphaned"]) == (1, 2)
    states = {item["worker_id"]: item.get("state") for item in deployed.items(Table.MEMBERS)}
    assert states["dead"] == "DEAD"
    assert {(item["last_event"], "lease_owner" in item) for item in deployed.items(Table.CONNECTIONS)} == {
        ("ORPHANED", False)
    }
    assert {(offer["connection_id"], offer["reason"]) for offer in deployed.offers()} == {
        ("c0", "orphaned"),
        ("c1", "orphaned"),
    }
    assert output.metrics()["Orphaned"] == 2


@freeze_time(NOW)
def test_metrics_are_emf_with_the_dimensions_that_alarms_name(deployed: Deployed, output: Output) -> None:
    handler(event("reconcile/schedule.json"), Context())
    [blob] = output.emf()
    assert blob["stack"] == STACK
    [directive] = blob["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Streamlease"
    assert directive["Dimensions"] == [["stack"]], "and `service`, where POWERTOOLS_SERVICE_NAME is set"
    units = {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}
    assert units.pop("OldestUnownedSeconds") == "Seconds"
    assert set(units.values()) == {"Count"}


@freeze_time(NOW)
def test_every_alarm_on_our_metrics_names_one_that_is_published_with_just_these_dimensions(
    deployed: Deployed, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alarm has to name all dimensions of a metric to see it. The template sets POWERTOOLS_SERVICE_NAME."""
    variables = environment_of(template(), "ReconcileFunction")
    monkeypatch.setattr(metrics.provider, "service", variables["POWERTOOLS_SERVICE_NAME"])
    handler(event("reconcile/schedule.json"), Context())
    [blob] = output.emf()
    [directive] = blob["_aws"]["CloudWatchMetrics"]
    alarms = [alarm["Properties"] for alarm in resources_of(template(), "AWS::CloudWatch::Alarm").values()]
    ours = [alarm for alarm in alarms if alarm.get("Namespace") == directive["Namespace"]]
    assert {alarm["MetricName"] for alarm in ours} == {"OldestUnownedSeconds", "StartedNotStreaming"}
    assert {alarm["MetricName"] for alarm in ours} <= {metric["Name"] for metric in directive["Metrics"]}
    for alarm in ours:
        values = {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]}
        assert [sorted(values)] == [sorted(names) for names in directive["Dimensions"]]
        assert values["service"] == blob["service"]


@freeze_time(NOW)
def test_an_item_that_cannot_be_read_is_reported_once_with_its_id_and_left_alone(
    deployed: Deployed, output: Output
) -> None:
    """It is met by the sweep, by the burial and by the walk of all owners."""
    bad = connection("bad", lease_owner="dead", lease_nonce="n", lease_expires_at_ms=None, spec_version="7")
    deployed.put(Table.CONNECTIONS, bad)
    deployed.put(Table.CONNECTIONS, connection("good", lease_owner="dead", lease_nonce="n", lease_expires_at_ms=None))
    deployed.put(Table.MEMBERS, member("dead", NOW_MS - 5_000))
    deployed.put(Table.MEMBERS, {"worker_id": "odd", "state": "SLEEPING"})
    deployed.put(Table.MEMBERS, {"worker_id": "#fleet", "shards": "many"})
    answer = handler(event("reconcile/schedule.json"), Context())
    errors = [line for line in output.lines() if line["level"] == "ERROR"]
    assert sorted(line["item"] for line in errors) == ["connection 'bad'", "fleet summary", "member 'odd'"]
    assert "of-the-spec" not in str(errors)
    assert answer["malformed"] == 3
    assert output.metrics()["Malformed"] == 3
    assert bad in deployed.items(Table.CONNECTIONS)
    assert [offer["connection_id"] for offer in deployed.offers()] == ["good"]


def test_a_second_run_at_once_changes_nothing_but_offers_again(deployed: Deployed, output: Output) -> None:
    with freeze_time(NOW) as frozen:
        assert isinstance(frozen, FrozenDateTimeFactory)
        deployed.put(Table.CONNECTIONS, connection("c1"))
        deployed.put(Table.MEMBERS, member("dead", NOW_MS - 5_000))
        handler(event("reconcile/schedule.json"), Context())
        first, before = deployed.offers(), deployed.items(Table.CONNECTIONS)
        frozen.tick(timedelta(seconds=1))
        answer = handler(event("reconcile/schedule.json"), Context())
        assert (answer["buried"], answer["walked_owners"]) == (0, False)
        assert deployed.items(Table.CONNECTIONS) == before
        assert [offer["connection_id"] for offer in deployed.offers()] == [o["connection_id"] for o in first] == ["c1"]
        frozen.tick(timedelta(milliseconds=OWNER_WALK_EVERY_MS))
        assert handler(event("reconcile/schedule.json"), Context())["walked_owners"] is True


def many(store: MemoryStore, count: int) -> None:
    for number in range(count):
        put = lease.create(
            f"c{number}",
            upstream_url="wss://up",
            spec={},
            labels={},
            desired_state=DesiredState.STARTED,
            shard=f"STARTED#{number % 16}",
            now_ms=NOW_MS - 60_000,
            updated_by="me",
        )
        store.perform(put)


def test_a_run_without_time_goes_on_in_the_next(
    use_store: Callable[[Callable[..., object]], None], output: Output
) -> None:
    """A second passes with each query; the budget is what Lambda says is left, less the reserve."""
    clock = SetClock(wall_ms=NOW_MS)
    store = MemoryStore(clock)
    many(store, 32)

    def perform(request: Request) -> object:
        clock.advance(1_000 if isinstance(request, Query) else 0)
        return store.perform(request)

    use_store(perform)
    for complete, unowned, offered in ((False, 20, 20), (True, 32, 12), (False, 20, 20)):
        answer = handler(event("reconcile/schedule.json"), Context(remaining_ms=RESERVE_MS + 11_000))
        assert (answer["complete"], answer["unowned"], answer["offered"]) == (complete, unowned, offered)
        if complete:
            assert len({offer.connection_id for offer in store.offers}) == 32


def test_with_less_than_the_reserve_left_half_of_it_is_used(
    use_store: Callable[[Callable[..., object]], None], output: Output
) -> None:
    clock = SetClock(wall_ms=NOW_MS)
    store = MemoryStore(clock)

    def perform(request: Request) -> object:
        clock.advance(1_000 if isinstance(request, Query) else 0)
        return store.perform(request)

    many(store, 16)
    use_store(perform)
    assert handler({}, Context(remaining_ms=6_000))["offered"] == 2  # the bare shard, and two of the numbered


def test_a_fault_fails_the_run_with_its_sentence_and_the_next_run_does_it_all(
    use_store: Callable[[Callable[..., object]], None], output: Output
) -> None:
    store = MemoryStore(SetClock(wall_ms=NOW_MS))
    many(store, 3)
    troubled = Troubled(store.perform)
    troubled.trouble(Throttled("members are throttled"), when=lambda request: isinstance(request, Scan))
    use_store(troubled.perform)
    with pytest.raises(Throttled, match="members are throttled"):
        handler(event("reconcile/schedule.json"), Context())
    assert output.emf() == [], "half a run's numbers would be wrong"
    store.offers.clear()
    assert handler(event("reconcile/schedule.json"), Context())["complete"] is True
    assert len(store.offers) == 3


def test_offers_that_the_queue_does_not_take_fail_no_run(
    use_store: Callable[[Callable[..., object]], None], output: Output
) -> None:
    """They are hints, and the next run offers them again."""
    store = MemoryStore(SetClock(wall_ms=NOW_MS))
    many(store, 3)
    store.full = True
    use_store(store.perform)
    answer = handler(event("reconcile/schedule.json"), Context())
    assert (answer["offered"], answer["untaken_offers"], answer["complete"]) == (0, 3, True)


@freeze_time(NOW)
def test_a_table_that_is_not_there_is_named(
    deployed: Deployed, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, output: Output
) -> None:
    monkeypatch.setenv("STREAMLEASE_MEMBERS_TABLE", "elsewhere")
    with pytest.raises(Denied, match="there is no table 'elsewhere' in eu-west-1"):
        handler(event("reconcile/schedule.json"), Context())


def test_a_setting_that_cannot_be_is_named(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, output: Output
) -> None:
    monkeypatch.setenv("STREAMLEASE_SHARDS", "many")
    with pytest.raises(Misconfigured, match="STREAMLEASE_SHARDS is 'many'"):
        handler(event("reconcile/schedule.json"), Context())


def test_an_event_of_another_kind_is_refused(environment: dict[str, str], output: Output) -> None:
    with pytest.raises(ValidationError, match="source"):
        handler({"source": ["aws.s3"]}, Context())
