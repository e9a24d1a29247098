"""The composition root: a resolved deployment as settings, an executor and the caller's name. Loads boto3, so that
commands that need no AWS import only what is at the top of this file."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamlease import flow
from streamlease.flow import Flow, Request
from streamlease.flows import control
from streamlease.flows.control import Operator
from streamlease.settings import Settings, settings
from streamlease_cli.configuration import Deployment, Target, find_local_system, resolve

if TYPE_CHECKING:
    from streamlease_cli.aws import Aws

type Perform = Callable[[Request], object]

CONNECTIONS_AT_ONCE = 32
"""The HTTP connections of a person's clients: more requests at once would only queue."""


@dataclass(slots=True)
class Session:
    """One system to work with. Safe to share between threads once `operator` has been called."""

    settings: Settings
    perform: Perform
    caller: Callable[[], str]
    """The caller's ARN; asked at most once."""
    place: str
    deployment: Deployment | None = None
    client: Callable[[str], Any] | None = None
    """boto3 clients of this system, by service name, where there are any."""
    _operator: Operator | None = field(default=None, init=False)

    def run[T](self, procedure: Flow[T]) -> T:
        """Raises Fault."""
        return flow.run(procedure, self.perform)

    def now_ms(self) -> int:
        return self.run(flow.now()).wall_ms

    def operator(self) -> Operator:
        """Who writes. The first call asks who the caller is and records the number of shards. Raises Fault."""
        if self._operator is None:
            operator = Operator(self.caller(), self.settings.shards, self.settings.timing)
            self.run(control.prepare(operator))
            self._operator = operator
        return self._operator


def find_deployment(target: Target) -> Deployment:
    """Raises BadInput, Fault."""

    def outputs(stack: str, target: Target) -> Mapping[str, str]:
        from streamlease_cli.aws import stack_outputs

        return stack_outputs(stack, target)

    return resolve(target, os.environ, stack_outputs=outputs, local_system=lambda: find_local_system(Path.cwd()))


def open_session(target: Target) -> Session:
    """Raises BadInput, Misconfigured, Fault."""
    from streamlease_cli.aws import of_deployment

    deployment = find_deployment(target)
    resolved = settings(deployment.environment)
    aws: Aws = of_deployment(deployment)
    return Session(
        settings=resolved,
        perform=aws.executor(resolved).perform,
        caller=aws.caller,
        place=deployment.place,
        deployment=deployment,
        client=aws.client,
    )
