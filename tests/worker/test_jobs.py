"""The supervisor's requests on threads: each ends in exactly one event, whatever goes wrong."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamlease import inbox
from streamlease.errors import Denied, Fault, Malformed, Throttled, Unreachable
from streamlease.flow import Request, run
from streamlease.flows import control
from streamlease.flows.sweep import Sweep
from streamlease.inbox import Entry
from streamlease.lease import Change, Claimed
from streamlease.model import Connection, DesiredState, FleetSummary, Offer
from streamlease.plan import Notice
from streamlease.settings import Settings, settings
from streamlease.write import Always, Query, Table, Update
from streamlease_worker import supervisor_events as events
from streamlease_worker.jobs import Job, Jobs
from streamlease_worker.joining import Applicant, join
from streamlease_worker.log import Log, Problems
from streamlease_worker.supervisor_events import (
    Buried,
    Bury,
    Claim,
    ClaimAnswered,
    DeleteOffer,
    FleetRead,
    ForgetNotice,
    InboxRead,
    Leave,
    Left,
    Listed,
    ListOwned,
    LookAgain,
    LookedAgain,
    OffersReceived,
    ReadFleet,
    ReadInbox,
    Receive,
    Received,
    Recount,
    ReleaseUnknown,
    ReturnOffer,
    SettleNotice,
    SweepNow,
    Swept,
    UnknownSettled,
)
from tests.fakes.clock import SetClock
from tests.fakes.memory import MemoryStore
from tests.fakes.trouble import Troubled
from tests.worker.test_configuration import ENVIRONMENT

WORKER = "worker-1"


class FakeOffers:
    def __init__(self) -> None:
        self.waiting: list[Received] = []
        self.deleted: list[list[str]] = []
        self.returned: list[list[str]] = []
        self.fault: Exception | None = None

    def receive(self, most: int) -> tuple[Received, ...]:
        if self.fault is not None:
            raise self.fault
        given, self.waiting = self.waiting[:most], self.waiting[most:]
        return tuple(given)

    def delete(self, receipts: Sequence[str]) -> None:
        self.deleted.append(list(receipts))

    def give_back(self, receipts: Sequence[str]) -> None:
        self.returned.append(list(receipts))


class Bench:
    def __init__(self) -> None:
        self.clock = SetClock()
        self.memory = MemoryStore(self.clock)
        self.store = Troubled(self.memory.perform)
        self.offers = FakeOffers()
        self.settings: Settings = settings({**ENVIRONMENT, "STREAMLEASE_SHARDS": "1"})
        run(join(Applicant(WORKER, 0, 10, "", self.settings.timing)), self.memory.perform)
        self.operator = control.Operator("somebody", 1, self.settings.timing)
        self.meets: Callable[[Request], None] = lambda _: None

    def perform(self, request: Request) -> object:
        self.meets(request)
        return self.store.perform(request)

    def create(self, name: str) -> None:
        run(
            control.create(
                name,
                upstream_url="wss://x",
                spec={},
                labels={},
                desired_state=DesiredState.STARTED,
                operator=self.operator,
            ),
            self.memory.perform,
        )

    def break_item(self, name: str) -> None:
        key = {"connection_id": name}
        self.memory.perform(Update(Table.CONNECTIONS, key, Always(), set={"spec_version": "one"}))

    def do(self, *jobs: Job) -> list[events.Event]:
        """The events that these jobs end in, once all have ended."""

        async def main() -> list[events.Event]:
            found: list[events.Event] = []
            with ThreadPoolExecutor(4) as threads:
                made = Jobs(
                    WORKER,
                    self.settings,
                    perform=self.perform,
                    offers=self.offers,
                    threads=threads,
                    happened=found.append,
                    log=Log(),
                    problems=Problems(Log()),
                )
                for job in jobs:
                    made.begin(job)
                await asyncio.sleep(0)
                while made._running:
                    await asyncio.wait(made._running)
            return found

        return asyncio.run(main())

    def one(self, job: Job) -> events.Event:
        (event,) = self.do(job)
        return event


def test_a_claim_ends_in_its_outcome() -> None:
    bench = Bench()
    bench.create("a")
    event = bench.one(Claim("a", "control"))
    assert isinstance(event, ClaimAnswered)
    assert isinstance(event.outcome, Claimed)
    again = bench.one(Claim("a", "control"))
    assert isinstance(again, ClaimAnswered)
    assert type(again.outcome).__name__ == "Held"


def test_a_claim_of_a_malformed_item_ends_in_the_problem() -> None:
    bench = Bench()
    bench.create("a")
    bench.break_item("a")
    event = bench.one(Claim("a", "control"))
    assert isinstance(event, ClaimAnswered)
    assert isinstance(event.outcome, Malformed)


@pytest.mark.parametrize(
    ("error", "kind"), [(Throttled("slow down"), Throttled), (Denied("no"), Denied), (KeyError("oops"), Unreachable)]
)
def test_whatever_goes_wrong_every_job_ends_in_its_event(error: Exception, kind: type[Fault]) -> None:
    bench = Bench()
    bench.offers.fault = error

    def fail(_: Request) -> None:
        raise error

    bench.meets = fail
    claimed = bench.one(Claim("a", "control"))
    assert isinstance(claimed, ClaimAnswered)
    assert isinstance(claimed.outcome, kind)
    received = bench.one(Receive(1))
    assert isinstance(received, OffersReceived)
    assert isinstance(received.offers, kind)
    swept = bench.one(SweepNow(1, 0))
    assert isinstance(swept, Swept)
    assert isinstance(swept.sweep, kind)
    read = bench.one(ReadFleet())
    assert isinstance(read, FleetRead)
    assert isinstance(read.fleet, kind)
    listed = bench.one(ListOwned())
    assert isinstance(listed, Listed)
    assert isinstance(listed.items, kind)
    assert bench.one(Bury(())) == Buried()
    unknown = bench.one(ReleaseUnknown("a"))
    assert isinstance(unknown, UnknownSettled)
    assert isinstance(unknown.fault, kind)
    looked = bench.one(LookAgain("a", 1))
    assert isinstance(looked, LookedAgain)
    assert isinstance(looked.connection, kind)
    inbox_read = bench.one(ReadInbox())
    assert isinstance(inbox_read, InboxRead)
    assert isinstance(inbox_read.entries, kind)
    settled = bench.one(SettleNotice("a", 1))
    assert isinstance(settled, UnknownSettled)
    assert isinstance(settled.fault, kind)
    assert bench.do(ForgetNotice("a", 1)) == []
    assert bench.one(Leave()) == Left()


def test_a_recount_divides_anew_by_the_members_and_asks_no_shard() -> None:
    bench = Bench()
    bench.one(SweepNow(1, 0))
    run(join(Applicant("newcomer", 0, 10, "", bench.settings.timing)), bench.memory.perform)
    bench.store.performed.clear()
    counted = bench.one(Recount())
    assert isinstance(counted, Swept)
    assert isinstance(counted.sweep, Sweep)
    assert (counted.sweep.fleet.live, counted.sweep.candidates) == (2, ())
    assert not any(isinstance(request, Query) for request in bench.store.performed)
    read = bench.one(ReadFleet())
    assert isinstance(read, FleetRead)
    assert isinstance(read.fleet, FleetSummary)
    assert read.fleet.live == 2


def test_sweeps_see_what_is_free_and_write_the_summary_that_is_then_read() -> None:
    bench = Bench()
    bench.create("a")
    swept = bench.one(SweepNow(10, 0))
    assert isinstance(swept, Swept)
    assert not isinstance(swept.sweep, Fault)
    assert [candidate.connection_id for candidate in swept.sweep.candidates] == ["a"]
    read = bench.one(ReadFleet())
    assert isinstance(read, FleetRead)
    assert not isinstance(read.fleet, Fault)
    assert read.fleet is not None
    assert read.fleet.unowned == 1


def test_a_malformed_member_is_reported_and_stops_no_sweep() -> None:
    bench = Bench()
    bench.memory.perform(Update(Table.MEMBERS, {"worker_id": "odd"}, Always(), set={"state": "LIVE"}))
    swept = bench.one(SweepNow(10, 0))
    assert isinstance(swept, Swept)
    assert not isinstance(swept.sweep, Fault)
    assert len(swept.sweep.members) == 1


def test_the_audit_lists_looks_again_and_releases() -> None:
    bench = Bench()
    bench.create("a")
    bench.one(Claim("a", "control"))
    listed = bench.one(ListOwned())
    assert isinstance(listed, Listed)
    assert not isinstance(listed.items, Fault)
    assert [item["connection_id"] for item in listed.items] == ["a"]
    run(control.change("a", Change(labels={"x": "y"}), operator=bench.operator), bench.memory.perform)
    looked = bench.one(LookAgain("a", 1))
    assert isinstance(looked, LookedAgain)
    assert isinstance(looked.connection, Connection)
    assert looked.connection.spec_version == 2
    assert bench.one(ReleaseUnknown("a")) == UnknownSettled("a")
    item = bench.memory.item(Table.CONNECTIONS, "a")
    assert item is not None
    assert "lease_owner" not in item


def test_the_inbox_is_read_and_its_entries_are_settled_or_forgotten() -> None:
    bench = Bench()
    bench.create("ours")
    bench.one(Claim("ours", "control"))
    for name in ("ours", "done"):
        bench.memory.perform(inbox.put(Notice(WORKER, name, 2)))
    assert bench.one(ReadInbox()) == InboxRead((Entry("done", 2), Entry("ours", 2)))
    assert bench.do(ForgetNotice("done", 1)) == []
    assert bench.do(ForgetNotice("done", 2)) == []
    assert bench.one(ReadInbox()) == InboxRead((Entry("ours", 2),))
    assert bench.one(SettleNotice("ours", 2)) == UnknownSettled("ours")
    item = bench.memory.item(Table.CONNECTIONS, "ours")
    assert item is not None
    assert "lease_owner" not in item
    assert bench.one(ReadInbox()) == InboxRead(())


def test_a_malformed_item_met_by_the_audit_ends_in_nothing_new() -> None:
    bench = Bench()
    bench.create("a")
    bench.one(Claim("a", "control"))
    bench.break_item("a")
    looked = bench.one(LookAgain("a", 1))
    assert isinstance(looked, LookedAgain)
    assert isinstance(looked.connection, Denied)
    unknown = bench.one(ReleaseUnknown("a"))
    assert isinstance(unknown, UnknownSettled)
    assert isinstance(unknown.fault, Denied)


def test_leaving_ends_the_membership() -> None:
    bench = Bench()
    assert bench.one(Leave()) == Left()
    member = bench.memory.item(Table.MEMBERS, WORKER)
    assert member is not None
    assert member["state"] == "DEAD"


def test_offers_are_received_and_answers_to_many_share_calls() -> None:
    bench = Bench()
    bench.offers.waiting = [Received(Offer("a", "control", 0), "first"), Received(Offer("b", "control", 0), "second")]
    assert bench.one(Receive(1)) == OffersReceived((Received(Offer("a", "control", 0), "first"),))
    deletes: list[Job] = [DeleteOffer(f"d{number}") for number in range(23)]
    returns: list[Job] = [ReturnOffer(f"r{number}") for number in range(3)]
    assert bench.do(*deletes, *returns) == []
    assert [len(receipts) for receipts in bench.offers.deleted] == [10, 10, 3]
    assert [receipt for receipts in bench.offers.deleted for receipt in receipts] == [f"d{at}" for at in range(23)]
    assert bench.offers.returned == [["r0", "r1", "r2"]]
