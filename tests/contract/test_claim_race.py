"""Many claims of one connection at the same instant: a short form of bench/claim_race.py."""

import threading
from dataclasses import replace

import pytest

from bench.claim_race import race
from streamlease.flow import Request
from streamlease.write import Always, Update, holds
from tests.contract.stores import Store, in_memory


@pytest.mark.timeout(120)
def test_of_32_contenders_exactly_one_wins_each_round(store: Store) -> None:
    result = race(store, contenders=32, rounds=20)
    assert (result.winners, result.wrong) == ({1: 20}, 0)


def test_the_race_shows_a_store_that_looks_first_and_then_writes_without_a_condition() -> None:
    careful = in_memory()
    everybody_has_looked = threading.Barrier(4)

    def careless(request: Request) -> object:
        if not isinstance(request, Update):
            return careful.perform(request)
        free = holds(request.condition, careful.read(request.table, **request.key))
        everybody_has_looked.wait()
        return careful.perform(replace(request, condition=Always()) if free else request)

    result = race(replace(careful, perform=careless), contenders=4, rounds=3)

    assert result.winners == {4: 3}
    assert result.wrong == 3
