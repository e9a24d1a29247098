"""Delete items that cannot be read, as `rm --malformed` does. Nothing in such an item is trusted: it goes only as it
was seen, and only where nobody can hold it (decision 155)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamlease import items
from streamlease.errors import Malformed
from streamlease.flow import Flow, now, read, write
from streamlease.items import LATEST_SECONDS
from streamlease.model import MemberState
from streamlease.timing import Timing
from streamlease.write import Absent, Applied, Condition, Delete, Equals, Item, Present, Read, Table, all_of
from streamlease_cli.invocation import Invocation
from streamlease_cli.progress import Outcome, failed
from streamlease_cli.selection import Chosen

_PROTOCOL = (
    "desired_state",
    "lease_owner",
    "lease_epoch",
    "lease_expires_at_ms",
    "lease_nonce",
    "spec_version",
    "checkpoint_no",
)
"""What every claim, renewal and change touches one of: unchanged, nobody has written since."""


@dataclass(frozen=True, slots=True)
class Kept:
    """It was not deleted; `why` is a sentence."""

    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """`was_gone`: before this."""

    was_gone: bool


def discard(connection_id: str, timing: Timing) -> Flow[Gone | Kept]:
    """Raises Fault. Safe to repeat."""
    key = {"connection_id": connection_id}
    item = yield from read(Read(Table.CONNECTIONS, key))
    if item is None:
        return Gone(was_gone=True)
    if _is_readable(item):
        return Kept("it can be read, so it is no malformed item: delete it without --malformed")
    holder = yield from _holder(item, timing)
    if holder is not None:
        return Kept(
            f"worker {holder!r} may hold it: drain that worker (`streamlease drain`), or wait until it is dead and"
            " buried, then run the same command again"
        )
    answer = yield from write(Delete(Table.CONNECTIONS, key, all_of(*(_as_seen(item, name) for name in _PROTOCOL))))
    if isinstance(answer, Applied):
        return Gone(was_gone=False)
    if answer.item is None:
        return Gone(was_gone=True)
    return Kept("it was changed meanwhile: look at it again, then run the same command again")


def discard_all(invocation: Invocation, chosen: Sequence[Chosen], parallel: int) -> Iterator[Outcome]:
    """One outcome each: `deleted`, `already_gone` or `failed`. Raises Fault, as `bulk.each` does."""
    session = invocation.session()
    timing = session.operator().timing  # who writes has a clock that may be used

    def act(one: Chosen) -> Gone | Kept:
        return session.run(discard(one.connection_id, timing))

    for tried in invocation.each(chosen, act, parallel):
        connection_id = tried.subject.connection_id
        match tried.result:
            case None:
                yield failed(connection_id, str(tried.problem))
            case Gone(was_gone):
                yield Outcome(connection_id, "already_gone" if was_gone else "deleted")
            case Kept(why):
                yield failed(connection_id, why)


def _is_readable(item: Item) -> bool:
    try:
        items.connection(item)
    except Malformed:
        return False
    return True


def _holder(item: Item, timing: Timing) -> Flow[str | None]:
    """Who may hold it: an owner whose lease has not surely run out, and who is not surely dead."""
    owner = item.get("lease_owner")
    if not isinstance(owner, str):  # a key of an index: text, or not there
        return None
    instant = yield from now()
    expires_at_ms = item.get("lease_expires_at_ms")
    if isinstance(expires_at_ms, int) and LATEST_SECONDS <= expires_at_ms < timing.expired_before_ms(instant.wall_ms):
        return None
    member = yield from read(Read(Table.MEMBERS, {"worker_id": owner}))
    if member is None or member.get("state") in (MemberState.DEAD.value, MemberState.GONE.value):
        return None
    return owner


def _as_seen(item: Item, name: str) -> Condition:
    if name not in item:
        return Absent(name)
    value = item[name]
    # Of what is neither text nor a whole number, which nobody writes there, a condition can say no more.
    return Equals(name, value) if isinstance(value, str | int) else Present(name)
