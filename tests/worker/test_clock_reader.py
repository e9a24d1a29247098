"""The clock's shell: what the task metadata says, over HTTP, and what boto3's answers say."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BytesIO
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from streamlease.dynamodb.clients import Purpose, clients
from streamlease.timing import Timing
from streamlease_worker.clock import Reading, Unread
from streamlease_worker.clock_reader import METADATA_VARIABLE, WatchedClock, date_ms, metadata_reader, reading
from tests.core.strategies import JSON
from tests.worker.clock_machine import START_MS, Machine

GOOD = {
    "Cluster": "default",
    "LaunchType": "FARGATE",
    "ClockDrift": {
        "ClockErrorBound": 0.5458234999999999,
        "ReferenceTimestamp": "2027-01-15T08:00:00Z",
        "ClockSynchronizationStatus": "SYNCHRONIZED",
    },
}
WITHIN_S = 60.0
NEVER_S = 3_600.0


# --- what the metadata says ------------------------------------------------------------------------------------------


def drift(**changes: object) -> bytes:
    return json.dumps({**GOOD, "ClockDrift": {**GOOD["ClockDrift"], **changes}}).encode()  # type: ignore[dict-item]


def test_the_three_fields_are_read() -> None:
    assert reading(drift()) == Reading(0.5458234999999999, START_MS, synchronised=True)


def test_any_other_status_is_unsynchronised() -> None:
    for status in ("NOT_SYNCHRONIZED", "", None, 1):
        found = reading(drift(ClockSynchronizationStatus=status))
        assert isinstance(found, Reading)
        assert not found.synchronised


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no ClockDrift"),
        (b"{}", "no ClockDrift"),
        (b'{"ClockDrift": null}', "no ClockDrift"),
        (drift(ClockErrorBound=None), "ClockErrorBound"),
        (drift(ClockErrorBound="0.5"), "ClockErrorBound"),
        (drift(ClockErrorBound=True), "ClockErrorBound"),
        (drift(ClockErrorBound=-0.1), "ClockErrorBound"),
        (drift(ClockErrorBound=float("nan")), "ClockErrorBound"),
        (drift(ClockErrorBound=10**400), "ClockErrorBound"),
        (drift(ReferenceTimestamp=None), "ReferenceTimestamp"),
        (drift(ReferenceTimestamp="yesterday"), "ReferenceTimestamp"),
        (drift(ReferenceTimestamp="2027-01-15T08:00:00"), "ReferenceTimestamp"),
    ],
)
def test_what_is_no_clock_drift_is_unread_and_says_why(task: bytes, why: str) -> None:
    found = reading(task)
    assert isinstance(found, Unread)
    assert why in found.reason


@given(JSON, JSON, st.text(max_size=30), JSON)
def test_no_answer_of_the_metadata_raises(whole: object, bound: object, reference: str, status: object) -> None:
    reading(json.dumps(whole).encode())
    reading(drift(ClockErrorBound=bound, ReferenceTimestamp=reference, ClockSynchronizationStatus=status))
    reading(drift(ClockErrorBound=1, ReferenceTimestamp=reference))


# --- over HTTP -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def serving(status: int, body: bytes) -> Iterator[str]:
    """A metadata endpoint that answers `/v4/task` and nothing else."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/v4/task" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Not to standard error."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v4"
        finally:
            server.shutdown()
            thread.join()


def asked(base: str, answer_s: float = WITHIN_S) -> Reading | Unread:
    read = metadata_reader({METADATA_VARIABLE: base}, answer_s=answer_s)
    assert read is not None
    return read()


def test_the_metadata_is_read_over_http() -> None:
    with serving(200, drift()) as base:
        assert asked(base) == Reading(0.5458234999999999, START_MS, synchronised=True)
        assert asked(base + "/") == asked(base)


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (500, drift(), "answered with HTTP status 500"),
        (302, b"", "answered with HTTP status 302"),
        (200, b" " * ((1 << 20) + 1), "is too long"),
    ],
)
def test_an_answer_that_is_none_is_unread(status: int, body: bytes, why: str) -> None:
    with serving(status, body) as base:
        assert asked(base) == Unread(f"the task metadata {why}")


def test_an_endpoint_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = asked(f"http://127.0.0.1:{silent.getsockname()[1]}", answer_s=0.05)
    assert found == Unread("the task metadata gave no answer (ReadTimeoutError)")


