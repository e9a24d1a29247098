"""The deployed filter and the code agree: what it drops would have become nothing, and so does little of the rest.

The records are those that the transitions themselves leave behind; the filter is the template's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlease import items, lease
from streamlease.lease import Change, Checkpoint
from streamlease.model import DesiredState, LastEvent, LeaseMode, Position, Status, StatusState
from streamlease.plan import reaction
from streamlease.timing import Instant, Timing
from streamlease.write import Item, Write, apply, holds
from tests.functions.conftest import event, record
from tests.template.document import properties_of, template
from tests.template.event_filter import invokes

TIMING = Timing()
START_MS = 1_800_000_000_000


def deployed_patterns() -> list[str]:
    [source] = properties_of(template(), "StreamFunction")["Events"].values()
    return [each["Pattern"] for each in source["Properties"]["FilterCriteria"]["Filters"]]


PATTERNS = deployed_patterns()


def passes(image: Item | None, kind: str = "MODIFY") -> bool:
    return invokes(PATTERNS, record("c1", 1, image, kind))


@dataclass(slots=True)
class Life:
    """One connection, changed by its transitions in any order; `images` is what the stream shows of it."""

    mode: LeaseMode
    item: Item | None = None
    now_ms: int = START_MS
    images: list[tuple[str, Item | None]] = field(default_factory=list)

    def write(self, name: str, write: Write) -> None:
        if holds(write.condition, self.item):
            self.item = apply(write, self.item)
            self.images.append((name, self.item))

    def step(self, name: str) -> None:
        self.now_ms += 20_000
        sent = Instant(0.0, self.now_ms)
        if name == "create":
            state = DesiredState.STARTED
            self.write(
                name,
                lease.create(
                    "c1",
                    upstream_url="wss://up",
                    spec={},
                    labels={},
                    desired_state=state,
                    shard="STARTED",
                    now_ms=self.now_ms,
                    updated_by="me",
                ),
            )
            return
        if self.item is None:
            return
        seen = items.connection(self.item)
        owner = seen.lease_owner or "nobody"
        held = lease.lease_of(seen, owner)
        checkpoint = Checkpoint(
            seen.checkpoint_no + 1, Position(self.now_ms), Status(StatusState.STREAMING, self.now_ms)
        )
        change: dict[str, Change] = {
            "start": Change(DesiredState.STARTED),
            "stop": Change(DesiredState.STOPPED),
            "edit": Change(spec={"at": self.now_ms}),
            "forget": Change(forget_position=True),
        }
        writes: dict[str, Callable[[], Write]] = {
            "claim": lambda: lease.claim(
                "c1", worker_id="w1", nonce=f"{self.now_ms}", sent=sent, timing=TIMING, mode=self.mode
            ),
            "claim_after_crash": lambda: lease.claim_after_crash(
                seen, worker_id="w2", nonce=f"{self.now_ms}", sent=sent, timing=TIMING, mode=self.mode
            ),
            "renew": lambda: lease.renew(held, sent=sent, timing=TIMING),
            "renew_with_checkpoint": lambda: lease.renew(held, sent=sent, timing=TIMING, checkpoint=checkpoint),
            "checkpoint": lambda: lease.checkpoint(held, checkpoint),
            "release": lambda: lease.release(held, checkpoint=checkpoint, now_ms=self.now_ms),
            "orphan": lambda: lease.orphan(seen, dead_worker_id=owner, now_ms=self.now_ms),
            "postpone": lambda: lease.postpone(seen, now_ms=self.now_ms, timing=TIMING),
            "delete": lambda: lease.delete("c1", now_ms=self.now_ms, timing=TIMING),
        }
        if name in change:
            write: Write = lease.control(seen, change[name], shard="STARTED", now_ms=self.now_ms, updated_by="me")
        else:
            write = writes[name]()
        self.write(name, write)


TRANSITIONS = [
    "create",
    "claim",
    "claim_after_crash",
    "renew",
    "renew_with_checkpoint",
    "checkpoint",
    "release",
    "orphan",
    "postpone",
    "start",
    "stop",
    "edit",
    "forget",
    "delete",
]
QUIET = {"claim", "claim_after_crash", "renew", "renew_with_checkpoint", "checkpoint", "delete"}


@given(st.sampled_from(LeaseMode), st.lists(st.sampled_from(TRANSITIONS), max_size=12))
def test_what_the_filter_drops_would_have_become_nothing(mode: LeaseMode, names: list[str]) -> None:
    life = Life(mode)
    for name in ["create", *names]:
        life.step(name)
    for name, image in life.images:
        wanted = reaction(image, now_ms=life.now_ms)
        let_through = passes(image, "MODIFY" if image else "REMOVE")
        assert let_through or wanted is None, name
        assert not (let_through and name in QUIET), name
        assert let_through is (wanted is not None) or edited_while_renewed(image), name


def edited_while_renewed(image: Item | None) -> bool:
    """The one thing let through for nothing: an owner with an expiry of its own learns of a change by renewing."""
    return image is not None and "lease_owner" in image and "lease_expires_at_ms" in image


@pytest.mark.parametrize("mode", LeaseMode)
def test_every_transition_is_among_the_records_that_are_tried(mode: LeaseMode) -> None:
    tried: set[str] = set()
    for names in (
        "create claim edit stop start forget renew renew_with_checkpoint checkpoint release stop delete",
        "create claim orphan",
    ):
        life = Life(mode)
        for name in names.split():
            life.step(name)
        tried |= {name for name, _ in life.images}
    life = Life(LeaseMode.CONNECTION)
    life.step("create")
    life.step("claim")
    life.now_ms += 60_000
    life.step("claim_after_crash")
    life.now_ms += 60_000
    life.step("postpone")
    tried |= {name for name, _ in life.images}
    not_in_this_mode = {
        LeaseMode.CONNECTION: {"orphan"},  # its leases stand on their own expiry
        LeaseMode.WORKER: {"renew", "renew_with_checkpoint"},  # and here the worker's stands for them
    }
    assert tried == set(TRANSITIONS) - not_in_this_mode[mode]


@pytest.mark.parametrize("mode", LeaseMode)
def test_no_renewal_checkpoint_or_claim_ever_invokes_the_function(mode: LeaseMode) -> None:
    """Whatever else an item says: `last_event` alone drops it."""
    for last_event in (LastEvent.RENEWED, LastEvent.CHECKPOINT, LastEvent.CLAIMED):
        for state in DesiredState:
            for owner in ({}, {"lease_owner": "w1"}):
                image: dict[str, Any] = {
                    "connection_id": "c1",
                    "last_event": last_event,
                    "desired_state": state,
                    **owner,
                }
                assert not passes(image)


@pytest.mark.parametrize(
    ("name", "let_through"),
    [
        ("control", True),
        ("control-stopped", True),
        ("released", True),
        ("orphaned", True),
        ("claimed", False),
        ("renewed", False),
        ("checkpoint", False),
        ("removed", False),
    ],
)
def test_the_samples_pass_or_not_as_they_would_deployed(name: str, let_through: bool) -> None:
    [sample] = event(f"stream/{name}.json")["Records"]
    assert invokes(PATTERNS, sample) is let_through
