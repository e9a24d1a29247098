"""The executor in front of a service that fails in every way: what is sent, how often, and what comes back."""

import functools
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace

import pytest

from streamlease import lease
from streamlease.dynamodb import clients as clients_module
from streamlease.dynamodb import clock
from streamlease.dynamodb.clients import Patience, Purpose, clients, patience
from streamlease.dynamodb.executor import Executor
from streamlease.errors import Conflict, Denied, Fault, Throttled, Unreachable
from streamlease.flow import Batch, Now, SendOffers
from streamlease.lease import Checkpoint
from streamlease.model import Offer, Position
from streamlease.timing import Instant, Timing
from streamlease.write import Always, Applied, Index, Page, Put, Query, Read, Refused, Scan, Table, Write
from tests.contract.connection_cases import SENT, TIMING, free, held
from tests.fakes.service import Reply, Reset, Service, Silence, error, service

type AnyRequest = Write | Read | Query | Scan | Batch
KEY = {"connection_id": "a"}
ITEM = {"connection_id": {"S": "a"}, "n": {"N": "5"}}
CHECKPOINT = lease.checkpoint(held("a"), Checkpoint(1))
WRITES: list[Write] = [
    CHECKPOINT,
    Put(Table.CONNECTIONS, free("a"), Always()),
    lease.delete("a", now_ms=1, timing=TIMING),
]
READS: list[Read | Query | Scan] = [
    Read(Table.CONNECTIONS, KEY),
    Query(Table.CONNECTIONS, "w", Index.BY_OWNER),
    Scan(Table.MEMBERS),
]
BATCH = Batch((lease.renew(held("a"), sent=SENT, timing=TIMING), lease.renew(held("b"), sent=SENT, timing=TIMING)))
OFFERS = tuple(Offer(f"id-{number}", "released", number) for number in range(3))


def kind(request: object) -> str:
    return type(request).__name__


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service() as running:
        yield running


@pytest.fixture
def aws(running: Service) -> Service:
    running.reset()
    return running


@functools.cache  # a set of clients takes 0.1 s to make
def _executor(endpoint: str, purpose: Purpose, wait_s: float) -> Executor:
    def waits(purpose: Purpose, timing: Timing) -> Patience:
        return replace(patience(purpose, timing), connect_s=wait_s, read_s=wait_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients_module, "patience", waits)
        made = clients("eu-west-1", endpoint, purpose=purpose)
    return Executor(made, {table: f"stack-{table}" for table in Table}, f"{endpoint}/1/offers")


def executor(aws: Service, purpose: Purpose = Purpose.RENEWALS, *, wait_s: float = 60.0) -> Executor:
    """As the purpose has it, but for how long it waits: an answer is to come however slow this machine is."""
    return _executor(aws.endpoint, purpose, wait_s)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's own pauses between attempts take no time."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


def failing(kind: Reply | Reset | Silence, aws: Service) -> Service:
    aws.otherwise = kind
    return aws


# --- what is repeated ---


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("write", WRITES, ids=kind)
def test_a_write_is_sent_once_whatever_comes_of_it(aws: Service, purpose: Purpose, write: Write) -> None:
    for reply in (error("InternalServerError", 500), error("ThrottlingException"), Reset()):
        failing(reply, aws)
        with pytest.raises(Fault):
            executor(aws, purpose).perform(write)
    assert len(aws.asked) == 3


def test_a_setting_of_the_sdk_does_not_make_it_repeat_writes(aws: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "9")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")
    made = replace(executor(aws), clients=clients("eu-west-1", aws.endpoint, purpose=Purpose.WORK))
    failing(error("ThrottlingException"), aws)
    with pytest.raises(Throttled):
        made.perform(CHECKPOINT)
    assert len(aws.asked) == 1


@pytest.mark.usefixtures("no_waiting")
def test_a_batch_is_sent_once_whatever_comes_of_it(aws: Service) -> None:
    failing(error("InternalServerError", 500), aws)
    with pytest.raises(Unreachable):
        executor(aws, Purpose.WORK).perform(BATCH)
    assert aws.operations == ["BatchExecuteStatement"]


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("read", READS, ids=kind)
def test_a_read_is_repeated_where_that_is_no_renewals(aws: Service, read: Read | Query | Scan) -> None:
    aws.next.extend([error("InternalServerError", 500), Reset()])
    aws.otherwise = Reply({"Items": []})
    executor(aws, Purpose.WORK).perform(read)
    assert len(aws.asked) == 3

    failing(error("InternalServerError", 500), aws).asked.clear()
    with pytest.raises(Unreachable):
        executor(aws, Purpose.RENEWALS).perform(read)
    assert len(aws.asked) == 1


# --- no answer ---


