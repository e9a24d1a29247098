"""Envelopes out of what they travel in."""

import base64
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.consume import unpack
from streamlease.errors import Malformed
from tests.core.consume.envelopes import data, gap, kinesis_event, record, sqs_event
from tests.core.strategies import JSON

ONE, TWO, HOLE = record("c", 1, "1", "é\n"), record("d", 2, None, "two"), gap("c", 2)


def test_newline_delimited_envelopes_come_in_their_order_and_gaps_as_gaps() -> None:
    assert unpack.lines(data([ONE, HOLE, TWO])).envelopes == (ONE, HOLE, TWO)
    assert unpack.lines(data([ONE, HOLE, TWO]).decode()).envelopes == (ONE, HOLE, TWO)


def test_empty_lines_are_passed_over_and_the_last_needs_no_newline() -> None:
    found = unpack.lines(b"\n\r\n" + data([ONE]) + b" \n" + data([TWO]).rstrip())
    assert (found.envelopes, found.malformed) == ((ONE, TWO), ())


def test_a_line_that_cannot_be_read_hides_no_other_and_is_told_by_its_place_without_its_content() -> None:
    found = unpack.lines(data([ONE]) + b'{"v":9,"secret":1}\n\xff\n' + data([TWO]), "message 7")
    assert found.envelopes == (ONE, TWO)
    assert [problem.where for problem in found.malformed] == ["message 7, line 2", "message 7, line 3"]
    assert "later version" in found.malformed[0].problem
    assert not any("secret" in str(problem) for problem in found.malformed)


def test_a_kinesis_record_is_bytes_or_the_base64_of_a_lambda_event() -> None:
    assert unpack.kinesis(data([ONE])).envelopes == (ONE,)
    assert unpack.kinesis(base64.b64encode(data([ONE])).decode()).envelopes == (ONE,)
    assert unpack.kinesis("no base64!", "9").malformed[0].where == "Kinesis record 9"
    assert unpack.kinesis("ü").malformed


def test_a_kinesis_event_is_unpacked_record_by_record() -> None:
    first, second = unpack.lambda_event(kinesis_event([[ONE, HOLE], [TWO]]))
    assert (first.item_id, first.envelopes) == ("1", (ONE, HOLE))
    assert (second.item_id, second.envelopes) == ("2", (TWO,))
    assert unpack.connection_ids([first, second]) == {"c", "d"}


def test_an_sqs_event_is_unpacked_message_by_message() -> None:
    first, second = unpack.lambda_event(sqs_event([[ONE, TWO], b"nonsense"]))
    assert (first.item_id, first.envelopes) == ("1", (ONE, TWO))
    assert (second.item_id, second.envelopes) == ("2", ())
    assert [problem.where for problem in second.malformed] == ["SQS message 2, line 1"]


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({}, "Records"),
        ({"Records": "text"}, "Records"),
        ({"Records": [7]}, "event record 0: it is not a map"),
        ({"Records": [{"eventSource": "aws:s3"}]}, "'aws:s3'; it must be aws:kinesis or aws:sqs"),
        ({"Records": [{"eventSource": "aws:kinesis"}]}, "no kinesis part"),
        ({"Records": [{"eventSource": "aws:kinesis", "kinesis": {"data": ""}}]}, "sequenceNumber"),
        ({"Records": [{"eventSource": "aws:sqs", "messageId": "1"}]}, "body"),
    ],
)
def test_an_event_of_another_kind_is_refused_with_a_sentence(event: dict[str, Any], why: str) -> None:
    with pytest.raises(Malformed, match=why):
        unpack.lambda_event(event)


@given(st.binary(max_size=80), st.text(max_size=40), st.dictionaries(st.sampled_from(["Records", "x"]), JSON))
def test_nothing_that_arrives_raises_but_malformed(raw: bytes, text: str, event: dict[str, Any]) -> None:
    unpack.lines(raw)
    unpack.kinesis(raw)
    unpack.kinesis(text)
    unpack.lines(text)
    with contextlib.suppress(Malformed):
        unpack.lambda_event(event)


def test_of_a_file_that_is_being_written_only_whole_lines_are_taken() -> None:
    written = data([ONE, TWO])
    for length in range(len(written) + 1):
        found, taken = unpack.whole_lines(written[:length])
        rest, rest_taken = unpack.whole_lines(written[taken:])
        assert (*found.envelopes, *rest.envelopes) == (ONE, TWO)
        assert taken + rest_taken == len(written)
        assert not found.malformed
        assert not rest.malformed
