"""A broken invariant, as a value; a run ends at its first."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """`invariant` is its number in design §7, `rule` what exactly was checked."""

    invariant: int
    rule: str
    at_us: int
    connection_id: str
    what: str

    def __str__(self) -> str:
        where = f" of {self.connection_id}" if self.connection_id else ""
        return f"invariant {self.invariant} ({self.rule}){where} at {self.at_us / 1e6:.3f} s: {self.what}"


class Violated(Exception):
    """Raised by a checker in the middle of the event that broke something."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation
