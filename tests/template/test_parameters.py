"""Wrong parameters fail before anything is made, with a sentence; nothing has a name that a second stack would want."""

import re
import tomllib
from typing import Any

import pytest

from tests.template.document import ROOT, Document, resources_of, template
from tests.template.evaluation import stack

VPC = {"VpcId": "vpc-0123456789abcdef0"}
NETWORK = {**VPC, "SubnetIds": "subnet-0123456789abcdef0,subnet-0123456789abcdef1"}
IMAGE = {"WorkerImage": "000000000000.dkr.ecr.eu-west-1.amazonaws.com/streamlease:abc123"}

# The property a resource is named by, where CloudFormation would make up a name.
NAMES = {
    "AlarmName",
    "ClusterName",
    "DashboardName",
    "FunctionName",
    "GroupName",
    "LayerName",
    "LogGroupName",
    "ManagedPolicyName",
    "QueueName",
    "RepositoryName",
    "RoleName",
    "ServiceName",
    "TableName",
}


def test_the_defaults_are_accepted(document: Document) -> None:
    assert stack(document).violations() == []


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({**NETWORK, **IMAGE, "DesiredCount": "2"}, id="workers"),
        pytest.param(NETWORK, id="network before the image"),
        pytest.param({"HeartbeatMs": "3000", "LeaseMs": "9000"}, id="own intervals"),
        pytest.param({"OnDemandWeight": "0", "SpotWeight": "1"}, id="Spot only"),
        pytest.param({"WorkerCpu": "256", "WorkerMemory": "512"}, id="smallest"),
        pytest.param({"WorkerCpu": "1024", "WorkerMemory": "8192"}, id="one vCPU"),
        pytest.param({"WorkerCpu": "4096", "WorkerMemory": "30720"}, id="beyond what the rules know"),
    ],
)
def test_what_fits_together_is_accepted(document: Document, given: dict[str, str]) -> None:
    assert stack(document, **given).violations() == []


