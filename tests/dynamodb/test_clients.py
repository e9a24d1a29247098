"""How clients are made: with a patience that fits their purpose, and with clear words where they cannot be made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease.dynamodb.clients import Purpose, clients, is_known_region, open_session, patience
from streamlease.errors import Denied
from streamlease.timing import Timing

TIMINGS = st.integers(1, 600_000).map(lambda heartbeat_ms: Timing(heartbeat_ms, 3 * heartbeat_ms + 1_000))


@given(timing=TIMINGS)
def test_a_renewal_gives_up_before_the_next_heartbeat_is_due(timing: Timing) -> None:
    waits = patience(Purpose.RENEWALS, timing)
    assert waits.connect_s + waits.read_s < timing.heartbeat_ms / 1000
    assert waits.attempts == 1


@given(timing=TIMINGS)
def test_a_claims_answer_is_not_awaited_for_longer_than_half_a_lease(timing: Timing) -> None:
    assert patience(Purpose.WORK, timing).read_s <= timing.lease_ms / 2000


def test_the_endpoint_of_the_environment_is_taken_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    made = clients("eu-west-1", purpose=Purpose.WORK)
    assert made.writes.meta.endpoint_url == "http://127.0.0.1:4566"
    assert made.queue.meta.endpoint_url == "http://127.0.0.1:4566"


def test_no_region_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(Denied, match=r"no AWS region is set.*set AWS_REGION"):
        clients(purpose=Purpose.PEOPLE)


def test_an_unknown_profile_is_one_sentence() -> None:
    with pytest.raises(Denied, match=r"the AWS profile 'nobody' is not configured: choose"):
        clients("eu-west-1", purpose=Purpose.PEOPLE, profile="nobody")


@pytest.mark.parametrize("endpoint", ["localhost:4566", "http://127.0.0.1:99999", "http://127.0.0.1:x", "http://[::1"])
def test_an_endpoint_that_is_no_url_is_one_sentence(endpoint: str) -> None:
    with pytest.raises(Denied, match=r"AWS_ENDPOINT_URL must be like http://127\.0\.0\.1:4566"):
        clients("eu-west-1", endpoint, purpose=Purpose.PEOPLE)


@pytest.mark.parametrize(("region", "known"), [("eu-west-1", True), ("cn-north-1", True), ("eu-wset-1", False)])
def test_a_mistyped_region_is_not_known(region: str, known: bool) -> None:
    assert is_known_region(region) is known


def test_a_region_is_known_or_not_whatever_profile_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nosuch")
    assert is_known_region("eu-west-1")
    assert not is_known_region("eu-west-99")


def test_the_region_may_be_named_as_every_other_sdk_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert open_session().region_name == "eu-north-1"
    assert open_session("eu-west-3").region_name == "eu-west-3"
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-south-1")
    assert open_session().region_name == "eu-south-1"
