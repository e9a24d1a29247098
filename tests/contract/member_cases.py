"""Every transition of a member item and of what stands beside it, with every clause violated one at a time."""

from collections.abc import Mapping
from functools import partial

from streamlease import inbox, membership, pages
from streamlease.membership import Ahead, Beat, Behind, Buried
from streamlease.model import FleetSummary, Member, MemberState, Position, Saved
from streamlease.pages import Overtaken, Unwritable, Written
from streamlease.plan import Notice
from streamlease.timing import Instant, Timing
from streamlease.write import Answer, Item, Update, Value, Write
from tests.contract.cases import WITHOUT, Case, Of, Without, changed, landed, nothing

TIMING = Timing()
NOW = 1_800_000_000_000
SENT = Instant(1_000.0, NOW)
EXPIRED = NOW - TIMING.skew_ms - 1


def member(worker_id: str, **attributes: Value | Without) -> dict[str, Value]:
    item: dict[str, Value] = {
        "schema": 1,
        "worker_id": worker_id,
        "state": "LIVE",
        "heartbeat": 8,
        "lease_expires_at_ms": EXPIRED,
        "generation": 2,
        "capacity": 100,
        "owned": 40,
        "started_at_ms": 1_700_000_000_000,
        "zone": "eu-west-1a",
    }
    return changed(item, **attributes)


def _seen(worker_id: str) -> Member:
    return Member(
        worker_id=worker_id,
        state=MemberState.LIVE,
        heartbeat=8,
        lease_expires_at_ms=EXPIRED,
        generation=2,
        capacity=100,
        owned=40,
        started_at_ms=0,
    )


def _join(worker_id: str) -> Write:
    return membership.join(worker_id, generation=2, capacity=100, zone="", started_at_ms=NOW, sent=SENT, timing=TIMING)


def _heartbeat(worker_id: str) -> Write:
    return membership.heartbeat(
        worker_id,
        seen=8,
        state=MemberState.DRAINING,
        owned=41,
        load={"messages_per_s": 12.5, "streaming": 40},
        sent=SENT,
        timing=TIMING,
    )


def _beaten(answer: Answer) -> object:
    return membership.beaten(answer, seen=8)


def _leave(worker_id: str) -> Write:
    return membership.leave(worker_id, now_ms=NOW)


def _bury(worker_id: str) -> Write:
    return membership.bury(_seen(worker_id), now_ms=NOW, timing=TIMING)


def _bury_unexpired(worker_id: str) -> Write:
    """What nobody should ask for: the condition stands in its way all the same."""
    return membership.bury(_seen(worker_id), now_ms=NOW - 1, timing=TIMING)


def _forget(worker_id: str) -> Write:
    return membership.forget(_seen(worker_id), now_ms=NOW)


def _elsewhere(write: Update, worker_id: str) -> Update:
    """The fleet summary's write, at a key that no other test uses."""
    return Update(write.table, {"worker_id": worker_id}, write.condition, write.set, write.remove, write.add)


def _summarise(worker_id: str) -> Write:
    return _elsewhere(membership.summarise(FleetSummary(NOW, live=3, owned=5, unowned=1, shards=16)), worker_id)


def _raise_shards(worker_id: str) -> Write:
    return _elsewhere(membership.raise_shards(16), worker_id)


def _summary(worker_id: str, **attributes: Value | Without) -> Item:
    item: dict[str, Value] = {"schema": 1, "worker_id": worker_id, "at_ms": NOW - 1, "live": 2, "shards": 8}
    return changed(item, **attributes)


def _notice(worker_id: str) -> Write:
    return inbox.put(Notice(worker_id, "feed/ü#1", 4))


def _entry(worker_id: str, spec_version: int) -> Item:
    return {"worker_id": worker_id, "item": "inbox#feed/ü#1", "spec_version": spec_version}


_SAVED = Saved("feed/ü#1", 1_700_000_000_007, 9, 4, Position("b-\U0001d11e", "host-1", None, "tok\u00e9n"))


def _page(worker_id: str, **attributes: Value | Without) -> Item:
    item: dict[str, Value] = {
        "schema": 1,
        "worker_id": worker_id,
        "item": "page#7",
        "version": 3,
        "packed": b"\x00\xff",
    }
    return changed(item, **attributes)


def _create_page(worker_id: str) -> Write:
    return pages.create(worker_id, 7)


