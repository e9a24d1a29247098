"""When a worker is to go by itself: it gets nowhere, and its peers do."""

from dataclasses import replace

import pytest

from streamlease.model import Member
from streamlease_worker.progress import AGAIN_S, FAULTS, LATELY_S, STUCK_S, UNFIT_S, Progress
from tests.worker.supervising import WORKER, member

type Fleet = tuple[Member, ...]


def one(name: str, owned: int, streaming: int) -> Member:
    return replace(member(name, owned=owned), load={"streaming": streaming})


PEERS = (one("b", 10, 9), one("c", 10, 10))


def watched(me: Member, peers: Fleet, *, faults: int = 0, seconds: float = STUCK_S) -> str | None:
    progress = Progress(WORKER)
    for number in range(faults):
        progress.claimed(fault=True, now_s=number * seconds / faults)
    progress.swept((me, *peers), 0.0)
    return progress.swept((me, *peers), seconds)


def test_a_worker_that_streams_nothing_while_its_peers_do_is_to_go() -> None:
    assert watched(one(WORKER, 5, 0), PEERS) == "none of its 5 connections has streamed for 90 s, and its peers' do"
    assert watched(one(WORKER, 5, 0), PEERS, seconds=STUCK_S - 1) is None


@pytest.mark.parametrize(
    ("me", "peers"),
    [
        (one(WORKER, 5, 1), PEERS),
        (one(WORKER, 0, 0), PEERS),
        (one(WORKER, 5, 0), ()),
        (one(WORKER, 5, 0), (one("b", 10, 0),)),
        (one(WORKER, 5, 0), (one("b", 10, 4),)),
        (one(WORKER, 5, 0), (one("b", 0, 0),)),
        (one("another id", 5, 0), PEERS),
        (replace(one(WORKER, 5, 0), load={"streaming": "none"}), (replace(one("b", 9, 9), load={}),)),
    ],
    ids=["some", "idle", "alone", "upstream down", "mostly down", "idle peers", "not listed", "unreadable"],
)
def test_a_worker_stays_where_it_would_be_no_better_elsewhere(me: Member, peers: Fleet) -> None:
    assert watched(me, peers) is None


def test_one_that_streamed_meanwhile_stays() -> None:
    progress = Progress(WORKER)
    progress.swept((one(WORKER, 5, 0), *PEERS), 0.0)
    progress.swept((one(WORKER, 5, 1), *PEERS), STUCK_S / 2)
    assert progress.swept((one(WORKER, 5, 0), *PEERS), STUCK_S) is None


def test_a_worker_whose_claims_have_no_answer_is_to_go() -> None:
    assert watched(one(WORKER, 0, 0), PEERS, faults=FAULTS) is not None
    assert watched(one(WORKER, 0, 0), PEERS, faults=FAULTS - 1) is None
    assert watched(one(WORKER, 0, 0), (one("b", 10, 0),), faults=FAULTS) is None


def test_a_worker_that_can_read_or_claim_nothing_takes_itself_out_of_the_shares() -> None:
    progress = Progress(WORKER)
    for _ in range(FAULTS):
        progress.looked(fault=True, now_s=0.0)
    assert progress.unfit(UNFIT_S - 1) is None
    assert progress.unfit(UNFIT_S) == "it cannot read the tables"
    progress.looked(fault=False, now_s=UNFIT_S)
    assert progress.unfit(2 * UNFIT_S) is None
    for _ in range(FAULTS):
        progress.claimed(fault=True, now_s=0.0)
    assert progress.unfit(UNFIT_S) == "its claims have no answer"


def test_what_had_no_answer_long_ago_says_nothing_of_now() -> None:
    """A worker that takes itself out of the shares claims nothing, so that no later answer would show it well."""
    progress = Progress(WORKER)
    for _ in range(FAULTS):
        progress.claimed(fault=True, now_s=0.0)
    assert progress.unfit(LATELY_S) is not None
    assert progress.unfit(LATELY_S + 1) is None
    assert progress.swept((one(WORKER, 0, 0), *PEERS), STUCK_S) is None
    progress.claimed(fault=True, now_s=STUCK_S)
    assert progress.unfit(STUCK_S) is None
    assert progress.swept((one(WORKER, 0, 0), *PEERS), STUCK_S) is None


def _fails(progress: Progress, from_s: float) -> None:
    for number in range(FAULTS):
        progress.claimed(fault=True, now_s=from_s + number * UNFIT_S / (FAULTS - 1))


def test_a_worker_whose_claims_fail_each_time_that_it_has_a_share_again_is_to_go() -> None:
    progress = Progress(WORKER)
    _fails(progress, 0.0)
    assert progress.swept((one(WORKER, 0, 0), *PEERS), STUCK_S) is None, "it may have been a moment's fault"
    progress.claimed(fault=True, now_s=200.0)
    assert progress.swept((one(WORKER, 0, 0), *PEERS), 201.0) is None, "and this one another's"
    _fails(progress, 201.0)
    assert progress.swept((one(WORKER, 0, 0), *PEERS), 300.0) is not None


def test_what_failed_an_hour_ago_or_before_an_answer_has_nothing_to_do_with_it() -> None:
    progress = Progress(WORKER)
    _fails(progress, 0.0)
    _fails(progress, 3_600.0)
    assert progress.swept((one(WORKER, 0, 0), *PEERS), 3_650.0) is None
    progress.claimed(fault=False, now_s=3_700.0)
    _fails(progress, 3_800.0)
    assert progress.swept((one(WORKER, 0, 0), *PEERS), 3_850.0) is None
    _fails(progress, 3_900.0)
    assert progress.swept((one(WORKER, 0, 0), *PEERS), 3_911.0 + AGAIN_S) is None, "it has long asked for nothing"


def test_one_answer_shows_that_it_gets_on() -> None:
    progress = Progress(WORKER)
    for _ in range(FAULTS):
        progress.claimed(fault=True, now_s=0.0)
    progress.claimed(fault=False, now_s=1.0)
    assert progress.swept((one(WORKER, 0, 0), *PEERS), STUCK_S) is None
