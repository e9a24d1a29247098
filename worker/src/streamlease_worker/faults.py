"""Faults of this worker's own making. Pure."""

from streamlease.errors import Fault


class Unsteady(Fault):
    """The wall clock is not good enough to reason with. Nothing was written."""

    retryable = True
