"""docs/spec.md knows every field, and none that is not there."""

import re
from pathlib import Path

from streamlease.spec.problems import PATHS

TEXT = (Path(__file__).parents[3] / "docs/spec.md").read_text("utf-8")
PARTS = {"ready", "record", "record.series", "record.dedupe", "ack", "resume", "keepalive", "retry", "checkpoint"}


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    rows = set(re.findall(r"^\| `([a-z_.]+)` \| (?!a list|fields that)", TEXT, re.MULTILINE))
    assert rows == set(PATHS) - PARTS
