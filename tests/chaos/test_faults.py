"""The plan of faults is the seed's alone."""

from itertools import islice

import pytest

from tests.chaos.faults import OF_THE_UPSTREAM, OF_WORKERS, UPSTREAM, Kind, Span, plan


@pytest.mark.parametrize("lane", ["worker-0", UPSTREAM])
def test_a_seed_is_the_same_plan_each_time_and_another_seed_another(lane: str) -> None:
    first = list(islice(plan(7, lane), 40))
    assert first == list(islice(plan(7, lane), 40))
    assert first != list(islice(plan(8, lane), 40))


def test_each_lane_has_a_plan_of_its_own() -> None:
    assert [fault.kind for fault in islice(plan(7, "worker-0"), 20)] != [
        fault.kind for fault in islice(plan(7, "worker-1"), 20)
    ]


@pytest.mark.parametrize(("lane", "spans"), [("worker-0", OF_WORKERS), (UPSTREAM, OF_THE_UPSTREAM)])
def test_each_kind_comes_once_in_a_round_and_lasts_as_long_as_its_kind_may(lane: str, spans: dict[Kind, Span]) -> None:
    faults = list(islice(plan(3, lane), 3 * len(spans)))
    for at in range(0, len(faults), len(spans)):
        assert {fault.kind for fault in faults[at : at + len(spans)]} == set(spans)
    assert all(spans[fault.kind].least <= fault.lasts <= spans[fault.kind].most for fault in faults)
