"""The port of all sinks. A connection has one batch in flight at a time: who keeps batches whole keeps order."""

from dataclasses import dataclass
from typing import Protocol

from streamlease.errors import StreamleaseError
from streamlease_worker.fence import Fence


class SinkFault(StreamleaseError):
    """A batch was not taken, or may not have been. `retryable`: the same batch is offered again, for as long as it
    takes; otherwise its connection is given up with this sentence as the reason."""

    def __init__(self, sentence: str, *, retryable: bool) -> None:
        super().__init__(sentence)
        self.retryable = retryable


@dataclass(frozen=True, slots=True)
class Limits:
    """What one batch may hold. An envelope that is larger than `most_bytes` comes alone, for the sink to judge."""

    most_lines: int
    most_bytes: int
    """Of all envelopes, each with its newline."""
    linger_s: float = 0.0
    """How long a connection waits after a batch for the next to fill, where many small ones cost more."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Envelopes of one connection and epoch, in order, without newlines."""

    connection_id: str
    epoch: int
    lines: tuple[bytes, ...]
    fence: Fence

    def data(self) -> bytes:
        """Newline-delimited, with a newline at the end."""
        return b"\n".join(self.lines) + b"\n"


class Sink(Protocol):
    """Safe to share between all connections of an event loop."""

    @property
    def limits(self) -> Limits: ...

    async def check(self) -> None:
        """Once, before anything is taken on. Raises Fault with a sentence where the place is missing or denied."""

    async def deliver(self, batch: Batch) -> None:
        """Returns once every envelope is durable. Raises SinkFault, or Fenced where the batch's fence is closed: its
        check is the last line before the attempt, and the attempt ends by itself within what is left of the lease.
        """

    async def close(self) -> None:
        """End what runs in the background, after the batches in flight."""
