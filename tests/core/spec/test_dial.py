"""Dial budgets in a spec: what is accepted, what it comes to, and what is refused with which sentence."""

import pytest

from streamlease.feed.feed import DialLimit
from streamlease.spec.compile import compile_item, compile_spec
from streamlease.spec.document import parse
from streamlease.spec.explain import explain
from streamlease.spec.problems import BadSpec

BASE = {"id": "a", "url": "wss://upstream.example/", "headers": {"Authorization": "Bearer {env:TOKEN}"}}


def test_one_budget_or_several_by_host_or_by_credential() -> None:
    one = compile_spec(parse({**BASE, "dial": {"limit": 300, "per": "5m"}}))
    assert one.dials == (DialLimit(300, 300.0, "host"),)
    two = compile_spec(
        parse({**BASE, "dial": [{"limit": 300, "per": "5m"}, {"limit": 1, "per": "5s", "by": "credential"}]})
    )
    assert two.dials == (DialLimit(300, 300.0, "host"), DialLimit(1, 5.0, "credential"))
    assert compile_spec(parse(BASE)).dials == ()


def test_what_is_stored_is_read_back_as_it_was_written() -> None:
    spec = parse({**BASE, "dial": {"limit": 300, "per": "5m"}})
    assert spec.stored()["dial"] == [{"limit": 300, "per": "5m"}]
    assert compile_item("a", "wss://upstream.example/", spec.stored()).feed.dials == compile_spec(spec).dials


@pytest.mark.parametrize(
    ("dial", "sentence"),
    [
        ({"limit": 0, "per": "5m"}, "dial[0].limit is 0; it must be 1 to 1000000"),
        ({"limit": 3}, "dial[0].per is missing"),
        ({"limit": 3, "per": "500ms"}, "dial.per is 500ms; it must be from 1s to 1d"),
        ({"limit": 3, "per": "2d"}, "dial.per is 2d; it must be from 1s to 1d"),
        ({"limit": 3, "per": "5m", "by": "moon"}, "dial[0].by is 'moon'; it must be host or credential"),
        (
            [{"limit": 3, "per": "5m"}, {"limit": 4, "per": "300s"}],
            "dial says twice how many dials a host takes in 300s",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(dial: object, sentence: str) -> None:
    with pytest.raises(BadSpec) as refused:
        parse({**BASE, "dial": dial})
    assert sentence in str(refused.value)


def test_a_budget_by_credential_needs_one() -> None:
    dial = {"limit": 1, "per": "5s", "by": "credential"}
    with pytest.raises(BadSpec, match="needs a credential: put a reference to a secret into the spec"):
        parse({"id": "a", "url": "wss://upstream.example/", "dial": dial})


def test_the_plan_in_words_says_what_is_waited_for() -> None:
    spec = parse({**BASE, "dial": [{"limit": 300, "per": "5m"}, {"limit": 1, "per": "5s", "by": "credential"}]})
    said = explain(spec)
    assert "waits for its turn where the fleet has dialled this host from one egress 300 times within 5m" in said
    assert "waits for its turn where the fleet has dialled with this credential 1 times within 5s" in said
