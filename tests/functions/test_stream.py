"""The stream function over every sample event, and over batches that are partly bad."""

from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from freezegun import freeze_time
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from functions.stream.app import executor, handler
from streamlease import lease
from streamlease.errors import Throttled, Unreachable
from streamlease.flow import Request, SendOffers, run
from streamlease.flows.claim import Claimer, claim
from streamlease.lease import Claimed, Held
from streamlease.model import DesiredState, LeaseMode
from streamlease.settings import Misconfigured
from streamlease.timing import Timing
from streamlease.write import Item, Table
from tests.fakes.memory import MemoryStore
from tests.fakes.trouble import Troubled
from tests.functions.conftest import ROOT, STACK, Context, Deployed, Output, event, record

NOW = "2026-11-29T09:00:30Z"
NOW_MS = 1_795_942_830_000
WORKER = "5f0e1c2d3b4a49f8a1b2c3d4e5f60718-9c1d7e"

SAMPLES: dict[str, dict[str, int]] = {
    "claimed": {},
    "checkpoint": {},
    "control": {"Offers": 1},
    "control-stopped": {"Notices": 1},
    "orphaned": {"Offers": 1},
    "poisoned": {"Offers": 1, "Poisoned": 3},
    "released": {"Offers": 1},
    "removed": {},
    "renewed": {},
}


def call(records: dict[str, Any]) -> list[str]:
    """The sequence numbers that the stream has to send again."""
    answer = handler(records, Context())
    return [str(failure["itemIdentifier"]) for failure in answer["batchItemFailures"]]


def test_every_sample_is_tried() -> None:
    assert {path.stem for path in (ROOT / "events/stream").glob("*.json")} == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
@freeze_time(NOW)
def test_a_sample_becomes_what_its_change_asks_for(name: str, deployed: Deployed, output: Output) -> None:
    expected = {"Offers": 0, "Notices": 0, "Poisoned": 0, **SAMPLES[name]}
    assert call(event(f"stream/{name}.json")) == []
    assert output.metrics() == expected
    offers = deployed.offers()
    assert len(offers) == expected["Offers"]
    assert all(offer["offered_at_ms"] == NOW_MS for offer in offers)
    assert len(deployed.items(Table.WORKER_ITEMS)) == expected["Notices"]
    assert len(output.lines()) == expected["Poisoned"]
    assert deployed.items(Table.CONNECTIONS) == [], "it writes no connection"


@pytest.mark.parametrize(
    ("name", "reason"), [("control", "control"), ("released", "released"), ("orphaned", "orphaned")]
)
@freeze_time(NOW)
def test_an_offer_says_which_connection_and_why(name: str, reason: str, deployed: Deployed, output: Output) -> None:
    call(event(f"stream/{name}.json"))
    message = {"v": 1, "connection_id": "jetstream-posts", "reason": reason, "offered_at_ms": NOW_MS}
    assert deployed.offers() == [message]


@freeze_time(NOW)
def test_an_owner_in_worker_mode_is_told_of_a_change(deployed: Deployed, output: Output) -> None:
    call(event("stream/control-stopped.json"))
    entry = {"schema": 1, "worker_id": WORKER, "item": "inbox#jetstream-posts", "spec_version": 2}
    assert deployed.items(Table.WORKER_ITEMS) == [entry]


