"""What a spec says of records and acknowledgements: what it compiles to, and what does not fit together."""

from typing import Any

import pytest
from pydantic import ValidationError

from streamlease.feed.shape import Acks, RecordShape
from streamlease.spec.compile import compile_spec
from streamlease.spec.explain import explain
from streamlease.spec.model import ConnectionSpec
from streamlease.spec.problems import sentences

MESSAGE: Any = {"seq": 7, "data": [{"id": 1, "s": "A", "at": "2021-02-10T23:33:20.5Z"}]}
ENTRY = MESSAGE["data"][0]


def spec(**fields: Any) -> ConnectionSpec:
    return ConnectionSpec.model_validate({"id": "x", "url": "wss://a.test/", **fields})


def shape(**record: Any) -> RecordShape:
    return compile_spec(spec(record=record)).record


def problems(**fields: Any) -> list[str]:
    with pytest.raises(ValidationError) as raised:
        spec(**fields)
    return sentences(raised.value)


def test_a_path_that_begins_with_a_dollar_is_read_from_the_message_and_all_else_from_the_entry() -> None:
    made = shape(each="data", sequence="$.seq", id="[s, id]", payload="$", event_at="at", event_at_unit="iso")
    assert made.of_message == {"sequence", "payload"}
    assert made.each is not None
    assert made.each(MESSAGE) == [ENTRY]
    assert made.sequence is not None
    assert made.sequence(MESSAGE) == 7
    assert made.record_id is not None
    assert made.record_id(ENTRY) == ["A", 1]
    assert made.payload is not None
    assert made.payload(MESSAGE) == MESSAGE
    assert made.event_at is not None
    assert made.event_at(ENTRY) == 1_613_000_000_500


def test_without_a_list_a_dollar_changes_nothing() -> None:
    assert shape(payload="$.data[0]").of_message == frozenset()


def test_a_series_follows_the_sequence_unless_it_names_a_number() -> None:
    by_sequence = shape(each="data", sequence="$.seq", series={}).series
    assert by_sequence is not None
    assert by_sequence.number(MESSAGE) == 7
    assert "number" in shape(each="data", sequence="$.seq", series={}).of_message
    assert not by_sequence.of_messages
    by_number = shape(each="data", series={"number": "id", "key": "$.seq", "keys": 3}).series
    assert by_number is not None
    by_message = shape(series={"number": "id", "of": "messages"}).series
    assert by_message is not None
    assert by_message.of_messages
    assert (by_number.number(ENTRY), by_number.most_keys) == (1, 3)


def test_an_acknowledgement_is_a_template_and_what_to_put_into_it() -> None:
    acks = compile_spec(spec(ack={"send": {"id": "{id}", "by": "{connection_id}"}, "capture": {"id": "e.id"}})).acks
    assert isinstance(acks, Acks)
    assert acks.message == {"id": "{id}", "by": "x"}
    assert acks.capture["id"]({"e": {"id": 5}}) == 5
    assert (acks.on, acks.gather) == ("durable", "each")


