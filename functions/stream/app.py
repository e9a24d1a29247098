"""Stream function: what happens to a connection becomes an offer, a notice to its owner, or nothing (design §5).

A record that cannot be read is counted, logged once and passed over; one that could not be handed on is reported as
failed, and the stream sends it again (docs/decisions/060). No image is ever logged: it holds somebody's spec.
"""

import functools
import os
from collections import Counter
from typing import Any, Literal, Self

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.parser import BaseModel, Field, ValidationError, model_validator, parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from streamlease.dynamodb.attributes import decode_item
from streamlease.dynamodb.clients import Purpose
from streamlease.dynamodb.executor import Executor, open_executor
from streamlease.errors import Fault, Malformed
from streamlease.flow import run
from streamlease.flows.stream import react
from streamlease.model import Offer
from streamlease.plan import Notice
from streamlease.settings import log_level, settings
from streamlease.write import Item

logger = Logger(level=log_level(os.environ))
tracer = Tracer()
metrics = Metrics(namespace="Streamlease")
processor = BatchProcessor(event_type=EventType.DynamoDBStreams)
METRICS = ("Offers", "Notices", "Poisoned")


class Attribute(BaseModel, extra="forbid"):
    """One attribute value in DynamoDB's own form."""

    S: str | None = None
    N: str | None = Field(None, pattern=r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$")
    B: str | None = None
    BOOL: bool | None = None
    NULL: bool | None = None
    M: dict[str, "Attribute"] | None = None
    L: list["Attribute"] | None = None
    SS: list[str] | None = None
    NS: list[str] | None = None
    BS: list[str] | None = None

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("an attribute value has one kind")
        return self


class Images(BaseModel):
    new: dict[str, Attribute] | None = Field(None, alias="NewImage")


class Change(BaseModel):
    """A stream record, as far as it is of interest here."""

    kind: Literal["INSERT", "MODIFY", "REMOVE"] = Field(alias="eventName")
    images: Images = Field(alias="dynamodb")

    @model_validator(mode="after")
    def _has_an_image(self) -> Self:
        if self.kind != "REMOVE" and self.images.new is None:
            raise ValueError("there is no NewImage; the table's stream has to be of NEW_AND_OLD_IMAGES")
        return self

    def item(self) -> Item | None:
        """The item after the change; None where none is left."""
        image = self.images.model_dump(by_alias=True, exclude_unset=True).get("NewImage")
        return None if image is None else decode_item(image)


@logger.inject_lambda_context
@tracer.capture_lambda_handler(capture_response=False)
@metrics.log_metrics
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Answers with the records that were not handed on. Raises where that is all of them, or nothing is set up."""
    counts: Counter[str] = Counter()
    try:
        hand_on_one = functools.partial(hand_on, executor=executor(), counts=counts)
        return process_partial_response(event, hand_on_one, processor, context)
    finally:
        for name in METRICS:
            metrics.add_metric(name=name, unit=MetricUnit.Count, value=counts[name])


@functools.cache
def executor() -> Executor:
    """Made at the first call. Raises Misconfigured, Denied."""
    metrics.set_default_dimensions(stack=os.environ.get("STREAMLEASE_STACK", "none"))
    return open_executor(settings(os.environ), purpose=Purpose.FUNCTION)


def hand_on(record: DynamoDBRecord, *, executor: Executor, counts: Counter[str]) -> None:
    """Raises what the record is to be sent again for."""
    try:
        match run(react(parse(record.raw_event, Change).item()), executor.perform):
            case Offer():
                counts["Offers"] += 1
            case Notice():
                counts["Notices"] += 1
            case None:
                pass
    except (ValidationError, Malformed) as problem:
        counts["Poisoned"] += 1
        pass_over(record, problem)
    except Fault as fault:
        logger.warning("a stream record could not be handed on", extra={"fault": str(fault), **named(record)})
        raise
    except Exception:
        logger.exception("a stream record broke this function", extra=named(record))
        raise


def pass_over(record: DynamoDBRecord, problem: ValidationError | Malformed) -> None:
    """An image never changes: sent again, it would only hold up what comes after it."""
    logger.error("a stream record cannot be read and is passed over", extra={"problem": told(problem), **named(record)})


def told(problem: ValidationError | Malformed) -> str:
    """What is wrong and where, without what was there."""
    if isinstance(problem, Malformed):
        return str(problem)
    first = problem.errors(include_input=False, include_url=False, include_context=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'][:3]) or 'record'}: {first['msg']}"


def named(record: DynamoDBRecord) -> dict[str, object]:
    """What finds the record, and the connection, again."""
    event = record.raw_event

    def at(*path: str) -> object:
        found: object = event
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    return {
        "event_id": at("eventID"),
        "sequence_number": at("dynamodb", "SequenceNumber"),
        "connection_id": at("dynamodb", "Keys", "connection_id", "S"),
    }
