"""From a claimed item to the feed that a runner runs."""

from streamlease.errors import StreamleaseError
from streamlease.feed.feed import Feed
from streamlease.model import Connection
from streamlease.spec.compile import compile_item
from streamlease_worker.log import Problems

SINKS = frozenset({"default"})


class UnknownSink(StreamleaseError):
    """A spec names a sink that this worker does not have."""


def feed_of(connection: Connection, problems: Problems) -> Feed:
    """Raises StreamleaseError, with a sentence, for a spec that this release cannot follow. Fields that only a later
    release knows are passed over and told."""
    compiled = compile_item(connection.connection_id, connection.upstream_url, connection.spec)
    for sentence in compiled.ignored:
        problems.say("spec_field_ignored", f"connection {connection.connection_id!r}: {sentence}")
    if compiled.feed.sink not in SINKS:
        raise UnknownSink(f"its spec names the sink {compiled.feed.sink!r}; this worker has only the sink 'default'")
    return compiled.feed
