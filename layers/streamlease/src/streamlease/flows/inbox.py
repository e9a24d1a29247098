"""An owner's dealings with its inbox. What is to be done about an entry, the supervisor decides."""

from streamlease import inbox
from streamlease.flow import Flow, write
from streamlease.flows.audit import release_unknown
from streamlease.flows.pages import items_of
from streamlease.inbox import Entry


def read_inbox(worker_id: str) -> Flow[tuple[Entry, ...]]:
    """Raises Fault."""
    return inbox.entries((yield from items_of(worker_id, inbox.PREFIX)))


def forget(worker_id: str, connection_id: str, spec_version: int) -> Flow[None]:
    """Delete an entry that was acted on; a newer one stays. Raises Fault."""
    yield from write(inbox.delete(worker_id, Entry(connection_id, spec_version)))


def settle(worker_id: str, connection_id: str, spec_version: int) -> Flow[bool]:
    """Act on an entry about a connection that does not run here: give it up if it is ours in the table, then delete the
    entry. Returns whether it was ours. Only for an id that no claim is in flight for. Raises Fault, Malformed."""
    landed = yield from release_unknown(worker_id, connection_id)
    yield from forget(worker_id, connection_id, spec_version)
    return landed