def test_an_endpoint_that_is_not_there_is_unread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert isinstance(asked(f"http://127.0.0.1:{port}"), Unread)
    assert isinstance(asked("nonsense://["), Unread)


@pytest.mark.parametrize("environment", [{}, {METADATA_VARIABLE: " "}])
def test_outside_ecs_there_is_nothing_to_read(environment: dict[str, str]) -> None:
    assert metadata_reader(environment) is None


# --- in its thread ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error_ms", "every_s", "again_s"), [(0, 0.0, NEVER_S), (600, NEVER_S, 0.0)])
def test_the_thread_reads_again_and_again_and_sooner_while_claims_are_stopped(
    error_ms: int, every_s: float, again_s: float
) -> None:
    machine = Machine(error_ms)
    readings = threading.Semaphore(0)

    def read() -> Reading:
        readings.release()
        return machine.measured()

    watched = WatchedClock(Timing(), read, machine.now, every_s=every_s, again_s=again_s)
    watched.start()
    assert all(readings.acquire(timeout=WITHIN_S) for _ in range(3))
    watched.close()
    assert not watched._thread.is_alive()
    assert watched.judge().may_claim is (error_ms == 0)


def test_without_metadata_there_is_no_thread_and_the_reason_is_said() -> None:
    watched = WatchedClock(Timing(), None, Machine().now)
    watched.start()
    assert not watched._thread.is_alive()
    watched.close()
    assert METADATA_VARIABLE in watched.read().reason
    assert watched.judge().may_claim


def test_an_instant_of_ones_own_can_be_judged() -> None:
    machine = Machine()
    watched = WatchedClock(Timing(), machine.measured, machine.now)
    watched.read()
    machine.step(600)
    stepped = machine.now()
    machine.step(-600)
    assert not watched.judge(stepped).may_claim
    assert watched.judge().may_claim


# --- Date ------------------------------------------------------------------------------------------------------------


def test_a_date_header_is_read_in_whole_seconds() -> None:
    assert date_ms("Fri, 15 Jan 2027 08:00:00 GMT") == START_MS


@given(st.text(max_size=40) | st.from_regex(r"[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{1,5} \d\d:\d\d:\d\d \S{1,5}"))
def test_no_date_header_raises(header: str) -> None:
    date_ms(header)


class Body(BytesIO):
    def stream(self) -> Iterator[bytes]:
        yield self.read()


class Service:
    """Answers for DynamoDB, with a clock of its own."""

    def __init__(self, status: int = 200, date: str = "Fri, 15 Jan 2027 08:00:00 GMT") -> None:
        self.status = status
        self.headers = HTTPHeaders.from_dict({"Date": date} if date else {})

    def answer(self, request: AWSRequest, **_: object) -> AWSResponse:
        body = b"{}" if self.status == 200 else b'{"__type":"com.amazonaws#ConditionalCheckFailedException"}'
        return AWSResponse(request.url or "", self.status, self.headers, Body(body))


def calls(watched: WatchedClock, service: Service) -> None:
    made = clients("eu-west-1", "http://127.0.0.1:1", purpose=Purpose.RENEWALS).writes
    watched.observe(made)
    events: Any = made.meta.events
    events.register("before-send", service.answer)
    with contextlib.suppress(ClientError):
        made.list_tables()


@pytest.mark.parametrize("status", [200, 400])
def test_the_date_of_each_answer_of_an_observed_client_is_taken_refusals_included(status: int) -> None:
    machine = Machine(error_ms=3_600_000)
    watched = WatchedClock(Timing(), None, machine.now)
    calls(watched, Service(status))
    assert (watched.judge().may_claim, watched.judge().source) == (False, "date")


@pytest.mark.parametrize("date", ["", "never"])
def test_an_answer_without_a_date_says_nothing(date: str) -> None:
    watched = WatchedClock(Timing(), None, Machine(error_ms=3_600_000).now)
    calls(watched, Service(date=date))
    assert watched.judge().source == "nothing"


def test_a_call_that_gets_no_answer_says_nothing() -> None:
    watched = WatchedClock(Timing(), None, Machine().now)
    watched._sending()
    watched._received(response_dict=None)
    assert watched.judge().source == "nothing"
