"""Random requests get the same answers from the store in memory as from DynamoDB: fakes that lie prove nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import uuid4

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamlease.dynamodb.expressions import partiql
from streamlease.errors import Denied, Malformed
from streamlease.flow import Batch, Request
from streamlease.write import (
    Absent,
    AllOf,
    Always,
    AnyOf,
    Condition,
    Delete,
    Equals,
    Index,
    Less,
    Not,
    Present,
    Put,
    Query,
    Read,
    Table,
    Update,
    Value,
    Write,
)
from tests.contract.stores import Perform, Store, all_pages
from tests.fakes.memory import MemoryStore

ATTRIBUTES = ("desired_state", "spec_version", "status", "lease_epoch", "größe", "a.b", 'quo"ted', "select")
INTEGERS = st.integers(-2, 2) | st.integers(-(10**38) + 1, 10**38 - 1)
TEXTS = st.sampled_from(["", "a", "STARTED", "ü☃𝄞", "\u0000", "'; --"])
FLOATS = st.sampled_from([0.5, -1.25, 1e-7, 1e20, 123456.789, 5e-324, 1e125, 2.0])
SCALARS = st.none() | st.booleans() | INTEGERS | TEXTS | FLOATS
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS, lambda parts: st.lists(parts, max_size=3) | st.dictionaries(TEXTS, parts, max_size=3), max_leaves=6
)
NAMES = st.sampled_from(ATTRIBUTES)
OWNERS = st.sampled_from(["w-1", "w-2"])
LEAVES: st.SearchStrategy[Condition] = (
    st.builds(Equals, NAMES, st.booleans() | st.integers(-2, 2) | TEXTS)
    | st.builds(Less, NAMES, st.integers(-2, 2))
    | st.builds(Absent, NAMES)
    | st.builds(Present, NAMES | st.just("lease_owner"))
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda terms: (
        st.builds(AllOf, st.lists(terms, min_size=1, max_size=3).map(tuple))
        | st.builds(AnyOf, st.lists(terms, min_size=1, max_size=3).map(tuple))
        | st.builds(Not, terms)
    ),
    max_leaves=4,
)
KEYS = st.sampled_from(["one", "zwei", "三"])


@st.composite
def attributes(draw: st.DrawFn) -> dict[str, Value]:
    plain = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    indexed: dict[str, Value] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "desired_state_shard": OWNERS,
                "lease_owner": OWNERS,
                "lease_expires_at_ms": st.integers(0, 3),
            },
        )
    )
    return plain | indexed


@st.composite
def updates(draw: st.DrawFn) -> Update:
    put = draw(attributes())
    left = [name for name in ATTRIBUTES if name not in put]
    removed = draw(st.lists(st.sampled_from([*left, "lease_owner", "lease_expires_at_ms"]), unique=True, max_size=2))
    added = draw(st.sampled_from([{}, {"lease_epoch": 1}, {"spec_version": -3}]))
    return Update(
        Table.CONNECTIONS,
        {"connection_id": draw(KEYS)},
        draw(CONDITIONS),
        set=put,
        remove=tuple(name for name in removed if name not in put),
        add={name: amount for name, amount in added.items() if name not in put and name not in removed},
    )


CONJUNCTIONS = st.lists(LEAVES, min_size=1, max_size=4).map(lambda terms: AllOf(tuple(terms)))
BATCHED = st.builds(lambda update, condition: replace(update, condition=condition), updates(), CONJUNCTIONS)
PUTS = st.builds(
    lambda key, item, condition: Put(Table.CONNECTIONS, {**item, "connection_id": key}, condition),
    KEYS,
    attributes(),
    CONDITIONS | st.just(Always()),
)
DELETES = st.builds(
    lambda key, condition: Delete(Table.CONNECTIONS, {"connection_id": key}, condition), KEYS, CONDITIONS
)
WRITES: st.SearchStrategy[Write] = PUTS | updates() | updates() | DELETES

# The stores stand for the whole test; each example has keys of its own. Shrinking over HTTP takes minutes: a failure is
# made smaller by adding Phase.shrink.
SOME = settings(
    max_examples=60,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True)
class Refusal:
    """A request denied. Sentences may differ, the fact may not."""

    sentence: str = field(compare=False)


def asked(perform: Perform, request: Request) -> object:
    try:
        return perform(request)
    except Denied as denied:
        return Refusal(str(denied))


def told(answer: object) -> object:
    return Refusal(str(answer)) if isinstance(answer, Denied) else answer


def with_own_keys(write: Write, prefix: str) -> Write:
    if isinstance(write, Put):
        return replace(write, item=_owned(write.item, prefix))
    key = {"connection_id": f"{prefix}-{write.key['connection_id']}"}
    if isinstance(write, Update):
        return replace(write, key=key, set=_owned(write.set, prefix))
    return replace(write, key=key)


def _owned(item: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    own = ("connection_id", "lease_owner", "desired_state_shard")
    return {name: f"{prefix}-{value}" if name in own else value for name, value in item.items()}


@SOME
@given(writes=st.lists(WRITES, min_size=1, max_size=12))
def test_random_writes_get_the_same_answers_and_leave_the_same_items(remote_store: Store, writes: list[Write]) -> None:
    store, memory, prefix = remote_store, MemoryStore(remote_store.clock), uuid4().hex
    for plain in writes:
        write = with_own_keys(plain, prefix)
        assert asked(store.perform, write) == asked(memory.perform, write)
        assert store.read(write.table, **write.key) == memory.perform(Read(write.table, write.key))

    for owner in (f"{prefix}-w-1", f"{prefix}-w-2"):
        for query in (
            Query(Table.CONNECTIONS, owner, Index.BY_OWNER, limit=2),
            Query(Table.CONNECTIONS, owner, Index.BY_EXPIRY, limit=2),
            Query(Table.CONNECTIONS, owner, Index.BY_EXPIRY, below=2, limit=1),
        ):
            expected = all_pages(memory.perform, query)
            ids = {str(item["connection_id"]) for item in expected}
            store.eventually(query, lambda shown, ids=ids: set(shown) == ids)  # type: ignore[misc]
            assert _in_order(all_pages(store.perform, query)) == _in_order(expected)


@SOME
@given(arranged=st.lists(PUTS, max_size=3), batch=st.lists(BATCHED, min_size=1, max_size=25))
def test_random_batches_get_the_same_answers_and_leave_the_same_items(
    whole_store: Store, arranged: list[Put], batch: list[Update]
) -> None:
    store, memory, prefix = whole_store, MemoryStore(whole_store.clock), uuid4().hex
    for put in arranged:
        mine = replace(with_own_keys(put, prefix), condition=Always())
        assert asked(store.perform, mine) == asked(memory.perform, mine)
    updated = [with_own_keys(update, prefix) for update in batch if may_be_batched(update)]

    answers = store.perform(Batch(tuple(updated)))
    expected = memory.perform(Batch(tuple(updated)))

    assert isinstance(answers, tuple)
    assert isinstance(expected, tuple)
    for write, answer, wanted in zip(updated, answers, expected, strict=True):
        assert told(answer) == told(wanted), write
    for key in ("one", "zwei", "三"):
        connection_id = f"{prefix}-{key}"
        assert store.read(Table.CONNECTIONS, connection_id=connection_id) == memory.item(
            Table.CONNECTIONS, connection_id
        )


def may_be_batched(update: Update) -> bool:
    try:
        partiql(update, "table", "update")
    except ValueError:
        return False
    except Malformed:
        return True
    return not update.add  # to what is no number, the emulator adds


def _in_order(items: list[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Of equal sort keys, DynamoDB promises no order."""
    return sorted(items, key=lambda item: str(item["connection_id"]))