@pytest.mark.parametrize("request_", [*WRITES, *READS, BATCH], ids=lambda request: type(request).__name__)
@pytest.mark.parametrize(
    "reply", [Silence(), Reset(), Reply(b"<html>", 502)], ids=["silence", "reset", "a proxy's 502"]
)
def test_no_answer_is_unreachable(aws: Service, request_: AnyRequest, reply: Reply | Reset | Silence) -> None:
    with pytest.raises(Unreachable, match=r"table 'stack-\w+' in eu-west-1 at http://127\.0\.0\.1:\d+ got no answer"):
        executor(failing(reply, aws), wait_s=0.2).perform(request_)


def test_a_service_that_is_not_there_is_unreachable() -> None:
    with service() as gone:
        left = executor(gone)
    with pytest.raises(Unreachable, match="got no answer"):
        left.perform(CHECKPOINT)


@pytest.mark.parametrize(
    "request_", [CHECKPOINT, READS[1], READS[2], BATCH], ids=lambda request: type(request).__name__
)
def test_an_answer_without_what_it_must_have_is_unreachable(aws: Service, request_: AnyRequest) -> None:
    for nonsense in (Reply({}), Reply(b""), Reply(b"not json")):
        with pytest.raises(Unreachable):
            executor(failing(nonsense, aws)).perform(request_)


# --- answers ---


def test_a_failed_condition_is_an_answer_with_the_item_in_the_way(aws: Service) -> None:
    failing(error("ConditionalCheckFailedException", Item=ITEM), aws)
    assert executor(aws).perform(CHECKPOINT) == Refused({"connection_id": "a", "n": 5})
    failing(error("ConditionalCheckFailedException"), aws)
    assert executor(aws).perform(CHECKPOINT) == Refused(None)


def test_each_member_of_a_batch_has_its_own_answer_or_fault(aws: Service) -> None:
    def failed(code: str, **more: object) -> dict[str, object]:
        return {"Error": {"Code": code, "Message": "no", **more}}

    unstorable = lease.renew(
        held("c"), sent=SENT, timing=TIMING, checkpoint=Checkpoint(1, Position("x", token="\ud800"))
    )
    renewal = BATCH.writes[0]
    responses = [
        {"TableName": "stack-connections"},
        failed("ConditionalCheckFailed", Item=ITEM),
        failed("ThrottlingError"),
        failed("TransactionConflict"),
        failed("InternalServerError"),
        failed("AccessDenied"),
    ]
    failing(Reply({"Responses": responses}), aws)

    answers = executor(aws).perform(Batch((renewal, unstorable, *[renewal] * 5)))

    assert isinstance(answers, tuple)
    kinds = [type(answer) for answer in answers]
    assert kinds == [Applied, Denied, Refused, Throttled, Conflict, Unreachable, Denied]
    assert "position.token is not valid Unicode" in str(answers[1])
    assert "needs dynamodb:PartiQLUpdate" in str(answers[6])
    statements = aws.asked[0][1]["Statements"]
    assert isinstance(statements, list)
    assert len(statements) == 6


def test_what_cannot_be_stored_is_denied_and_not_sent(aws: Service) -> None:
    write = lease.checkpoint(held("a"), Checkpoint(1, Position("x", token="\ud800")))
    with pytest.raises(Denied, match=r"connections 'a': position\.token is not valid Unicode.*; it was not sent"):
        executor(aws).perform(write)
    only = executor(aws).perform(
        Batch(
            (lease.renew(held("c"), sent=SENT, timing=TIMING, checkpoint=Checkpoint(1, Position("x", token="\ud800"))),)
        )
    )
    assert isinstance(only, tuple)
    assert isinstance(only[0], Denied)
    assert aws.asked == []


def test_a_page_tells_the_services_own_clock_where_it_gives_one(aws: Service) -> None:
    dates = {"Sun, 29 Nov 2026 16:45:07 GMT": 1_795_970_707_000, "yesterday": None}
    for date, date_ms in dates.items():
        failing(Reply({"Items": [ITEM]}, headers={"Date": date}), aws)
        assert executor(aws).perform(READS[1]) == Page(({"connection_id": "a", "n": 5},), None, date_ms)
    failing(Reply({"Items": []}), aws)
    assert executor(aws).perform(READS[1]) == Page((), None, None)


# --- offers ---


def test_offers_that_the_queue_did_not_take_come_back(aws: Service) -> None:
    failed = [{"Id": "1", "SenderFault": False, "Code": "InternalError"}]
    taken = [{"Id": number, "MessageId": "m", "MD5OfMessageBody": ""} for number in ("0", "2")]
    failing(Reply({"Successful": taken, "Failed": failed}), aws)
    assert executor(aws).perform(SendOffers(OFFERS)) == (OFFERS[1],)
    assert aws.operations == ["SendMessageBatch"]


