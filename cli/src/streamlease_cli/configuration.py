"""Which deployment a command works with: flags, then STREAMLEASE_* variables, then a stack's outputs, then the local
system that runs in this checkout. Pure but for reading the local system's file.

A contradiction is refused rather than resolved: a named stack and a variable that names another table would mix two
systems (decision 070).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from streamlease.settings import (
    HEARTBEAT_VARIABLE,
    LEASE_VARIABLE,
    MODE_VARIABLE,
    OFFERS_QUEUE_VARIABLE,
    RECORDS_STREAM_VARIABLE,
    SHARDS_VARIABLE,
    TABLE_VARIABLES,
    optional_text,
)
from streamlease.write import Table
from streamlease_cli.errors import BadInput

STACK_VARIABLE = "STREAMLEASE_STACK"
LOCAL_FILE = Path(".local/run/current.json")
"""Written by `streamlease up` while it runs, in the checkout's root."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

_RESOURCES: Mapping[str, str] = {
    "ConnectionsTable": TABLE_VARIABLES[Table.CONNECTIONS],
    "MembersTable": TABLE_VARIABLES[Table.MEMBERS],
    "WorkerItemsTable": TABLE_VARIABLES[Table.WORKER_ITEMS],
    "OffersQueueUrl": OFFERS_QUEUE_VARIABLE,
    "RecordsStream": RECORDS_STREAM_VARIABLE,
}
"""Outputs that say *which* system: those of two systems are never mixed."""
OUTPUT_VARIABLES: Mapping[str, str] = {
    **_RESOURCES,
    "LeaseMode": MODE_VARIABLE,
    "HeartbeatMs": HEARTBEAT_VARIABLE,
    "LeaseMs": LEASE_VARIABLE,
    "Shards": SHARDS_VARIABLE,
    "EgressGroup": "STREAMLEASE_EGRESS_GROUP",
}
"""Which output of the stack is which variable."""


@dataclass(frozen=True, slots=True)
class Target:
    """What flags say about where to work; None where they say nothing."""

    stack: str | None = None
    region: str | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class LocalSystem:
    """The system that `streamlease up` runs on this machine, as its file says."""

    endpoint_url: str
    region: str
    stack: str
    outputs: Mapping[str, str]
    file: Path


@dataclass(frozen=True, slots=True)
class Deployment:
    """One system, resolved: its STREAMLEASE_* variables, and how to reach it."""

    environment: Mapping[str, str]
    outputs: Mapping[str, str]
    """The stack's, where there is one."""
    place: str
    """For questions and summaries: "stack 'prod' in eu-west-1"."""
    region: str | None = None
    profile: str | None = None
    stack: str | None = None
    """Its name, where it is known."""
    local: LocalSystem | None = None


def resolve(
    target: Target,
    environment: Mapping[str, str],
    *,
    stack_outputs: Callable[[str, Target], Mapping[str, str]],
    local_system: Callable[[], LocalSystem | None],
) -> Deployment:
    """Raises BadInput where nothing says which system, or two sources contradict each other; what `stack_outputs`
    raises, too. `local_system` is asked only when neither a flag nor a variable says anything."""
    ours = {name: value for name, value in environment.items() if name.startswith("STREAMLEASE_") and value.strip()}
    stack = target.stack or optional_text(ours, STACK_VARIABLE)
    if stack is not None:
        outputs = stack_outputs(stack, target)
        return Deployment(
            environment=_over_outputs(ours, outputs, stack),
            outputs=outputs,
            place=f"stack {stack!r}" + (f" in {target.region}" if target.region else ""),
            region=target.region,
            profile=target.profile,
            stack=stack,
        )
    named = [variable for variable in _RESOURCES.values() if variable in ours]
    if named:
        table = ours.get(TABLE_VARIABLES[Table.CONNECTIONS])
        place = f"table {table!r}" if table else "what the environment names"
        return Deployment(ours, {}, place, target.region, target.profile)
    local = local_system() if target == Target() else None
    if local is None:
        here = (
            "start one on this machine with `streamlease up`; where one runs, run this inside its checkout"
            if target == Target()
            else "leave out --region and --profile, which mean an account, to work with the system of `streamlease up`"
        )
        raise BadInput(
            "nothing says which system to work with: name a deployed stack with --stack (or STREAMLEASE_STACK),"
            f" set {TABLE_VARIABLES[Table.CONNECTIONS]} and the other STREAMLEASE_* variables, or {here}"
        )
    return Deployment(
        environment=_over_outputs(ours, local.outputs, local.stack),
        outputs=local.outputs,
        place="the local system",
        region=local.region,
        stack=local.stack,
        local=local,
    )


def _over_outputs(ours: Mapping[str, str], outputs: Mapping[str, str], stack: str) -> dict[str, str]:
    missing = [output for output in ("ConnectionsTable", "MembersTable") if output not in outputs]
    if missing:
        raise BadInput(
            f"stack {stack!r} has no output {missing[0]}, so it is not one of Streamlease's: check its name,"
            " or deploy this project's template under it"
        )
    for output, variable in _RESOURCES.items():
        if variable in ours and output in outputs and ours[variable] != outputs[output]:
            raise BadInput(
                f"{variable} is {ours[variable]!r}, but stack {stack!r} has {outputs[output]!r}:"
                f" unset the variable, or do without --stack and {STACK_VARIABLE}"
            )
    found = {variable: outputs[output] for output, variable in OUTPUT_VARIABLES.items() if outputs.get(output)}
    return {**found, **ours}


def find_local_system(folder: Path) -> LocalSystem | None:
    """The running local system whose file lies in `folder` or above; None where there is none.

    Raises BadInput for a file that is no such description, or that points anywhere but at this machine.
    """
    for parent in (folder, *folder.parents):
        file = parent / LOCAL_FILE
        if file.is_file():
            return _read_local(file)
    return None


def _read_local(file: Path) -> LocalSystem:
    try:
        fields = json.loads(file.read_text())
        endpoint_url, region, stack, outputs = (fields[name] for name in ("endpoint_url", "region", "stack", "outputs"))
        host = str(urlsplit(str(endpoint_url)).hostname)
        found = LocalSystem(
            str(endpoint_url), str(region), str(stack), {str(k): str(v) for k, v in outputs.items()}, file
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise BadInput(f"{file} does not describe a local system: remove it and start `streamlease up` again") from None
    if host not in _LOOPBACK:
        raise BadInput(f"{file} points at {host!r}, which is not this machine: remove it, or name a stack with --stack")
    return found
