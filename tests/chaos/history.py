"""What was written to the tables: read from their streams, and, for batches of writes, of which the emulator's streams
say nothing, from the links that they went over.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamlease import items, pages
from streamlease.dynamodb import attributes
from streamlease.model import Connection, Member
from streamlease.timing import Instant
from streamlease.write import Item, Value
from tests.chaos.link import Carried

if TYPE_CHECKING:
    from types_boto3_dynamodbstreams import DynamoDBStreamsClient

PAGE = "PAGE"
"""The event of what stood in a position page."""
_ASSIGNED = re.compile(r'SET "(\w+)" = \?')
_ASKED = re.compile(r'"(\w+)" ([=<>]) \?')


@dataclass(frozen=True, slots=True)
class Written:
    """A connection as one write left it. The write was carried out within the second `at_s` (Unix)."""

    at_s: int
    event: str
    connection: Connection


@dataclass(frozen=True, slots=True)
class MemberWritten:
    """A member as one write left it."""

    at_s: int
    member: Member


@dataclass(frozen=True, slots=True)
class Batched:
    """A renewal, checkpoint or release that landed. It was passed on to the table at `at`."""

    at: Instant
    event: str
    connection_id: str
    owner: str
    epoch: int
    expires_at_ms: int | None
    checkpoint_no: int | None
    sequence: int | None
    """Of the position in it; None: there is none."""


def batched(carried: Iterable[Carried]) -> Iterator[Batched]:
    """What landed of these batches; of a position page, each of its entries."""
    for batch in carried:
        statements = json.loads(batch.request)["Statements"]
        answers = json.loads(batch.answer)["Responses"]
        for statement, answer in zip(statements, answers, strict=True):
            if "Error" not in answer:
                written, asked = _assigned_and_asked(statement["Statement"], statement["Parameters"])
                yield from _of_page(batch.at, written, asked) if "item" in asked else _of_item(batch.at, written, asked)


def _assigned_and_asked(text: str, parameters: list[Any]) -> tuple[Item, Item]:
    """What an update sets, and what it asks the item it finds to be equal to."""
    sets, _, conditions = text.partition(" WHERE ")
    values = map(_plain, parameters)
    written = {name: next(values) for name in _ASSIGNED.findall(sets)}
    asked = [(name, sign, next(values)) for name, sign in _ASKED.findall(conditions)]
    return written, {name: value for name, sign, value in asked if sign == "="}


def _plain(value: Any) -> Value:
    """JSON's binary is base64, which boto3 would have undone."""
    return base64.b64decode(value["B"]) if "B" in value else attributes.decode(value)


def _of_item(at: Instant, written: Item, asked: Item) -> Iterator[Batched]:
    """Nothing of an orphaning in whatever epoch there is, which carries no position."""
    if "lease_epoch" not in asked:
        return
    position = written.get("position")
    found = position.get("sequence") if isinstance(position, Mapping) else None
    yield Batched(
        at=at,
        event=str(written["last_event"]),
        connection_id=str(asked["connection_id"]),
        owner=str(asked["lease_owner"]),
        epoch=_whole(asked["lease_epoch"]) or 0,
        expires_at_ms=_whole(written.get("lease_expires_at_ms")),
        checkpoint_no=_whole(written.get("checkpoint_no")),
        sequence=_whole(found),
    )


def _of_page(at: Instant, written: Item, asked: Item) -> Iterator[Batched]:
    packed = written.get("packed")
    for entry in pages.unpack(packed) if isinstance(packed, bytes) else ():
        yield Batched(
            at=at,
            event=PAGE,
            connection_id=entry.connection_id,
            owner=str(asked["worker_id"]),
            epoch=entry.epoch,
            expires_at_ms=None,
            checkpoint_no=entry.checkpoint_no,
            sequence=_whole(entry.position.sequence),
        )


def _whole(value: Value) -> int | None:
    return value if isinstance(value, int) else None


def connections_written(streams: "DynamoDBStreamsClient", table: str) -> list[Written]:
    """All of it, oldest first."""
    return [Written(at_s, str(image["last_event"]), items.connection(image)) for at_s, image in _images(streams, table)]


def members_written(streams: "DynamoDBStreamsClient", table: str) -> list[MemberWritten]:
    """All since the table has a stream, which the template gives it none of."""
    return [
        MemberWritten(at_s, items.member(image))
        for at_s, image in _images(streams, table)
        if not str(image["worker_id"]).startswith("#")
    ]


def _images(streams: "DynamoDBStreamsClient", table: str) -> Iterator[tuple[int, Item]]:
    (stream,) = streams.list_streams(TableName=table)["Streams"]
    arn = stream["StreamArn"]
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        iterator: str | None = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator is not None:
            answer = streams.get_records(ShardIterator=iterator)
            if not answer["Records"]:
                break
            for record in answer["Records"]:
                change: Mapping[str, Any] = record["dynamodb"]
                if "NewImage" in change:
                    image = {name: attributes.decode(value) for name, value in change["NewImage"].items()}
                    yield int(change["ApproximateCreationDateTime"].timestamp()), image
            iterator = answer.get("NextShardIterator")
