"""The checks are checked: what each of them is there for is found, and nothing is found where all is well."""

from dataclasses import replace

import pytest

from streamlease.envelope import encode
from streamlease.feed.events import Gap, Record
from streamlease.model import Connection, DesiredState, LeaseMode, Member, MemberState, Position
from streamlease.timing import Instant, Timing
from tests.chaos.attempts import Told, What
from tests.chaos.checks import duplicates, violations
from tests.chaos.evidence import Evidence, Stop, read_sink
from tests.chaos.history import Batched, MemberWritten, Written
from tests.chaos.upstream import Visit, record_id

TIMING = Timing(heartbeat_ms=1_000, lease_ms=3_000)
START_MS = 1_800_000_000_000
FIRST, SECOND = 100, 200
"""Processes; `one` and `two` are their workers."""


def told(what: What, at_s: float, *, epoch: int, pid: int, number: int) -> Told:
    return Told(what, pid, "a", epoch, at_s, at_s, START_MS + round(at_s * 1_000), number, number)


def connection(owner: str | None, epoch: int, *, expires_s: float | None, sequence: int | None = None) -> Connection:
    return Connection(
        connection_id="a",
        desired_state=DesiredState.STARTED,
        upstream_url="ws://up.example",
        spec={},
        spec_version=1,
        lease_epoch=epoch,
        lease_owner=owner,
        lease_expires_at_ms=None if expires_s is None else START_MS + round(expires_s * 1_000),
        position=None if sequence is None else Position(sequence),
    )


