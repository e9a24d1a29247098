"""Kinesis Data Streams: one PutRecords call carries the batches of many connections.

A batch becomes one Kinesis record of newline-delimited envelopes, with the connection id as its partition key. As a
connection has one batch in flight, a call never holds two of one connection, and what fails of a call costs no order.
"""

import asyncio
import hashlib
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from streamlease.dynamodb.faults import FAILURES, Place, of_code, of_error
from streamlease.errors import Fault
from streamlease.settings import RECORDS_STREAM_VARIABLE
from streamlease_worker.fence import Fenced
from streamlease_worker.sinks.base import Batch, Limits, SinkFault

if TYPE_CHECKING:
    from types_boto3_kinesis import KinesisClient
    from types_boto3_kinesis.type_defs import PutRecordsRequestEntryTypeDef, PutRecordsResultEntryTypeDef

MOST_RECORDS = 500
MOST_RECORD_BYTES = 1 << 20
"""Data and partition key together, for a stream that nobody has allowed more."""
MOST_CALL_BYTES = 5 << 20
MOST_KEY_LENGTH = 256
LINGER_S = 0.05


@dataclass(frozen=True, slots=True)
class _Order:
    batch: Batch
    data: bytes
    key: str
    done: "asyncio.Future[None]"

    @property
    def size(self) -> int:
        return len(self.data) + len(self.key.encode())


class KinesisSink:
    """`client` never repeats a call by itself, and gives up within `attempt_s`."""

    def __init__(
        self,
        client: "KinesisClient",
        stream: str,
        *,
        attempt_s: float,
        parallel: int = 4,
        linger_s: float = LINGER_S,
    ) -> None:
        most_bytes = MOST_RECORD_BYTES - 4 * MOST_KEY_LENGTH
        self.limits = Limits(most_lines=10_000, most_bytes=most_bytes, linger_s=linger_s)
        self._client = client
        self._stream = stream
        self._attempt_s = attempt_s
        self._parallel = parallel
        self._waiting: deque[_Order] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._on_this_thread = threading.local()
        client.meta.events.register("before-send.kinesis.PutRecords", self._last_check)
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="kinesis-sink")

    async def check(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._describe)

    async def deliver(self, batch: Batch) -> None:
        data = batch.data()
        if len(data) > self.limits.most_bytes:
            raise SinkFault(
                f"a record of {len(data):,} bytes is more than the {self.limits.most_bytes:,} that fit in Kinesis:"
                " lower the spec's max_message, or choose another sink",
                retryable=False,
            )
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Order(batch, data, partition_key(batch.connection_id), done))
        self._call()
        await done

    async def close(self) -> None:
        while self._calls:
            await asyncio.wait(self._calls)
        await asyncio.to_thread(self._threads.shutdown)

    def _call(self) -> None:
        """As many calls as may run side by side; what comes meanwhile shares the next one."""
        while self._waiting and len(self._calls) < self._parallel:
            orders: list[_Order] = []
            size = 0
            while self._waiting and len(orders) < MOST_RECORDS and size + self._waiting[0].size <= MOST_CALL_BYTES:
                size += self._waiting[0].size
                orders.append(self._waiting.popleft())
            task = asyncio.create_task(self._put_and_tell(orders))
            self._calls.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._call()

    async def _put_and_tell(self, orders: list[_Order]) -> None:
        loop = asyncio.get_running_loop()
        outcomes = await loop.run_in_executor(self._threads, self._put, list(orders))
        for order, outcome in zip(orders, outcomes, strict=True):
            if order.done.done():
                continue
            if outcome is None:
                order.done.set_result(None)
            else:
                order.done.set_exception(outcome)

    # --- on a thread ------------------------------------------------------------------------------------------------

    def _put(self, orders: Sequence[_Order]) -> list[Exception | None]:
        """One call for all whose lease lasts for it; an outcome for each."""
        outcomes = [self._refusal(order.batch) for order in orders]
        going = [at for at, refusal in enumerate(outcomes) if refusal is None]
        if going:
            answers = self._send([orders[at] for at in going])
            for at, answer in zip(going, answers, strict=True):
                outcomes[at] = answer
        return outcomes

    def _send(self, orders: list[_Order]) -> list[Exception | None]:
        entries: list[PutRecordsRequestEntryTypeDef] = [{"Data": o.data, "PartitionKey": o.key} for o in orders]
        self._on_this_thread.orders = orders
        try:
            response = self._client.put_records(StreamName=self._stream, Records=entries)
        except Fenced as fenced:
            return self._without(fenced, orders)
        except FAILURES as error:
            if len(orders) > 1 and _is_invalid(error):  # one of them: it must not hold up the others
                half = len(orders) // 2
                return self._put(orders[:half]) + self._put(orders[half:])
            return [_sink_fault(of_error(error, self._place()))] * len(orders)
        return [self._outcome(result) for result in response["Records"]]

    def _last_check(self, **_: object) -> None:
        """Called by botocore between signing and sending: credentials may have taken their time. Raises Fenced."""
        for order in self._on_this_thread.orders:
            order.batch.fence.check()

    def _without(self, fenced: Fenced, orders: list[_Order]) -> list[Exception | None]:
        """Send again without the one that was fenced at the last moment; nothing had been sent."""
        rest = iter(self._put([order for order in orders if order.batch.fence is not fenced.fence]))
        return [fenced if order.batch.fence is fenced.fence else next(rest) for order in orders]

    def _describe(self) -> None:
        try:
            self._client.describe_stream_summary(StreamName=self._stream)
        except FAILURES as error:
            raise of_error(error, self._place("DescribeStreamSummary")) from None

    def _refusal(self, batch: Batch) -> Exception | None:
        left_s = batch.fence.left_s()
        if left_s <= 0:
            return Fenced(batch.fence)
        if left_s < self._attempt_s:
            return SinkFault("its lease is about to be renewed or to run out", retryable=True)
        return None

    def _outcome(self, result: "PutRecordsResultEntryTypeDef") -> Exception | None:
        code = result.get("ErrorCode")
        if not code:
            return None
        return _sink_fault(of_code(code, result.get("ErrorMessage", ""), 400, self._place()))

    def _place(self, operation: str = "PutRecords") -> Place:
        meta = self._client.meta
        return Place(
            operation=operation,
            thing=f"stream {self._stream!r}",
            permission=f"kinesis:{operation}",
            variable=RECORDS_STREAM_VARIABLE,
            region=meta.region_name,
            endpoint=meta.endpoint_url,
        )


def partition_key(connection_id: str) -> str:
    """The connection id, or where that is too long for Kinesis, a digest of it."""
    if len(connection_id) <= MOST_KEY_LENGTH:
        return connection_id
    return hashlib.blake2b(connection_id.encode(), digest_size=32).hexdigest()


def _is_invalid(error: Exception) -> bool:
    code = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None
    return code in ("ValidationException", "InvalidArgumentException")


def _sink_fault(fault: Fault) -> SinkFault:
    """Also a stream that is missing or denied is tried again: a person may mend it, and records wait meanwhile."""
    return SinkFault(str(fault), retryable=True)
