"""An offer as a message, and what is no offer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.dynamodb import offers
from streamlease.errors import Malformed
from streamlease.model import Offer

OFFERS = st.builds(
    Offer,
    st.text(min_size=1),
    st.sampled_from(["control", "released", "orphaned", "expired"]),
    st.integers(0, 10**13),
)
BODY = {"v": 1, "connection_id": "a", "reason": "control", "offered_at_ms": 5}


@given(offer=OFFERS)
def test_an_offer_comes_back_from_its_message(offer: Offer) -> None:
    body = offers.body(offer)
    assert offers.offer(body) == offer
    assert body.isascii()
    assert body.isprintable()


def test_the_message_is_the_one_that_was_agreed_upon() -> None:
    assert json.loads(offers.body(Offer("a", "control", 5))) == BODY
    assert offers.offer(json.dumps({**BODY, "more": "than that"})) == Offer("a", "control", 5)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        (json.dumps({**BODY, "v": 2}), "of version 2"),
        (json.dumps({"connection_id": "a"}), "of version None"),
        (json.dumps({**BODY, "connection_id": ""}), "no connection_id"),
        (json.dumps({**BODY, "connection_id": 7}), "no connection_id"),
        (json.dumps({**BODY, "reason": "because"}), "reason 'because'"),
        (json.dumps({**BODY, "reason": ["control"]}), r"reason \['control'\]"),
        (json.dumps({**BODY, "offered_at_ms": True}), "no offered_at_ms"),
        (json.dumps({**BODY, "offered_at_ms": 1.5}), "no offered_at_ms"),
    ],
)
def test_what_is_no_offer_is_malformed(body: str, problem: str) -> None:
    with pytest.raises(Malformed, match=f"offer message: .*{problem}"):
        offers.offer(body)
