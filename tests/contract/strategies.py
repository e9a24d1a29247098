"""Any items, conditions and writes of the connections table, for properties."""

from dataclasses import replace

from hypothesis import strategies as st

from streamlease.dynamodb.expressions import partiql
from streamlease.errors import Malformed
from streamlease.write import (
    Absent,
    AllOf,
    Always,
    AnyOf,
    Condition,
    Delete,
    Equals,
    Greater,
    Less,
    Not,
    Present,
    Put,
    Table,
    Update,
    Value,
    Write,
)

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
    | st.builds(Greater, NAMES, st.integers(-2, 2))
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


def may_be_batched(update: Update) -> bool:
    try:
        partiql(update, "table", "update")
    except ValueError:
        return False
    except Malformed:
        return True
    return not update.add  # to what is no number, the emulator adds
