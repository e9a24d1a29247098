"""Which system a command works with."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from streamlease.settings import settings
from streamlease_cli.configuration import LOCAL_FILE, Deployment, LocalSystem, Target, find_local_system, resolve
from streamlease_cli.errors import BadInput

OUTPUTS = {
    "ConnectionsTable": "prod-connections",
    "MembersTable": "prod-members",
    "WorkerItemsTable": "prod-items",
    "OffersQueueUrl": "https://sqs.eu-west-1.amazonaws.com/1/prod-offers",
    "RecordsStream": "prod-records",
    "LeaseMode": "worker",
    "HeartbeatMs": "2000",
    "LeaseMs": "6000",
    "Shards": "8",
    "Cluster": "prod",
}
ENVIRONMENT = {
    "STREAMLEASE_CONNECTIONS_TABLE": "dev-connections",
    "STREAMLEASE_MEMBERS_TABLE": "dev-members",
    "STREAMLEASE_WORKER_ITEMS_TABLE": "dev-items",
    "STREAMLEASE_OFFERS_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/1/dev-offers",
}
LOCAL = LocalSystem("http://127.0.0.1:4566", "eu-west-1", "local", OUTPUTS, Path("current.json"))


def resolved(target: Target, environment: Mapping[str, str], local: LocalSystem | None = None) -> Deployment:
    def stack_outputs(stack: str, target: Target) -> Mapping[str, str]:
        assert stack == "prod"
        return OUTPUTS

    return resolve(target, environment, stack_outputs=stack_outputs, local_system=lambda: local)


def test_a_named_stack_gives_everything() -> None:
    found = resolved(Target("prod", "eu-west-1", "ops"), {"HOME": "/root"})
    made = settings(found.environment)
    assert set(made.tables.values()) == {"prod-connections", "prod-members", "prod-items"}
    assert (made.shards, made.mode, made.timing.lease_ms) == (8, "worker", 6_000)
    assert (found.region, found.profile, found.place) == ("eu-west-1", "ops", "stack 'prod' in eu-west-1")


def test_a_variable_names_the_stack_too() -> None:
    assert resolved(Target(), {"STREAMLEASE_STACK": "prod"}).place == "stack 'prod'"


def test_a_variable_stands_over_a_stack_s_output() -> None:
    found = resolved(Target("prod"), {"STREAMLEASE_SHARDS": "32"})
    assert settings(found.environment).shards == 32


@pytest.mark.parametrize("variable", ENVIRONMENT)
def test_a_stack_and_a_variable_that_name_two_systems_are_refused(variable: str) -> None:
    with pytest.raises(
        BadInput, match=rf"{variable} is '.*dev.*', but stack 'prod' has '.*prod.*': unset the variable"
    ):
        resolved(Target("prod"), {variable: ENVIRONMENT[variable]})


def test_a_variable_that_names_the_same_as_the_stack_is_no_contradiction() -> None:
    same = {"STREAMLEASE_CONNECTIONS_TABLE": "prod-connections"}
    assert settings(resolved(Target("prod"), same).environment).shards == 8


def test_variables_alone_are_enough_and_the_local_system_is_not_mixed_in() -> None:
    found = resolved(Target(region="us-east-1"), ENVIRONMENT, LOCAL)
    assert found.local is None
    assert settings(found.environment).shards == 16
    assert found.place == "table 'dev-connections'"


def test_the_local_system_is_used_where_nothing_else_is_said() -> None:
    found = resolved(Target(), {"AWS_PROFILE": "prod"}, LOCAL)
    assert found.local is LOCAL
    assert found.profile is None
    assert settings(found.environment).shards == 8


@pytest.mark.parametrize("target", [Target(region="us-east-1"), Target(profile="prod")])
def test_a_region_or_profile_means_an_account_and_not_the_local_system(target: Target) -> None:
    with pytest.raises(BadInput, match=r"name a deployed stack with --stack.* leave out --region and --profile"):
        resolved(target, {}, LOCAL)


def test_a_stack_of_something_else_is_named() -> None:
    def other(stack: str, target: Target) -> Mapping[str, str]:
        return {"BucketName": "x"}

    with pytest.raises(BadInput, match="stack 'web' has no output ConnectionsTable, so it is not one of Streamlease's"):
        resolve(Target("web"), {}, stack_outputs=other, local_system=lambda: None)


def test_nothing_said_is_one_sentence_with_three_ways_on() -> None:
    with pytest.raises(BadInput) as raised:
        resolved(Target(), {})
    for way in ("--stack", "STREAMLEASE_CONNECTIONS_TABLE", "`streamlease up`"):
        assert way in str(raised.value)


# --- the local system's file ---


def write(folder: Path, **changes: object) -> None:
    fields = {"endpoint_url": "http://127.0.0.1:4566", "region": "eu-west-1", "stack": "local", "outputs": OUTPUTS}
    file = folder / LOCAL_FILE
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({**fields, **changes}))


def test_the_local_system_is_found_from_a_folder_below(tmp_path: Path) -> None:
    write(tmp_path)
    below = tmp_path / "feeds" / "eu"
    below.mkdir(parents=True)
    found = find_local_system(below)
    assert found is not None
    assert found.endpoint_url == "http://127.0.0.1:4566"
    assert found.outputs["Shards"] == "8"


def test_where_no_file_is_there_is_no_local_system(tmp_path: Path) -> None:
    assert find_local_system(tmp_path) is None


def test_a_file_that_points_at_another_machine_is_refused(tmp_path: Path) -> None:
    write(tmp_path, endpoint_url="https://dynamodb.eu-west-1.amazonaws.com")
    with pytest.raises(BadInput, match="which is not this machine"):
        find_local_system(tmp_path)


@pytest.mark.parametrize(
    "changes", [{"outputs": 3}, {"region": None, "outputs": 1.5}, {"outputs": ["ConnectionsTable"]}]
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, changes: Mapping[str, object]) -> None:
    write(tmp_path, **changes)
    with pytest.raises(BadInput, match="does not describe a local system"):
        find_local_system(tmp_path)
