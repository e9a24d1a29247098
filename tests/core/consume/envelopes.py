"""Envelopes for a reader's tests, and what travels of them."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from streamlease.envelope import Envelope, encode
from streamlease.feed.events import Gap, Record


def record(connection_id: str, epoch: int, record_id: str | None, payload: str | None = None) -> Envelope:
    """`payload` tells records without ids apart."""
    return Envelope(connection_id, epoch, Record(0, None, record_id, None, 1_800_000_000_000, payload))


def gap(connection_id: str, epoch: int, reason: str = "the connection was lost") -> Envelope:
    return Envelope(connection_id, epoch, Gap(0, None, None, reason))


def data(envelopes: Iterable[Envelope]) -> bytes:
    return b"".join(encode(each.connection_id, each.epoch, each.delivery) + b"\n" for each in envelopes)


def kinesis_event(units: Sequence[Iterable[Envelope] | bytes]) -> dict[str, Any]:
    """Sequence numbers `1`, `2`, …"""
    return {
        "Records": [
            {
                "eventSource": "aws:kinesis",
                "eventID": f"shardId-000000000000:{number}",
                "kinesis": {
                    "sequenceNumber": str(number),
                    "partitionKey": "c",
                    "data": base64.b64encode(unit if isinstance(unit, bytes) else data(unit)).decode(),
                },
            }
            for number, unit in enumerate(units, 1)
        ]
    }


def sqs_event(units: Sequence[Iterable[Envelope] | bytes]) -> dict[str, Any]:
    """Message ids `1`, `2`, …"""
    return {
        "Records": [
            {
                "eventSource": "aws:sqs",
                "messageId": str(number),
                "receiptHandle": f"receipt {number}",
                "body": (unit if isinstance(unit, bytes) else data(unit)).decode(errors="replace"),
                "attributes": {},
                "messageAttributes": {},
            }
            for number, unit in enumerate(units, 1)
        ]
    }
