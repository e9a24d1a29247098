"""Random requests get the same answers from the store in memory as from DynamoDB: fakes that lie prove nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import uuid4

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamlease.errors import Denied
from streamlease.flow import Batch, Request
from streamlease.write import (
    Always,
    Index,
    Put,
    Query,
    Read,
    Table,
    Update,
    Value,
    Write,
)
from tests.contract.stores import Perform, Store, all_pages
from tests.contract.strategies import BATCHED, PUTS, WRITES, may_be_batched
from tests.fakes.memory import MemoryStore

# The stores stand for the whole test; each example has keys of its own. Shrinking over HTTP takes minutes: a failure is
# made smaller by adding Phase.shrink.
SOME = settings(
    max_examples=40,
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


def _in_order(items: list[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """Of equal sort keys, DynamoDB promises no order."""
    return sorted(items, key=lambda item: str(item["connection_id"]))
