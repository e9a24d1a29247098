"""A short run against a deployed stack: `make aws-smoke STACK=NAME` or `python -m streamlease_cli.aws_smoke`.

It reads what was deployed, takes one connection of its own through its life (STOPPED throughout, so that no worker
dials anything), runs the reconcile function once, and looks at the alarms. It leaves nothing behind. For people with an
account: here it has only ever run against the embedded AWS, which answers some of these questions more kindly than AWS.
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import click

from streamlease import flow, lease
from streamlease.flow import Flow
from streamlease.flows import control
from streamlease.lease import Absentee, Change, Changed, Done
from streamlease.model import Connection, DesiredState
from streamlease.write import INDEX_ATTRIBUTES, KEY_ATTRIBUTES, Index, Table
from streamlease_cli.errors import FAILED, Failed, reported, sentence
from streamlease_cli.invocation import Invocation, pass_invocation, target_options
from streamlease_cli.output import clean, count, print_json
from streamlease_cli.reporting import Reporting
from streamlease_cli.session import Session

OUTPUTS = (
    "ConnectionsTable",
    "MembersTable",
    "WorkerItemsTable",
    "OffersQueueUrl",
    "RecordsStream",
    "LeaseMode",
    "HeartbeatMs",
    "LeaseMs",
    "Shards",
    "Cluster",
    "Repository",
    "StreamFunction",
    "ReconcileFunction",
)
"""Service is left out: a stack without a network has none."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    outcome: Literal["ok", "failed", "skipped"]
    detail: str


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack under test, and the id of the one connection that is this run's own."""

    name: str
    session: Session
    connection_id: str

    def client(self, service: str) -> Any:
        if self.session.client is None:
            raise Failed(f"there is no way to reach {service} from here")
        return self.session.client(service)

    @property
    def outputs(self) -> Mapping[str, str]:
        return self.session.deployment.outputs if self.session.deployment else {}


type Step = Callable[[Stack], str]


# --- what is there ---------------------------------------------------------------------------------------------------


def outputs(stack: Stack) -> str:
    missing = [name for name in OUTPUTS if name not in stack.outputs]
    if missing:
        raise Failed(f"the stack lacks {', '.join(missing)}: deploy this project's template under its name")
    service = "with a service" if "Service" in stack.outputs else "without VpcId, so without a service"
    return f"{len(stack.outputs)} outputs, {service}"


def caller(stack: Stack) -> str:
    return stack.session.caller()


def tables(stack: Stack) -> str:
    for table in Table:
        described = _described(stack, table)
        keys = tuple(key["AttributeName"] for key in described["KeySchema"])
        _expect(described["TableStatus"] == "ACTIVE", f"{_named(stack, table)} is {described['TableStatus']}")
        _expect(keys == KEY_ATTRIBUTES[table], f"{_named(stack, table)} has the key {', '.join(keys)}")
    stream = _described(stack, Table.CONNECTIONS).get("StreamSpecification", {})
    view = stream.get("StreamViewType") if stream.get("StreamEnabled", True) else None
    _expect(view == "NEW_AND_OLD_IMAGES", f"the connections table's stream is {view or 'off'}")
    return "three tables, active, with the stream of both images"


def indexes(stack: Stack) -> str:
    found = {index["IndexName"]: index for index in _described(stack, Table.CONNECTIONS)["GlobalSecondaryIndexes"]}
    for index in Index:
        _expect(index.value in found, f"the connections table has no index {index}")
        keys = tuple(key["AttributeName"] for key in found[index.value]["KeySchema"])
        _expect(keys == INDEX_ATTRIBUTES[index], f"index {index} has the key {', '.join(keys)}")
        status = found[index.value].get("IndexStatus", "ACTIVE")
        _expect(status == "ACTIVE", f"index {index} is {status}: wait until it is built")
    return "by_expiry and by_owner, active"


def queue(stack: Stack) -> str:
    url = stack.session.settings.offers_queue_url
    answer = stack.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    attributes = answer["Attributes"]
    _expect("RedrivePolicy" in attributes, "the offers queue has no dead-letter queue")
    return f"dead letters kept; offers are kept for {attributes.get('MessageRetentionPeriod', '?')} s"


# --- one connection's life -------------------------------------------------------------------------------------------


def create(stack: Stack) -> str:
    _run(stack, _create(stack))
    return f"{stack.connection_id}, STOPPED"


def read(stack: Stack) -> str:
    found = _found(stack)
    _expect(found.desired_state is DesiredState.STOPPED, f"it was written STOPPED and is read {found.desired_state}")
    _expect(found.lease_owner is None, f"it is STOPPED and held by {found.lease_owner}")
    return f"epoch {found.lease_epoch}, version {found.spec_version}, by {found.updated_by}"


def change(stack: Stack) -> str:
    seen = _found(stack)
    outcome = _run(
        stack,
        control.change(
            stack.connection_id, Change(labels={"made-by": "aws-smoke", "changed": "1"}), operator=_operator(stack)
        ),
    )
    _expect(isinstance(outcome, Done), "the change was not taken")
    version = _found(stack).spec_version
    _expect(version == seen.spec_version + 1, f"the version went from {seen.spec_version} to {version}")
    return f"version {version}"


