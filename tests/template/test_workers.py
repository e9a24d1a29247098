"""The worker's container: it gets SIGTERM itself, has two minutes to drain, and is replaced by one that runs."""

import json
import re
from typing import Any

import pytest

from tests.template.document import ROOT, Document, properties_of, references_of
from tests.template.evaluation import stack

SHELLS = {"sh", "bash", "/bin/sh", "/bin/bash", "-c"}

# What worker, functions and command line are configured by.
CONTRACT = {
    "STREAMLEASE_CONNECTIONS_TABLE": "ConnectionsTable",
    "STREAMLEASE_MEMBERS_TABLE": "MembersTable",
    "STREAMLEASE_WORKER_ITEMS_TABLE": "WorkerItemsTable",
    "STREAMLEASE_OFFERS_QUEUE_URL": "OffersQueue",
    "STREAMLEASE_RECORDS_STREAM": "RecordsStream",
    "STREAMLEASE_LEASE_MODE": "LeaseMode",
    "STREAMLEASE_SHARDS": "Shards",
    "STREAMLEASE_CAPACITY": "WorkerCapacity",
    "STREAMLEASE_EGRESS_GROUP": "EgressGroup",
    "STREAMLEASE_ALLOW_ADDRESSES": "AllowAddresses",
}


@pytest.fixture(scope="module")
def container(document: Document) -> dict[str, Any]:
    [found] = properties_of(document, "WorkerTask")["ContainerDefinitions"]
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def environment(container: dict[str, Any]) -> dict[str, Any]:
    return {each["Name"]: each["Value"] for each in container["Environment"] if "Name" in each}


@pytest.fixture(scope="module")
def dockerfile() -> list[str]:
    text = (ROOT / "worker/Dockerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def instruction(dockerfile: list[str], name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in dockerfile if line.startswith(f"{name} ")]


def test_deployments_of_a_stack_are_revisions_of_one_family_which_no_other_stack_has(document: Document) -> None:
    assert properties_of(document, "WorkerTask")["Family"] == {"Fn::Sub": "${AWS::StackName}-worker"}


def test_a_worker_has_all_the_time_that_fargate_gives_to_drain(
    container: dict[str, Any], environment: dict[str, Any]
) -> None:
    assert container["StopTimeout"] == 120
    assert int(environment["STREAMLEASE_STOP_TIMEOUT_S"]) == container["StopTimeout"]


def test_sigterm_reaches_the_process_itself(container: dict[str, Any], dockerfile: list[str]) -> None:
    assert container["EntryPoint"] == ["streamlease"]
    assert container["Command"] == ["worker"]
    assert "LinuxParameters" not in container  # no init in between
    for line in (*instruction(dockerfile, "ENTRYPOINT"), *instruction(dockerfile, "CMD")):
        assert not SHELLS & set(json.loads(line))  # a JSON list is Docker's exec form
    assert instruction(dockerfile, "ENTRYPOINT") == ['["streamlease"]']
    assert instruction(dockerfile, "STOPSIGNAL") == ["SIGTERM"]


def test_health_is_asked_without_a_shell_and_of_the_file_that_the_worker_writes(
    container: dict[str, Any], environment: dict[str, Any]
) -> None:
    assert container["HealthCheck"]["Command"] == ["CMD", "python", "-m", "streamlease_worker.health"]
    [mount] = container["MountPoints"]
    assert environment["STREAMLEASE_HEALTH_FILE"].startswith(f"{mount['ContainerPath']}/")
    # unhealthy after three misses: later than a renewal that is retried, sooner than anybody looks
    check = container["HealthCheck"]
    assert check["Timeout"] < check["Interval"]
    assert 60 <= check["Interval"] * check["Retries"] <= 180


def test_only_the_mounted_folder_can_be_written_to(
    document: Document, container: dict[str, Any], environment: dict[str, Any], dockerfile: list[str]
) -> None:
    assert container["ReadonlyRootFilesystem"] is True
    [mount] = container["MountPoints"]
    assert mount["ReadOnly"] is False
    assert [each["Name"] for each in properties_of(document, "WorkerTask")["Volumes"]] == [mount["SourceVolume"]]
    assert environment["TMPDIR"] == mount["ContainerPath"]
    # Fargate gives a mount the owner that the image's folder has, where the image declares it a volume.
    assert instruction(dockerfile, "VOLUME") == [json.dumps([mount["ContainerPath"]])]


def test_the_image_runs_as_nobody_in_particular_and_installs_what_is_locked(dockerfile: list[str]) -> None:
    assert instruction(dockerfile, "USER") == ["streamlease"]
    installs = [part for line in instruction(dockerfile, "RUN") for part in line.split("&&") if " install " in part]
    pips = [part for part in installs if "pip" in part]
    assert len(pips) == 3
    assert all("--require-hashes" in part or "--no-deps" in part for part in pips)
    copied = " ".join(instruction(dockerfile, "COPY"))
    for package in ("layers/streamlease", "worker", "cli"):
        assert re.search(rf"(^| ){package} {package}( |$)", copied), package


def test_no_image_is_taken_from_a_registry_by_name(dockerfile: list[str]) -> None:
    [image] = instruction(dockerfile, "ARG")
    assert image == "PYTHON_IMAGE=python:3.13-slim"
    assert {line.split()[0] for line in instruction(dockerfile, "FROM")} == {"${PYTHON_IMAGE}"}


def test_a_deployment_starts_new_workers_first_and_goes_back_by_itself(document: Document) -> None:
    configuration = properties_of(document, "WorkerService")["DeploymentConfiguration"]
    assert configuration["MinimumHealthyPercent"] == 100
    assert configuration["MaximumPercent"] == 200
    assert configuration["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}


def test_no_worker_runs_until_there_is_an_image(document: Document, container: dict[str, Any]) -> None:
    assert stack(document).parameter("DesiredCount") == "0"
    assert stack(document).parameter("WorkerImage") == ""
    [condition, given, placeholder] = container["Image"]["Fn::If"]
    assert condition == "HasImage"
    assert references_of(given) == {"WorkerImage"}
    assert references_of(placeholder) == {"Repository"}


def test_a_worker_is_told_everything_it_is_configured_by(environment: dict[str, Any]) -> None:
    for name, source in CONTRACT.items():
        assert references_of(environment[name]) == {source}, name
    assert environment["STREAMLEASE_SINK"] == "kinesis"


@pytest.mark.parametrize(
    ("given", "heartbeat_ms", "lease_ms"),
    [
        ({}, 10_000, 30_000),
        ({"LeaseMode": "worker"}, 2_000, 6_000),
        ({"HeartbeatMs": "3000", "LeaseMs": "9000"}, 3_000, 9_000),
        ({"LeaseMode": "worker", "HeartbeatMs": "3000", "LeaseMs": "9000"}, 3_000, 9_000),
    ],
)
def test_worker_functions_and_outputs_agree_on_the_intervals(
    document: Document, environment: dict[str, Any], given: dict[str, str], heartbeat_ms: int, lease_ms: int
) -> None:
    made = stack(document, **given)
    shared = document["Globals"]["Function"]["Environment"]["Variables"]
    for place in (environment, shared):
        assert int(made.value(place["STREAMLEASE_HEARTBEAT_MS"])) == heartbeat_ms
        assert int(made.value(place["STREAMLEASE_LEASE_MS"])) == lease_ms
    assert int(made.value(document["Outputs"]["HeartbeatMs"]["Value"])) == heartbeat_ms
    assert int(made.value(document["Outputs"]["LeaseMs"]["Value"])) == lease_ms
    assert heartbeat_ms * 3 <= lease_ms


def test_functions_and_workers_are_of_one_architecture(document: Document) -> None:
    assert document["Globals"]["Function"]["Architectures"] == [{"Ref": "Architecture"}]
    task = properties_of(document, "WorkerTask")["RuntimePlatform"]["CpuArchitecture"]
    assert stack(document).value(task) == "X86_64"
    assert stack(document, Architecture="arm64").value(task) == "ARM64"


def test_the_outputs_name_everything_that_the_command_line_asks_for(document: Document) -> None:
    assert set(document["Outputs"]) >= {
        *("ConnectionsTable", "MembersTable", "WorkerItemsTable", "OffersQueueUrl", "RecordsStream"),
        *("LeaseMode", "HeartbeatMs", "LeaseMs", "Shards", "Cluster", "Service", "Repository"),
        *("StreamFunction", "ReconcileFunction"),
    }
