"""How a request gets to a service and its answer back: latency, loss, lateness, throttles, partitions.

Every request is two events: it lands, and its answer arrives. A fault either waits for the next request of its kind
(`RequestFault`) or lies over a span of time (`Cut`, `Throttling`); it is counted when it hits a request, never before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from streamlease import budget
from streamlease.errors import Conflict, Fault, Throttled, Unreachable
from streamlease.flow import Batch, Request, SendOffers
from streamlease.model import LastEvent, MemberState
from streamlease.write import Answer, Applied, Delete, Put, Query, Read, Scan, Table, Update, Write
from tests.simulation.clock import true_ms
from tests.simulation.kernel import MS, Kernel
from tests.simulation.ledger import Ledger
from tests.simulation.offers import OffersQueue
from tests.simulation.process import Process, Thread
from tests.simulation.store import Store

type Stamps = tuple[tuple[str, int], ...]
type Then = Callable[[object], None]
"""Called with the answer, or with the `Fault` there was instead."""


class Service(StrEnum):
    STORE = "dynamodb"
    QUEUE = "sqs"
    UPSTREAM = "upstream"
    SINK = "sink"


class Twist(StrEnum):
    """What may befall one request."""

    LOST = "request lost"
    ANSWER_LOST = "answer lost after it landed"
    LANDS_LATE = "no answer, lands later"
    TWICE = "retried by the SDK after it had landed"
    THROTTLED = "throttled"
    CONFLICT = "conflict"
    SLOW = "slow"
    PARTIAL = "part of a batch throttled"


@dataclass(frozen=True, slots=True)
class RequestFault:
    """Befalls the next request with this label (`*`: any) of this process (`*`: any)."""

    twist: Twist
    label: str
    who: str
    delay_us: int
    """For LANDS_LATE and SLOW: how much later."""
    cause: int


@dataclass(slots=True)
class Cut:
    """No way between a process and a service. `answers_only`: requests still land, and nobody hears of it."""

    who: str
    service: Service
    until_us: int
    answers_only: bool
    cause: int


@dataclass(slots=True)
class Throttling:
    """Every write of a process is refused for rate (`*`: of everybody)."""

    who: str
    until_us: int
    cause: int


def label(request: Request) -> str:
    """What a request is for, in one word."""
    match request:
        case Put(table=Table.CONNECTIONS):
            return "create"
        case Put(table=Table.MEMBERS):
            return "join"
        case Delete(table=Table.CONNECTIONS):
            return "delete"
        case Put(table=Table.WORKER_ITEMS) | Update(table=Table.WORKER_ITEMS) | Delete(table=Table.WORKER_ITEMS):
            return _worker_item(request)
        case Update(table=Table.CONNECTIONS):
            return _CONNECTION_LABELS.get(str(request.set.get("last_event")), "write")
        case Update(table=Table.MEMBERS):
            return _member(request)
        case Batch():
            return f"{label(request.writes[0])} batch" if request.writes else "batch"
        case Read():
            return "read"
        case Query() | Scan():
            return "list"
        case SendOffers():
            return "offer"
        case _:
            return "other"


_CONNECTION_LABELS = {
    LastEvent.CLAIMED.value: "claim",
    LastEvent.RENEWED.value: "renew",
    LastEvent.CHECKPOINT.value: "checkpoint",
    LastEvent.RELEASED.value: "release",
    LastEvent.ORPHANED.value: "orphan",
    LastEvent.CONTROL.value: "control",
}


def _member(update: Update) -> str:
    if "heartbeat" in update.set:
        return "heartbeat"
    if update.set.get("state") == MemberState.DEAD.value:
        return "bury"
    return "forget" if update.set.get("state") == MemberState.GONE.value else "summary"


def _worker_item(write: Write) -> str:
    if write.key["worker_id"] == budget.PARTITION:
        return "dials"
    item = str(write.key["item"])
    kind = "inbox" if item.startswith("inbox#") else "page"
    return f"{kind} delete" if isinstance(write, Delete) else kind


class Network:
    def __init__(self, kernel: Kernel, store: Store, queue: OffersQueue, ledger: Ledger) -> None:
        self.kernel = kernel
        self.store = store
        self.queue = queue
        self.ledger = ledger
        self.cuts: list[Cut] = []
        self.throttlings: list[Throttling] = []
        self.waiting: list[RequestFault] = []
        self.calm_from_us = 1 << 62
        """By then everything that was sent has landed."""
        self._draws = kernel.draws("network")

    def cut(self, who: str, service: Service) -> Cut | None:
        """The cut that lies between a process and a service now."""
        for each in self.cuts:
            if each.who == who and each.service is service and each.until_us > self.kernel.now_us:
                return each
        return None

    def latency_us(self) -> int:
        """One way: a few milliseconds, now and then a few hundred."""
        draw = self._draws.random()
        return int((2 + 8 * draw) * MS) if draw < 0.97 else int(10 * MS + 400 * MS * (draw - 0.97) / 0.03)

    def send(self, thread: Thread, request: Request, timeout_us: int, then: Then, stamps: Stamps = ()) -> None:
        """Send a request of `thread`; `then` is called on it with what comes back, a fault included.

        `stamps`: for whom (worker id, epoch) each write of it is meant, for the checkers.
        """
        thread.process.reach("send")
        thread.effect(lambda: _Trip(self, thread, request, timeout_us, then, stamps).leave())

    def take(self, who: str, request: Request) -> RequestFault | None:
        """The fault that waits for this request, if any."""
        if not self.waiting:
            return None
        name = label(request)
        for fault in self.waiting:
            if fault.who in ("*", who) and (fault.label == "*" or name.startswith(fault.label)):
                self.waiting.remove(fault)
                return fault
        return None


@dataclass(slots=True)
class _Trip:
    """One request's way there and back."""

    network: Network
    thread: Thread
    request: Request
    timeout_us: int
    then: Then
    stamps: Stamps
    answered: bool = False
    lose_answer: bool = False
    land_again_us: int = 0
    back_us: int = 0
    partial: bool = False
    left_us: int = 0
    date_ms: int = 0

    @property
    def process(self) -> Process:
        return self.thread.process

    def leave(self) -> None:
        net, who = self.network, self.process.role
        service = Service.QUEUE if isinstance(self.request, SendOffers) else Service.STORE
        there_us, self.back_us = net.latency_us(), net.latency_us()
        self.left_us = net.kernel.now_us
        cut = net.cut(who, service)
        if cut is not None:
            net.ledger.hit("cut", f"{service} {label(self.request)}", who, cut.cause)
            self.lose_answer = True
            if not cut.answers_only:
                self._expire_after(self.timeout_us)
                return
        fault = net.take(who, self.request)
        if fault is not None and self._befall(fault):
            return
        if self.lose_answer or there_us + self.back_us + self.land_again_us > self.timeout_us:
            self._expire_after(self.timeout_us)
        net.kernel.after(there_us, self.land)

    def _befall(self, fault: RequestFault) -> bool:
        """Whether nothing more is to be done here."""
        net, kernel = self.network, self.network.kernel
        net.ledger.hit(str(fault.twist), label(self.request), self.process.role, fault.cause)
        match fault.twist:
            case Twist.LOST:
                self._expire_after(self.timeout_us)
                return True
            case Twist.ANSWER_LOST:
                self.lose_answer = True
            case Twist.LANDS_LATE:
                self.lose_answer = True
                self._expire_after(self.timeout_us)
                kernel.at(min(kernel.now_us + fault.delay_us, net.calm_from_us), self.land)
                return True
            case Twist.TWICE:
                self.land_again_us = 20 * MS + self.back_us
            case Twist.THROTTLED | Twist.CONFLICT:
                refusal = Throttled("throttled") if fault.twist is Twist.THROTTLED else Conflict("conflict")
                kernel.after(self.back_us, lambda: self._answer(refusal))
                return True
            case Twist.SLOW:
                self.back_us += fault.delay_us
                if self.back_us > self.timeout_us:
                    self._expire_after(self.timeout_us)
            case Twist.PARTIAL:
                self.partial = True
        return False

    def land(self) -> None:
        net = self.network
        self.date_ms = true_ms(net.kernel.now_us) // 1_000 * 1_000
        answer = self._throttled() or self._perform()
        if self.land_again_us:
            net.kernel.after(self.land_again_us, self._land_again)
        elif not self.lose_answer:
            net.kernel.after(self.back_us, lambda: self._answer(answer))
        else:
            net.ledger.ambiguous(self.request, answer)

    def _land_again(self) -> None:
        answer = self._perform()
        self.network.kernel.after(self.back_us, lambda: self._answer(answer))

    def _throttled(self) -> Fault | None:
        net = self.network
        if not net.throttlings or isinstance(self.request, Read | Query | Scan | SendOffers):
            return None
        for each in net.throttlings:
            if each.until_us > net.kernel.now_us and each.who in ("*", self.process.role):
                net.ledger.hit("throttled span", label(self.request), self.process.role, each.cause)
                return Throttled("throttled")
        return None

    def _perform(self) -> object:
        store, who = self.network.store, self.process.name
        match self.request:
            case Put() | Update() | Delete():
                return store.write(self.request, who, self.stamps[0] if self.stamps else None)
            case Batch():
                return self._batch(self.request)
            case Read():
                return store.read(self.request)
            case Query():
                self._may_be_stale(self.request)
                return store.query(self.request)
            case Scan():
                self._may_be_stale(self.request)
                return store.scan(self.request)
            case SendOffers():
                return self.network.queue.send(self.request.offers)
            case _:
                raise AssertionError(f"no request to a service: {self.request}")

    def _may_be_stale(self, request: Query | Scan) -> None:
        lag = self.network.store.lag
        if request.index is not None and lag.extra_us and self.network.store.lagging:
            self.network.ledger.hit("index lag", label(request), self.process.role, lag.cause)

    def _batch(self, batch: Batch) -> tuple[Answer | Fault, ...]:
        """Each statement lands for itself; a partial failure throttles some of them."""
        answers: list[Answer | Fault] = []
        for number, write in enumerate(batch.writes):
            if self.partial and number % 2 == 0:
                answers.append(Throttled("throttled"))
                continue
            stamp = self.stamps[number] if self.stamps else None
            answer = self.network.store.write(write, self.process.name, stamp)
            answers.append(Applied() if isinstance(answer, Applied) else answer)
        return tuple(answers)

    def _expire_after(self, delay_us: int) -> None:
        self.network.kernel.after(delay_us, lambda: self._answer(Unreachable("no answer in time")))

    def _answer(self, answer: object) -> None:
        """The first of answer and timeout counts, as the process sees them."""
        self.thread.event(lambda: self._hear(answer))

    def _hear(self, answer: object) -> None:
        if self.answered:
            return
        self.answered = True
        if isinstance(answer, Unreachable):
            self.lose_answer = True
        elif (watch := self.process.watch) is not None and self.date_ms:
            reading = self.process.reading
            watch.dated(self.date_ms, reading(self.left_us), reading(self.thread.now_us))
        self.then(answer)
