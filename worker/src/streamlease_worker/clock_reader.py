"""The shell around `clock`: asks the ECS task metadata in a thread of its own, and listens to what services answer.

Nothing here raises for what it cannot read: the watch is told why, and goes by the other source.
"""

import json
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from streamlease.dynamodb import clock
from streamlease.timing import Instant, Timing
from streamlease_worker.clock import ClockWatch, Reading, Unread, Verdict

METADATA_VARIABLE = "ECS_CONTAINER_METADATA_URI_V4"
"""Set by ECS in every container. Where it is not, no ClockDrift is to be had."""
EVERY_S = 15.0
AGAIN_S = 2.0
"""While claims are stopped, the metadata is asked this often."""
CONNECT_S = 1.0
ANSWER_S = 2.0
MOST_BYTES = 1 << 20
LARGEST_MS = 1e15
"""A bound above this is nonsense, not a bound: it is some 30,000 years."""

type Read = Callable[[], Reading | Unread]


class WatchedClock:
    """The wall clock and what is known of it. Safe to share between threads.

    `reader` is what `metadata_reader` gives; without one the services' `Date`s are all there is.
    """

    def __init__(
        self,
        timing: Timing,
        reader: Read | None,
        now: Callable[[], Instant] = clock.now,
        *,
        every_s: float = EVERY_S,
        again_s: float = AGAIN_S,
    ) -> None:
        self._watch = ClockWatch(timing)
        self._reader = reader
        self._now = now
        self._every_s, self._again_s = every_s, again_s
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._on_this_thread = threading.local()
        self._thread = threading.Thread(target=self._read_again_and_again, name="clock-reader", daemon=True)
        if reader is None:
            self._watch.read(Unread(f"{METADATA_VARIABLE} is not set"), now(), now())

    def start(self) -> None:
        """Read now and then, until `close`."""
        if self._reader is not None:
            self._thread.start()

    def close(self) -> None:
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(CONNECT_S + ANSWER_S)

    def judge(self, instant: Instant | None = None) -> Verdict:
        """What the clock is good for at `instant` (None: now). Costs some microseconds: ask before each use."""
        with self._lock:
            return self._watch.judge(instant or self._now())

    def read(self) -> Verdict:
        """Ask the metadata once, on this thread. Takes up to some seconds."""
        if self._reader is None:
            return self.judge()
        asked = self._now()
        found = self._reader()
        with self._lock:
            now = self._now()
            self._watch.read(found, asked, now)
            return self._watch.judge(now)

    def observe(self, *clients: Any) -> None:
        """Take the `Date` of every answer that these boto3 clients get, also of refusals and of attempts in vain."""
        for client in clients:
            client.meta.events.register("before-send", self._sending)
            client.meta.events.register("response-received", self._received)

    def dated(self, header: str, sent: Instant) -> None:
        """A request of `sent` was answered just now with this `Date` header. What is no date is passed over."""
        found_ms = date_ms(header)
        if found_ms is not None:
            with self._lock:
                self._watch.dated(found_ms, sent, self._now())

    def _read_again_and_again(self) -> None:
        verdict = self.read()
        while not self._closed.wait(self._every_s if verdict.may_claim else self._again_s):
            verdict = self.read()

    def _sending(self, **_: object) -> None:
        self._on_this_thread.sent = self._now()

    def _received(self, response_dict: Mapping[str, Any] | None, **_: object) -> None:
        sent: Instant | None = getattr(self._on_this_thread, "sent", None)
        header = response_dict["headers"].get("date") if response_dict is not None else None
        if sent is not None and header is not None:
            self.dated(header, sent)


def metadata_reader(environment: Mapping[str, str], *, answer_s: float = ANSWER_S) -> Read | None:
    """What asks the task metadata, and gives up after some seconds. None outside ECS."""
    base = environment.get(METADATA_VARIABLE, "").strip()
    if not base:
        return None
    pool = urllib3.PoolManager(timeout=urllib3.Timeout(connect=CONNECT_S, read=answer_s), retries=False)
    return lambda: _fetch(pool, f"{base.rstrip('/')}/task")


def reading(task: bytes) -> Reading | Unread:
    """The `ClockDrift` in the metadata of a task."""
    try:
        document = json.loads(task)
    except (ValueError, RecursionError):
        return Unread("the task metadata is not JSON")
    drift = document.get("ClockDrift") if isinstance(document, dict) else None
    if not isinstance(drift, dict):
        return Unread("the task metadata has no ClockDrift")
    bound_ms, reference = drift.get("ClockErrorBound"), drift.get("ReferenceTimestamp")
    if isinstance(bound_ms, bool) or not isinstance(bound_ms, int | float) or not 0 <= bound_ms <= LARGEST_MS:
        return Unread("ClockErrorBound is not a number of milliseconds")
    reference_ms = _utc_ms(reference) if isinstance(reference, str) else None
    if reference_ms is None:
        return Unread("ReferenceTimestamp is not a time in UTC")
    return Reading(float(bound_ms), reference_ms, drift.get("ClockSynchronizationStatus") == "SYNCHRONIZED")


def date_ms(header: str) -> int | None:
    """A `Date` header's time in Unix milliseconds. None where it is none."""
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    return None if at.tzinfo is None else int(at.timestamp()) * 1000


def _utc_ms(text: str) -> int | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else int(at.timestamp() * 1000)


def _fetch(pool: urllib3.PoolManager, url: str) -> Reading | Unread:
    try:
        with pool.request("GET", url, preload_content=False, redirect=False) as response:
            body = response.read(MOST_BYTES + 1)
            status = response.status
    except (HTTPError, OSError) as error:
        return Unread(f"the task metadata gave no answer ({type(error).__name__})")
    if status != 200:
        return Unread(f"the task metadata answered with HTTP status {status}")
    if len(body) > MOST_BYTES:
        return Unread("the task metadata is too long")
    return reading(body)
