"""The worker's side of the offers queue: receive, delete, give back. Offers are sent by the executor."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from botocore.config import Config

from streamlease.dynamodb import offers
from streamlease.dynamodb.clients import client, open_session
from streamlease.dynamodb.faults import FAILURES, Place, of_error
from streamlease.errors import Fault, Malformed
from streamlease.settings import OFFERS_QUEUE_VARIABLE
from streamlease_worker.log import Log
from streamlease_worker.supervisor_events import Received

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

WAIT_S = 2
"""Short beside the 20 that SQS allows, so that a worker's end need not wait for it; a request costs next to nothing."""


def open_queue_client() -> "SQSClient":
    """A client whose patience outlasts the wait for offers. Raises Denied."""
    config = Config(
        connect_timeout=2.0,
        read_timeout=WAIT_S + 5.0,
        retries={"total_max_attempts": 2, "mode": "standard"},
        max_pool_connections=32,
        tcp_keepalive=True,
    )
    made: SQSClient = client("sqs", session=open_session(), config=config)
    return made


class OffersQueue:
    """Blocking calls, for a thread. Safe to share between threads, as its client is."""

    def __init__(self, client: "SQSClient", url: str, log: Log) -> None:
        self._client = client
        self._url = url
        self._log = log

    def check(self) -> None:
        """Raises Fault where the queue is not there or not ours to use."""
        try:
            self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        except FAILURES as error:
            raise self._fault(error, "GetQueueAttributes") from None

    def receive(self, most: int) -> tuple[Received, ...]:
        """Waits up to `WAIT_S` seconds. Messages that are no offers are reported and deleted. Raises Fault."""
        try:
            response = self._client.receive_message(
                QueueUrl=self._url, MaxNumberOfMessages=most, WaitTimeSeconds=WAIT_S
            )
        except FAILURES as error:
            raise self._fault(error, "ReceiveMessage") from None
        found: list[Received] = []
        unreadable: list[str] = []
        for message in response.get("Messages", []):
            receipt = message.get("ReceiptHandle", "")
            try:
                found.append(Received(offers.offer(message.get("Body", "")), receipt))
            except Malformed as problem:
                self._log.warning("offer_malformed", problem=str(problem))
                unreadable.append(receipt)
        self.delete(unreadable)
        return tuple(found)

    def delete(self, receipts: Sequence[str]) -> None:
        """Up to 10. A failure is harmless: the offer is seen again, and answered again."""
        if receipts:
            with contextlib.suppress(*FAILURES):
                self._client.delete_message_batch(
                    QueueUrl=self._url,
                    Entries=[{"Id": str(at), "ReceiptHandle": receipt} for at, receipt in enumerate(receipts)],
                )

    def give_back(self, receipts: Sequence[str]) -> None:
        """Up to 10, to be seen by another worker at once. A failure is harmless: it is seen after its timeout."""
        if receipts:
            with contextlib.suppress(*FAILURES):
                self._client.change_message_visibility_batch(
                    QueueUrl=self._url,
                    Entries=[
                        {"Id": str(at), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                        for at, receipt in enumerate(receipts)
                    ],
                )

    def _fault(self, error: Exception, operation: str) -> Fault:
        meta = self._client.meta
        return of_error(
            error,
            Place(
                operation=operation,
                thing=f"queue {self._url.rpartition('/')[2]!r}",
                permission=f"sqs:{operation}",
                variable=OFFERS_QUEUE_VARIABLE,
                region=meta.region_name,
                endpoint=meta.endpoint_url,
            ),
        )
