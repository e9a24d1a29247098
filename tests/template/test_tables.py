"""The tables are those of the design; each of them and each index scales by itself where capacity is provisioned."""

from typing import Any

import pytest

from tests.template.document import Document, properties_of, references_of, resources_of
from tests.template.evaluation import stack

TABLES = {
    "ConnectionsTable": [("connection_id", "HASH")],
    "MembersTable": [("worker_id", "HASH")],
    "WorkerItemsTable": [("worker_id", "HASH"), ("item", "RANGE")],
}
TYPES = {"lease_expires_at_ms": "N"}


def keys_of(schema: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(each["AttributeName"], each["KeyType"]) for each in schema]


def indexes_of(document: Document, table: str) -> dict[str, dict[str, Any]]:
    return {each["IndexName"]: each for each in properties_of(document, table).get("GlobalSecondaryIndexes", [])}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_has_the_keys_of_the_design_and_is_encrypted(document: Document, table: str) -> None:
    properties = properties_of(document, table)
    assert keys_of(properties["KeySchema"]) == TABLES[table]
    assert properties["SSESpecification"] == {"SSEEnabled": True}
    used = {name for name, _ in keys_of(properties["KeySchema"])}
    for index in indexes_of(document, table).values():
        used |= {name for name, _ in keys_of(index["KeySchema"])}
    defined = {each["AttributeName"]: each["AttributeType"] for each in properties["AttributeDefinitions"]}
    assert defined == {name: TYPES.get(name, "S") for name in used}


def test_there_are_no_other_tables(document: Document) -> None:
    assert set(resources_of(document, "AWS::DynamoDB::Table")) == set(TABLES)


def test_by_expiry_is_on_desired_state_and_lease_expiry_and_carries_keys_only(document: Document) -> None:
    index = indexes_of(document, "ConnectionsTable")["by_expiry"]
    assert keys_of(index["KeySchema"]) == [("desired_state_shard", "HASH"), ("lease_expires_at_ms", "RANGE")]
    assert index["Projection"] == {"ProjectionType": "KEYS_ONLY"}


def test_by_owner_carries_what_the_audits_compare(document: Document) -> None:
    index = indexes_of(document, "ConnectionsTable")["by_owner"]
    assert keys_of(index["KeySchema"]) == [("lease_owner", "HASH")]
    assert index["Projection"] == {
        "ProjectionType": "INCLUDE",
        "NonKeyAttributes": ["spec_version", "desired_state"],
    }


def test_members_and_worker_items_have_neither_index_nor_stream(document: Document) -> None:
    for table in ("MembersTable", "WorkerItemsTable"):
        assert not indexes_of(document, table)
        assert "StreamSpecification" not in properties_of(document, table)


def test_the_connections_table_streams_both_images_and_can_be_restored(document: Document) -> None:
    properties = properties_of(document, "ConnectionsTable")
    assert properties["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_members_that_are_gone_go(document: Document) -> None:
    assert properties_of(document, "MembersTable")["TimeToLiveSpecification"] == {
        "AttributeName": "ttl",
        "Enabled": True,
    }


def test_what_holds_data_says_what_becomes_of_it(document: Document) -> None:
    held = resources_of(document, "AWS::DynamoDB::Table", "AWS::Kinesis::Stream", "AWS::ECR::Repository")
    assert len(held) == 5
    for name, each in held.items():
        assert "DeletionPolicy" in each, name
        assert "UpdateReplacePolicy" in each, name
    assert held["ConnectionsTable"]["UpdateReplacePolicy"] == "Retain"


def test_deletion_protection_holds_the_connections_and_the_images(document: Document) -> None:
    [protected, yes, no] = properties_of(document, "ConnectionsTable")["DeletionProtectionEnabled"]["Fn::If"]
    assert (yes, no) == (True, False)
    assert properties_of(document, "Repository")["EmptyOnDelete"]["Fn::If"] == [protected, False, True]
    assert stack(document, DeletionProtection="enabled").condition(protected)
    assert not stack(document).condition(protected)


def scaled(document: Document) -> dict[tuple[str, str], str]:
    """(resource id, dimension) of every scalable target, and its logical id."""
    return {
        (each["Properties"]["ResourceId"]["Fn::Sub"], each["Properties"]["ScalableDimension"]): name
        for name, each in resources_of(document, "AWS::ApplicationAutoScaling::ScalableTarget").items()
    }


def test_every_table_and_every_index_scales_reads_and_writes(document: Document) -> None:
    wanted = set()
    for table in TABLES:
        places = [(f"table/${{{table}}}", "table")]
        places += [(f"table/${{{table}}}/index/{name}", "index") for name in indexes_of(document, table)]
        wanted |= {(place, f"dynamodb:{kind}:{do}CapacityUnits") for place, kind in places for do in ("Read", "Write")}
    assert len(wanted) == 10
    assert set(scaled(document)) == wanted


def test_every_target_follows_the_use_of_its_own_capacity(document: Document) -> None:
    policies = resources_of(document, "AWS::ApplicationAutoScaling::ScalingPolicy").values()
    followed = {}
    for each in policies:
        [target] = references_of(each["Properties"]["ScalingTargetId"])
        tracking = each["Properties"]["TargetTrackingScalingPolicyConfiguration"]
        followed[target] = tracking["PredefinedMetricSpecification"]["PredefinedMetricType"]
        assert 20 <= tracking["TargetValue"] <= 90
    for (_, dimension), target in scaled(document).items():
        kind = "Read" if "Read" in dimension else "Write"
        assert followed[target] == f"DynamoDB{kind}CapacityUtilization", target


def test_scaling_starts_from_the_capacity_that_is_provisioned(document: Document) -> None:
    for (place, dimension), target in scaled(document).items():
        table = place.split("{")[1].split("}")[0]
        index = place.partition("/index/")[2]
        of = indexes_of(document, table)[index] if index else properties_of(document, table)
        [condition, capacity, absent] = of["ProvisionedThroughput"]["Fn::If"]
        assert (condition, absent) == ("IsProvisioned", {"Ref": "AWS::NoValue"})
        units = capacity["ReadCapacityUnits" if "Read" in dimension else "WriteCapacityUnits"]
        properties = properties_of(document, target)
        assert properties["MinCapacity"] == units, target
        assert properties["MaxCapacity"] == {"Ref": units["Ref"].replace("Min", "Max")}, target


def test_a_renewals_two_index_writes_are_provided_for(document: Document) -> None:
    defaults = {name: each.get("Default") for name, each in document["Parameters"].items()}
    for bound in ("Min", "Max"):
        assert defaults[f"ExpiryWrite{bound}"] >= 2 * defaults[f"ConnectionsWrite{bound}"]


@pytest.mark.parametrize(
    ("given", "scales"),
    [
        ({}, False),
        ({"BillingMode": "PROVISIONED"}, True),
        ({"BillingMode": "PROVISIONED", "AutoScaling": "disabled"}, False),
    ],
)
def test_auto_scaling_is_there_only_with_provisioned_capacity(
    document: Document, given: dict[str, str], scales: bool
) -> None:
    made = stack(document, **given).resources()
    scaling = resources_of(
        document, "AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy"
    )
    assert len(scaling) == 20
    assert (set(scaling) & made == set(scaling)) is scales
    assert bool(set(scaling) & made) is scales
