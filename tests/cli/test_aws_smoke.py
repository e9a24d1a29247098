"""The check of a deployed stack, against a stack made of the template's own tables and the store in memory."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from click.testing import CliRunner, Result

from streamlease.errors import Denied
from streamlease.model import DesiredState
from streamlease.write import Delete, Put, Table
from streamlease_cli.aws_smoke import OUTPUTS, STEPS, aws_smoke
from streamlease_cli.configuration import Deployment
from streamlease_cli.invocation import Invocation
from streamlease_cli.session import Session
from tests.cli.system import ARN, SETTINGS, System
from tests.fakes.tables import create_table_requests


@dataclass
class Account:
    """Every service the check asks, answering as AWS does. A test breaks what it is about."""

    tables: dict[str, dict[str, Any]]
    outputs: dict[str, str] = field(default_factory=lambda: dict.fromkeys(OUTPUTS, "x"))
    queue: dict[str, str] = field(default_factory=lambda: {"RedrivePolicy": "{}", "MessageRetentionPeriod": "900"})
    function_error: str | None = None
    invoked: list[Mapping[str, Any]] = field(default_factory=list)
    alarms: dict[str, str] = field(default_factory=lambda: {"unowned": "OK", "silent": "INSUFFICIENT_DATA"})
    removed_alarms: tuple[str, ...] = ()

    def describe_table(self, TableName: str) -> Mapping[str, Any]:  # noqa: N803 - boto3's name
        return {"Table": self.tables[TableName]}

    def get_queue_attributes(self, **_: object) -> Mapping[str, Any]:
        return {"Attributes": self.queue}

    def invoke(self, FunctionName: str, Payload: bytes) -> Mapping[str, Any]:  # noqa: N803 - boto3's names
        self.invoked.append(json.loads(Payload))
        error = {"FunctionError": "Unhandled"} if self.function_error else {}
        return {"Payload": io.BytesIO((self.function_error or "null").encode()), **error}

    def describe_stack_resources(self, **_: object) -> Mapping[str, Any]:
        alarms = [{"ResourceType": "AWS::CloudWatch::Alarm", "PhysicalResourceId": name} for name in self.alarms]
        return {"StackResources": [{"ResourceType": "AWS::SQS::Queue", "PhysicalResourceId": "q"}, *alarms]}

    def describe_alarms(self, **_: object) -> Mapping[str, Any]:
        there = [name for name in self.alarms if name not in self.removed_alarms]
        return {"MetricAlarms": [{"AlarmName": name, "StateValue": self.alarms[name]} for name in there]}


def account() -> Account:
    described = {}
    for table, request in create_table_requests("test-").items():
        indexes = [{**index, "IndexStatus": "ACTIVE"} for index in request.get("GlobalSecondaryIndexes", [])]
        described[SETTINGS.tables[table]] = {
            **request,
            "TableStatus": "ACTIVE",
            "GlobalSecondaryIndexes": indexes,
            "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        }
    return Account(described)


def smoke(system: System, aws: Account, *options: str) -> Result:
    session = Session(
        settings=SETTINGS,
        perform=system.troubled.perform,
        caller=lambda: ARN,
        place="stack 'dev'",
        deployment=Deployment({}, aws.outputs, "stack 'dev'", stack="dev"),
        client=lambda _: aws,
    )
    invocation = Invocation(open_session=lambda _: session)
    return CliRunner().invoke(aws_smoke, ["--stack", "dev", *options], obj=invocation, catch_exceptions=False)


def outcomes(result: Result) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in json.loads(result.stdout)["checks"]}


def test_a_sound_stack_passes_every_check_and_is_left_as_it_was() -> None:
    system, aws = System(), account()
    system.add("somebody-s", state=DesiredState.STARTED)
    result = smoke(system, aws)
    assert result.exit_code == 0, result.stdout
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [["ok", name] for name in STEPS]
    assert [item["connection_id"] for item in system.store.items(Table.CONNECTIONS)] == ["somebody-s"]
    assert len(aws.invoked) == 1


def test_its_connection_is_stopped_all_along() -> None:
    system = System()
    smoke(system, account())
    puts = [request for request in system.troubled.performed if isinstance(request, Put)]
    assert [put.item["desired_state"] for put in puts] == ["STOPPED"]
    assert "desired_state_shard" not in puts[0].item


def test_the_json_has_the_documented_keys() -> None:
    document = json.loads(smoke(System(), account(), "--json").stdout)
    assert set(document) == {"stack", "ok", "checks"}
    assert (document["stack"], document["ok"]) == ("dev", True)
    assert set(document["checks"][0]) == {"name", "outcome", "detail"}


def test_each_part_that_is_wrong_is_named_and_the_other_checks_go_on() -> None:
    aws = account()
    del aws.outputs["ReconcileFunction"]
    connections = aws.tables[SETTINGS.tables[Table.CONNECTIONS]]
    connections["StreamSpecification"] = {"StreamEnabled": False}
    connections["GlobalSecondaryIndexes"] = connections["GlobalSecondaryIndexes"][:1]
    aws.queue = {}
    aws.removed_alarms = ("silent",)
    result = smoke(System(), aws, "--json")
    assert result.exit_code == 1
    details = {c["name"]: c["detail"] for c in json.loads(result.stdout)["checks"] if c["outcome"] == "failed"}
    assert set(details) == {"outputs", "tables", "indexes", "queue", "reconcile", "alarms"}
    assert "lacks ReconcileFunction" in details["outputs"]
    assert "stream is off" in details["tables"]
    assert "has no index by_owner" in details["indexes"]
    assert "no dead-letter queue" in details["queue"]
    assert "silent is not there any more" in details["alarms"]


def test_a_function_that_fails_is_a_failure_with_its_own_words() -> None:
    aws = account()
    aws.function_error = '{"errorMessage": "STREAMLEASE_MEMBERS_TABLE is not set"}'
    result = smoke(System(), aws, "--json")
    assert outcomes(result)["reconcile"] == "failed"
    assert "STREAMLEASE_MEMBERS_TABLE is not set" in result.stdout


def test_where_nothing_may_be_written_what_depends_on_it_is_skipped() -> None:
    system = System()
    denied = Denied("PutItem on table 'x' is not allowed: the caller's role needs dynamodb:PutItem on it")
    system.troubled.trouble(denied, when=lambda request: isinstance(request, Put), times=9)
    found = outcomes(smoke(system, account(), "--json"))
    assert (found["create"], found["read"], found["change"], found["stale"]) == (
        "failed", "skipped", "skipped", "skipped",
    )  # fmt: skip
    assert found["alarms"] == "ok"


def test_its_connection_is_deleted_even_when_a_first_deletion_fails() -> None:
    system = System()
    system.troubled.trouble(Denied("not now"), when=lambda request: isinstance(request, Delete))
    result = smoke(system, account(), "--json")
    assert outcomes(result)["delete"] == "failed"
    assert system.store.items(Table.CONNECTIONS) == ()
