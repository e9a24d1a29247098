"""The worker's side of the offers queue, on moto."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

from streamlease.dynamodb import offers
from streamlease.errors import Denied, Unreachable
from streamlease.model import Offer
from streamlease_worker import offers_queue
from streamlease_worker.log import Log
from streamlease_worker.offers_queue import OffersQueue, open_queue_client

OFFER = Offer("a", "control", 1_800_000_000_000)


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, OffersQueue]]:
    monkeypatch.setattr(offers_queue, "WAIT_S", 0)
    with mock_aws():
        client = boto3.client("sqs")
        url = client.create_queue(QueueName="offers", Attributes={"VisibilityTimeout": "30"})["QueueUrl"]
        yield client, OffersQueue(open_queue_client(), url, Log())


def put(sqs: tuple[Any, OffersQueue], *bodies: str) -> None:
    client, queue = sqs
    for body in bodies:
        client.send_message(QueueUrl=queue._url, MessageBody=body)


def test_an_offer_is_received_once_and_gone_when_deleted(sqs: tuple[Any, OffersQueue]) -> None:
    _, queue = sqs
    queue.check()
    put(sqs, offers.body(OFFER))
    (received,) = queue.receive(10)
    assert received.offer == OFFER
    assert queue.receive(10) == ()
    queue.delete([received.receipt])
    queue.give_back([received.receipt])
    assert queue.receive(10) == ()


def test_an_offer_given_back_is_there_for_others_at_once(sqs: tuple[Any, OffersQueue]) -> None:
    _, queue = sqs
    put(sqs, offers.body(OFFER))
    (received,) = queue.receive(10)
    queue.give_back([received.receipt])
    assert [each.offer for each in queue.receive(10)] == [OFFER]


def test_a_message_that_is_no_offer_is_deleted_and_disturbs_none_beside_it(sqs: tuple[Any, OffersQueue]) -> None:
    client, queue = sqs
    put(sqs, "not json", offers.body(OFFER))
    found = [each.offer for each in (*queue.receive(10), *queue.receive(10))]
    assert found == [OFFER]
    attributes = client.get_queue_attributes(QueueUrl=queue._url, AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_nothing_is_asked_of_the_queue_for_no_receipts(sqs: tuple[Any, OffersQueue]) -> None:
    _, queue = sqs
    queue.delete([])
    queue.give_back([])


def test_a_queue_that_is_not_there_is_a_sentence(sqs: tuple[Any, OffersQueue]) -> None:
    client, queue = sqs
    other = OffersQueue(client, queue._url.replace("offers", "other"), Log())
    with pytest.raises(Denied, match="there is no queue 'other' in eu-west-1"):
        other.check()


def test_a_queue_that_does_not_answer_is_a_fault_and_a_delete_that_fails_is_none(sqs: tuple[Any, OffersQueue]) -> None:
    _, queue = sqs

    def silent(**_: object) -> None:
        raise ReadTimeoutError(endpoint_url="https://sqs.eu-west-1.amazonaws.com")

    queue._client.meta.events.register("before-send.sqs", silent)
    with pytest.raises(Unreachable, match="ReceiveMessage on queue 'offers'"):
        queue.receive(1)
    queue.delete(["receipt"])
    queue.give_back(["receipt"])
