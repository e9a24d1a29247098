"""What a person may write of a stream: when it stands, how it is resumed, kept alive and tried again."""

from typing import Literal

from pydantic import Field

from streamlease.spec.fields import (
    CloseCode,
    Condition,
    Count,
    CursorQuery,
    Duration,
    DurationOrOff,
    Flag,
    HttpStatus,
    Name,
    Number,
    Path,
    Scalar,
    VariableName,
)
from streamlease.spec.part import Part
from streamlease.spec.session import Beat

READY_WITHIN = "30s"
SAVE_EVERY = "10s"


class Ready(Part):
    when: Condition = Field(description="True of the message that says the subscription stands")
    within: Duration = READY_WITHIN


class Resume(Part):
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
    token: VariableName | None = Field(None, description="The captured name that is kept with the position")
    url: VariableName | None = Field(None, description="The captured name of a URL to resume at, kept likewise")
    reaches_back: Duration | None = Field(None, description="How far back the upstream goes, in time")
    too_old: Literal["live", "fatal"] = Field("live", description="What becomes of a cursor that is older")
    beginning: Scalar | None = Field(None, description="The cursor that means all that the upstream has")


class Keepalive(Part):
    ping_every: DurationOrOff = "20s"
    pong_within: Duration = "20s"
    stale_after: Duration | None = Field(None, description="Without any message for this long, dial again")
    message: Beat | None = Field(None, description="A keepalive in messages")
    heartbeat: Condition | None = Field(None, description="True of a message that is a heartbeat and no data")


class Retry(Part):
    first: Duration = "500ms"
    longest: Duration = "60s"
    proven_after: Duration = Field("30s", description="Streaming for so long lets the waits start over")
    fatal_close_codes: list[CloseCode] = Field(default_factory=list)
    fatal_http_statuses: list[HttpStatus] = Field(default_factory=lambda: [400, 401, 403, 404, 405, 410, 451])


class Checkpoint(Part):
    every: Duration = Field(
        SAVE_EVERY, description="How often a position that moved is stored; with each renewal in connection mode"
    )
