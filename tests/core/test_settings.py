"""What a deployment sets: read whole, or refused in one sentence that names the variable."""

import pytest

from streamlease.model import LeaseMode
from streamlease.settings import Misconfigured, settings
from streamlease.timing import Timing
from streamlease.write import Table

LEAST = {
    "STREAMLEASE_CONNECTIONS_TABLE": "stack-Connections",
    "STREAMLEASE_MEMBERS_TABLE": "stack-Members",
    "STREAMLEASE_WORKER_ITEMS_TABLE": "stack-WorkerItems",
    "STREAMLEASE_OFFERS_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/1/offers",
}


def test_the_least_that_must_be_set_gives_the_published_pattern() -> None:
    found = settings({**LEAST, "PATH": "/bin"})
    assert found.tables == {
        Table.CONNECTIONS: "stack-Connections",
        Table.MEMBERS: "stack-Members",
        Table.WORKER_ITEMS: "stack-WorkerItems",
    }
    assert found.offers_queue_url == LEAST["STREAMLEASE_OFFERS_QUEUE_URL"]
    assert (found.records_stream, found.mode, found.shards) == (None, LeaseMode.CONNECTION, 16)
    assert found.timing == Timing(heartbeat_ms=10_000, lease_ms=30_000)


def test_everything_that_is_set_is_read() -> None:
    found = settings(
        {
            **LEAST,
            "STREAMLEASE_RECORDS_STREAM": " records ",
            "STREAMLEASE_LEASE_MODE": "worker",
            "STREAMLEASE_HEARTBEAT_MS": "3000",
            "STREAMLEASE_LEASE_MS": "9000",
            "STREAMLEASE_SHARDS": "1",
        }
    )
    assert (found.records_stream, found.mode, found.shards) == ("records", LeaseMode.WORKER, 1)
    assert found.timing == Timing(heartbeat_ms=3_000, lease_ms=9_000)


def test_intervals_that_are_not_set_are_the_modes_own_and_fit_the_one_that_is() -> None:
    assert settings({**LEAST, "STREAMLEASE_LEASE_MODE": "worker"}).timing == Timing(2_000, 6_000)
    assert settings({**LEAST, "STREAMLEASE_HEARTBEAT_MS": "20000"}).timing == Timing(20_000, 60_000)
    assert settings({**LEAST, "STREAMLEASE_HEARTBEAT_MS": ""}).timing == Timing(10_000, 30_000)


@pytest.mark.parametrize("variable", LEAST)
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_one_is_named_with_the_stacks_output_that_it_is(variable: str, value: str | None) -> None:
    environment = {name: known for name, known in LEAST.items() if name != variable}
    if value is not None:
        environment[variable] = value
    with pytest.raises(Misconfigured) as caught:
        settings(environment)
    assert caught.value.variable == variable
    output = {
        "STREAMLEASE_CONNECTIONS_TABLE": "ConnectionsTable",
        "STREAMLEASE_MEMBERS_TABLE": "MembersTable",
        "STREAMLEASE_WORKER_ITEMS_TABLE": "WorkerItemsTable",
        "STREAMLEASE_OFFERS_QUEUE_URL": "OffersQueueUrl",
    }[variable]
    assert str(caught.value) == f"{variable} is not set: set it to the stack's output {output}, or name the stack"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("STREAMLEASE_OFFERS_QUEUE_URL", "offers", "is 'offers'; it must be the queue's URL"),
        ("STREAMLEASE_LEASE_MODE", "WORKER", "is 'WORKER'; it must be one of connection, worker"),
        ("STREAMLEASE_HEARTBEAT_MS", "10s", "is '10s'; it must be a whole number from 1 on"),
        ("STREAMLEASE_HEARTBEAT_MS", "0", "is 0; it must be a whole number from 1 on"),
        ("STREAMLEASE_HEARTBEAT_MS", "\u0661\u0660", "it must be a whole number from 1 on"),
        ("STREAMLEASE_LEASE_MS", "1" * 5_000, "it must be a whole number from 1 on"),
        ("STREAMLEASE_LEASE_MS", "29999", "a heartbeat of 10000 ms needs a lease of at least three times that"),
        ("STREAMLEASE_SHARDS", "0", "is 0; it must be a whole number from 1 to 1024"),
        ("STREAMLEASE_SHARDS", "-3", "is -3; it must be a whole number from 1 to 1024"),
        ("STREAMLEASE_SHARDS", "1025", "is 1025; it must be a whole number from 1 to 1024"),
        ("STREAMLEASE_SHARDS", "16.0", "is '16.0'; it must be a whole number from 1 to 1024"),
    ],
)
def test_one_that_cannot_be_is_named_with_what_would_be_right(variable: str, value: str, sentence: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        settings({**LEAST, variable: value})
    assert caught.value.variable == variable
    assert str(caught.value).startswith(variable)
    assert sentence in str(caught.value)
    assert not caught.value.retryable
