"""The examples of docs/consume.md, as they stand there, under Powertools Batch and over a real file."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import boto3
import pytest
from moto import mock_aws

from streamlease.consume.reader import Mark
from streamlease.dynamodb.fences import open_fences
from streamlease.envelope import Envelope
from streamlease_cli.local.checkout import REGION, find_checkout
from tests.core.consume.envelopes import data, gap, kinesis_event, record, sqs_event

PAGE = find_checkout().root / "docs" / "consume.md"

OLD, NEW, LATE = record("c", 1, "1"), record("c", 2, "2"), record("c", 1, "3")
NEWER, OTHER = record("c", 2, "4"), record("d", 1, "1")


class Failing(Exception):
    """What the caller's own work raises."""


def example(name: str) -> ModuleType:
    """The code block of the page that begins with this file name, as a module."""
    found = re.search(rf"```python\n(# {re.escape(name)}\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    module = ModuleType(name)
    exec(compile(found[1], name, "exec"), module.__dict__)  # noqa: S102
    return module


class Acts:
    """Stands in for the caller's own work."""

    def __init__(self) -> None:
        self.done: list[Envelope] = []
        self.bad: list[Envelope] = []

    def __call__(self, envelope: Envelope) -> None:
        if envelope in self.bad:
            raise Failing
        self.done.append(envelope)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("FENCES_TABLE", "fences")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "example")
    with mock_aws():
        boto3.client("dynamodb", region_name=REGION).create_table(
            TableName="fences",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "connection_id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "connection_id", "KeyType": "HASH"}],
        )
        yield "fences"


def function(name: str, acts: Acts) -> ModuleType:
    """A new process of the function."""
    module = example(name)
    module.__dict__["act"] = acts
    return module


def failures(response: dict[str, Any]) -> list[str]:
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]


# --- Kinesis ---------------------------------------------------------------------------------------------------------


def test_a_function_on_a_shard_drops_stale_records_and_duplicates_and_passes_gaps(table: str) -> None:
    acts = Acts()
    module = function("kinesis.py", acts)
    event = kinesis_event([[OLD, OLD], [gap("c", 2), NEW], [LATE, OTHER], [NEW, NEWER]])
    assert failures(module.handler(event, None)) == []
    assert acts.done == [OLD, gap("c", 2), NEW, OTHER, NEWER]
    assert open_fences(table, region=REGION).load(["c", "d"]) == {"c": Mark(2), "d": Mark(1)}


def test_a_shards_batch_that_is_delivered_twice_is_processed_once(table: str) -> None:
    acts = Acts()
    module = function("kinesis.py", acts)
    event = kinesis_event([[OLD], [NEW], [LATE]])
    for _ in range(2):
        assert failures(module.handler(event, None)) == []
    assert acts.done == [OLD, NEW]


def test_after_a_failure_the_rest_of_the_batch_is_reported_and_nothing_is_lost_when_it_comes_again(table: str) -> None:
    acts = Acts()
    module = function("kinesis.py", acts)
    units = [[OTHER], [OLD], [NEW], [NEWER]]
    acts.bad = [OLD]
    assert failures(module.handler(kinesis_event(units), None)) == ["2", "3", "4"]
    assert acts.done == [OTHER]
    acts.bad = []
    rest = {"Records": kinesis_event(units)["Records"][1:]}
    assert failures(module.handler(rest, None)) == []
    assert acts.done == [OTHER, OLD, NEW, NEWER]


def test_where_everything_fails_everything_is_reported(table: str) -> None:
    acts = Acts()
    acts.bad = [OLD]
    module = function("kinesis.py", acts)
    assert failures(module.handler(kinesis_event([[OLD], [NEW]]), None)) == ["1", "2"]
    assert open_fences(table, region=REGION).load(["c"]) == {}


