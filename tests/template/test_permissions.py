"""Least privilege: every part has a role of its own, and no role reaches past the stack."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.template.document import Document, nodes, properties_of, references_of, resources_of, template

# Actions that know no resource, by the service authorization reference.
UNSCOPED = {"xray:PutTraceSegments", "xray:PutTelemetryRecords", "ecr:GetAuthorizationToken"}

READS = {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan", "dynamodb:DescribeTable"}


def statements_of(document: Document, logical_id: str) -> list[dict[str, Any]]:
    """A role's or managed policy's statements, those under a condition included."""
    properties = properties_of(document, logical_id)
    policies = [each["PolicyDocument"] for each in properties.get("Policies", [])]
    policies += [properties["PolicyDocument"]] if "PolicyDocument" in properties else []
    return [
        each
        for policy in policies
        for each in nodes(policy["Statement"])
        if isinstance(each, dict) and "Effect" in each
    ]


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def grants_of(document: Document, logical_id: str) -> Iterator[tuple[str, Any]]:
    for statement in statements_of(document, logical_id):
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                yield action, resource


def writes_to(document: Document, logical_id: str, table: str) -> set[str]:
    return {
        action
        for action, resource in grants_of(document, logical_id)
        if resource == {"Fn::GetAtt": [table, "Arn"]} and action not in READS
    }


PRINCIPALS = sorted(resources_of(template(), "AWS::IAM::Role", "AWS::IAM::ManagedPolicy"))
ROLES = sorted(resources_of(template(), "AWS::IAM::Role"))


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_no_statement_allows_an_action_by_wildcard_or_by_exclusion(document: Document, principal: str) -> None:
    for statement in statements_of(document, principal):
        assert statement["Effect"] == "Allow"
        assert not {"NotAction", "NotResource"} & set(statement)
        for action in as_list(statement["Action"]):
            assert "*" not in action, statement["Sid"]


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_a_star_stands_only_where_the_service_knows_no_resource(document: Document, principal: str) -> None:
    for action, resource in grants_of(document, principal):
        assert (resource == "*") is (action in UNSCOPED), (action, resource)


@pytest.mark.parametrize("principal", PRINCIPALS)
def test_every_grant_ends_inside_the_stack_or_at_a_parameter(document: Document, principal: str) -> None:
    known = set(document["Resources"]) | {"SecretsPrefix", "SecretsKeyArn", "AWS::StackId", "AWS::StackName"}
    for action, resource in grants_of(document, principal):
        if resource != "*":
            assert references_of(resource) & known, (action, resource)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_taken_by_one_service_and_brings_no_managed_policy(document: Document, role: str) -> None:
    properties = properties_of(document, role)
    assert "ManagedPolicyArns" not in properties
    [statement] = properties["AssumeRolePolicyDocument"]["Statement"]
    service = statement["Principal"]["Service"]
    assert service.endswith(".amazonaws.com")
    if service != "lambda.amazonaws.com":  # Lambda's deputies are kept apart by the function's own resource policy
        assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}


def test_no_part_shares_its_role(document: Document) -> None:
    functions = resources_of(document, "AWS::Serverless::Function").values()
    roles = [each["Properties"]["Role"]["Fn::GetAtt"][0] for each in functions]
    task = properties_of(document, "WorkerTask")
    roles += [task[kind]["Fn::GetAtt"][0] for kind in ("TaskRoleArn", "ExecutionRoleArn")]
    assert len(set(roles)) == len(roles) == 4


def test_a_worker_may_renew_and_orphan_in_batches(document: Document) -> None:
    assert writes_to(document, "WorkerRole", "ConnectionsTable") == {"dynamodb:UpdateItem", "dynamodb:PartiQLUpdate"}


def test_a_worker_may_protect_tasks_of_its_own_cluster_alone(document: Document) -> None:
    tasks = {"Fn::Sub": "arn:${AWS::Partition}:ecs:${AWS::Region}:${AWS::AccountId}:task/${Cluster}/*"}
    about_ecs = [grant for grant in grants_of(document, "WorkerRole") if grant[0].startswith("ecs:")]
    assert about_ecs == [("ecs:UpdateTaskProtection", tasks), ("ecs:GetTaskProtection", tasks)]


def test_people_may_ask_a_worker_to_drain(document: Document) -> None:
    assert writes_to(document, "OperatorPolicy", "MembersTable") == {"dynamodb:UpdateItem"}


def test_people_may_do_all_that_the_check_of_a_deployed_stack_does(document: Document) -> None:
    """`make aws-smoke`, with this policy alone: its calls of cloudformation, dynamodb, sqs, lambda and cloudwatch."""
    allowed = {action for action, _ in grants_of(document, "OperatorPolicy")}
    tables = {
        "dynamodb:DescribeTable",
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:UpdateItem",
        "dynamodb:DeleteItem",
    }
    others = {"cloudformation:DescribeStacks", "cloudformation:DescribeStackResources", "sqs:GetQueueAttributes"}
    assert tables | others | {"lambda:InvokeFunction", "cloudwatch:DescribeAlarms"} <= allowed


def test_only_people_create_and_delete_connections(document: Document) -> None:
    for principal in PRINCIPALS:
        creates = {"dynamodb:PutItem", "dynamodb:DeleteItem"} & writes_to(document, principal, "ConnectionsTable")
        assert bool(creates) is (principal == "OperatorPolicy"), principal


def test_the_stream_function_writes_offers_and_inboxes_and_no_connection(document: Document) -> None:
    assert writes_to(document, "StreamRole", "ConnectionsTable") == set()
    assert writes_to(document, "StreamRole", "WorkerItemsTable") == {"dynamodb:PutItem"}
    assert ("sqs:SendMessage", {"Fn::GetAtt": ["OffersQueue", "Arn"]}) in grants_of(document, "StreamRole")


def test_the_reconcile_function_can_sweep_audit_bury_and_orphan(document: Document) -> None:
    grants = list(grants_of(document, "ReconcileRole"))
    for index in ("by_expiry", "by_owner"):
        assert ("dynamodb:Query", {"Fn::Sub": f"${{ConnectionsTable.Arn}}/index/{index}"}) in grants
    assert ("dynamodb:Scan", {"Fn::Sub": "${ConnectionsTable.Arn}/index/by_owner"}) in grants
    assert ("dynamodb:Scan", {"Fn::GetAtt": ["MembersTable", "Arn"]}) in grants
    assert writes_to(document, "ReconcileRole", "ConnectionsTable") == {"dynamodb:UpdateItem", "dynamodb:PartiQLUpdate"}


def test_who_may_bury_may_seal_a_dead_workers_pages_and_remove_what_is_left(document: Document) -> None:
    for principal, own in (("ReconcileRole", set()), ("WorkerRole", {"dynamodb:PutItem"}), ("OperatorPolicy", set())):
        assert ("dynamodb:Query", {"Fn::GetAtt": ["WorkerItemsTable", "Arn"]}) in grants_of(document, principal)
        wanted = {"dynamodb:PartiQLUpdate", "dynamodb:DeleteItem"} | own
        assert writes_to(document, principal, "WorkerItemsTable") == wanted, principal
        assert {"dynamodb:UpdateItem", "dynamodb:PartiQLUpdate"} <= writes_to(document, principal, "ConnectionsTable")


def test_a_worker_reads_secrets_under_the_prefix_only(document: Document) -> None:
    secrets = [
        resource["Fn::Sub"]
        for action, resource in grants_of(document, "WorkerRole")
        if action.startswith(("secretsmanager:", "ssm:"))
    ]
    assert len(secrets) == 3
    assert all(each.endswith((":secret:${SecretsPrefix}*", ":parameter/${SecretsPrefix}*")) for each in secrets)
    assert document["Parameters"]["SecretsPrefix"]["Default"]


def test_the_schedule_runs_the_reconcile_function_and_nothing_else(document: Document) -> None:
    invoked = [resource for action, resource in grants_of(document, "ScheduleRole") if action.startswith("lambda:")]
    assert invoked == [{"Fn::GetAtt": ["ReconcileFunction", "Arn"]}]
