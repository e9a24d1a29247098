"""The ECS service: slots that are kept filled, processes that end and are replaced, deployments, scaling."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from streamlease.model import LeaseMode
from tests.simulation.kernel import Kernel, S
from tests.simulation.ledger import Ledger
from tests.simulation.process import Process

STOP_TIMEOUT_US = 120 * S


class Shell(Protocol):
    """What runs in a slot."""

    process: Process
    mode: LeaseMode

    def start(self) -> None: ...
    def terminate(self) -> None:
        """SIGTERM."""

    def crash(self, why: str) -> None:
        """The process is gone at this instant."""

    def block(self, length_us: int) -> None:
        """The event loop stands still, the keeper's thread goes on."""

    def holds(self) -> int:
        """How many leases it believes to hold."""

    def unwell(self) -> bool:
        """Whether its clock may not be used, so that it is to hold nothing."""

    def cut_off(self, until_us: int) -> None:
        """No way to any upstream until then."""


type Make = Callable[[str, int, LeaseMode, Callable[[], None]], Shell]
"""A new shell for a slot, of a generation and mode; the callback is told once when the process has ended."""


@dataclass(slots=True)
class Fleet:
    kernel: Kernel
    ledger: Ledger
    make: Make
    mode: LeaseMode
    slots: dict[str, Shell | None] = field(default_factory=dict)
    leaving: list[Shell] = field(default_factory=list)
    """Told to stop, and replaced already."""
    generation: int = 1
    everybody: list[Shell] = field(default_factory=list)
    _draws: Random = field(init=False)
    _mode_of: dict[str, LeaseMode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._draws = self.kernel.draws("fleet")

    def begin(self, workers: int) -> None:
        for number in range(workers):
            self.kernel.at(self._draws.randint(0, 3 * S), lambda n=number: self._fill(f"w{n}"))  # type: ignore[misc]

    def running(self, slot: str) -> Shell | None:
        shell = self.slots.get(slot)
        return shell if shell is not None and shell.process.alive else None

    def busiest(self) -> str:
        """The slot whose process holds most leases."""
        return max(sorted(self.slots), key=lambda slot: shell.holds() if (shell := self.running(slot)) else -1)

    def living(self) -> list[Shell]:
        return [shell for shell in self.everybody if shell.process.alive]

    def deploy(self, mode: LeaseMode, apart_us: int) -> None:
        """Replace the slots' processes one after the other: the new one starts, then the old one is told to stop."""
        self.generation += 1
        self.mode = mode
        for number, slot in enumerate(sorted(self.slots)):
            self.kernel.after(number * apart_us, lambda s=slot: self._replace(s))  # type: ignore[misc]

    def scale(self, delta: int) -> None:
        if delta > 0:
            self._fill(f"w{len(self.slots)}")
            return
        for slot in sorted(self.slots, reverse=True):
            shell = self.running(slot)
            if shell is not None and len(self.slots) > 2:
                del self.slots[slot]
                self._dismiss(shell)
                return

    def _fill(self, slot: str) -> None:
        if self.running(slot) is not None:
            return
        shell = self.make(slot, self.generation, self.mode, lambda: self._ended(slot))
        self.slots[slot] = shell
        self.everybody.append(shell)
        shell.start()

    def _replace(self, slot: str) -> None:
        if slot not in self.slots:
            return
        old = self.running(slot)
        self.slots[slot] = None
        self._fill(slot)
        if old is not None:
            self.kernel.after(self._draws.randint(1, 4) * S, lambda: self._dismiss(old))

    def _dismiss(self, shell: Shell) -> None:
        """SIGTERM, and SIGKILL after the stop timeout."""
        if not shell.process.alive:
            return
        self.leaving.append(shell)
        shell.terminate()
        self.kernel.after(STOP_TIMEOUT_US, lambda: shell.crash("killed after the stop timeout"))

    def _ended(self, slot: str) -> None:
        """ECS starts another where the service still wants one."""
        if slot in self.slots and self.running(slot) is None:
            self.kernel.after(self._draws.randint(1, 8) * S, lambda: self._refill(slot))

    def _refill(self, slot: str) -> None:
        if slot in self.slots:
            self._fill(slot)
