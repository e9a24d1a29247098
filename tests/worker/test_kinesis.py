"""The Kinesis sink: against moto's stream in process, and against a client that fails as told."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from moto import mock_aws

from streamlease.errors import Denied
from streamlease_worker.fence import Fence, Fenced
from streamlease_worker.sinks.base import Batch, SinkFault
from streamlease_worker.sinks.kinesis import MOST_RECORDS, KinesisSink, partition_key
from tests.worker.sinking import OpenFence

STREAM = "records"


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        kinesis = boto3.client("kinesis", region_name="eu-west-1")
        kinesis.create_stream(StreamName=STREAM, ShardCount=2)
        yield kinesis


def batch(*lines: bytes, name: str = "a", fence: Fence | None = None) -> Batch:
    return Batch(name, 7, lines, fence or OpenFence(name))


def on(sink: Callable[[], KinesisSink], scenario: Callable[[KinesisSink], Coroutine[object, object, None]]) -> None:
    async def main() -> None:
        made = sink()
        try:
            async with asyncio.timeout(60):
                await scenario(made)
        finally:
            await made.close()

    asyncio.run(main())


def stored(client: Any) -> list[tuple[str, bytes]]:
    """Every record's partition key and data, shard by shard in order."""
    found: list[tuple[str, bytes]] = []
    for shard in client.list_shards(StreamName=STREAM)["Shards"]:
        iterator = client.get_shard_iterator(
            StreamName=STREAM, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        records = client.get_records(ShardIterator=iterator)["Records"]
        found += [(record["PartitionKey"], record["Data"]) for record in records]
    return found


class Puts:
    """Stands before a client's PutRecords: what was sent, and what each call meets."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.calls: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.meets: list[Exception | Callable[[list[Mapping[str, Any]]], Mapping[str, Any]] | None] = []
        self._real = client.put_records
        client.put_records = self._put

    def _put(self, *, StreamName: str, Records: list[Mapping[str, Any]]) -> Any:  # noqa: N803 - boto3's names
        self.calls.append([record["PartitionKey"] for record in Records])
        self.gate.wait(60)
        meets = self.meets.pop(0) if self.meets else None
        if isinstance(meets, Exception):
            raise meets
        if meets is not None:
            return meets(Records)
        return self._real(StreamName=StreamName, Records=Records)


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "PutRecords")


# --- what is stored --------------------------------------------------------------------------------------------------


def test_a_batch_becomes_one_record_of_newline_delimited_envelopes_under_its_connection(client: Any) -> None:
    async def scenario(sink: KinesisSink) -> None:
        await sink.check()
        await sink.deliver(batch(b"1", b"2"))
        await sink.deliver(batch(b"3", name="b"))

    on(lambda: KinesisSink(client, STREAM, attempt_s=1), scenario)
    assert sorted(stored(client)) == [("a", b"1\n2\n"), ("b", b"3\n")]


def test_batches_of_many_connections_share_calls_and_keep_their_order(client: Any) -> None:
    puts = Puts(client)

    async def connection(sink: KinesisSink, name: str) -> None:
        for number in range(5):
            await sink.deliver(batch(b"%d" % number, name=name))

    async def scenario(sink: KinesisSink) -> None:
        puts.gate.clear()
        going = [asyncio.create_task(connection(sink, f"c{number}")) for number in range(60)]
        await asyncio.sleep(0)
        puts.gate.set()
        await asyncio.gather(*going)

    on(lambda: KinesisSink(client, STREAM, attempt_s=1, parallel=1), scenario)
    assert len(puts.calls) < 100
    assert all(len(call) == len(set(call)) for call in puts.calls)
    found = stored(client)
    for number in range(60):
        assert [data for key, data in found if key == f"c{number}"] == [b"%d\n" % n for n in range(5)]


def test_a_call_holds_at_most_500_records(client: Any) -> None:
    puts = Puts(client)

    async def scenario(sink: KinesisSink) -> None:
        puts.gate.clear()
        going = [asyncio.create_task(sink.deliver(batch(b"x", name=f"c{number}"))) for number in range(1_100)]
        await asyncio.sleep(0)
        puts.gate.set()
        await asyncio.gather(*going)

    on(lambda: KinesisSink(client, STREAM, attempt_s=1, parallel=1), scenario)
    assert max(map(len, puts.calls)) <= MOST_RECORDS
    assert sum(map(len, puts.calls)) == 1_100


def test_a_call_holds_at_most_5_mib(client: Any) -> None:
    puts = Puts(client)

    async def scenario(sink: KinesisSink) -> None:
        puts.gate.clear()
        big = b"x" * 1_000_000
        going = [asyncio.create_task(sink.deliver(batch(big, name=f"c{number}"))) for number in range(12)]
        await asyncio.sleep(0)
        puts.gate.set()
        await asyncio.gather(*going)

    on(lambda: KinesisSink(client, STREAM, attempt_s=1, parallel=1), scenario)
    assert max(map(len, puts.calls)) == 5


def test_an_envelope_that_fits_no_record_is_final_and_says_what_to_do(client: Any) -> None:
    async def scenario(sink: KinesisSink) -> None:
        with pytest.raises(SinkFault, match="lower the spec's max_message, or choose another sink") as fault:
            await sink.deliver(batch(b"x" * (1 << 20)))
        assert not fault.value.retryable
        await sink.deliver(batch(b"x" * (sink.limits.most_bytes - 1)))

    on(lambda: KinesisSink(client, STREAM, attempt_s=1), scenario)


def test_a_connection_id_too_long_for_kinesis_is_digested() -> None:
    assert partition_key("a" * 256) == "a" * 256
    assert len(partition_key("a" * 257)) == 64
    assert partition_key("a" * 257) != partition_key("a" * 258)


# --- what fails ------------------------------------------------------------------------------------------------------


def test_what_fails_of_a_call_is_told_to_its_connection_alone(client: Any) -> None:
    puts = Puts(client)

    def partly(records: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        codes = {"b": "ProvisionedThroughputExceededException", "c": "InternalFailure"}
        return {
            "Records": [
                {"ErrorCode": codes[key], "ErrorMessage": "no"}
                if (key := record["PartitionKey"]) in codes
                else {"SequenceNumber": "1"}
                for record in records
            ]
        }

    puts.meets = [None, partly]

    async def scenario(sink: KinesisSink) -> None:
        puts.gate.clear()
        first = asyncio.create_task(sink.deliver(batch(b"0", name="z")))
        await asyncio.sleep(0)
        going = asyncio.gather(*(sink.deliver(batch(b"1", name=name)) for name in "abc"), return_exceptions=True)
        await asyncio.sleep(0)
        puts.gate.set()
        await first
        outcomes = await going
        assert outcomes[0] is None
        assert isinstance(outcomes[1], SinkFault)
        assert "was throttled" in str(outcomes[1])
        assert isinstance(outcomes[2], SinkFault)
        assert outcomes[1].retryable
        assert outcomes[2].retryable

    on(lambda: KinesisSink(client, STREAM, attempt_s=1, parallel=1), scenario)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ReadTimeoutError(endpoint_url="https://kinesis.eu-west-1.amazonaws.com"), "got no answer"),
        (refusal("ResourceNotFoundException"), "there is no stream 'records'"),
        (refusal("AccessDeniedException"), "the caller's role needs kinesis:PutRecords"),
        (refusal("ValidationException"), "was refused as invalid"),
    ],
)
def test_a_call_that_fails_is_a_sentence_and_is_tried_again(client: Any, error: Exception, sentence: str) -> None:
    puts = Puts(client)
    puts.meets = [error]

    async def scenario(sink: KinesisSink) -> None:
        with pytest.raises(SinkFault, match=sentence) as fault:
            await sink.deliver(batch(b"1"))
        assert fault.value.retryable
        await sink.deliver(batch(b"1"))

    on(lambda: KinesisSink(client, STREAM, attempt_s=1), scenario)
    assert stored(client) == [("a", b"1\n")]


def test_one_invalid_record_of_a_call_holds_up_no_other(client: Any) -> None:
    puts = Puts(client)
    real = puts._real

    def judge(records: list[Mapping[str, Any]]) -> Any:
        if any(record["PartitionKey"] == "bad" for record in records):
            raise refusal("InvalidArgumentException")
        return real(StreamName=STREAM, Records=records)

    puts.meets = [None, *[judge] * 20]

    async def scenario(sink: KinesisSink) -> None:
        puts.gate.clear()
        first = asyncio.create_task(sink.deliver(batch(b"0", name="z")))
        await asyncio.sleep(0)
        names = ["a", "b", "bad", "c", "d"]
        going = asyncio.gather(*(sink.deliver(batch(b"1", name=name)) for name in names), return_exceptions=True)
        await asyncio.sleep(0)
        puts.gate.set()
        await first
        assert [isinstance(outcome, SinkFault) for outcome in await going] == [name == "bad" for name in names]

    on(lambda: KinesisSink(client, STREAM, attempt_s=1, parallel=1), scenario)
    assert sorted(key for key, _ in stored(client)) == ["a", "b", "c", "d", "z"]


def test_a_stream_that_is_not_there_is_said_before_anything_is_taken_on(client: Any) -> None:
    async def scenario(sink: KinesisSink) -> None:
        with pytest.raises(Denied, match="there is no stream 'other'"):
            await sink.check()

    on(lambda: KinesisSink(client, "other", attempt_s=1), scenario)


# --- fences ----------------------------------------------------------------------------------------------------------


def test_a_fenced_batch_is_never_sent(client: Any) -> None:
    puts = Puts(client)
    fenced = OpenFence()
    fenced.close("stolen")

    async def scenario(sink: KinesisSink) -> None:
        with pytest.raises(Fenced, match="stolen"):
            await sink.deliver(batch(b"1", fence=fenced))

    on(lambda: KinesisSink(client, STREAM, attempt_s=1), scenario)
    assert puts.calls == []


def test_an_attempt_that_would_outlast_the_lease_is_put_off(client: Any) -> None:
    puts = Puts(client)
    short = Fence("a", 7, now_s=lambda: 0.0)
    short.extend(0.5)

    async def scenario(sink: KinesisSink) -> None:
        with pytest.raises(SinkFault, match="about to be renewed or to run out") as fault:
            await sink.deliver(batch(b"1", fence=short))
        assert fault.value.retryable
        short.extend(5.0)
        await sink.deliver(batch(b"1", fence=short))

    on(lambda: KinesisSink(client, STREAM, attempt_s=1), scenario)
    assert len(puts.calls) == 1


def test_a_fence_that_closes_while_the_request_is_made_stops_it_and_the_others_go_on(client: Any) -> None:
    closing = OpenFence("b")
    signings: list[str] = []

    def sign(**_: object) -> None:
        """Fetching credentials took its time, and the lease is lost meanwhile."""
        signings.append("signed")
        closing.close("stolen")

    client.meta.events.register("before-sign.kinesis.PutRecords", sign)

    async def scenario(sink: KinesisSink) -> None:
        outcomes = await asyncio.gather(
            *(sink.deliver(batch(b"1", name=name, fence=closing if name == "b" else None)) for name in ("a", "b", "c")),
            return_exceptions=True,
        )
        assert outcomes[0] is None
        assert isinstance(outcomes[1], Fenced)
        assert outcomes[2] is None

    on(lambda: KinesisSink(client, STREAM, attempt_s=1, parallel=1), scenario)
    assert sorted(stored(client)) == [("a", b"1\n"), ("c", b"1\n")]
