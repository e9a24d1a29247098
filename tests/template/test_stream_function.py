"""Which changes of a connection invoke the stream function, and what becomes of a batch that fails."""

from typing import Any

import pytest

from tests.template.document import Document, nodes, properties_of, references_of
from tests.template.event_filter import invokes


@pytest.fixture(scope="module")
def source(document: Document) -> dict[str, Any]:
    [event] = properties_of(document, "StreamFunction")["Events"].values()
    assert event["Type"] == "DynamoDB"
    found = event["Properties"]
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def patterns(source: dict[str, Any]) -> list[str]:
    return [each["Pattern"] for each in source["FilterCriteria"]["Filters"]]


def record(last_event: str, desired_state: str, owner: str | None, event_name: str = "MODIFY") -> dict[str, Any]:
    image = {
        "connection_id": {"S": "feed-1"},
        "last_event": {"S": last_event},
        "desired_state": {"S": desired_state},
        "lease_epoch": {"N": "7"},
        "lease_expires_at_ms": {"N": "1750000000000"},
        **({"lease_owner": {"S": owner}} if owner else {}),
    }
    change = {"Keys": {"connection_id": {"S": "feed-1"}}, "OldImage": {**image, "lease_epoch": {"N": "6"}}}
    return {
        "eventName": event_name,
        "eventSource": "aws:dynamodb",
        "dynamodb": change if event_name == "REMOVE" else {**change, "NewImage": image},
    }


@pytest.mark.parametrize(
    ("last_event", "desired_state", "owner"),
    [
        pytest.param("CONTROL", "STARTED", None, id="started and free"),
        pytest.param("CONTROL", "STARTED", "w-1", id="edited while owned"),
        pytest.param("CONTROL", "STOPPED", "w-1", id="stopped while owned"),
        pytest.param("RELEASED", "STARTED", None, id="released"),
        pytest.param("ORPHANED", "STARTED", None, id="orphaned"),
    ],
)
def test_what_needs_an_owner_or_its_owners_attention_invokes(
    patterns: list[str], last_event: str, desired_state: str, owner: str | None
) -> None:
    assert invokes(patterns, record(last_event, desired_state, owner))


@pytest.mark.parametrize(
    ("last_event", "desired_state", "owner"),
    [
        pytest.param("RENEWED", "STARTED", "w-1", id="renewed"),
        pytest.param("CHECKPOINT", "STARTED", "w-1", id="checkpoint"),
        pytest.param("CLAIMED", "STARTED", "w-1", id="claimed"),
        pytest.param("CONTROL", "STOPPED", None, id="stopped and free"),
        pytest.param("RELEASED", "STOPPED", None, id="released because it was stopped"),
        pytest.param("ORPHANED", "STOPPED", None, id="orphaned while stopped"),
    ],
)
def test_what_asks_for_nothing_never_invokes(
    patterns: list[str], last_event: str, desired_state: str, owner: str | None
) -> None:
    assert not invokes(patterns, record(last_event, desired_state, owner))


@pytest.mark.parametrize("last_event", ["CONTROL", "RELEASED", "ORPHANED"])
def test_a_deletion_never_invokes(patterns: list[str], last_event: str) -> None:
    assert not invokes(patterns, record(last_event, "STARTED", None, event_name="REMOVE"))


def test_a_new_connection_invokes_like_a_changed_one(patterns: list[str]) -> None:
    assert invokes(patterns, record("CONTROL", "STARTED", None, event_name="INSERT"))


def test_the_filter_compares_with_constants_and_leaves_only(patterns: list[str]) -> None:
    """Old against new cannot be compared, and `exists: false` means different things here and in the emulator."""
    assert len(patterns) <= 5  # Lambda's own limit
    for pattern in patterns:
        assert "OldImage" not in pattern
        assert "false" not in pattern
        assert pattern.isascii()


def test_exists_looks_at_leaves_as_lambda_does() -> None:
    owned = {"lease_owner": {"S": "w-1"}}
    assert invokes(['{"lease_owner": {"S": [{"exists": true}]}}'], owned)
    assert not invokes(['{"lease_owner": [{"exists": true}]}'], owned)
    assert invokes(['{"lease_owner": {"S": [{"exists": false}]}}'], {})


def test_it_reads_the_connections_table_from_the_first_record(source: dict[str, Any]) -> None:
    assert source["Stream"] == {"Fn::GetAtt": ["ConnectionsTable", "StreamArn"]}
    assert source["StartingPosition"] == "TRIM_HORIZON"


def test_one_bad_record_is_retried_alone_and_not_for_ever(source: dict[str, Any]) -> None:
    assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert source["BisectBatchOnFunctionError"] is True
    assert 0 < source["MaximumRetryAttempts"] <= 10
    assert 60 <= source["MaximumRecordAgeInSeconds"] <= 3600


def test_what_it_gives_up_on_goes_to_a_queue_it_may_write_to(document: Document, source: dict[str, Any]) -> None:
    target = source["DestinationConfig"]["OnFailure"]
    assert target["Type"] == "SQS"
    [queue] = references_of(target["Destination"])
    assert document["Resources"][queue]["Type"] == "AWS::SQS::Queue"
    statements = properties_of(document, "StreamRole")["Policies"][0]["PolicyDocument"]["Statement"]
    assert any(each["Action"] == "sqs:SendMessage" and queue in references_of(each["Resource"]) for each in statements)


def test_an_offer_waits_for_no_batch(source: dict[str, Any]) -> None:
    assert source["MaximumBatchingWindowInSeconds"] == 0


def test_a_hint_lost_by_the_queue_arrives_with_the_dead_letters_before_it_expires(document: Document) -> None:
    offers = properties_of(document, "OffersQueue")
    receives = offers["RedrivePolicy"]["maxReceiveCount"]
    assert receives * offers["VisibilityTimeout"] < offers["MessageRetentionPeriod"] <= 300
    [dead_letters] = references_of(offers["RedrivePolicy"]["deadLetterTargetArn"])
    assert properties_of(document, dead_letters)["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_every_queue_is_encrypted(document: Document) -> None:
    queues = [
        each
        for each in nodes(document["Resources"])
        if isinstance(each, dict) and each.get("Type") == "AWS::SQS::Queue"
    ]
    assert len(queues) == 3
    assert all(each["Properties"]["SqsManagedSseEnabled"] is True for each in queues)
