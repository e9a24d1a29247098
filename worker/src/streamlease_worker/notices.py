"""What the inbox says, and what is to be done about it (worker mode, design §2). Part of the supervisor.

No renewal of an item tells its owner in worker mode that somebody has changed it, so the inbox is read at each
heartbeat. An entry is a hint to look: only the item itself is obeyed. It is deleted once it was acted on, not before:
while a claim or a release of its connection is in flight, or it is not known yet what the item says, it stays.
"""

from collections.abc import Callable, Iterable, Mapping

from streamlease.inbox import Entry
from streamlease_worker.ownership import Ownership, Phase
from streamlease_worker.supervisor_events import Command, ForgetNotice, LookAgain, ReadInbox, SettleNotice


class Notices:
    """Mutable, owned by one `Supervisor`."""

    def __init__(self) -> None:
        self._reading = False
        self._looking = 0
        """Looks that are not answered yet: nothing is read meanwhile, so that none is asked for twice."""

    def heartbeat(self) -> list[Command]:
        """A heartbeat was answered: time to read."""
        if self._reading or self._looking:
            return []
        self._reading = True
        return [ReadInbox()]

    def looked(self) -> None:
        """Some look was answered, for the inbox or for an audit."""
        self._looking = max(0, self._looking - 1)

    def unread(self) -> None:
        """It could not be read; the next heartbeat will."""
        self._reading = False

    def read(
        self, entries: Iterable[Entry], owned: Mapping[str, Ownership], is_settling: Callable[[str], bool]
    ) -> list[Command]:
        """`is_settling`: of ids that a claim, or the audit's release, is in flight for."""
        self._reading = False
        out: list[Command] = []
        for entry in entries:
            ours = owned.get(entry.connection_id)
            if is_settling(entry.connection_id):
                continue
            if ours is None:
                out.append(SettleNotice(entry.connection_id, entry.spec_version))
            elif ours.connection.spec_version >= entry.spec_version:
                out.append(ForgetNotice(entry.connection_id, entry.spec_version))
            elif ours.phase in (Phase.RUNNING, Phase.RESTING) or ours.restart:
                self._looking += 1
                out.append(LookAgain(entry.connection_id, ours.connection.spec_version))
        return out