def stale(stack: Stack) -> str:
    """A change based on a version that was replaced must be refused by the table itself."""
    seen = _found(stack)

    def write(number: str) -> Flow[lease.ControlOutcome]:
        instant = yield from flow.now()
        wanted = Change(labels={"made-by": "aws-smoke", "stale": number})
        writer = _operator(stack).updated_by
        request = lease.control(seen, wanted, shard="STARTED", now_ms=instant.wall_ms, updated_by=writer)
        return lease.controlled((yield from flow.write(request)))

    _expect(isinstance(_run(stack, write("1")), Done), "a write over the version just read was refused")
    _expect(isinstance(_run(stack, write("2")), Changed), "a write over an outdated version was taken")
    return "a write over an outdated version is refused"


def delete(stack: Stack) -> str:
    outcome = _run(stack, control.delete(stack.connection_id, operator=_operator(stack)))
    _expect(isinstance(outcome, Done | Absentee), f"it could not be deleted: {outcome}")
    _expect(_run(stack, control.find(stack.connection_id)) is None, "it is still there after it was deleted")
    return "gone"


# --- what runs -------------------------------------------------------------------------------------------------------


def reconcile(stack: Stack) -> str:
    function = stack.outputs["ReconcileFunction"]
    event = {"source": "aws.scheduler", "detail-type": "Scheduled Event", "detail": {}}
    answer = stack.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event).encode())
    said = answer["Payload"].read().decode(errors="replace")
    _expect("FunctionError" not in answer, f"{function} failed: {said[:300]}")
    return f"answered {said[:120] or 'nothing'}"


def alarms(stack: Stack) -> str:
    resources = stack.client("cloudformation").describe_stack_resources(StackName=stack.name)["StackResources"]
    names = [
        resource["PhysicalResourceId"] for resource in resources if resource["ResourceType"] == "AWS::CloudWatch::Alarm"
    ]
    _expect(bool(names), "the stack has no alarm")
    answer = stack.client("cloudwatch").describe_alarms(AlarmNames=names, MaxRecords=100)
    states = {alarm["AlarmName"]: alarm["StateValue"] for alarm in answer["MetricAlarms"]}
    missing = [name for name in names if name not in states]
    _expect(not missing, f"{', '.join(missing)} is not there any more: deploy the stack again")
    ringing = [name for name in names if states[name] == "ALARM"]
    return f"{count(len(names), 'alarm')}" + (f"; in alarm now: {', '.join(ringing)}" if ringing else ", none in alarm")


STEPS: Mapping[str, Step] = {
    step.__name__: step
    for step in (outputs, caller, tables, indexes, queue, create, read, change, stale, delete, reconcile, alarms)
}
NEEDS: Mapping[str, str] = {"read": "create", "change": "create", "stale": "create"}


def run(stack: Stack) -> Iterator[Check]:
    """Every check, in order. The connection it makes is deleted whatever happens, also when the caller stops early."""
    outcomes: dict[str, str] = {}
    try:
        for name, step in STEPS.items():
            needed = NEEDS.get(name)
            if needed is not None and outcomes[needed] != "ok":
                check = Check(name, "skipped", f"{needed} failed")
            else:
                check = _checked(name, step, stack)
            outcomes[name] = check.outcome
            yield check
    finally:
        if outcomes.get("delete") != "ok" and "create" in outcomes:
            _checked("delete", delete, stack)


def _checked(name: str, step: Step, stack: Stack) -> Check:
    try:
        return Check(name, "ok", clean(step(stack)))
    except Exception as error:  # noqa: BLE001 - one check that fails says so, and the others still run
        return Check(name, "failed", clean(sentence(reported(error))))


def _create(stack: Stack) -> Flow[None]:
    outcome = yield from control.create(
        stack.connection_id,
        upstream_url="wss://streamlease-smoke.invalid/",
        spec={},
        labels={"made-by": "aws-smoke"},
        desired_state=DesiredState.STOPPED,
        operator=_operator(stack),
    )
    _expect(isinstance(outcome, Done), "a connection of that id is there already")


def _found(stack: Stack) -> Connection:
    found = _run(stack, control.find(stack.connection_id))
    if found is None:
        raise Failed("it was written, and is not there")
    return found


def _operator(stack: Stack) -> control.Operator:
    return stack.session.operator()


def _run[T](stack: Stack, procedure: Flow[T]) -> T:
    return stack.session.run(procedure)


def _described(stack: Stack, table: Table) -> Mapping[str, Any]:
    name = stack.session.settings.tables[table]
    described: Mapping[str, Any] = stack.client("dynamodb").describe_table(TableName=name)["Table"]
    return described


def _named(stack: Stack, table: Table) -> str:
    return f"table {stack.session.settings.tables[table]!r}"


def _expect(holds: object, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)


@click.command(cls=Reporting)
@target_options
@pass_invocation
def aws_smoke(invocation: Invocation) -> None:
    """Check a deployed stack from end to end in about ten seconds, and leave nothing behind.

    \b
    Example:
      python -m streamlease_cli.aws_smoke --stack streamlease-dev
    """
    session = invocation.session()
    name = session.deployment.stack if session.deployment else None
    if name is None:
        raise click.UsageError("Name the stack: --stack NAME.")
    stack = Stack(name, session, f"streamlease-smoke-{secrets.token_hex(6)}")
    checks = []
    for check in run(stack):
        checks.append(check)
        if not invocation.as_json:
            click.echo(f"{check.outcome:8}{check.name:11}{check.detail}")
    well = all(check.outcome == "ok" for check in checks)
    if invocation.as_json:
        print_json({"stack": name, "ok": well, "checks": [asdict(check) for check in checks]})
    if not well:
        raise click.exceptions.Exit(FAILED)


if __name__ == "__main__":
    aws_smoke()
