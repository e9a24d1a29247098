from dataclasses import replace

import pytest

from streamlease_cli.local.evidence import (
    Delivery,
    Departure,
    Evidence,
    GapRecord,
    Happened,
    SinkRecords,
    WorkerEvent,
)
from streamlease_cli.local.relay import StoredEvent
from streamlease_cli.local.report import Limits, Report, Row, Seconds, as_json, report, unmet

LIMITS = Limits(kill_gap_s=15, drain_gap_p99_s=3)


def held(connection_id: str, epoch: int, worker_id: str, claimed_ms: int, ready_ms: int) -> list[WorkerEvent]:
    return [
        WorkerEvent(Happened.CLAIMED, connection_id, epoch, worker_id, claimed_ms),
        WorkerEvent(Happened.READY, connection_id, epoch, worker_id, ready_ms),
    ]


def given_up(connection_id: str, epoch: int, worker_id: str, closed_ms: int, released_ms: int) -> list[WorkerEvent]:
    return [
        WorkerEvent(Happened.CLOSED, connection_id, epoch, worker_id, closed_ms),
        WorkerEvent(Happened.RELEASED, connection_id, epoch, worker_id, released_ms),
    ]


# a: killed at 10,000, back at 19,500. b: drained at 20,000 (closed at 20,100), back at 20,800. c: never moved.
EVENTS = (
    *held("a", 1, "w1", 1_000, 1_200),
    *held("a", 2, "w2", 19_200, 19_500),
    *held("b", 1, "w2", 1_000, 1_300),
    *given_up("b", 1, "w2", 20_100, 20_200),
    *held("b", 2, "w4", 20_300, 20_800),
    *held("c", 1, "w3", 1_000, 1_100),
    *given_up("a", 2, "w2", 20_150, 20_250),
    *held("a", 3, "w3", 20_400, 20_450),
)
STORED = tuple(StoredEvent(f"{author}{number}", author, number) for author in ("A", "B", "C") for number in (1, 2))


def delivered(*records: tuple[str, int, str | None]) -> SinkRecords:
    return SinkRecords(tuple(Delivery(*record) for record in records), (), 0)


EVERYTHING = (("a", 1, "A1"), ("a", 2, "A2"), ("b", 1, "B1"), ("b", 2, "B2"), ("c", 1, "C1"), ("c", 1, "C2"))
EVIDENCE = Evidence(
    workers=3,
    feeds={"a": "A", "b": "B", "c": "C"},
    stored=STORED,
    sink=delivered(*EVERYTHING),
    events=EVENTS,
    killed=Departure("w1", 10_000),
    drained=Departure("w2", 20_000),
)


def row(result: Report, connection_id: str) -> Row:
    return next(row for row in result.rows if row.connection_id == connection_id)


def test_a_run_that_keeps_to_everything_has_nothing_unmet() -> None:
    result = report(EVIDENCE)
    assert unmet(result, LIMITS) == []
    assert (result.published, result.delivered, result.missing, result.duplicates, result.overlaps) == (6, 6, 0, 0, 0)
    assert (result.connections, result.workers, result.most_moves) == (3, 3, 2)


def test_a_kills_gap_runs_from_the_kill_to_the_new_sockets_readiness() -> None:
    result = report(EVIDENCE)
    assert result.kill.affected == 1
    assert result.kill.gap_seconds == Seconds(9.5, 9.5, 9.5)
    assert row(result, "a").kill_gap_seconds == 9.5
    assert row(result, "b").kill_gap_seconds is None


def test_a_drains_gap_runs_from_the_old_sockets_close() -> None:
    result = report(EVIDENCE)
    assert result.drain.affected == 2
    assert row(result, "b").drain_gap_seconds == pytest.approx(0.7)
    assert row(result, "a").drain_gap_seconds == pytest.approx(0.3)
    assert row(result, "c").drain_gap_seconds is None


def test_what_a_worker_released_before_it_went_was_not_affected_by_its_going() -> None:
    moved_before = (
        *held("d", 1, "w1", 1_000, 1_100),
        *given_up("d", 1, "w1", 5_000, 5_100),
        *held("d", 2, "w3", 5_200, 5_300),
    )
    evidence = replace(EVIDENCE, events=EVENTS + moved_before, feeds={**EVIDENCE.feeds, "d": "D"})
    result = report(evidence)
    assert result.kill.affected == 1
    assert row(result, "d").owners == ("w1", "w3")


def test_what_a_worker_had_released_but_nobody_taken_yet_was_not_its_own() -> None:
    free = (
        *held("d", 1, "w1", 1_000, 1_100),
        *given_up("d", 1, "w1", 9_800, 9_900),
        *held("d", 2, "w3", 10_100, 10_200),
    )
    assert report(replace(EVIDENCE, events=EVENTS + free)).kill.affected == 1


