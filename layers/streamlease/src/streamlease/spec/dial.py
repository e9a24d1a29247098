"""What a person may write of how often an upstream may be dialled, and what that comes to."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from streamlease.feed.feed import DialLimit
from streamlease.feed.secrets import REFERENCE
from streamlease.spec.fields import Count, Duration
from streamlease.spec.part import Part
from streamlease.spec.units import seconds

LONGEST_S = 86_400.0
_REFERENCE = re.compile(REFERENCE)


class Dial(Part):
    limit: Count = Field(description="At most so many dials of the whole fleet")
    per: Duration = Field(description="in any stretch of time so long")
    by: Literal["host", "credential"] = Field(
        "host", description="What the upstream counts by: all that dials its host from one egress, or by one credential"
    )


type Dials = Annotated[list[Dial], BeforeValidator(lambda value: value if isinstance(value, list) else [value])]


def problems(dials: list[Dial], spec: BaseModel) -> Iterator[str]:
    """A sentence for each thing that does not fit together."""
    seen: set[tuple[str, float]] = set()
    for dial in dials:
        per_s = seconds(dial.per)
        if not 1 <= per_s <= LONGEST_S:
            yield f"dial.per is {dial.per}; it must be from 1s to 1d"
        if (dial.by, per_s) in seen:
            yield f"dial says twice how many dials a {dial.by} takes in {dial.per}"
        seen.add((dial.by, per_s))
    if any(dial.by == "credential" for dial in dials) and not _REFERENCE.search(spec.model_dump_json()):
        yield "dial.by credential needs a credential: put a reference to a secret into the spec"


def limits(dials: list[Dial]) -> tuple[DialLimit, ...]:
    return tuple(DialLimit(dial.limit, seconds(dial.per), dial.by) for dial in dials)


def explained(dials: list[Dial]) -> Iterator[str]:
    for dial in dials:
        whose = "this host from one egress" if dial.by == "host" else "with this credential"
        yield f"waits for its turn where the fleet has dialled {whose} {dial.limit} times within {dial.per}"
