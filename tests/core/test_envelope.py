"""Envelopes are one line, valid by the published schema, and come back as they went."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from streamlease.envelope import Envelope, decode, encode
from streamlease.errors import Malformed
from streamlease.feed.decoding import json_value
from streamlease.feed.events import Gap, Record
from streamlease.write import Value

SCHEMA = Draft202012Validator(json.loads((Path(__file__).parents[2] / "docs/envelope.schema.json").read_text("utf-8")))
WALL_MS = 1_764_000_000_000

words = st.text(st.characters(), min_size=1, max_size=20)
sequences = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words)
payloads: st.SearchStrategy[Value | bytes] = st.one_of(
    st.binary(max_size=20),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
        max_leaves=12,
    ),
)
times = st.integers(0, 2**53)
records = st.builds(
    Record, st.just(0), sequences, st.one_of(st.none(), words), st.one_of(st.none(), times), times, payloads
)
gaps = st.builds(Gap, st.just(0), sequences, sequences, words)


@given(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.integers(0, 2**50), st.one_of(records, gaps))
def test_what_is_encoded_is_one_line_fits_the_schema_and_comes_back(
    connection_id: str, epoch: int, delivery: Record | Gap
) -> None:
    line = encode(connection_id, epoch, delivery)
    assert b"\n" not in line
    assert b"\r" not in line
    SCHEMA.validate(json.loads(line))
    assert decode(line) == Envelope(connection_id, epoch, delivery)


def test_what_is_unknown_is_absent() -> None:
    assert encode("c", 7, Record(1, None, None, None, WALL_MS, None)) == (
        b'{"v":1,"connection_id":"c","epoch":7,"received_at_ms":1764000000000,"payload":null}'
    )
    assert encode("c", 7, Gap(1, None, None, "why")) == (
        b'{"v":1,"type":"gap","connection_id":"c","epoch":7,"reason":"why"}'
    )


def test_text_is_a_string_and_binary_is_base64_and_says_so() -> None:
    assert json.loads(encode("c", 7, Record(1, 1, "1", 2, 3, "héllo")))["payload"] == "héllo"
    binary = json.loads(encode("c", 7, Record(1, 1, "1", 2, 3, b"\x00\xff")))
    assert (binary["encoding"], binary["payload"]) == ("base64", "AP8=")


def test_what_json_can_say_and_python_or_utf8_cannot_is_encoded_all_the_same() -> None:
    payload = json_value('{"big": [1e999, -1e999, 12345678901234567890123], "half": "\\ud800", "ok": 1.5}')
    line = encode("c", 7, Record(1, None, None, None, WALL_MS, payload))
    largest = 1.7976931348623157e308
    expected = {"big": [largest, -largest, 12345678901234567890123], "half": "\ud800", "ok": 1.5}
    assert json.loads(line)["payload"] == expected


@pytest.mark.parametrize("beside", ["", "\ud800"])
def test_a_number_that_json_does_not_have_is_null(beside: str) -> None:
    line = encode("c", 7, Record(1, None, None, None, WALL_MS, [float("nan"), {"a": float("-inf")}, beside]))
    assert json.loads(line)["payload"] == [None, {"a": None}, beside]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b"", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "v 1"),
        (b'{"v": 2}', "v 1"),
        (b'{"v": 1, "epoch": 1}', "connection_id"),
        (b'{"v": 1, "connection_id": "c", "epoch": "1"}', "epoch"),
        (b'{"v": 1, "connection_id": "c", "epoch": true}', "epoch"),
        (b'{"v": 1, "connection_id": "c", "epoch": 1}', "payload"),
        (b'{"v": 1, "connection_id": "c", "epoch": 1, "payload": 1}', "received_at_ms"),
        (b'{"v": 1, "connection_id": "c", "epoch": 1, "payload": 1, "received_at_ms": 1, "sequence": []}', "sequence"),
        (b'{"v": 1, "connection_id": "c", "epoch": 1, "payload": 1, "received_at_ms": 1, "encoding": "x"}', "encoding"),
        (
            b'{"v": 1, "connection_id": "c", "epoch": 1, "payload": "!", "received_at_ms": 1, "encoding": "base64"}',
            "base64",
        ),
        (b'{"v": 1, "connection_id": "c", "epoch": 1, "type": "note"}', "note"),
        (b'{"v": 1, "connection_id": "c", "epoch": 1, "type": "gap"}', "reason"),
    ],
)
def test_what_is_no_envelope_is_said_to_be_none(line: bytes, names: str) -> None:
    with pytest.raises(Malformed, match=names):
        decode(line)


def test_fields_of_a_later_release_are_passed_over() -> None:
    line = b'{"v":1,"connection_id":"c","epoch":1,"received_at_ms":3,"payload":0,"trace":"x"}'
    assert decode(line).delivery == Record(0, None, None, None, 3, 0)
    SCHEMA.validate(json.loads(line))
