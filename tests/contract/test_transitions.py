"""Every transition on every store: what its condition lets through, what it refuses, and what it makes of it."""

from types import ModuleType

import pytest

from streamlease.dynamodb.requests import statement
from streamlease.flow import Batch
from streamlease.write import Applied, Read, Refused, Table, Update, apply, holds
from tests.contract import connection_cases, member_cases
from tests.contract.cases import Case, undecided
from tests.contract.stores import Store

CASES = [
    case
    for transitions in (connection_cases.TRANSITIONS, member_cases.TRANSITIONS)
    for cases in transitions.values()
    for case in cases
]
BATCHED = ("renew", "checkpoint", "release", "orphan", "write a page", "seal a page")
RENEWALS = [case for case in CASES if case.transition.startswith(BATCHED)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_transition_does_exactly_what_the_core_says_of_it(store: Store, fresh: str, case: Case) -> None:
    write, before = case.write(fresh), case.before(fresh)
    if before is not None:
        store.put(write.table, before)

    answer = store.write(write)

    assert holds(write.condition, before) is case.applied
    after = store.perform(Read(write.table, write.key))
    if case.applied:
        expected = apply(write, before)
        assert after == expected
        assert answer == Applied(expected)
    else:
        assert after == before
        assert answer == Refused(before)
    outcome = case.outcome_of(answer)
    assert case.is_met_by(outcome), outcome


@pytest.mark.parametrize("case", RENEWALS, ids=str)
def test_a_transition_in_a_batch_does_the_same(batching_store: Store, fresh: str, case: Case) -> None:
    store = batching_store
    write, before = case.write(fresh), case.before(fresh)
    if before is not None:
        store.put(write.table, before)

    answers = store.perform(Batch((write,)))

    after = store.perform(Read(write.table, write.key))
    if case.applied:
        assert answers == (Applied(),)
        assert after == apply(write, before)
    else:
        assert answers == (Refused(before),)
        assert after == before
    assert isinstance(answers, tuple)
    assert case.is_met_by(case.outcome_of(answers[0]))


@pytest.mark.parametrize("cases", [connection_cases, member_cases], ids=["connections", "members"])
def test_each_clause_of_each_condition_decides_a_case_on_its_own(cases: ModuleType) -> None:
    elsewhere = cases.DECIDED_ELSEWHERE
    missing = [
        f"{transition}: {clause}"
        for transition, its_cases in cases.TRANSITIONS.items()
        for clause in undecided(its_cases)
        if not clause.startswith(elsewhere.get(transition, ()))
    ]
    assert missing == []


def test_what_is_batched_can_be_said_in_a_batch() -> None:
    for case in RENEWALS:
        write = case.write("x")
        assert isinstance(write, Update)
        statement(write, dict.fromkeys(Table, "any"))  # or raises ValueError