def test_a_queue_that_does_not_answer_is_a_fault(aws: Service) -> None:
    with pytest.raises(Unreachable, match="queue 'offers'"):
        executor(failing(Reset(), aws)).perform(SendOffers(OFFERS))


# --- several calls for one request ---


MANY = Batch(tuple(lease.renew(held(f"c{number}"), sent=SENT, timing=TIMING) for number in range(90)))
MANY_OFFERS = tuple(Offer(f"id-{number}", "released", number) for number in range(35))


def answering(count: int) -> Reply:
    return Reply({"Responses": [{} for _ in range(count)]})


def test_a_large_batch_goes_by_25_and_each_write_has_its_own_answer(aws: Service) -> None:
    failing(answering(25), aws)
    answers = executor(aws).perform(Batch(MANY.writes[:75]))
    assert answers == (Applied(),) * 75
    sent = [parameters["Statements"] for _, parameters in aws.asked]
    assert sorted(len(statements) for statements in sent if isinstance(statements, list)) == [25, 25, 25]
    ids = {str(statement["Parameters"]) for group in sent if isinstance(group, list) for statement in group}
    assert len(ids) == 75, "each is sent once"


def test_a_fault_of_one_call_is_that_of_its_writes_alone(aws: Service) -> None:
    aws.next.append(error("ThrottlingException"))
    failing(answering(25), aws)
    answers = executor(aws).perform(Batch(MANY.writes[:75]))
    assert isinstance(answers, tuple)
    failed = [number for number, answer in enumerate(answers) if isinstance(answer, Throttled)]
    assert len(failed) == 25
    assert failed == list(range(failed[0], failed[0] + 25))
    assert failed[0] % 25 == 0
    assert len(aws.asked) == 3, "and none is repeated"


def test_a_fault_of_every_call_is_thrown(aws: Service) -> None:
    failing(error("ThrottlingException"), aws)
    with pytest.raises(Throttled):
        executor(aws).perform(MANY)
    assert len(aws.asked) == 4


def test_offers_go_by_ten_side_by_side_and_a_call_that_fails_gives_back_its_own(aws: Service) -> None:
    taken = [{"Id": str(number), "MessageId": "m", "MD5OfMessageBody": ""} for number in range(10)]
    aws.next.append(error("AWS.SimpleQueueService.InvalidAddress"))
    failing(Reply({"Successful": taken, "Failed": []}), aws)
    untaken = executor(aws).perform(SendOffers(MANY_OFFERS))
    assert isinstance(untaken, tuple)
    numbers = [offer.offered_at_ms for offer in untaken if isinstance(offer, Offer)]
    assert len(numbers) in (5, 10)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert aws.operations == ["SendMessageBatch"] * 4


# --- a program's own mistakes ---


def test_what_is_too_much_for_one_call_is_refused_before_it_is_sent(aws: Service) -> None:
    with pytest.raises(ValueError, match="at most 100"):
        executor(aws).perform(Batch(BATCH.writes * 51))
    with pytest.raises(ValueError, match="at most 100"):
        executor(aws).perform(SendOffers(OFFERS * 34))
    with pytest.raises(TypeError, match="updates only"):
        executor(aws).perform(Batch((WRITES[1],)))
    assert executor(aws).perform(Batch(())) == ()
    assert executor(aws).perform(SendOffers(())) == ()
    assert aws.asked == []


# --- what is never told ---


def test_no_trace_of_a_fault_holds_what_the_service_said_of_a_signature(aws: Service) -> None:
    said = {"__type": "InvalidSignatureException", "message": "x-amz-security-token:hunter2"}
    failing(Reply(said, 400), aws)
    for request in (CHECKPOINT, READS[0], BATCH, SendOffers(OFFERS)):
        with pytest.raises(Denied) as caught:
            executor(aws).perform(request)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))


# --- clocks ---


def test_now_reads_the_monotonic_clock_before_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    wall_ns = iter([7_000_999_999, 8_000_999_999])
    monkeypatch.setattr(clock, "monotonic_s", lambda: 5.0 if next(wall_ns) == 7_000_999_999 else 6.0)
    monkeypatch.setattr(time, "time_ns", lambda: next(wall_ns))
    assert clock.now() == Instant(5.0, 8_000)


def test_now_is_answered_by_the_executors_own_clock(aws: Service) -> None:
    here = replace(executor(aws), now=lambda: Instant(1.0, 2))
    assert here.perform(Now()) == Instant(1.0, 2)
    assert isinstance(executor(aws).perform(Now()), Instant)
    assert clock.monotonic_s() <= clock.monotonic_s()