def _write_page(worker_id: str) -> Write:
    return pages.write(worker_id, 7, version=4, entries=[_SAVED])


def _seal_page(worker_id: str) -> Write:
    return pages.seal(_page(worker_id))


def _remove_page(worker_id: str) -> Write:
    return pages.remove(_page(worker_id))


def _delete_notice(worker_id: str) -> Write:
    return inbox.delete(worker_id, inbox.Entry("feed/ü#1", 4))


_DRAINING, _DEAD, _GONE = ({"state": state} for state in ("DRAINING", "DEAD", "GONE"))

TRANSITIONS: Mapping[str, list[Case]] = {
    of.transition: of.cases
    for of in (
        Of("join", _join, landed)
        .applies("absent", nothing, True)
        .refuses("there already", member, False)
        .refuses("dead", partial(member, **_DEAD), False),
        Of("heartbeat", _heartbeat, _beaten)
        .applies("live", member, Beat(9))
        .applies("draining", partial(member, **_DRAINING), Beat(9))
        .refuses("an unanswered one had landed", partial(member, heartbeat=9), Behind(9))
        .refuses("of a clock that was set back", partial(member, lease_expires_at_ms=1 << 60), Ahead())
        .refuses("dead", partial(member, **_DEAD), Buried())
        .refuses("gone", partial(member, **_GONE), Buried())
        .refuses("absent", nothing, Buried()),
        Of("leave", _leave, landed)
        .applies("live", member, True)
        .applies("draining", partial(member, **_DRAINING), True)
        .refuses("dead", partial(member, **_DEAD), False)
        .refuses("absent", nothing, False),
        Of("bury", _bury, landed)
        .applies("live and expired", member, True)
        .applies("draining and expired", partial(member, **_DRAINING), True)
        .refuses("buried by another", partial(member, **_DEAD), False)
        .refuses("it has beaten since", partial(member, lease_expires_at_ms=EXPIRED - 1), False)
        .refuses("absent", nothing, False),
        Of("bury too early", _bury_unexpired, landed).refuses("not expired on every clock", member, False),
        Of("forget", _forget, landed)
        .applies("dead", partial(member, **_DEAD), True)
        .refuses("live", member, False)
        .refuses("gone already", partial(member, **_GONE), False)
        .refuses("absent", nothing, False),
        Of("summarise", _summarise, landed)
        .applies("the first", nothing, True)
        .applies("older", _summary, True)
        .applies("only shards so far", partial(_summary, at_ms=WITHOUT), True)
        .refuses("as new", partial(_summary, at_ms=NOW), False),
        Of("raise shards", _raise_shards, landed)
        .applies("the first", nothing, True)
        .applies("fewer", _summary, True)
        .applies("none so far", partial(_summary, shards=WITHOUT), True)
        .refuses("as many", partial(_summary, shards=16), False),
        Of("notice", _notice, landed)
        .applies("none yet", nothing, True)
        .applies("of an older version", partial(_entry, spec_version=3), True)
        .refuses("of the same version", partial(_entry, spec_version=4), False),
        Of("delete a notice", _delete_notice, landed)
        .applies("the version acted on", partial(_entry, spec_version=4), True)
        .refuses("a newer one", partial(_entry, spec_version=5), False)
        .refuses("deleted before", nothing, False),
        Of("create a page", _create_page, landed)
        .applies("the first", nothing, True)
        .refuses("there already", _page, False),
        Of("write a page", _write_page, pages.written)
        .applies("an older version", _page, Written())
        .applies("empty", partial(_page, version=0, packed=WITHOUT), Written())
        .refuses("as new", partial(_page, version=4), Overtaken(4))
        .refuses("sealed", partial(_page, sealed=True), Unwritable("sealed"))
        .refuses("absent", nothing, Unwritable("missing")),
        Of("seal a page", _seal_page, landed)
        .applies("open", _page, True)
        .refuses("sealed before", partial(_page, sealed=True), False)
        .refuses("no page", partial(_page, version=WITHOUT), False)
        .refuses("absent", nothing, False),
        Of("remove a page", _remove_page, landed)
        .applies("sealed", partial(_page, sealed=True), True)
        .refuses("open", _page, False)
        .refuses("absent", nothing, False),
    )
}
DECIDED_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    # Where the expiry is the one seen, only "bury too early" can fail the other clause.
    "bury": ("Less(attribute='lease_expires_at_ms'",),
    "bury too early": ("",),
}
"""Clauses that the cases of another transition decide."""
