"""The one boto3 executor: carries out requests for functions, CLI and worker (see `streamlease.flow`).

Each call is sent once if it writes. Expected outcomes come back as values, everything else as a `Fault`.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError

from streamlease.dynamodb import clock, offers, requests
from streamlease.dynamodb.clients import Clients, Purpose, clients, is_known_region
from streamlease.dynamodb.faults import FAILURES, Place, of_code, of_error
from streamlease.dynamodb.requests import Call, StatementError
from streamlease.errors import Denied, Fault, Malformed, Unreachable
from streamlease.flow import (
    BATCH_OFFERS,
    BATCH_WRITES,
    MOST_OFFERS,
    MOST_WRITES,
    Batch,
    Now,
    Request,
    SendOffers,
    chunks,
)
from streamlease.model import Offer
from streamlease.settings import OFFERS_QUEUE_VARIABLE, TABLE_VARIABLES, Settings
from streamlease.timing import Instant
from streamlease.write import (
    Answer,
    Delete,
    Item,
    Page,
    Put,
    Query,
    Read,
    Refused,
    Scan,
    Table,
    Update,
    Write,
)

type Performed = Answer | Item | Page | Instant | tuple[Answer | Fault, ...] | tuple[Offer, ...] | None


@dataclass(frozen=True, slots=True)
class Executor:
    """Carries requests out. Safe to share between threads, as its clients are."""

    clients: Clients
    tables: Mapping[Table, str]
    """Physical names."""
    offers_queue_url: str
    now: Callable[[], Instant] = clock.now

    def perform(self, request: Request) -> Performed:
        """The answer, as each request's docstring says. Raises Fault."""
        match request:
            case Put() | Update() | Delete():
                return self._write(request)
            case Read():
                return requests.found(self._send(_call(request, self.tables), request.table))
            case Query() | Scan():
                return self._page(request)
            case Batch():
                return self._batch(request)
            case SendOffers():
                return self._send_offers(request)
            case Now():
                return self.now()

    def _write(self, write: Write) -> Answer:
        call = _call(write, self.tables)
        try:
            response = self._send(call, write.table)
        except _ConditionFailed as failed:
            return failed.refused
        return requests.applied(write, response)

    def _page(self, request: Query | Scan) -> Page:
        response = self._send(_call(request, self.tables), request.table)
        return requests.page(response, _date_ms(response))

    def _batch(self, batch: Batch) -> tuple[Answer | Fault, ...]:
        if len(batch.writes) > MOST_WRITES:
            raise ValueError(f"a batch has at most {MOST_WRITES} writes, not {len(batch.writes)}")
        parts = tuple(chunks(batch.writes, BATCH_WRITES))
        found = _side_by_side(self._batch_call, parts)
        return tuple(
            answer
            for part, answers in zip(parts, found, strict=True)
            for answer in ((answers,) * len(part) if isinstance(answers, Fault) else answers)
        )

    def _batch_call(self, writes: tuple[Write, ...]) -> tuple[Answer | Fault, ...]:
        outcomes: list[Answer | Fault | None] = []
        statements = []
        for write in writes:
            if not isinstance(write, Update):
                raise TypeError(f"a batch is of updates only, not of {type(write).__name__}")
            try:
                statements.append(requests.statement(write, self.tables))
                outcomes.append(None)
            except Malformed as problem:  # of this one only: the others are not to wait for it
                outcomes.append(_unstorable(problem))
        if statements:
            table = writes[0].table
            response = self._send(requests.batch_call(statements), table)
            members = response.get("Responses", [])
            if len(members) != len(statements):
                raise Unreachable(f"a batch of {len(statements)} was answered for {len(members)}")
            answers = iter(members)
            for number, (write, outcome) in enumerate(zip(writes, outcomes, strict=True)):
                if outcome is None:
                    outcomes[number] = self._statement_answer(next(answers), write.table)
        return tuple(outcome for outcome in outcomes if outcome is not None)

    def _statement_answer(self, response: Mapping[str, Any], table: Table) -> Answer | Fault:
        answer = requests.statement_answer(response)
        if isinstance(answer, StatementError):
            return of_code(answer.code, answer.message, 400, self._place("batch_execute_statement", table))
        return answer

    def _send(self, call: Call, table: Table) -> Mapping[str, Any]:
        reading = call.operation in ("get_item", "query", "scan")
        client = self.clients.reads if reading else self.clients.writes
        try:
            response: Mapping[str, Any] = getattr(client, call.operation)(**call.parameters)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") == "ConditionalCheckFailedException":
                raise _ConditionFailed(requests.refused(error.response)) from None
            raise of_error(error, self._place(call.operation, table)) from None
        except FAILURES as error:
            raise of_error(error, self._place(call.operation, table, error)) from None
        return response

    def _send_offers(self, request: SendOffers) -> tuple[Offer, ...]:
        if len(request.offers) > MOST_OFFERS:
            raise ValueError(f"offers are sent by at most {MOST_OFFERS}, not {len(request.offers)}")
        parts = tuple(chunks(request.offers, BATCH_OFFERS))
        found = _side_by_side(self._offers_call, parts)
        return tuple(
            offer
            for part, untaken in zip(parts, found, strict=True)
            for offer in (part if isinstance(untaken, Fault) else untaken)
        )

    def _offers_call(self, some: tuple[Offer, ...]) -> tuple[Offer, ...]:
        try:
            response = self.clients.queue.send_message_batch(
                QueueUrl=self.offers_queue_url,
                Entries=[{"Id": str(number), "MessageBody": offers.body(offer)} for number, offer in enumerate(some)],
            )
        except FAILURES as error:
            meta = self.clients.queue.meta
            place = Place(
                operation="SendMessageBatch",
                thing=f"queue {self.offers_queue_url.rpartition('/')[2]!r}",
                permission="sqs:SendMessage",
                variable=OFFERS_QUEUE_VARIABLE,
                region=meta.region_name,
                endpoint=meta.endpoint_url,
                known_region=_is_region_known(error, meta.region_name),
            )
            raise of_error(error, place) from None
        taken = {entry["Id"] for entry in response.get("Successful", [])}
        return tuple(offer for number, offer in enumerate(some) if str(number) not in taken)

    def _place(self, operation: str, table: Table, error: Exception | None = None) -> Place:
        meta = self.clients.writes.meta
        batch = operation == "batch_execute_statement"
        name = "".join(word.capitalize() for word in operation.split("_"))
        return Place(
            operation=name,
            thing=f"table {self.tables[table]!r}",
            permission="dynamodb:PartiQLUpdate" if batch else f"dynamodb:{name}",
            variable=TABLE_VARIABLES[table],
            region=meta.region_name,
            endpoint=meta.endpoint_url,
            known_region=_is_region_known(error, meta.region_name),
        )