@freeze_time(NOW)
def test_metrics_are_emf_with_the_dimensions_that_alarms_name(deployed: Deployed, output: Output) -> None:
    call(event("stream/control.json"))
    [blob] = output.emf()
    assert blob["stack"] == STACK
    [directive] = blob["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Streamlease"
    assert directive["Dimensions"] == [["stack"]], "and `service`, where POWERTOOLS_SERVICE_NAME is set"
    assert directive["Metrics"] == [{"Name": n, "Unit": "Count"} for n in ("Offers", "Notices", "Poisoned")]
    assert blob["_aws"]["Timestamp"] == NOW_MS


def started(connection_id: str, /, **changes: Any) -> Item:
    put = lease.create(
        connection_id,
        upstream_url="wss://up.example",
        spec={"secret-of-the-spec": "value-of-the-spec"},
        labels={},
        desired_state=DesiredState.STARTED,
        shard="STARTED#1",
        now_ms=NOW_MS,
        updated_by="me",
    )
    return {name: value for name, value in {**put.item, **changes}.items() if value is not None}


POISON: dict[str, Callable[[], dict[str, Any]]] = {
    "no image": lambda: record("bad", 4, None),
    "no such state": lambda: record("bad", 4, started("bad", desired_state="RUNNING")),
    "no state": lambda: record("bad", 4, started("bad", desired_state=None)),
    "no id": lambda: record("bad", 4, started("bad", connection_id=None)),
    "an id of the wrong type": lambda: record("bad", 4, started("bad", connection_id=7)),
    "a version of the wrong type": lambda: record(
        "bad", 4, started("bad", lease_owner="w", lease_expires_at_ms=None, spec_version="2")
    ),
    "a number that is none": lambda: _with_attribute("lease_epoch", {"N": "seven"}),
    "an attribute without a type": lambda: _with_attribute("lease_epoch", {}),
    "an attribute of two types": lambda: _with_attribute("lease_epoch", {"N": "7", "S": "7"}),
    "an attribute that is no map": lambda: _with_attribute("lease_epoch", 7),
    "an unknown event": lambda: {**record("bad", 4, started("bad")), "eventName": "RENAME"},
    "no body": lambda: {"eventID": "event-4"},
}


def _with_attribute(name: str, value: object) -> dict[str, Any]:
    bad = record("bad", 4, started("bad"))
    bad["dynamodb"]["NewImage"][name] = value
    return bad


@pytest.mark.parametrize("poison", POISON)
@freeze_time(NOW)
def test_one_poisoned_record_is_passed_over_and_nine_good_ones_are_handed_on(
    poison: str, deployed: Deployed, output: Output
) -> None:
    """It is logged once, with what finds it again and nothing of its spec, and holds the shard up not at all."""
    records = [record(f"good-{number}", number, started(f"good-{number}")) for number in range(10) if number != 4]
    records.insert(4, POISON[poison]())
    assert call({"Records": records}) == []
    assert {offer["connection_id"] for offer in deployed.offers()} == {f"good-{n}" for n in range(10) if n != 4}
    assert output.metrics() == {"Offers": 9, "Notices": 0, "Poisoned": 1}
    [line] = output.lines()
    assert (line["level"], line["event_id"]) == ("ERROR", "event-4")
    if poison != "no body":
        assert (line["connection_id"], line["sequence_number"]) == ("bad", "4")
    assert line["problem"]
    assert "of-the-spec" not in str(line)


@freeze_time(NOW)
def test_a_poisoned_value_is_not_quoted_from_the_image(deployed: Deployed, output: Output) -> None:
    secret = {"M": {"password": {"N": "hunter2"}}}
    call({"Records": [_with_attribute("spec", secret), _with_attribute("upstream_url", {"S": ["hunter2"]})]})
    lines = output.lines()
    assert len(lines) == 2
    assert "hunter2" not in str(lines)


@freeze_time(NOW)
def test_records_that_the_queue_does_not_take_are_sent_again_and_the_others_are_not_lost(
    use_store: Callable[[Callable[..., object]], None], output: Output
) -> None:
    store = MemoryStore()
    troubled = Troubled(store.perform)
    troubled.trouble(Unreachable("no answer"), when=_offers("c3"))
    troubled.trouble(Throttled("too much"), when=_offers("c7"))
    use_store(troubled.perform)
    records = [record(f"c{number}", number, started(f"c{number}")) for number in range(10)]

    assert call({"Records": records}) == ["3", "7"]
    assert [offer.connection_id for offer in store.offers] == [f"c{n}" for n in range(10) if n not in (3, 7)]
    assert output.metrics() == {"Offers": 8, "Notices": 0, "Poisoned": 0}
    assert [(line["level"], line["connection_id"], line["fault"]) for line in output.lines()] == [
        ("WARNING", "c3", "no answer"),
        ("WARNING", "c7", "too much"),
    ]

    assert call({"Records": records[3:]}) == [], "Lambda goes on from the first that failed"
    assert {offer.connection_id for offer in store.offers} == {f"c{n}" for n in range(10)}


def _offers(connection_id: str) -> Callable[[Request], bool]:
    return lambda request: isinstance(request, SendOffers) and request.offers[0].connection_id == connection_id


@freeze_time(NOW)
def test_a_full_queue_fails_the_whole_batch_so_that_it_is_seen(
    use_store: Callable[[Callable[..., object]], None], output: Output
) -> None:
    store = MemoryStore()
    store.full = True
    use_store(store.perform)
    with pytest.raises(BatchProcessingError):
        handler({"Records": [record("c1", 1, started("c1")), record("c2", 2, started("c2"))]}, Context())
    assert output.metrics() == {"Offers": 0, "Notices": 0, "Poisoned": 0}
    assert "did not take the offer of connection 'c1'" in output.lines()[0]["fault"]


@freeze_time(NOW)
def test_a_queue_that_is_not_there_is_named(deployed: Deployed, output: Output) -> None:
    deployed.sqs.delete_queue(QueueUrl=deployed.queue_url)
    with pytest.raises(BatchProcessingError):
        handler(event("stream/control.json"), Context())
    [line] = output.lines()
    assert "there is no queue 'offers'" in line["fault"]


@freeze_time(NOW)
def test_a_defect_of_the_function_fails_its_record_only_and_is_logged_with_its_trace(
    use_store: Callable[[Callable[..., object]], None], output: Output
) -> None:
    store = MemoryStore()

    def perform(request: Request) -> object:
        if _offers("c1")(request):
            raise ZeroDivisionError
        return store.perform(request)

    use_store(perform)
    assert call({"Records": [record("c1", 1, started("c1")), record("c2", 2, started("c2"))]}) == ["1"]
    [line] = output.lines()
    assert (line["level"], line["exception_name"], line["connection_id"]) == ("ERROR", "ZeroDivisionError", "c1")


@freeze_time(NOW)
def test_the_same_event_twice_is_harmless(deployed: Deployed, output: Output) -> None:
    """Two offers, one owner; two notices, one entry."""
    deployed.put(Table.CONNECTIONS, started("jetstream-posts"))
    for name in ("control", "control", "control-stopped", "control-stopped"):
        call(event(f"stream/{name}.json"))
    assert len(deployed.items(Table.WORKER_ITEMS)) == 1
    offers = deployed.offers()
    assert len(offers) == 2
    outcomes = []
    for number, offer in enumerate(offers):
        claimer = Claimer(f"w{number}", Timing(), LeaseMode.CONNECTION)
        flow = claim(offer["connection_id"], nonce=f"n{number}", claimer=claimer)
        outcomes.append(run(flow, executor().perform))
    assert [type(outcome) for outcome in outcomes] == [Claimed, Held]


@freeze_time(NOW)
def test_an_older_notice_does_not_replace_a_newer_one(deployed: Deployed, output: Output) -> None:
    for version in (3, 2):
        image = started("c1", lease_owner="w1", lease_expires_at_ms=None, spec_version=version)
        call({"Records": [record("c1", version, image)]})
    [entry] = deployed.items(Table.WORKER_ITEMS)
    assert entry["spec_version"] == 3


GARBAGE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "CONTROL", "STARTED", "7"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["S", "N", "M", "L", "BOOL", "NULL", "Keys", "NewImage", "connection_id", "last_event"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.dictionaries(st.sampled_from(["eventID", "eventName", "dynamodb"]), GARBAGE),
    st.sampled_from(["INSERT", "MODIFY", "REMOVE", None]),
)
def test_whatever_a_record_holds_it_is_handed_on_or_passed_over(
    use_store: Callable[[Callable[..., object]], None], output: Output, garbage: dict[str, Any], kind: str | None
) -> None:
    store = MemoryStore()
    use_store(store.perform)
    bad = {**garbage, "eventName": kind} if kind else garbage
    assert call({"Records": [bad, record("good", 2, started("good"))]}) == []
    assert "good" in [offer.connection_id for offer in store.offers]


def test_a_missing_variable_is_named(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, output: Output
) -> None:
    monkeypatch.delenv("STREAMLEASE_OFFERS_QUEUE_URL")
    with pytest.raises(Misconfigured, match="STREAMLEASE_OFFERS_QUEUE_URL is not set"):
        handler(event("stream/control.json"), Context())