def test_a_spec_keeps_its_unwrapping_as_written_and_compiles_it() -> None:
    made = spec(unwrap=[{"json": "data"}, "each"])
    assert made.stored()["unwrap"] == [{"json": "data"}, "each"]
    assert compile_spec(made).decode('[{"data":"1"},2]') == [{"data": "1"}, 2]
    assert compile_spec(spec()).decode("1") == (1,)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"record": {"sequence": "$seq"}}, 'stands in double quotes: "$seq"'),
        ({"record": {"id": "a["}}, "record.id is not a JMESPath expression"),
        ({"record": {"series": {}}}, "record.series needs a number to follow"),
        ({"record": {"sequence": "s", "contiguous": True, "series": {}}}, "say the same: keep one"),
        ({"record": {"series": {"number": "n", "first": "a", "previous": "b"}}}, "first and previous"),
        (
            {"record": {"series": {"number": "n", "of": "all"}}},
            "record.series.of is 'all'; it must be records or messages",
        ),
        ({"record": {"series": {"number": "n", "keys": 9}}}, "keys says nothing without record.series.key"),
        ({"record": {"series": {"number": "n", "key": "k", "keys": 900_000}}}, "record.series.keys is over 100000"),
        ({"record": {"dedupe": {}}}, "record.dedupe needs a key"),
        ({"record": {"id": "a", "dedupe": {"most": 900_000}}}, "record.dedupe.most is over 100000"),
        ({"unwrap": "brotli"}, "unwrap has 'brotli' as step 1; known are gzip"),
        ({"ack": {"send": "x"}}, "ack.capture is missing"),
        ({"ack": {"send": "x", "capture": {}}}, "ack.capture is empty"),
        ({"ack": {"send": "x", "capture": {"id": "a"}}}, "ack.send does not say {id}"),
        ({"ack": {"send": "{id}{other}", "capture": {"id": "a"}}}, "ack.send has {other}, which nothing fills in"),
        ({"ack": {"send": "{sequence}", "capture": {"sequence": "a"}}}, "ack.capture has 'sequence'; a name is"),
        ({"resume": {"floor": "a"}}, "resume.floor needs a cursor"),
        (
            {
                "record": {"sequence": "s", "type": "string"},
                "resume": {"query": {"c": "{sequence}"}, "rewind_elsewhere": 1},
            },
            "resume.rewind_elsewhere needs record.type number",
        ),
    ],
)
def test_what_does_not_fit_together_is_said_with_what_would(fields: dict[str, Any], sentence: str) -> None:
    said = problems(**fields)
    assert any(sentence in line for line in said), said


def test_an_id_of_several_paths_may_be_a_list_as_yaml_reads_it() -> None:
    for given, means in ((["s", "data.id"], "[s, data.id]"), (["$.s", "$.id"], "$.[s, id]"), ("[s, id]", "[s, id]")):
        record = spec(record={"each": "data", "id": given, "dedupe": {"key": given}}).record
        assert record.id == means
        assert record.dedupe is not None
        assert record.dedupe.key == means
    shape = compile_spec(spec(record={"id": ["s", "id"]})).record
    assert shape.record_id is not None
    assert shape.record_id({"s": "x", "id": 7}) == ["x", 7]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "record.id must be a JMESPath expression, or a list of them"),
        (["s", 7], "record.id must be a JMESPath expression, or a list of them"),
        (["$.s", "id"], "record.id has paths that begin with $ and others"),
        (["s", "["], "record.id is not a JMESPath expression"),
    ],
)
def test_a_list_that_is_no_id_is_said(given: object, sentence: str) -> None:
    assert any(sentence in line for line in problems(record={"id": given}))


def test_the_plan_says_in_words_what_becomes_of_messages() -> None:
    lines = explain(
        spec(
            unwrap=["gzip", {"json": "data"}, {"at": "b", "as": ["base64", "zstd"]}, {"each": "m"}, "each"],
            record={
                "each": "data",
                "sequence": "$.seq",
                "unique": True,
                "series": {"number": "id", "key": "s"},
                "dedupe": {"key": "[s, id]", "within": "5m"},
            },
            ack={"send": "{id}", "capture": {"id": "envelope_id"}},
        )
    )
    assert (
        "unwraps each message: gzip, then JSON in data, then base64, zstd in b, then each entry of m is a message"
        in (line.partition(", then each entry of a list")[0] for line in lines)
    )
    assert "takes the entries of data in every message for records and delivers each to the sink default" in lines
    assert "tells records apart by their sequence and their place in the message" in lines
    assert "leaves a gap record where id for each s, of up to 1000 no longer rises by one" in lines
    assert "drops what has the same [s, id] as one of the last 10000 records within 5m" in lines
    durable = "once all that came of them is in the sink"
    assert f"acknowledges messages that have envelope_id to the upstream, {durable}" in lines


def test_the_plan_says_who_translates_and_warns_where_that_one_is_missing() -> None:
    assert "has its messages made by the adapter socketio" in explain(spec(adapter="socketio"))
    assert any(line.startswith("warning: the adapter odd is not installed") for line in explain(spec(adapter="odd")))
