"""What happened, counted and told: faults that hit something, doubtful writes, and the lines of a story."""

from collections import Counter
from dataclasses import dataclass, field

from streamlease.errors import Malformed
from streamlease.flow import Request
from streamlease.write import Delete, Put, Update
from tests.simulation.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a timeline."""

    at_us: int
    who: str
    what: str
    connection_id: str = ""


@dataclass(slots=True)
class Ledger:
    """`story` is kept only where somebody will read it: telling costs more than simulating."""

    kernel: Kernel
    tells: bool = False
    faults: dict[int, str] = field(default_factory=dict)
    """Planned entries that have hit something, by their number in the plan, and how. Each counts once."""
    counts: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)
    """Items that could not be read, by what they are called, and how often somebody met one."""
    story: list[Line] = field(default_factory=list)

    def hit(self, kind: str, detail: str, who: str, cause: int) -> None:
        """The planned entry `cause` hit a request on its way, or the holder of a lease."""
        self.faults.setdefault(cause, kind)
        if self.tells:
            self.say(who, f"FAULT {kind}: {detail}")

    def ambiguous(self, request: Request, answer: object) -> None:
        """A write landed (or was refused) and its sender will not hear of it."""
        if isinstance(request, Put | Update | Delete):
            self.counts["ambiguous_writes"] += 1

    def count(self, what: str, amount: int = 1) -> None:
        self.counts[what] += amount

    def report(self, problem: Malformed) -> None:
        """Somebody met an item that cannot be read; where it says so is the shells' business."""
        self.reported[problem.where] += 1

    def say(self, who: str, what: str, connection_id: str = "") -> None:
        if self.tells:
            self.story.append(Line(self.kernel.now_us, who, what, connection_id))
