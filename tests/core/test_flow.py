"""How a procedure is carried out: one request after the other, faults thrown where they happened."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import flow
from streamlease.errors import Denied, Fault, Throttled, Unreachable
from streamlease.flow import Batch, Flow, Now, Request, SendOffers, run
from streamlease.model import Offer
from streamlease.timing import Instant
from streamlease.write import Read, Table


def offers(count: int) -> tuple[Offer, ...]:
    return tuple(Offer(f"c{number}", "expired", number) for number in range(count))


@given(st.lists(st.integers(), max_size=60), st.integers(1, 30))
def test_chunks_hold_everything_in_order(values: list[int], size: int) -> None:
    groups = list(flow.chunks(values, size))
    assert [value for group in groups for value in group] == values
    assert all(len(group) == size for group in groups[:-1])
    assert all(0 < len(group) <= size for group in groups)


@given(st.integers(0, 450), st.sets(st.integers(0, 449)), st.sets(st.integers(0, 4)))
def test_offers_go_out_by_the_hundred_and_what_was_not_taken_comes_back(
    count: int, refused: set[int], broken: set[int]
) -> None:
    """A fault costs only the offers of its own batch."""
    sent: list[tuple[Offer, ...]] = []

    def perform(request: Request) -> object:
        assert isinstance(request, SendOffers)
        sent.append(request.offers)
        if len(sent) - 1 in broken:
            raise Denied("no")
        return tuple(offer for offer in request.offers if offer.offered_at_ms in refused)

    untaken = run(flow.send(offers(count)), perform)
    assert [offer for group in sent for offer in group] == list(offers(count))
    assert all(0 < len(group) <= 100 for group in sent)
    assert untaken == tuple(o for o in offers(count) if o.offered_at_ms in refused or o.offered_at_ms // 100 in broken)


def test_a_fault_is_thrown_at_the_request_and_may_be_answered_there() -> None:
    def patient() -> Flow[str]:
        try:
            yield Now()
        except Throttled:
            instant = yield from flow.now()
            return f"again at {instant.wall_ms}"
        return "at once"

    answers: list[Any] = [Throttled("later"), Instant(0.0, 5)]

    def perform(request: Request) -> object:
        answer = answers.pop(0)
        if isinstance(answer, Fault):
            raise answer
        return answer

    assert run(patient(), perform) == "again at 5"


def test_a_fault_that_nobody_expects_ends_the_flow() -> None:
    def perform(request: Request) -> object:
        raise Unreachable("gone")

    with pytest.raises(Unreachable, match="gone"):
        run(flow.read(Read(Table.MEMBERS, {"worker_id": "w1"})), perform)


def test_a_flow_without_requests_is_carried_out_too() -> None:
    def perform(request: Request) -> object:
        raise AssertionError

    assert run(flow.send(()), perform) == ()


def test_a_batch_is_one_request_with_an_answer_for_each_write() -> None:
    def perform(request: Request) -> object:
        assert request == Batch(())
        return ()

    assert run(flow.batch([]), perform) == ()
