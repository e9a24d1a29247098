"""What each worker believes, as its own code said it: which ids are its own, and until when it may deliver."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.process import Process


@dataclass(slots=True)
class Beliefs:
    """Kept by the shells from the commands of the real keeper and supervisor; read by the checkers."""

    processes: dict[str, Process] = field(default_factory=dict)
    """Worker id → its process. A process may have several ids, one after the other."""
    entitled: dict[tuple[str, int], tuple[str, float]] = field(default_factory=dict)
    """(connection, epoch) → the worker id that may begin deliveries, and until which monotonic second of its own."""
    started: dict[str, int] = field(default_factory=dict)
    """The newest spec version that somebody has started a feed of, by connection."""
    released: set[tuple[str, int]] = field(default_factory=set)
    """Epochs whose release has been sent: they never deliver again."""

    on_extend: Callable[[str, int, str], None] | None = None
    """Told of the connection, epoch and worker id whenever somebody believes to hold a lease for longer."""

    def is_of(self, worker_id: object, process_name: str) -> bool:
        process = self.processes.get(str(worker_id))
        return process is not None and process.name == process_name

    def extend(self, connection_id: str, epoch: int, worker_id: str, deadline_s: float) -> None:
        self.entitled[connection_id, epoch] = (worker_id, deadline_s)
        if self.on_extend is not None:
            self.on_extend(connection_id, epoch, worker_id)

    def fence(self, connection_id: str, epoch: int) -> None:
        self.entitled.pop((connection_id, epoch), None)

    def entitled_until_us(self, connection_id: str, epoch: int) -> int:
        """The true instant until which some living process may begin deliveries of this epoch; 0: none may."""
        found = self.entitled.get((connection_id, epoch))
        if found is None:
            return 0
        worker_id, deadline_s = found
        process = self.processes[worker_id]
        return process.clock.true_us(deadline_s) if process.alive else 0