def test_a_connection_that_never_streams_again_is_unrecovered() -> None:
    events = tuple(event for event in EVENTS if (event.connection_id, event.epoch) not in {("a", 2), ("a", 3)})
    result = report(replace(EVIDENCE, events=events))
    assert (result.kill.affected, result.kill.unrecovered) == (1, 1)
    assert result.kill.gap_seconds == Seconds(None, None, None)
    assert unmet(result, LIMITS) == ["1 of 1 connections did not stream again after the kill, as far as the logs show"]


def test_a_claim_without_readiness_ends_no_gap() -> None:
    events = tuple(event for event in EVENTS if event not in held("a", 2, "w2", 19_200, 19_500)[1:])
    assert row(report(replace(EVIDENCE, events=events)), "a").kill_gap_seconds == pytest.approx(10.45)


def test_a_drain_whose_close_nobody_saw_is_unrecovered_rather_than_guessed() -> None:
    events = tuple(event for event in EVENTS if event.happened is not Happened.CLOSED)
    assert report(replace(EVIDENCE, events=events)).drain.unrecovered == 2


def test_missing_is_what_the_relay_has_and_the_sink_has_not() -> None:
    result = report(replace(EVIDENCE, sink=delivered(*EVERYTHING[:-1])))
    assert (result.missing, row(result, "c").missing, row(result, "a").missing) == (1, 1, 0)
    assert "1 of 6 records are missing at the sink" in unmet(result, LIMITS)


def test_another_connections_delivery_is_no_delivery() -> None:
    result = report(replace(EVIDENCE, sink=delivered(*EVERYTHING[:-1], ("a", 2, "C2"))))
    assert (result.missing, result.unexplained) == (1, 1)


def test_a_duplicate_is_the_same_connection_and_record_again() -> None:
    result = report(replace(EVIDENCE, sink=delivered(*EVERYTHING, ("c", 1, "C2"), ("c", 1, "C2"))))
    assert (result.duplicates, row(result, "c").duplicates, result.delivered) == (2, 2, 6)
    assert unmet(result, LIMITS) == []


def test_an_older_epochs_delivery_after_a_newer_ones_is_an_overlap() -> None:
    interleaved = delivered(("a", 1, "A1"), ("a", 2, "A2"), ("a", 1, "A1"), ("a", 2, "A2"), *EVERYTHING[2:])
    result = report(replace(EVIDENCE, sink=interleaved))
    assert (result.overlaps, row(result, "a").overlaps) == (1, 1)
    assert unmet(result, LIMITS) == ["1 records were delivered by an older epoch after a newer one"]


def test_a_record_without_the_upstreams_id_or_unknown_to_it_proves_nothing() -> None:
    result = report(replace(EVIDENCE, sink=delivered(*EVERYTHING, ("a", 2, None), ("a", 2, "never stored"))))
    assert result.unexplained == 2
    assert len(unmet(result, LIMITS)) == 1


def test_a_gap_record_of_an_upstream_that_can_resume_is_a_failure() -> None:
    sink = replace(EVIDENCE.sink, gaps=(GapRecord("a", 2, "unknown"),))
    assert unmet(report(replace(EVIDENCE, sink=sink)), LIMITS) == ["1 gap records, though the upstream can resume"]


def test_gaps_over_their_limits_are_named_with_both_numbers() -> None:
    assert unmet(report(EVIDENCE), Limits(kill_gap_s=9.4, drain_gap_p99_s=0.5)) == [
        "the kill's longest gap is 9.50 s, over 9.4 s",
        "the drain's p99 gap is 0.70 s, over 0.5 s",
    ]


def test_a_run_in_which_nothing_happened_shows_nothing() -> None:
    evidence = Evidence(3, {}, (), delivered(), (), Departure("w1", 1), Departure("w2", 2))
    assert unmet(report(evidence), LIMITS) == [
        "the kill affected no connection, so it shows nothing",
        "the drain affected no connection, so it shows nothing",
        "nothing was published, so nothing shows",
    ]


def test_percentiles_are_gaps_that_were_seen() -> None:
    events = tuple(
        event
        for number in range(100)
        for event in (*held(f"k{number}", 1, "w1", 0, 1), *held(f"k{number}", 2, "w2", 10_001, 10_010 + 10 * number))
    )
    gaps = report(replace(EVIDENCE, events=events)).kill.gap_seconds
    assert gaps == Seconds(p50=0.5, p99=0.99, max=1.0)


def test_the_report_file_has_the_keys_that_were_agreed() -> None:
    content = as_json(report(EVIDENCE))
    assert list(content)[:7] == ["connections", "workers", "kill", "drain", "records", "moves", "overlaps"]
    assert isinstance(content["kill"], dict)
    assert content["kill"]["gap_seconds"] == {"p50": 9.5, "p99": 9.5, "max": 9.5}
    assert isinstance(content["records"], dict)
    assert list(content["records"])[:4] == ["published", "delivered", "missing", "duplicates"]
    assert content["moves"] == {"max_per_connection": 2}
    assert isinstance(content["per_connection"], list)
    assert content["per_connection"][0]["owners"] == ["w1", "w2", "w3"]
