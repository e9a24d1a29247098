"""Hypothesis strategies for the core's nouns."""

from typing import Any

from hypothesis import strategies as st

from streamlease.items import LATEST_SECONDS
from streamlease.model import Connection, DesiredState, Member, MemberState, Position, Status, StatusState
from streamlease.timing import Timing

NAMES = st.text("abcdef-_.:/0123456789", min_size=1, max_size=12)
TEXTS = st.text(max_size=5)
TIMES_MS = st.integers(LATEST_SECONDS, 4 * 10**12)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
SPECS = st.dictionaries(NAMES, JSON, max_size=3)
SEQUENCES = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | NAMES
POSITIONS = st.builds(
    Position,
    sequence=st.none() | SEQUENCES,
    instance=st.none() | TEXTS,
    resume_url=st.none() | TEXTS,
    token=st.none() | TEXTS,
)
STATUSES = st.builds(Status, st.sampled_from(StatusState), TIMES_MS, st.none() | TEXTS)
CONNECTIONS = st.builds(
    Connection,
    connection_id=NAMES,
    desired_state=st.sampled_from(DesiredState),
    upstream_url=NAMES,
    spec=SPECS,
    spec_version=st.integers(1, 10**6),
    lease_epoch=TIMES_MS,
    lease_owner=st.none() | NAMES,
    lease_expires_at_ms=st.none() | st.just(0) | TIMES_MS,
    lease_nonce=st.none() | NAMES,
    position=st.none() | POSITIONS,
    checkpoint_no=st.integers(0, 10**6),
    crashes=st.integers(0, 50),
    not_before_ms=st.none() | TIMES_MS,
    status=st.none() | STATUSES,
    labels=st.dictionaries(NAMES, NAMES, max_size=2),
    created_at_ms=TIMES_MS,
    updated_at_ms=TIMES_MS,
    updated_by=TEXTS,
)
MEMBERS = st.builds(
    Member,
    worker_id=NAMES,
    state=st.sampled_from(MemberState),
    heartbeat=st.integers(0, 10**6),
    lease_expires_at_ms=TIMES_MS,
    generation=st.integers(0, 10**12),
    capacity=st.integers(0, 10_000),
    owned=st.integers(0, 10_000),
    started_at_ms=TIMES_MS,
    zone=TEXTS,
    load=st.dictionaries(NAMES, JSON, max_size=2),
    buried_at_ms=st.none() | TIMES_MS,
)
TIMINGS = st.sampled_from([Timing(), Timing(3_000, 9_000), Timing(2_000, 6_000)])
