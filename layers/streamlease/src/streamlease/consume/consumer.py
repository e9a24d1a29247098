"""A reader whose marks outlive its process: for Lambda functions, which are many, short-lived and share no memory."""

from collections.abc import Iterable, Mapping

from streamlease.consume.reader import Batch, Mark, Reader
from streamlease.consume.store import FenceStore

MOST_KEPT_IDS = 1_024
"""So many fit into an item of any store, whatever they are."""


class Consumer:
    """One for each process, at module level: what it remembers between batches spares duplicates. Not safe for threads.

    A batch begins with what any other process has saved, and ends with `save`. Where a process dies before that, the
    transport delivers the batch again, to a process that knows of it no more than the store does.
    """

    def __init__(self, store: FenceStore, reader: Reader | None = None, *, kept_ids: int = 0) -> None:
        """`kept_ids`: how many record ids of each connection are kept in the store, so that also another process tells
        duplicates. With 0, the store is written only where an epoch has changed; with more, at every batch.

        Raises ValueError for more than 1,024.
        """
        if not 0 <= kept_ids <= MOST_KEPT_IDS:
            raise ValueError(f"kept_ids must be from 0 to {MOST_KEPT_IDS}, not {kept_ids}")
        self.reader = reader or Reader()
        self._store = store
        self._kept_ids = kept_ids
        self._stored: Mapping[str, Mark] = {}

    def begin(self, connection_ids: Iterable[str]) -> Batch:
        """A batch with records of these connections, no others. Raises Fault: fail the whole batch then."""
        self._stored = self._store.load(sorted(set(connection_ids)))
        for connection_id, mark in self._stored.items():
            self.reader.adopt(connection_id, mark)
        return self.reader.batch()

    def save(self, batch: Batch) -> frozenset[str]:
        """Keep what was processed of `batch`, the last one begun. Returns the connections of which another reader had
        processed a newer epoch meanwhile: two readers are at work on one stream, and there the fence came late.

        Raises Fault: fail the whole batch then, and what was processed of it is told by its ids when it comes again.
        """
        marks = {}
        # also those with duplicates alone: they may have been processed in a batch whose save failed
        for connection_id in sorted(batch.settled):
            mark, stored = self.reader.mark(connection_id, self._kept_ids), self._stored.get(connection_id)
            if mark is not None and not _is_known(mark, stored):
                marks[connection_id] = mark
        higher = self._store.save(marks) if marks else {}
        for connection_id, mark in higher.items():
            self.reader.adopt(connection_id, mark)
        return frozenset(higher)


def _is_known(mark: Mark, stored: Mark | None) -> bool:
    return stored is not None and stored.epoch >= mark.epoch and set(mark.record_ids) <= set(stored.record_ids)
