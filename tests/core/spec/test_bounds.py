"""How much one frame may hold follows from what a spec looks at in it."""

import json
import re
from pathlib import Path

import pytest
import yaml

from streamlease.feed.decoding import MOST_ENTRIES
from streamlease.spec import ConnectionSpec, compile_spec, load
from streamlease.spec.bounds import bounds
from streamlease.spec.explain import explain
from tests.core.spec.files import one

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
RULES = [{"message": "starts_with(topic || '', 'x')", "then": "fatal"}] * 5


def examples() -> list[ConnectionSpec]:
    return [
        spec
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for spec in load(
            [(path.name, yaml.safe_load(path.read_text("utf-8")))],
            lambda _, name: (EXAMPLES / name).read_text("utf-8"),
        )
    ]


@pytest.mark.parametrize("spec", examples(), ids=lambda spec: spec.id)
def test_the_examples_take_frames_of_thousands_apart(spec: ConnectionSpec) -> None:
    found = bounds(spec)
    assert found.most_messages >= 3_000
    assert found.records_left(1) >= 8_000
    assert (found.most_values or 131_072) >= 50_000


def test_what_a_spec_looks_at_lessens_what_a_frame_may_hold() -> None:
    plain, ruled = bounds(one(unwrap="each")), bounds(one(unwrap="each", rules=RULES))
    assert plain.most_messages == MOST_ENTRIES
    assert 1_000 < ruled.most_messages < 5_000
    looked_through = bounds(one(rules=[{"message": "[?a=='x']", "then": "fatal"}] * 5))
    assert plain.most_values is None
    assert looked_through.most_values is None
    assert 5_000 < (looked_through.most_entries or 0) < 30_000
    timed = bounds(one(record={"each": "d", "id": "a", "sequence": "a", "series": {"key": "b"}}))
    assert 6_000 < timed.records_left(1) < MOST_ENTRIES
    assert timed.records_left(4_000) < timed.records_left(1)


@pytest.mark.parametrize(
    "fields",
    [
        {"rules": [{"message": "a", "then": "go_on", "send": "x"}]},
        {"rules": [{"message": "a", "then": "go_on", "capture": {"n": "[?a]"}}]},
        {"rules": [{"message": "a", "then": "retry", "after": "b.c"}]},
        {"rules": [{"message": "a", "then": "gap"}]},
        {"keepalive": {"heartbeat": "x=='y'"}},
        {"keepalive": {"message": {"send": "x", "every": "1s", "answer": "x=='y'"}}},
        {"ready": {"when": "a"}},
        {"open": [{"send": "x", "expect": "a", "answers": {"b": "c"}}]},
        {"ack": {"capture": {"id": "a"}, "send": {"a": "{id}"}}},
        {"record": {"when": "a"}},
        {"record": {"payload": "a"}},
        {"record": {"series": {"number": "a", "restart": "b"}}},
        {"record": {"dedupe": {"key": "a"}}},
        {"record": {"event_at": "a"}},
    ],
)
def test_all_that_is_read_of_a_message_is_reckoned(fields: dict[str, object]) -> None:
    assert bounds(one(**fields)).per_message_us > bounds(one()).per_message_us


def test_what_is_read_of_the_whole_message_is_not_reckoned_for_each_record() -> None:
    whole = bounds(one(record={"each": "d", "dedupe": {"key": "$.k[?a]"}}))
    entry = bounds(one(record={"each": "d", "dedupe": {"key": "k[?a]"}}))
    assert whole.per_record_us < entry.per_record_us
    assert whole.per_message_us > entry.per_message_us


def test_w37_thousands_of_records_of_many_fields_are_filtered_and_as_many_entries_as_take_long_are_not() -> None:
    """All that is in a record is one entry to a filter."""
    filtered = bounds(one(record={"each": "d[?type=='trade']"}))
    record = {f"field{index}": index for index in range(12)} | {"type": "trade"}
    assert not filtered.exceeded([json.loads(json.dumps({"d": [record] * 4_000}))])
    assert filtered.exceeded([{"d": [{}] * 40_000}])
    assert filtered.exceeded([{"d": [[0] * 20_000] * 2}])


def test_feeds_that_are_alike_share_their_bounds() -> None:
    assert compile_spec(one(rules=RULES)).bounds is compile_spec(one(rules=RULES)).bounds


def test_check_says_what_a_frame_may_hold_and_why_it_is_less() -> None:
    told = explain(one(unwrap="each", max_values=5_000, record={"each": "d"}))
    assert (
        "takes no frame apart that holds more than 5,000 values and names or 16,384 messages or 16,384 records:"
        " it is delivered as it came" in told
    )
    filtered = " ".join(explain(one(record={"when": "[?a=='x']"})))
    assert "some of its expressions look through whole messages" in filtered
    assert re.search("more than 131,072 values and names or [0-9,]+ entries of lists: it is delivered", filtered)
    written_out = " ".join(explain(one(rules=[{"message": "to_string(@)=='x'", "then": "fatal"}] * 20)))
    assert "some of its expressions look through whole messages" in written_out
    assert "131,072" not in written_out
    assert "look through" not in " ".join(told)