@pytest.mark.parametrize(
    ("given", "names"),
    [
        pytest.param({**NETWORK, "DesiredCount": "1"}, ["WorkerImage"], id="workers without an image"),
        pytest.param({**IMAGE, "DesiredCount": "1"}, ["VpcId"], id="workers without a network"),
        pytest.param(VPC, ["SubnetIds"], id="a VPC without subnets"),
        pytest.param({"SubnetIds": "subnet-0123456789abcdef0"}, ["VpcId"], id="subnets without a VPC"),
        pytest.param({"SecurityGroupIds": "sg-0123456789abcdef0"}, ["VpcId"], id="security groups without a VPC"),
        pytest.param({"HeartbeatMs": "3000"}, ["LeaseMs"], id="a heartbeat without a lease"),
        pytest.param({"LeaseMs": "9000"}, ["HeartbeatMs"], id="a lease without a heartbeat"),
        pytest.param({"OnDemandWeight": "0"}, ["SpotWeight"], id="nowhere to run"),
        pytest.param({"WorkerCpu": "256", "WorkerMemory": "4096"}, ["WorkerMemory"], id="256 with 4096"),
        pytest.param({"WorkerCpu": "512", "WorkerMemory": "512"}, ["WorkerMemory"], id="512 with 512"),
        pytest.param({"WorkerCpu": "1024", "WorkerMemory": "1024"}, ["WorkerMemory"], id="1024 with 1024"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(
    document: Document, given: dict[str, str], names: list[str]
) -> None:
    [violation] = stack(document, **given).violations()
    for name in names:
        assert name in violation


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        ("HeartbeatMs", ["0", "1000", "10000"], ["", "10", "999", "10s", "-1"]),
        ("LeaseMs", ["0", "9000", "300000"], ["", "500", "9e3"]),
        ("WorkerImage", ["", "python:3.13", IMAGE["WorkerImage"], "a/b@sha256:0f"], ["-x", "a b", "https://a/b;c"]),
        ("Generation", ["", "1750000000"], ["today", "1.5"]),
        ("SecretsPrefix", ["streamlease/", "team-a/streamlease/"], ["", "*", "a*", "/streamlease/"]),
        ("VpcId", ["", "vpc-0123abcd", VPC["VpcId"]], ["vpc", "subnet-0123abcd", "vpc-xyz"]),
        (
            "SubnetIds",
            ["", "subnet-0123abcd", NETWORK["SubnetIds"]],
            ["subnet-0123abcd, subnet-0123abce", "vpc-0123abcd"],
        ),
        ("SecurityGroupIds", ["", "sg-0123abcd,sg-0123abce"], ["sg-1", ",".join(["sg-0123abcd"] * 6)]),
        ("SecretsKeyArn", ["", "arn:aws:kms:eu-west-1:000000000000:key/a-1"], ["alias/a", "arn:aws:kms:x:1:alias/a"]),
        (
            "AlarmTopicArn",
            ["", "arn:aws-cn:sns:cn-north-1:000000000000:t"],
            ["t", "arn:aws:sqs:eu-west-1:000000000000:q"],
        ),
        ("EgressGroup", ["default", "eu.1"], ["", "a b", "a" * 65]),
        ("AllowAddresses", ["", "private, 203.0.113.0/24", "fd00:1::/64"], ["*", "upstream.example;", "a" * 1001]),
        ("WorkerMemory", ["512", "122880"], ["0", "1GB", "50"]),
    ],
)
def test_a_value_of_the_wrong_shape_is_refused_with_what_it_must_be(
    document: Document, parameter: str, good: list[str], bad: list[str]
) -> None:
    declared = document["Parameters"][parameter]
    shape = re.compile(declared["AllowedPattern"])
    assert [each for each in good if not shape.fullmatch(each)] == []
    assert [each for each in bad if shape.fullmatch(each)] == []
    assert declared["ConstraintDescription"].startswith("must ")


def test_every_parameter_has_a_default_a_description_and_a_place_in_the_console(document: Document) -> None:
    groups = document["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    placed = [name for group in groups for name in group["Parameters"]]
    assert sorted(placed) == sorted(document["Parameters"])
    for name, declared in document["Parameters"].items():
        assert "Default" in declared, name
        assert declared["Description"], name
        free_text = declared["Type"] == "String" and "AllowedValues" not in declared
        assert "AllowedPattern" in declared or not free_text, name


@pytest.mark.parametrize("name", sorted(resources_of(template())))
def test_no_resource_has_a_fixed_name(document: Document, name: str) -> None:
    each = document["Resources"][name]
    assert not NAMES & set(each["Properties"])
    if each["Type"] == "AWS::Kinesis::Stream":
        assert "Name" not in each["Properties"]


def samconfig() -> dict[str, Any]:
    return tomllib.loads((ROOT / "samconfig.toml").read_text())


@pytest.mark.parametrize("profile", ["default", "dev", "prod"])
def test_a_profile_gives_parameters_that_exist_values_that_are_allowed(document: Document, profile: str) -> None:
    given = dict(
        each.split("=", 1) for each in samconfig()[profile]["deploy"]["parameters"].get("parameter_overrides", [])
    )
    made = stack(document, **given)
    assert made.violations() == []
    for name, value in given.items():
        allowed = document["Parameters"][name].get("AllowedValues")
        assert allowed is None or value in [str(each) for each in allowed], name


def test_no_profile_belongs_to_one_account_or_asks_for_more_than_it_needs() -> None:
    text = (ROOT / "samconfig.toml").read_text()
    assert not re.search(r"\b[0-9]{12}\b|arn:|region\s*=|profile\s*=|s3_bucket", text)
    config = samconfig()
    for profile in ("default", "dev", "prod"):
        parameters = config[profile]["deploy"]["parameters"]
        assert parameters["capabilities"] == "CAPABILITY_IAM"
        assert parameters["resolve_s3"] is True
    assert config["prod"]["deploy"]["parameters"]["confirm_changeset"] is True
    assert "DeletionProtection=enabled" in config["prod"]["deploy"]["parameters"]["parameter_overrides"]


def test_stacks_of_the_profiles_do_not_meet() -> None:
    config = samconfig()
    names = [config[profile]["global"]["parameters"]["stack_name"] for profile in ("default", "dev", "prod")]
    assert len(set(names)) == 3
