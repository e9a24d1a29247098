"""The marks in DynamoDB: one rule for the store in memory, for moto and for the emulator."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from streamlease.consume.reader import Mark
from streamlease.consume.store import FenceStore, MemoryFences
from streamlease.dynamodb.fences import ASKED_AT_MOST, DynamoFences, open_fences
from streamlease.errors import Denied, Malformed, Throttled
from streamlease_cli.local.checkout import REGION, find_checkout
from streamlease_cli.local.emulator import start_emulator

TABLE = "fences"


def make_table(dynamodb: Any) -> None:
    dynamodb.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "connection_id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "connection_id", "KeyType": "HASH"}],
    )


@pytest.fixture
def moto_client() -> Iterator[Any]:
    with mock_aws():
        dynamodb = boto3.client("dynamodb", region_name=REGION)
        make_table(dynamodb)
        yield dynamodb


@pytest.fixture(scope="module")
def emulator_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with start_emulator(find_checkout(), tmp_path_factory.mktemp("emulator") / "log") as running:
        dynamodb = boto3.client("dynamodb", region_name=REGION, endpoint_url=running.endpoint)
        make_table(dynamodb)
        yield dynamodb


@pytest.fixture(
    params=["memory", "moto", pytest.param("emulator", marks=[pytest.mark.emulator, pytest.mark.xdist_group("fences")])]
)
def store(request: pytest.FixtureRequest) -> FenceStore:
    match request.param:
        case "memory":
            return MemoryFences()
        case "moto":
            return DynamoFences(request.getfixturevalue("moto_client"), TABLE)
        case _:
            endpoint = request.getfixturevalue("emulator_client").meta.endpoint_url
            return open_fences(TABLE, region=REGION, endpoint=endpoint)


# --- the rule --------------------------------------------------------------------------------------------------------


def test_a_mark_is_loaded_as_it_was_saved_and_what_is_not_there_is_left_out(store: FenceStore) -> None:
    marks = {"a/ü#1": Mark(1_800_000_000_123, ("1", "sha256:0")), "b": Mark(7)}
    assert store.save(marks) == {}
    assert store.load(["a/ü#1", "b", "b", "c"]) == marks
    assert store.load([]) == {}


def test_an_epoch_never_falls_and_who_comes_late_is_told_what_is_there(store: FenceStore) -> None:
    store.save({"late": Mark(5, ("1",)), "other": Mark(1)})
    assert store.save({"late": Mark(4, ("2",)), "other": Mark(2)}) == {"late": Mark(5, ("1",))}
    assert store.load(["late", "other"]) == {"late": Mark(5, ("1",)), "other": Mark(2)}


def test_the_same_epoch_and_a_higher_one_are_written(store: FenceStore) -> None:
    for mark in (Mark(5, ("1",)), Mark(5, ("1", "2")), Mark(6)):
        assert store.save({"same": mark}) == {}
        assert store.load(["same"]) == {"same": mark}


def test_more_marks_than_go_into_one_request_are_loaded(store: FenceStore) -> None:
    marks = {f"many {number}": Mark(number) for number in range(230)}
    store.save(marks)
    assert store.load(marks) == marks


# --- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.emulator
@pytest.mark.xdist_group("fences")
def test_an_item_that_somebody_wrote_by_hand_is_reported_once_counts_as_absent_and_is_left_alone(
    emulator_client: Any,
) -> None:
    emulator_client.put_item(TableName=TABLE, Item={"connection_id": {"S": "by hand"}, "epoch": {"S": "5"}})
    problems: list[Malformed] = []
    store = DynamoFences(emulator_client, TABLE, report=problems.append)
    assert store.load(["by hand"]) == {}
    assert store.save({"by hand": Mark(9), "its neighbour": Mark(2)}) == {}
    assert store.load(["by hand", "its neighbour"]) == {"its neighbour": Mark(2)}
    assert [str(problem) for problem in problems] == ["fence 'by hand' in table 'fences': epoch must be a whole number"]


@pytest.mark.parametrize("name", ["", "\ud800", "x" * 2_049])
def test_what_cannot_be_a_connection_is_reported_and_disturbs_no_other(moto_client: Any, name: str) -> None:
    problems: list[Malformed] = []
    store = DynamoFences(moto_client, TABLE, report=problems.append)
    assert store.save({name: Mark(1), "c": Mark(2)}) == {}
    assert store.load([name, "c"]) == {"c": Mark(2)}
    assert len(problems) == 1


def test_an_epoch_that_no_store_can_keep_is_reported_and_disturbs_no_other(moto_client: Any) -> None:
    problems: list[Malformed] = []
    store = DynamoFences(moto_client, TABLE, report=problems.append)
    assert store.save({"b": Mark(10**40), "c": Mark(2)}) == {}
    assert store.load(["b", "c"]) == {"c": Mark(2)}
    assert "digits" in str(problems[0])


def test_by_default_problems_are_logged(moto_client: Any, caplog: pytest.LogCaptureFixture) -> None:
    DynamoFences(moto_client, TABLE).load([""])
    assert "cannot be a key" in caplog.text


@dataclass
class Answers:
    """A DynamoDB client that answers as it is told to."""

    reads: list[Any] = field(default_factory=list)
    write: Any = None
    asked: list[Any] = field(default_factory=list)
    meta: Any = field(default_factory=lambda: boto3.client("dynamodb", region_name=REGION).meta)

    def batch_get_item(self, RequestItems: Any) -> Any:  # noqa: N803
        assert RequestItems[TABLE]["ConsistentRead"] is True
        self.asked.append([key["connection_id"]["S"] for key in RequestItems[TABLE]["Keys"]])
        return _told(self.reads.pop(0))

    def update_item(self, **_: Any) -> Any:
        return _told(self.write)


def _told(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def refusal(code: str, **more: Any) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": 400}, **more}
    return ClientError(response, "Operation")


def item(name: str, epoch: int) -> dict[str, Any]:
    return {"connection_id": {"S": name}, "epoch": {"N": str(epoch)}}


def test_what_was_left_unread_is_asked_for_again_after_a_growing_pause() -> None:
    unread = {TABLE: {"Keys": [{"connection_id": {"S": "b"}}]}}
    answers: Any = Answers(
        [
            {"Responses": {TABLE: [item("a", 1)]}, "UnprocessedKeys": unread},
            {"Responses": {}, "UnprocessedKeys": unread},
            {"Responses": {TABLE: [item("b", 2)]}, "UnprocessedKeys": {}},
        ]
    )
    pauses: list[float] = []
    assert DynamoFences(answers, TABLE, pause=pauses.append).load(["a", "b"]) == {"a": Mark(1), "b": Mark(2)}
    assert answers.asked == [["a", "b"], ["b"], ["b"]]
    assert pauses == sorted(set(pauses))
    assert len(pauses) == 2


def test_what_stays_unread_is_a_fault() -> None:
    unread = {TABLE: {"Keys": [{"connection_id": {"S": "b"}}]}}
    answers: Any = Answers([{"Responses": {}, "UnprocessedKeys": unread}] * ASKED_AT_MOST)
    with pytest.raises(Throttled, match="1 marks of table 'fences'"):
        DynamoFences(answers, TABLE, pause=lambda _: None).load(["b"])


def test_a_refusal_that_does_not_say_what_is_there_is_read_after() -> None:
    answers: Any = Answers([{"Responses": {TABLE: [item("c", 9)]}}], write=refusal("ConditionalCheckFailedException"))
    assert DynamoFences(answers, TABLE).save({"c": Mark(1)}) == {"c": Mark(9)}
    answers = Answers(write=refusal("ConditionalCheckFailedException", Item=item("c", 8)))
    assert DynamoFences(answers, TABLE).save({"c": Mark(1)}) == {"c": Mark(8)}


def test_faults_are_sentences() -> None:
    answers: Any = Answers([refusal("AccessDeniedException")], write=refusal("ResourceNotFoundException"))
    store = DynamoFences(answers, TABLE)
    with pytest.raises(Denied, match=r"needs dynamodb:BatchGetItem"):
        store.load(["c"])
    with pytest.raises(Denied, match=r"there is no table 'fences' in eu-west-1"):
        store.save({"c": Mark(1)})
    with contextlib.suppress(Throttled):
        DynamoFences(Answers(write=refusal("ThrottlingException")), TABLE).save({"c": Mark(1)})  # type: ignore[arg-type]
        pytest.fail("a throttled write was taken for done")
