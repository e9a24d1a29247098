import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.errors import Malformed
from streamlease_cli.local.evidence import Delivery, GapRecord, Happened, WorkerEvent, read_log, read_sink


def envelope(connection_id: str = "a", epoch: int = 1, **more: object) -> str:
    return json.dumps({"v": 1, "connection_id": connection_id, "epoch": epoch, **more})


@given(
    st.lists(st.tuples(st.text(), st.integers(1, 9), st.none() | st.text())),
    st.sampled_from([(",", ":"), (", ", ": ")]),
)
def test_every_record_is_read_in_the_order_it_was_written(
    records: list[tuple[str, int, str | None]], separators: tuple[str, str]
) -> None:
    lines = [
        json.dumps({"v": 1, "connection_id": connection, "epoch": epoch, "record_id": record}, separators=separators)
        for connection, epoch, record in records
    ]
    assert read_sink(lines).deliveries == tuple(Delivery(*record) for record in records)


@given(st.integers(1, 40))
def test_a_line_that_a_killed_worker_did_not_end_costs_the_next_writer_nothing(length: int) -> None:
    torn = envelope(record_id="torn", payload='{"v": 1}')[:length]
    found = read_sink([torn + envelope("b", 2, record_id="whole") + "\n", envelope(record_id="after") + "\n", torn])
    assert [delivery.record_id for delivery in found.deliveries] == ["whole", "after"]
    assert found.torn == 2


def test_a_record_without_an_id_is_kept_as_such() -> None:
    assert read_sink([envelope()]).deliveries == (Delivery("a", 1, None),)


def test_gap_records_are_told_apart() -> None:
    found = read_sink([envelope(type="gap", reason="instance changed"), "\n"])
    assert found.gaps == (GapRecord("a", 1, "instance changed"),)
    assert found.deliveries == ()


def test_an_envelope_without_its_epoch_is_named_by_its_line() -> None:
    with pytest.raises(Malformed, match="line 2 of the sink: has no epoch"):
        read_sink([envelope(), '{"v": 1, "connection_id": "a"}'])


def test_a_log_gives_its_events_and_nothing_else() -> None:
    said = {"event": "ready", "connection_id": "a", "epoch": 3, "worker_id": "w", "at_ms": 5, "level": "INFO"}
    lines = ["a traceback", "{not json", '{"event": "started"}', '["ready"]', json.dumps(said), json.dumps(said)[:20]]
    unread: list[str] = []
    assert list(read_log(lines, unread.append)) == [WorkerEvent(Happened.READY, "a", 3, "w", 5)]
    assert unread == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('{"event": "ready", "connection_id": "a", "epoch": 3, "worker_id": "w"}', ["at_ms"]),
        ('{"event": "ready", "connection_id": ["a"], "epoch": 3, "worker_id": "w", "at_ms": 5}', ["connection_id"]),
        ('{"event": "ready", "connection_id": "a", "epoch": "3", "worker_id": "w", "at_ms": 5}', ["epoch"]),
        ('{"event": ["ready"]}', []),
        ('{"event": {}}', []),
        ('{"event": 1}', []),
        ("{" * 9_000, []),
        ('{"a":' * 90_000, []),
    ],
)
def test_an_event_that_lacks_a_part_is_passed_over_and_told_of(line: str, wrong: list[str]) -> None:
    whole = '{"event": "ready", "connection_id": "b", "epoch": 1, "worker_id": "w", "at_ms": 5}'
    unread: list[str] = []
    assert list(read_log([line, whole], unread.append)) == [WorkerEvent(Happened.READY, "b", 1, "w", 5)]
    assert unread == [f"an event 'ready' without a readable {part}" for part in wrong]