def test_another_process_of_the_function_has_the_fence_of_the_one_before(table: str) -> None:
    acts = Acts()
    function("kinesis.py", acts).handler(kinesis_event([[OLD], [NEW]]), None)
    function("kinesis.py", acts).handler(kinesis_event([[LATE], [NEWER]]), None)
    assert acts.done == [OLD, NEW, NEWER]


def test_a_process_that_has_not_seen_the_newest_epochs_learns_of_them_at_each_batch(table: str) -> None:
    acts = Acts()
    one, two = function("kinesis.py", acts), function("kinesis.py", acts)
    one.handler(kinesis_event([[OLD]]), None)
    two.handler(kinesis_event([[NEW]]), None)
    one.handler(kinesis_event([[LATE]]), None)
    assert acts.done == [OLD, NEW]


def test_with_ids_kept_another_process_tells_duplicates_too(table: str) -> None:
    acts = Acts()
    event = kinesis_event([[OLD], [NEW, NEWER]])
    for _ in range(2):
        module = function("kinesis.py", acts)
        module.__dict__["consumer"] = module.Consumer(open_fences(table), kept_ids=2)
        assert failures(module.handler(event, None)) == []
    assert acts.done == [OLD, NEW, NEWER]
    assert open_fences(table, region=REGION).load(["c"]) == {"c": Mark(2, ("2", "4"))}


def test_a_line_that_is_no_envelope_disturbs_no_other(table: str, caplog: pytest.LogCaptureFixture) -> None:
    acts = Acts()
    module = function("kinesis.py", acts)
    assert failures(module.handler(kinesis_event([b"nonsense\n" + data([OLD]), [NEW]]), None)) == []
    assert acts.done == [OLD, NEW]
    assert "Kinesis record 1, line 1: not JSON" in caplog.text


# --- SQS -------------------------------------------------------------------------------------------------------------


def test_a_function_on_a_standard_queue_drops_duplicates_only(table: str) -> None:
    acts = Acts()
    module = function("sqs.py", acts)
    assert failures(module.handler(sqs_event([[NEW], [LATE], [NEW, NEWER]]), None)) == []
    assert acts.done == [NEW, LATE, NEWER]


def test_a_message_that_fails_holds_back_no_other_of_a_standard_queue(table: str) -> None:
    acts = Acts()
    acts.bad = [OLD]
    module = function("sqs.py", acts)
    assert failures(module.handler(sqs_event([[OLD], [NEW], b"nonsense"]), None)) == ["1", "3"]
    acts.bad = []
    assert failures(module.handler(sqs_event([[OLD]]), None)) == []
    assert acts.done == [NEW, OLD]


def test_a_message_that_fails_holds_back_its_connection_in_a_fifo_queue(table: str) -> None:
    acts = Acts()
    acts.bad = [OLD]
    module = function("sqs.py", acts)
    module.__dict__["reader"] = module.Reader(module.Order.CONNECTION)
    assert failures(module.handler(sqs_event([[OLD], [OTHER], [NEW]]), None)) == ["1", "3"]
    acts.bad = []
    assert failures(module.handler(sqs_event([[OLD], [NEW], [LATE]]), None)) == []
    assert acts.done == [OTHER, OLD, NEW]


# --- a file ----------------------------------------------------------------------------------------------------------


def test_a_file_is_followed_line_by_line_over_restarts(tmp_path: Path) -> None:
    records, kept, acts = tmp_path / "records.jsonl", tmp_path / "kept.json", Acts()
    written = data([OLD, NEW, LATE, NEW, NEWER])
    for length in range(0, len(written), 50):
        records.write_bytes(written[:length])
        example("follow.py").follow(records, kept, acts)
    records.write_bytes(written + data([OTHER]))
    acts.bad = [OTHER]
    with pytest.raises(Failing):
        example("follow.py").follow(records, kept, acts)
    assert acts.done == [OLD, NEW, NEWER]
    acts.bad = []
    example("follow.py").follow(records, kept, acts)
    assert acts.done == [OLD, NEW, NEWER, OTHER]
    assert json.loads(kept.read_text())["place"] == records.stat().st_size
