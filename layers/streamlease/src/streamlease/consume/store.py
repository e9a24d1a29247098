"""Where a reader's marks are kept that does not live as long as the stream: a port, and a store in memory.

`streamlease.dynamodb.fences` is the one for AWS.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from streamlease.consume.reader import Mark


class FenceStore(Protocol):
    """Keeps one mark for each connection. Its epoch never falls, whoever writes and in whatever order."""

    def load(self, connection_ids: Iterable[str]) -> Mapping[str, Mark]:
        """Those that are there, as of now. Raises Fault."""

    def save(self, marks: Mapping[str, Mark]) -> Mapping[str, Mark]:
        """Write each, on the condition that no higher epoch is there. Returns those that were in the way: another
        reader has been further. Raises Fault: then some may have been written, and writing again does no harm."""


class MemoryFences:
    """For tests, and for readers that share one process."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}

    def load(self, connection_ids: Iterable[str]) -> dict[str, Mark]:
        return {name: self._marks[name] for name in connection_ids if name in self._marks}

    def save(self, marks: Mapping[str, Mark]) -> dict[str, Mark]:
        higher: dict[str, Mark] = {}
        for connection_id, mark in marks.items():
            kept = self._marks.get(connection_id)
            if kept is not None and kept.epoch > mark.epoch:
                higher[connection_id] = kept
            else:
                self._marks[connection_id] = mark
        return higher
