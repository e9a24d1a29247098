"""`streamlease seek`."""

from collections.abc import Mapping
from typing import Any

import pytest

from streamlease.lease import Checkpoint
from streamlease.model import Position
from tests.cli.system import System

RESUMES: Mapping[str, Any] = {"record": {"sequence": "t"}, "resume": {"query": {"c": "{sequence}"}}}
OPAQUE: Mapping[str, Any] = {"record": {"sequence": "t", "type": "string"}, "resume": {"query": {"c": "{sequence}"}}}


def system_with(spec: Mapping[str, Any]) -> System:
    system = System()
    system.add("a", spec=spec)
    system.checkpoint(system.claim("a"), Checkpoint(1, position=Position(70, "feed.test")))
    return system


@pytest.mark.parametrize(
    ("spec", "to", "seek"),
    [
        (RESUMES, "50", {"to": "position", "sequence": 50, "from_sequence": 70}),
        (OPAQUE, "50", {"to": "position", "sequence": "50", "from_sequence": 70}),
        (RESUMES, "live", {"to": "live", "from_sequence": 70}),
        ({}, "live", {"to": "live", "from_sequence": 70}),
        (
            {**RESUMES, "resume": {**RESUMES["resume"], "beginning": 0}},
            "beginning",
            {"to": "beginning", "from_sequence": 70},
        ),
    ],
)
def test_a_seek_forgets_the_position_and_says_where_to_go_on(
    spec: Mapping[str, Any], to: str, seek: Mapping[str, Any]
) -> None:
    system = system_with(spec)
    version = system.connection("a")["spec_version"]
    assert system.json("seek", "a", to) == [{"connection_id": "a", "outcome": "asked", "detail": None}]
    item = system.connection("a")
    assert item["seek"] == seek
    assert "position" not in item
    assert item["spec_version"] == item["positions_since_version"] == version + 1  # type: ignore[operator]
    assert system.json("seek", "a", to)[0]["outcome"] == "already_asked"


@pytest.mark.parametrize(
    ("spec", "to", "says"),
    [
        (RESUMES, "abc", "'abc' is no position of a: its sequences are a number; or say live or beginning"),
        (RESUMES, "beginning", "nobody knows where a begins: give its spec resume.beginning"),
        ({}, "50", "a cannot ask its upstream for a position: its spec has no {sequence}; say live"),
    ],
)
def test_a_place_where_the_feed_cannot_go_is_bad_input_and_nothing_is_written(
    spec: Mapping[str, Any], to: str, says: str
) -> None:
    system = system_with(spec)
    before = dict(system.connection("a"))
    result = system.run("seek", "a", to)
    assert result.exit_code == 2
    assert says in result.stderr
    assert system.connection("a") == before


def test_a_connection_that_is_not_there_is_told() -> None:
    result = System().run("seek", "nobody", "live")
    assert (result.exit_code, "there is no connection nobody" in result.stderr) == (1, True)