def open_executor(
    settings: Settings,
    *,
    purpose: Purpose,
    region: str | None = None,
    endpoint: str | None = None,
    profile: str | None = None,
) -> Executor:
    """An executor with clients of its own. Raises Denied, as `clients` does."""
    made = clients(region, endpoint, purpose=purpose, timing=settings.timing, profile=profile)
    return Executor(made, settings.tables, settings.offers_queue_url)


@cache
def _threads() -> ThreadPoolExecutor:
    """Of all executors of this process together: what is sent in several calls is rare, and none waits for another."""
    return ThreadPoolExecutor(8, thread_name_prefix="side-by-side")


def _side_by_side[P, T](call: Callable[[P], T], parts: Sequence[P]) -> list[T | Fault]:
    """An answer or fault for each part, in order. Raises the first Fault where none had an answer."""

    def carry_out(part: P) -> T | Fault:
        try:
            return call(part)
        except Fault as fault:
            return fault

    others = [_threads().submit(carry_out, part) for part in parts[1:]]
    found = [carry_out(part) for part in parts[:1]] + [other.result() for other in others]
    if found and isinstance(found[0], Fault) and all(isinstance(each, Fault) for each in found):
        raise found[0]
    return found


class _ConditionFailed(Exception):
    """Carries a refusal out of `_send`."""

    def __init__(self, refused: Refused) -> None:
        super().__init__()
        self.refused = refused


def _call(request: Write | Read | Query | Scan, tables: Mapping[Table, str]) -> Call:
    try:
        return requests.call(request, tables)
    except Malformed as problem:
        raise _unstorable(problem) from None


def _unstorable(problem: Malformed) -> Denied:
    return Denied(f"{problem}; it was not sent")


def _is_region_known(error: Exception | None, region: str) -> bool:
    return not isinstance(error, EndpointConnectionError) or is_known_region(region)


def _date_ms(response: Mapping[str, Any]) -> int | None:
    """The service's clock, in whole seconds, rounded down: a lease can only look younger by it."""
    header = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    if header is None:
        return None
    try:
        return int(parsedate_to_datetime(header).timestamp()) * 1000
    except ValueError:
        return None