def written(at_s: int, event: str, item: Connection) -> Written:
    return Written(START_MS // 1_000 + at_s, event, item)


def renewed(at_s: float, *, owner: str, epoch: int, number: int | None = None, sequence: int | None = None) -> Batched:
    at_ms = START_MS + round(at_s * 1_000)
    return Batched(Instant(at_s, at_ms), "RENEWED", "a", owner, epoch, at_ms + TIMING.lease_ms, number, sequence)


def member(at_s: int, worker_id: str, expires_s: float) -> MemberWritten:
    item = Member(
        worker_id=worker_id,
        state=MemberState.LIVE,
        heartbeat=at_s,
        lease_expires_at_ms=START_MS + round(expires_s * 1_000),
        generation=0,
        capacity=10,
        owned=1,
        started_at_ms=START_MS,
    )
    return MemberWritten(START_MS // 1_000 + at_s, item)


def line(number: int, epoch: int, *, named: str | None = None) -> bytes:
    record = Record(number, number, named or record_id("a", number), None, 0, {"seq": number})
    return encode("a", epoch, record) + b"\n"


def gap(epoch: int, after: int, to: int) -> bytes:
    return encode("a", epoch, Gap(0, after, to, "it was away")) + b"\n"


CALM = Evidence(
    mode=LeaseMode.CONNECTION,
    timing=TIMING,
    published={"a": 4},
    live=frozenset(),
    told=[
        told(What.BEGAN, 1.0, epoch=11, pid=FIRST, number=1),
        told(What.DURABLE, 1.1, epoch=11, pid=FIRST, number=1),
        told(What.BEGAN, 2.0, epoch=11, pid=FIRST, number=2),
        told(What.DURABLE, 2.1, epoch=11, pid=FIRST, number=2),
        told(What.BEGAN, 9.0, epoch=12, pid=SECOND, number=3),
        told(What.DURABLE, 9.1, epoch=12, pid=SECOND, number=3),
        told(What.BEGAN, 9.5, epoch=12, pid=SECOND, number=4),
        told(What.DURABLE, 9.6, epoch=12, pid=SECOND, number=4),
    ],
    workers={FIRST: frozenset({"one"}), SECOND: frozenset({"two"})},
    written=[
        written(0, "CONTROL", connection(None, 10, expires_s=0.0)),
        written(0, "CLAIMED", connection("one", 11, expires_s=3.0)),
        written(8, "CLAIMED", connection("two", 12, expires_s=11.5, sequence=2)),
    ],
    batched=[
        renewed(1.5, owner="one", epoch=11, number=1, sequence=1),
        renewed(2.5, owner="one", epoch=11, number=2, sequence=2),
        renewed(9.2, owner="two", epoch=12, number=1, sequence=3),
    ],
    members=[member(0, "one", 3.0), member(2, "one", 5.5), member(8, "two", 11.5)],
    visits=[Visit("a", 0.5, 6.0), Visit("a", 8.7)],
    stops=[],
    sink=read_sink(line(1, 11) + line(2, 11) + line(3, 12) + line(4, 12)),
)


def found(evidence: Evidence) -> set[str]:
    return {violation.what for violation in violations(evidence)}


@pytest.mark.parametrize("mode", list(LeaseMode))
def test_nothing_is_found_where_all_is_well(mode: LeaseMode) -> None:
    assert found(replace(CALM, mode=mode)) == set()


def test_a_delivery_that_begins_after_one_of_a_later_epoch_is_an_overlap() -> None:
    late = told(What.BEGAN, 9.3, epoch=11, pid=FIRST, number=3)
    assert "overlap" in found(replace(CALM, told=[*CALM.told, late]))


def test_a_delivery_that_may_have_begun_before_one_of_a_later_epoch_is_none() -> None:
    paused = replace(told(What.BEGAN, 5.0, epoch=11, pid=FIRST, number=3), until_s=20.0)
    assert found(replace(CALM, told=[*CALM.told, paused])) == set()


@pytest.mark.parametrize("mode", list(LeaseMode))
def test_a_delivery_past_the_deadline_of_the_last_renewal_is_found(mode: LeaseMode) -> None:
    in_time = told(What.BEGAN, 4.99, epoch=11, pid=FIRST, number=2)
    late = told(What.BEGAN, 5.02, epoch=11, pid=FIRST, number=2)
    assert found(replace(CALM, mode=mode, told=[*CALM.told, in_time])) == set()
    assert found(replace(CALM, mode=mode, told=[*CALM.told, late])) == {"after_deadline"}


def test_a_delivery_by_a_process_that_the_epoch_is_not_of_is_found() -> None:
    strange = told(What.BEGAN, 4.0, epoch=11, pid=SECOND, number=2)
    assert found(replace(CALM, told=[*CALM.told, strange])) == {"no_owner"}


def test_an_epoch_that_falls_or_has_two_owners_is_found() -> None:
    fallen = written(9, "CLAIMED", connection("two", 11, expires_s=12.0))
    assert {"epoch_fell", "two_owners"} <= found(replace(CALM, written=[*CALM.written, fallen]))


def test_an_epoch_that_rises_by_two_or_without_a_claim_is_found() -> None:
    jumped = written(20, "CLAIMED", connection("two", 14, expires_s=23.0))
    released = written(20, "RELEASED", connection(None, 13, expires_s=0.0))
    assert "epoch_jumped" in found(replace(CALM, written=[*CALM.written, jumped]))
    assert "epoch_jumped" in found(replace(CALM, written=[*CALM.written, released]))


def test_a_write_in_an_epoch_that_is_anothers_is_found() -> None:
    stale = renewed(9.3, owner="one", epoch=12)
    assert "stale_write" in found(replace(CALM, batched=[*CALM.batched, stale]))


def test_a_record_of_an_epoch_that_nobody_had_is_found() -> None:
    sink = read_sink(b"".join([line(1, 11), line(2, 11), line(3, 12), line(4, 13)]))
    assert "unknown_epoch" in found(replace(CALM, sink=sink))


def test_a_claim_before_the_lease_and_the_skew_have_run_out_is_found() -> None:
    early = written(6, "CLAIMED", connection("two", 12, expires_s=9.4, sequence=2))  # sent at 6.4; free at 6.5
    assert found(replace(CALM, written=[*CALM.written[:2], early])) == {"taken_early"}


def test_a_position_that_falls_is_found_within_an_epoch_and_from_one_to_the_next() -> None:
    within = renewed(9.4, owner="two", epoch=12, number=2, sequence=1)
    across = replace(CALM.written[2], connection=connection("two", 12, expires_s=11.5, sequence=1))
    assert found(replace(CALM, batched=[*CALM.batched, within])) == {"position_fell"}
    assert found(replace(CALM, written=[*CALM.written[:2], across])) == {"position_fell"}


def test_a_position_beyond_what_is_durable_by_then_is_found() -> None:
    ahead = renewed(9.05, owner="two", epoch=12, number=1, sequence=3)
    assert found(replace(CALM, batched=[*CALM.batched[:2], ahead])) == {"not_durable"}
    claimed = replace(CALM.written[2], connection=connection("two", 12, expires_s=11.5, sequence=3))
    assert "not_durable" in found(replace(CALM, written=[*CALM.written[:2], claimed]))


def test_a_record_that_is_not_in_the_sink_is_missing() -> None:
    sink = read_sink(line(1, 11) + line(3, 12) + line(4, 12))
    assert found(replace(CALM, sink=sink)) == {"missing"}


def test_a_record_that_only_comes_after_one_of_a_later_epoch_is_missing_for_a_reader_drops_it() -> None:
    sink = read_sink(line(1, 11) + line(3, 12) + line(4, 12) + line(2, 11))
    assert sink.stale == 1
    assert found(replace(CALM, sink=sink)) == {"missing"}


def test_a_record_that_a_live_feed_lacks_is_missing_unless_a_gap_tells_of_it() -> None:
    live = replace(CALM, live=frozenset({"a"}))
    untold = line(1, 11) + line(4, 12)
    assert found(replace(live, sink=read_sink(untold))) == {"missing"}
    assert found(replace(live, sink=read_sink(line(1, 11) + gap(12, 1, 4) + line(4, 12)))) == set()


def test_a_record_that_comes_again_counts_as_a_duplicate_and_one_with_another_id_as_strange() -> None:
    again = read_sink(line(1, 11) + line(2, 11) + line(2, 12) + line(3, 12) + line(4, 12))
    strange = read_sink(line(1, 11) + line(2, 11) + line(3, 12) + line(4, 12, named="a/5"))
    assert duplicates(replace(CALM, sink=again)) == 1
    assert found(replace(CALM, sink=again)) == set()
    assert "strange_record" in found(replace(CALM, sink=strange))


def test_a_socket_that_a_stopped_connection_keeps_or_opens_is_found() -> None:
    kept = Stop("a", 1.0, 7.0, 3.5, disturbed=False)
    assert found(replace(CALM, stops=[kept])) == {"open_stopped"}
    assert found(replace(CALM, stops=[replace(kept, disturbed=True)])) == set()
    assert found(replace(CALM, stops=[replace(kept, within_s=5.5)])) == set()
    assert found(replace(CALM, stops=[Stop("a", 1.0, 9.0, 5.5, disturbed=True)])) == {"opened_stopped"}
