"""What a file or a flag says of one connection, ready to be compared and written."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamlease.model import DesiredState
from streamlease.write import Value


@dataclass(frozen=True, slots=True)
class Wanted:
    """`spec` is as it is stored: plain JSON values, references in the place of secrets."""

    connection_id: str
    upstream_url: str
    spec: Mapping[str, Value]
    labels: Mapping[str, str] = field(default_factory=dict)
    desired_state: DesiredState | None = None
    """None: leave it as it is."""
    new_state: DesiredState = DesiredState.STARTED
    """Of a connection that is not there yet, where `desired_state` says nothing."""
    source: str = ""
    """Where it was said: a file's name, for sentences."""

    @property
    def initial_state(self) -> DesiredState:
        return self.desired_state or self.new_state
