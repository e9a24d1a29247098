"""docs/spec.md knows every field, and none that is not there."""

import re
from pathlib import Path

from streamlease.spec.problems import PATHS

TEXT = (Path(__file__).parents[3] / "docs/spec.md").read_text("utf-8")
PARTS = {
    "adapter",
    "ready", "open", "values", "fetch", "record", "record.series", "record.dedupe", "ack", "resume", "keepalive",
    "keepalive.message", "retry", "rules", "rotate", "dial", "pace", "tls", "checkpoint",
}  # fmt: skip


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    names = "".join(re.findall(r"^\| (`[^|]+`) \| (?!a list|fields that)", TEXT, re.MULTILINE))
    rows = {name for name in re.findall(r"`([a-z0-9_.]+)`", names) if "." in name or name in PATHS}
    assert rows == set(PATHS) - PARTS
