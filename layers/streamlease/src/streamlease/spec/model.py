"""What a person may write of a connection (design §8), as pydantic models; docs/spec.md explains every field.

Fields keep what was written ("60s", not 60.0), so that the stored spec reads like the file. `{id, url}` is a whole one.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, model_validator
from pydantic_core import PydanticCustomError

from streamlease.feed.decoding import MOST_VALUES
from streamlease.spec import dial, placeholders, session, together
from streamlease.spec.adapters import AdapterField
from streamlease.spec.dial import Dials
from streamlease.spec.fields import (
    CloseCode,
    Count,
    Duration,
    Flag,
    Headers,
    Id,
    Labels,
    Name,
    Protocol,
    Proxy,
    Query,
    SendSize,
    Size,
    Url,
)
from streamlease.spec.part import Part
from streamlease.spec.record import Ack, Record
from streamlease.spec.session import Computed, Entry, Fetch, Pace, Rotate, Rule, Tls
from streamlease.spec.stream import Checkpoint, Keepalive, Ready, Resume, Retry
from streamlease.spec.units import seconds
from streamlease.spec.unwrap import Unwrap

_PUT_IT = "put {sequence} into resume.query, a header or an open message"


def _ready(value: object) -> object:
    return {"when": value} if isinstance(value, str) else value


class ConnectionSpec(Part):
    id: Id
    url: Url
    labels: Labels = Field(default_factory=dict)
    desired_state: Literal["STARTED", "STOPPED"] = "STARTED"
    headers: Headers = Field(default_factory=dict)
    query: Query = Field(default_factory=dict)
    subprotocols: list[Protocol] = Field(default_factory=list)
    fetch: Fetch | None = Field(None, description="An HTTP call before each dial")
    values: dict[str, Computed] = Field(default_factory=dict, description="Names, and how each value is made")
    open: list[Entry] = Field(
        default_factory=list, description="What to send and to wait for, in order, once the socket is open"
    )
    ready: Annotated[Ready, BeforeValidator(_ready)] | None = None
    adapter: AdapterField | None = Field(None, description="Python that translates this upstream's protocol")
    unwrap: Unwrap | None = Field(None, description="What lies around the messages, from the outside in")
    record: Record = Field(default_factory=Record)
    ack: Ack | None = Field(None, description="What the upstream is told of each message")
    resume: Resume = Field(default_factory=Resume)
    keepalive: Keepalive = Field(default_factory=Keepalive)
    retry: Retry = Field(default_factory=Retry)
    rules: list[Rule] = Field(default_factory=list, description="What to do about what the upstream says")
    rotate: Rotate = Field(default_factory=Rotate)
    dial: Dials = Field(default_factory=list, description="How often the upstream may be dialled, by the whole fleet")
    pace: Pace | None = Field(None, description="How fast the upstream may be talked to")
    max_send: SendSize | None = Field(None, description="The largest message to send, or never")
    tls: Tls = Field(default_factory=Tls)
    proxy: Proxy = "env"
    compression: Flag = Field(default=False, description="Offer permessage-deflate")
    private_addresses: Flag = Field(default=False, description="Dial private addresses, where the worker allows it")
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    open_within: Duration = "10s"
    close_within: Duration = "1s"
    close_code: CloseCode = 1000
    max_message: Size = "1MiB"
    max_values: Count = Field(
        MOST_VALUES, description="Values and names in one frame; in msgpack and CBOR half as many"
    )
    sink: Name = "default"

    @property
    def takes_cursor(self) -> bool:
        """Whether the upstream is asked to go on from somewhere."""
        sent = [each.send if isinstance(each, session.Step) else each for each in self.open]
        return bool(self.resume.query) or _holds_cursor([*self.headers.values(), *sent])

    def stored(self) -> dict[str, Any]:
        """What the connection's item keeps as `spec`: all that was set and has no attribute of its own."""
        kept: dict[str, Any] = self.model_dump(
            mode="json", exclude_unset=True, exclude={"id", "url", "labels", "desired_state"}
        )
        return {name: value for name, value in kept.items() if value is not None}

    @model_validator(mode="wrap")
    @classmethod
    def _knows_its_names(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        with placeholders.declaring(session.declared(data)):
            return handler(data)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = [sentence for broken, sentence in self._rules() if broken]
        problems += together.problems(self)
        problems += dial.problems(self.dial, self)
        if problems:
            raise PydanticCustomError("rule", "{problems}", {"problems": "\n".join(problems)})
        return self

    def _rules(self) -> list[tuple[bool, str]]:
        record, resume, keepalive = self.record, self.resume, self.keepalive
        numeric, newest_first = record.type == "number", resume.order == "newest_first"
        cursor, sequence = self.takes_cursor, record.sequence is not None
        needing_one = {"rewind", "inclusive", "complete", "at_most", "elsewhere", "rewind_elsewhere", "floor"}
        settings = sorted(needing_one & resume.model_fields_set)
        return [
            *record.rules(),
            (
                self.adapter is not None and self.unwrap is not None,
                "unwrap says nothing: the adapter gets what comes in",
            ),
            (
                cursor and not sequence,
                "{sequence} is to be sent, but record.sequence does not say where a record's sequence lies",
            ),
            (not cursor and bool(settings), f"resume.{''.join(settings[:1])} needs a cursor: {_PUT_IT}"),
            (
                newest_first and resume.complete is None,
                "resume.order newest_first needs resume.complete, the replay's end",
            ),
            (
                newest_first and not numeric,
                "resume.order newest_first needs record.type number, for texts have no order",
            ),
            (resume.at_most is not None and not newest_first, "resume.at_most needs resume.order newest_first"),
            (
                bool(resume.rewind_elsewhere) and (not numeric or resume.elsewhere == "live"),
                "resume.rewind_elsewhere needs record.type number, and resume.elsewhere resume",
            ),
            (bool(resume.rewind) and not numeric, "resume.rewind needs record.type number: nothing comes off a text"),
            (record.contiguous and not numeric, "record.contiguous needs record.type number"),
            (record.contiguous and newest_first, "record.contiguous does not go with resume.order newest_first"),
            (record.contiguous and not sequence, "record.contiguous needs record.sequence"),
            (record.unique and not sequence, "record.unique needs record.sequence"),
            (record.sequence_unit is not None and not sequence, "record.sequence_unit needs record.sequence"),
            (record.sequence_unit is not None and not numeric, "record.sequence_unit needs record.type number"),
            (
                "event_at_unit" in record.model_fields_set and record.event_at is None,
                "record.event_at_unit needs record.event_at, the place of the time itself",
            ),
            (
                keepalive.ping_every == "off" and "pong_within" in keepalive.model_fields_set,
                "keepalive.pong_within says nothing while ping_every is off",
            ),
            (
                not 1 <= seconds(self.checkpoint.every) <= 3_600,
                f"checkpoint.every is {self.checkpoint.every}; it must be from 1s to 1h",
            ),
            (
                seconds(self.retry.first) > seconds(self.retry.longest),
                f"retry.first of {self.retry.first} is longer than retry.longest of {self.retry.longest}",
            ),
        ]


def _holds_cursor(template: object) -> bool:
    if isinstance(template, str):
        return "{sequence}" in template
    if isinstance(template, dict):
        return any(_holds_cursor(value) for value in template.values())
    return isinstance(template, list) and any(_holds_cursor(value) for value in template)
