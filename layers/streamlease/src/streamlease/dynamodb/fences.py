"""A reader's marks in a DynamoDB table of its own: key `connection_id` (S), and the attributes `epoch`, `record_ids`.

One write unit for each connection whose epoch has changed; with record ids kept, one for each KB of each connection of
each batch. The role needs dynamodb:BatchGetItem and dynamodb:UpdateItem on the table.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from botocore.config import Config
from botocore.exceptions import ClientError

from streamlease.consume.reader import Mark, mark_of
from streamlease.dynamodb.attributes import decode_item, encode
from streamlease.dynamodb.clients import client, open_session
from streamlease.dynamodb.faults import FAILURES, Place, of_error
from streamlease.errors import Fault, Malformed, Throttled
from streamlease.flow import chunks

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

READ_AT_ONCE = 100
ASKED_AT_MOST = 6
PAUSE_S = 0.05
CONNECT_S = 1.0
ANSWER_S = 3.0
ATTEMPTS = 3
LONGEST_KEY_BYTES = 2_048

_log = logging.getLogger(__name__)


class DynamoFences:
    """`consume.store.FenceStore` on a table. Safe to share between threads.

    What cannot be read or kept is reported once, with its id, and counts as absent; it is never overwritten.
    """

    def __init__(
        self,
        dynamodb: "DynamoDBClient",
        table: str,
        *,
        report: Callable[[Malformed], object] | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """The SDK may repeat what this sends: a mark that is written twice is written once."""
        self._dynamodb = dynamodb
        self._table = table
        self._report = report or (lambda problem: _log.warning("%s", problem))
        self._pause = pause
        self._reported: set[str] = set()

    def load(self, connection_ids: Iterable[str]) -> dict[str, Mark]:
        """Consistent reads. Raises Fault."""
        marks: dict[str, Mark] = {}
        for some in chunks(filter(self._is_key, dict.fromkeys(connection_ids)), READ_AT_ONCE):
            for item in self._read([{"connection_id": {"S": name}} for name in some]):
                name = str(item.get("connection_id"))
                if (mark := self._mark(name, item)) is not None:
                    marks[name] = mark
        return marks

    def save(self, marks: Mapping[str, Mark]) -> dict[str, Mark]:
        """One conditional update each. Raises Fault."""
        higher: dict[str, Mark] = {}
        for connection_id, mark in marks.items():
            if self._is_key(connection_id) and (found := self._write(connection_id, mark)) is not None:
                higher[connection_id] = found
        return higher

    def _is_key(self, connection_id: str) -> bool:
        """Anybody may have written into the stream that is read, but only what can be a connection has a fence."""
        if 0 < len(connection_id.encode(errors="surrogatepass")) <= LONGEST_KEY_BYTES and _is_text(connection_id):
            return True
        self._complain(connection_id, Malformed(f"connection {connection_id[:80]!r}", "it cannot be a key"))
        return False

    def _read(self, keys: list[Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for asked in range(ASKED_AT_MOST):
            if asked:
                self._pause(PAUSE_S * 2**asked)
            request: Any = {self._table: {"Keys": keys, "ConsistentRead": True}}
            try:
                response = self._dynamodb.batch_get_item(RequestItems=request)
            except FAILURES as error:
                raise self._fault(error, "BatchGetItem") from None
            found += [decode_item(item) for item in response.get("Responses", {}).get(self._table, [])]
            left = response.get("UnprocessedKeys", {}).get(self._table)
            if not left:
                return found
            keys = list(left["Keys"])
        raise Throttled(f"{len(keys)} marks of table {self._table!r} could not be read: asked {ASKED_AT_MOST} times")

    def _write(self, connection_id: str, mark: Mark) -> Mark | None:
        """The higher mark that stands in the way, if any."""
        try:
            epoch, ids = encode(mark.epoch, f"fence {connection_id!r}: epoch"), encode(mark.record_ids)
        except Malformed as problem:
            self._complain(connection_id, problem)
            return None
        try:
            self._dynamodb.update_item(
                TableName=self._table,
                Key={"connection_id": {"S": connection_id}},
                UpdateExpression="SET #epoch = :epoch, #ids = :ids",
                ConditionExpression="attribute_not_exists(#epoch) OR #epoch <= :epoch",
                ExpressionAttributeNames={"#epoch": "epoch", "#ids": "record_ids"},
                ExpressionAttributeValues={":epoch": epoch, ":ids": ids},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ClientError as error:
            response: Any = error.response
            if response.get("Error", {}).get("Code") != "ConditionalCheckFailedException":
                raise self._fault(error, "UpdateItem") from None
            item = response.get("Item")
            if item is None:  # an endpoint that does not say what stood in the way
                return self.load([connection_id]).get(connection_id)
            return self._mark(connection_id, decode_item(item))
        except FAILURES as error:
            raise self._fault(error, "UpdateItem") from None
        return None

    def _mark(self, connection_id: str, item: Mapping[str, Any]) -> Mark | None:
        try:
            return mark_of(item, f"fence {connection_id!r} in table {self._table!r}")
        except Malformed as problem:
            self._complain(connection_id, problem)
            return None

    def _complain(self, connection_id: str, problem: Malformed) -> None:
        if connection_id not in self._reported:
            self._reported.add(connection_id)
            self._report(problem)

    def _fault(self, error: Exception, operation: str) -> Fault:
        meta = self._dynamodb.meta
        place = Place(
            operation=operation,
            thing=f"table {self._table!r}",
            permission=f"dynamodb:{operation}",
            variable=None,
            region=meta.region_name,
            endpoint=meta.endpoint_url,
        )
        return of_error(error, place)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def open_fences(table: str, *, region: str | None = None, endpoint: str | None = None) -> DynamoFences:
    """With a client of its own. None leaves it to boto3. Raises Denied, as `clients.client` does."""
    config = Config(
        connect_timeout=CONNECT_S, read_timeout=ANSWER_S, retries={"total_max_attempts": ATTEMPTS, "mode": "standard"}
    )
    return DynamoFences(client("dynamodb", session=open_session(region), endpoint=endpoint, config=config), table)
