"""What a person may write of a connection (design §8), as pydantic models; docs/spec.md explains every field.

Fields keep what was written ("60s", not 60.0), so that the stored spec reads like the file. `{id, url}` is a whole one.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from streamlease.spec.fields import (
    CloseCode,
    Condition,
    Count,
    CursorQuery,
    Duration,
    DurationOrOff,
    Flag,
    Headers,
    HttpStatus,
    Id,
    Labels,
    Name,
    Number,
    Path,
    Protocol,
    Query,
    Size,
    Template,
    Url,
)
from streamlease.spec.record import Ack, Record
from streamlease.spec.units import seconds
from streamlease.spec.unwrap import Unwrap

READY_WITHIN = "30s"
SAVE_EVERY = "10s"
_PUT_IT = "put {sequence} into resume.query, a header or an open message"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class Ready(_Part):
    when: Condition = Field(description="True of the message that says the subscription stands")
    within: Duration = READY_WITHIN


class Resume(_Part):
    query: CursorQuery | None = Field(None, description="URL parameters with {sequence} in them")
    rewind: Number = Field(0, description="Taken off a numeric cursor, in its own unit")
    inclusive: Flag = Field(default=True, description="The upstream sends the cursor's own records again")
    instance: Name | None = Field(None, description="What numbers the sequences; without it, the URL's host")
    elsewhere: Literal["resume", "live"] = Field("resume", description="Whether another instance's cursor is used")
    rewind_elsewhere: Number = Field(0, description="Taken off another instance's cursor, besides rewind")
    floor: Path | None = Field(None, description="Where a message says the oldest sequence that the upstream has")
    order: Literal["oldest_first", "newest_first"] = "oldest_first"
    complete: Condition | None = Field(None, description="True of the message that ends the replay")
    at_most: Count | None = Field(None, description="The upstream replays no more records than this")
    without_cursor: Literal["live", "all"] = Field("live", description="What a dial without a cursor gives")


class Keepalive(_Part):
    ping_every: DurationOrOff = "20s"
    pong_within: Duration = "20s"
    stale_after: Duration | None = Field(None, description="Without any message for this long, dial again")


class Retry(_Part):
    first: Duration = "500ms"
    longest: Duration = "60s"
    proven_after: Duration = Field("30s", description="Streaming for so long lets the waits start over")
    fatal_close_codes: list[CloseCode] = Field(default_factory=list)
    fatal_http_statuses: list[HttpStatus] = Field(default_factory=lambda: [400, 401, 403, 404, 405, 410, 451])


class Checkpoint(_Part):
    every: Duration = Field(
        SAVE_EVERY, description="How often a position that moved is stored; with each renewal in connection mode"
    )


def _ready(value: object) -> object:
    return {"when": value} if isinstance(value, str) else value


class ConnectionSpec(_Part):
    id: Id
    url: Url
    labels: Labels = Field(default_factory=dict)
    desired_state: Literal["STARTED", "STOPPED"] = "STARTED"
    headers: Headers = Field(default_factory=dict)
    query: Query = Field(default_factory=dict)
    subprotocols: list[Protocol] = Field(default_factory=list)
    open: list[Template] = Field(
        default_factory=list, description="Messages to send, in order, once the socket is open"
    )
    ready: Annotated[Ready, BeforeValidator(_ready)] | None = None
    unwrap: Unwrap | None = Field(None, description="What lies around the messages, from the outside in")
    record: Record = Field(default_factory=Record)
    ack: Ack | None = Field(None, description="What the upstream is told of each message")
    resume: Resume = Field(default_factory=Resume)
    keepalive: Keepalive = Field(default_factory=Keepalive)
    retry: Retry = Field(default_factory=Retry)
    checkpoint: Checkpoint = Field(default_factory=Checkpoint)
    open_within: Duration = "10s"
    close_within: Duration = "1s"
    close_code: CloseCode = 1000
    max_message: Size = "1MiB"
    sink: Name = "default"

    @property
    def takes_cursor(self) -> bool:
        """Whether the upstream is asked to go on from somewhere."""
        return bool(self.resume.query) or _holds_cursor([*self.headers.values(), *self.open])

    def stored(self) -> dict[str, Any]:
        """What the connection's item keeps as `spec`: all that was set and has no attribute of its own."""
        kept: dict[str, Any] = self.model_dump(
            mode="json", exclude_unset=True, exclude={"id", "url", "labels", "desired_state"}
        )
        return {name: value for name, value in kept.items() if value is not None}

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = [sentence for broken, sentence in self._rules() if broken]
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
