"""Faults: what went wrong outside the protocol. Expected outcomes are values, never exceptions (see `lease`)."""


class StreamleaseError(Exception):
    """Root of everything this project raises on purpose. `retryable` says whether the same call may succeed later."""

    retryable: bool = False


class Fault(StreamleaseError):
    """A store or queue call that gave no answer to reason with."""


class Unreachable(Fault):
    """No answer: a timeout, a reset, a 5xx. A write that was sent may have landed, or may land much later."""

    retryable = True


class Throttled(Fault):
    """Refused for rate. Nothing was written."""

    retryable = True


class Conflict(Fault):
    """Refused because another request held the item at that instant. Nothing was written."""

    retryable = True


class Denied(Fault):
    """Refused for good: no permission, no such table or queue, wrong region, bad credentials. Nothing was written."""


class Malformed(StreamleaseError):
    """A stored item or message that does not follow the contract. `where` names it; it is reported, never repaired."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem
