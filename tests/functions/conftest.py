"""The two functions as Lambda would run them, on tables and a queue that moto keeps in this process."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import freezegun
import pytest
from moto import mock_aws
from types_boto3_dynamodb import DynamoDBClient
from types_boto3_sqs import SQSClient

from functions.reconcile import app as reconcile_app
from functions.stream import app as stream_app
from streamlease.dynamodb.attributes import decode_item, encode_item
from streamlease.dynamodb.executor import Executor
from streamlease.flow import Batch
from streamlease.write import Item, Table
from tests.fakes.tables import create_table_requests

# The parser loads its models when freezegun looks at it, and makes none of a frozen datetime; pytest times its tests.
freezegun.configure(extend_ignore_list=["aws_lambda_powertools.utilities.parser", "_pytest.timing"])

ROOT = Path(__file__).resolve().parents[2]
STACK = "streamlease-test"


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler reads of Lambda's context object."""

    remaining_ms: int = 60_000
    function_name: str = "function"
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:123456789012:function:function"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


@dataclass(frozen=True, slots=True)
class Deployed:
    """The stack, as a test fills it and looks at it."""

    dynamodb: DynamoDBClient
    sqs: SQSClient
    tables: dict[Table, str]
    queue_url: str

    def put(self, table: Table, item: Item) -> None:
        self.dynamodb.put_item(TableName=self.tables[table], Item=encode_item(item))

    def items(self, table: Table) -> list[Item]:
        return [decode_item(item) for item in self.dynamodb.scan(TableName=self.tables[table])["Items"]]

    def offers(self) -> list[dict[str, Any]]:
        """Takes all that the queue holds."""
        taken: list[dict[str, Any]] = []
        while messages := self.sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10).get("Messages"):
            taken += [json.loads(message["Body"]) for message in messages]
        return taken


@dataclass(slots=True)
class Output:
    """What the functions wrote since the last look: log lines, and metrics in EMF."""

    log: io.StringIO
    capture: pytest.CaptureFixture[str]

    def lines(self) -> list[dict[str, Any]]:
        text = self.log.getvalue()
        self.log.seek(0)
        self.log.truncate()
        return [json.loads(line) for line in text.splitlines()]

    def emf(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.capture.readouterr().out.splitlines() if line.startswith('{"_aws"')]

    def metrics(self) -> dict[str, float]:
        """The values of the one flush that there was."""
        [blob] = self.emf()
        [directive] = blob["_aws"]["CloudWatchMetrics"]
        return {metric["Name"]: blob[metric["Name"]][0] for metric in directive["Metrics"]}


@pytest.fixture
def output(capsys: pytest.CaptureFixture[str]) -> Output:
    log = io.StringIO()
    for app in (stream_app, reconcile_app):
        app.logger.registered_handler.setStream(log)
    return Output(log, capsys)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The functions' variables, as the template names them; nothing that an earlier test had set up is left."""
    stream_app.executor.cache_clear()
    reconcile_app.deployment.cache_clear()
    variables = {
        "STREAMLEASE_STACK": STACK,
        "STREAMLEASE_CONNECTIONS_TABLE": f"test-{Table.CONNECTIONS}",
        "STREAMLEASE_MEMBERS_TABLE": f"test-{Table.MEMBERS}",
        "STREAMLEASE_WORKER_ITEMS_TABLE": f"test-{Table.WORKER_ITEMS}",
        "STREAMLEASE_OFFERS_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/offers",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    yield variables
    stream_app.executor.cache_clear()
    reconcile_app.deployment.cache_clear()


def _one_by_one(executor: Executor, batch: Batch) -> tuple[object, ...]:
    """moto reads no PartiQL condition, so a batch goes as its writes. The emulator has real ones (tests/contract)."""
    return tuple(executor.perform(write) for write in batch.writes)


@pytest.fixture
def deployed(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    monkeypatch.setattr(Executor, "_batch", _one_by_one)
    with mock_aws():
        dynamodb: DynamoDBClient = boto3.client("dynamodb")
        sqs: SQSClient = boto3.client("sqs")
        tables = {}
        for table, request in create_table_requests("test-").items():
            dynamodb.create_table(**request)
            tables[table] = request["TableName"]
        queue_url = sqs.create_queue(QueueName="offers")["QueueUrl"]
        assert queue_url == environment["STREAMLEASE_OFFERS_QUEUE_URL"]
        yield Deployed(dynamodb, sqs, tables, queue_url)


@pytest.fixture
def use_store(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., object]], None]:
    """Let both functions perform on a store of the test's own."""

    def use(perform: Callable[..., object]) -> None:
        monkeypatch.setattr(Executor, "perform", lambda self, request: perform(request))

    return use


def event(path: str) -> dict[str, Any]:
    """A sample of events/."""
    loaded = json.loads((ROOT / "events" / path).read_text())
    assert isinstance(loaded, dict)
    return loaded


def record(connection_id: str, number: int, image: Item | None, kind: str = "MODIFY") -> dict[str, Any]:
    """A stream record, as Lambda gets it."""
    change: dict[str, Any] = {
        "ApproximateCreationDateTime": 1_795_942_800,
        "Keys": {"connection_id": {"S": connection_id}},
        "SequenceNumber": str(number),
        "SizeBytes": 100,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }
    if image is not None:
        change["NewImage"] = encode_item(image)
    return {
        "eventID": f"event-{number}",
        "eventName": kind,
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "eu-west-1",
        "dynamodb": change,
        "eventSourceARN": "arn:aws:dynamodb:eu-west-1:123456789012:table/test/stream/1",
    }
