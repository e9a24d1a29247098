"""The command line as people run it, with boto3, against a stack in the embedded AWS."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from streamlease_cli.aws_smoke import STEPS, aws_smoke
from streamlease_cli.commandline import cli
from streamlease_cli.configuration import LOCAL_FILE
from streamlease_cli.local.checkout import REGION, find_checkout
from streamlease_cli.local.emulator import DIRECT, Emulator, start_emulator
from tests.fakes.tables import RESOURCES, create_table_requests

pytestmark = [pytest.mark.emulator, pytest.mark.xdist_group("cli-emulator")]

STACK = "small"


def template() -> Mapping[str, Any]:
    """The template's tables, and as much of the rest as the command line reads."""
    resources: dict[str, Any] = {}
    for table, request in create_table_requests("").items():
        properties = {name: value for name, value in request.items() if name != "TableName"}
        if table == "connections":
            properties["StreamSpecification"] = {"StreamViewType": "NEW_AND_OLD_IMAGES"}
        resources[RESOURCES[table]] = {"Type": "AWS::DynamoDB::Table", "Properties": properties}
    resources["Dead"] = {"Type": "AWS::SQS::Queue"}
    redrive = {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}, "maxReceiveCount": 3}
    resources["Offers"] = {"Type": "AWS::SQS::Queue", "Properties": {"RedrivePolicy": redrive}}
    trust = {"Version": "2012-10-17", "Statement": []}
    resources["Role"] = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}}
    resources["Reconcile"] = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Runtime": "python3.13",
            "Handler": "index.handler",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Code": {"ZipFile": "def handler(event, context):\n    return {'unowned': 0}\n"},
        },
    }
    metric = {
        "Namespace": "Test",
        "MetricName": "OldestUnowned",
        "Statistic": "Maximum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    resources["Alarm"] = {"Type": "AWS::CloudWatch::Alarm", "Properties": metric}
    outputs: dict[str, Any] = {resource: {"Ref": resource} for resource in RESOURCES.values()}
    outputs |= {"OffersQueueUrl": {"Ref": "Offers"}, "ReconcileFunction": {"Ref": "Reconcile"}}
    plain = ("RecordsStream", "Cluster", "Repository", "StreamFunction")
    outputs |= dict.fromkeys(plain, "unused")
    outputs |= {"LeaseMode": "connection", "HeartbeatMs": "3000", "LeaseMs": "9000", "Shards": "4"}
    return {"Resources": resources, "Outputs": {name: {"Value": value} for name, value in outputs.items()}}


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with start_emulator(find_checkout(), tmp_path_factory.mktemp("emulator") / "log") as emulator:
        cloudformation = emulator.session().client(
            "cloudformation", endpoint_url=emulator.endpoint, region_name=REGION, config=DIRECT
        )
        cloudformation.create_stack(
            StackName=STACK, TemplateBody=json.dumps(template()), Capabilities=["CAPABILITY_IAM"]
        )
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
        )
        yield emulator


@pytest.fixture(autouse=True)
def account(emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The embedded AWS in the place of an account, and a folder without a local system."""
    for name, value in {
        "AWS_ENDPOINT_URL": emulator.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=typed, catch_exceptions=False)


def lines(*arguments: str, typed: str | None = None) -> list[dict[str, Any]]:
    result = run(*arguments, "--json", "--stack", STACK, typed=typed)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_connections_go_from_a_file_into_the_table_and_out_of_it_again() -> None:
    document = {
        "defaults": {"labels": {"team": "feeds"}},
        "connections": [{"id": "c-{item}", "url": "wss://feed.example/{item}", "for_each": list(range(20))}],
    }
    assert {line["outcome"] for line in lines("apply", "-f", "-", typed=json.dumps(document))} == {"created"}
    listed = lines("ls", "-l", "team=feeds")
    assert len(listed) == 20
    assert lines("describe", "c-7")[0]["updated_by"].startswith("arn:aws:")
    assert lines("reconcile", "--dry-run")[0]["unowned"] == 20
    assert lines("reconcile")[0]["offered"] == 20
    assert {line["outcome"] for line in lines("stop", "-l", "team=feeds")} == {"stopped"}
    assert {line["outcome"] for line in lines("stop", "--all", "--yes")} == {"already_stopped"}
    assert {line["outcome"] for line in lines("rm", "-l", "team=feeds", "--yes")} == {"deleted"}
    assert lines("ls") == []


def test_the_check_of_a_deployed_stack_passes() -> None:
    result = CliRunner().invoke(aws_smoke, ["--stack", STACK, "--json"], catch_exceptions=False)
    document = json.loads(result.stdout)
    assert [check["name"] for check in document["checks"]] == list(STEPS)
    assert document["ok"], document


def test_a_local_system_is_worked_with_whatever_the_account_s_settings_are(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / LOCAL_FILE
    file.parent.mkdir(parents=True)
    cloudformation = emulator.session().client("cloudformation", endpoint_url=emulator.endpoint, config=DIRECT)
    described = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]["Outputs"]
    fields = {
        "endpoint_url": emulator.endpoint,
        "region": REGION,
        "stack": STACK,
        "outputs": {output["OutputKey"]: output["OutputValue"] for output in described},
    }
    file.write_text(json.dumps(fields))
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "nosuch")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    result = run("ls")
    assert (result.exit_code, result.stderr) == (
        0,
        "there is no connection in the local system: add one with `streamlease add` or `streamlease apply`\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--stack", "nosuch"), 2, f"Error: there is no stack 'nosuch' in {REGION}: check --stack, --region"),
        (("--stack", STACK, "--region", "us-east-1"), 2, f"Error: there is no stack '{STACK}' in us-east-1"),
        (("--stack", STACK, "--region", "not a region"), 2, "InvalidRegionError"),
        (("--stack", STACK, "--profile", "nosuch"), 2, "Error: --profile nosuch: "),
    ],
)
def test_a_stack_region_or_profile_that_cannot_be_is_one_sentence(
    arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    result = run("ls", *arguments)
    assert result.exit_code == code
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_credentials_a_sentence_says_how_to_have_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    result = run("ls", "--stack", STACK)
    assert result.exit_code == 1
    assert "no AWS credentials were found" in result.stderr


def test_without_a_region_a_sentence_says_where_to_put_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    result = run("ls", "--stack", STACK)
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: no AWS region is set: say --region, or set AWS_REGION, to where the stack is\n",
    )


def test_a_table_that_is_not_there_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CONNECTIONS_TABLE", "MEMBERS_TABLE", "WORKER_ITEMS_TABLE"):
        monkeypatch.setenv(f"STREAMLEASE_{variable}", "nosuch")
    monkeypatch.setenv("STREAMLEASE_OFFERS_QUEUE_URL", f"{os.environ['AWS_ENDPOINT_URL']}/nosuch")
    result = run("ls")
    assert result.exit_code == 1
    assert "there is no table 'nosuch'" in result.stderr
    assert "STREAMLEASE_CONNECTIONS_TABLE" in result.stderr
