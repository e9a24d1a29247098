"""Strategies: what several owners of some connections wrote, merged in any order, with duplicates and late bytes."""

from dataclasses import dataclass

from hypothesis import strategies as st

from streamlease.envelope import Envelope
from tests.core.consume.envelopes import gap, record


@dataclass(frozen=True, slots=True)
class Written:
    """What one epoch of one connection wrote, in its order."""

    connection_id: str
    epoch: int
    envelopes: tuple[Envelope, ...]


@st.composite
def writings(draw: st.DrawFn, connection_ids: str = "cd") -> list[Written]:
    """Two epochs or more of each connection. Each goes on where an earlier one may have been, or before: so that it
    repeats ids. Some records have no id, and some places are gaps."""
    found: list[Written] = []
    for connection_id in connection_ids:
        for epoch in range(1, draw(st.integers(2, 4)) + 1):
            begin, length = draw(st.integers(0, 6)), draw(st.integers(0, 8))
            envelopes = []
            for number in range(begin, begin + length):
                kind = draw(st.sampled_from(["id", "id", "id", "no id", "gap"]))
                payload = f"{connection_id}{epoch}/{number}"
                match kind:
                    case "id":
                        envelopes.append(record(connection_id, epoch, str(number), payload))
                    case "no id":
                        envelopes.append(record(connection_id, epoch, None, payload))
                    case _:
                        envelopes.append(gap(connection_id, epoch, payload))
            found.append(Written(connection_id, epoch, tuple(envelopes)))
    return found


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[Envelope, ...]:
    """All writings merged: each epoch's own order is kept, but that some come again, much later even (a repeated send,
    stale bytes). Which epoch of a connection comes first is up to chance."""
    queues = [list(written.envelopes) for written in draw(writings())]
    merged: list[Envelope] = []
    while any(queues):
        queue = queues[draw(st.sampled_from([at for at, queue in enumerate(queues) if queue]))]
        merged.append(queue.pop(0))
        if draw(st.integers(0, 4)) == 0:
            merged.append(merged[draw(st.integers(0, len(merged) - 1))])
    return tuple(merged)


@st.composite
def shards(draw: st.DrawFn) -> tuple[Envelope, ...]:
    """What a Kinesis shard holds: a new epoch begins after all that the one before had acknowledged, but bytes of it
    that nobody knows of land at any time later."""
    written = draw(writings())
    order: list[Envelope] = []
    late: list[Envelope] = []
    for epoch in range(1, 5):
        queues = [list(each.envelopes) for each in written if each.epoch == epoch]
        while any(queues):
            queue = queues[draw(st.sampled_from([at for at, queue in enumerate(queues) if queue]))]
            order.append(queue.pop(0))
            chance = draw(st.integers(0, 5))
            if chance == 0:
                late.append(order[-1])
            if late and chance > 2:
                order.append(late.pop(0))
    return (*order, *late)
