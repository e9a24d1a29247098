"""Alarms look at what exists, and everything that can lose or delay a connection is looked at; logs do not pile up."""

import io
import json
import re
from contextlib import redirect_stdout
from typing import Any

import pytest
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from tests.template.document import (
    Document,
    environment_of,
    nodes,
    properties_of,
    references_of,
    resources_of,
    template,
)
from tests.template.evaluation import stack

# The type of resource that a namespace's dimension is named by.
WATCHED = {
    ("AWS/Lambda", "FunctionName"): "AWS::Serverless::Function",
    ("AWS/SQS", "QueueName"): "AWS::SQS::Queue",
    ("AWS/DynamoDB", "TableName"): "AWS::DynamoDB::Table",
    ("AWS/Kinesis", "StreamName"): "AWS::Kinesis::Stream",
}
ALARMS = sorted(resources_of(template(), "AWS::CloudWatch::Alarm"))
OWN = ["OldestUnownedSeconds", "StartedNotStreaming"]


def dimensions_of(alarm: dict[str, Any]) -> dict[str, Any]:
    return {each["Name"]: each["Value"] for each in alarm["Dimensions"]}


def alarms_on(document: Document, namespace: str, metric: str) -> list[dict[str, Any]]:
    alarms = [each["Properties"] for each in resources_of(document, "AWS::CloudWatch::Alarm").values()]
    return [each for each in alarms if (each["Namespace"], each["MetricName"]) == (namespace, metric)]


def watched_by(document: Document, namespace: str, metric: str) -> set[str]:
    return {name for each in alarms_on(document, namespace, metric) for name in references_of(each["Dimensions"])}


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_watches_a_resource_that_exists(document: Document, name: str) -> None:
    alarm = properties_of(document, name)
    if alarm["Namespace"] == "Streamlease":
        return
    dimensions = dimensions_of(alarm)
    index = dimensions.pop("GlobalSecondaryIndexName", None)
    [(dimension, value)] = dimensions.items()
    [resource] = references_of(value)
    assert document["Resources"][resource]["Type"] == WATCHED[alarm["Namespace"], dimension]
    if index:
        indexes = properties_of(document, resource)["GlobalSecondaryIndexes"]
        assert index in [each["IndexName"] for each in indexes]


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_says_what_it_means_and_what_silence_means_and_whom_to_tell(document: Document, name: str) -> None:
    alarm = properties_of(document, name)
    assert len(alarm["AlarmDescription"]) > 20
    assert alarm["TreatMissingData"] in {"breaching", "notBreaching", "ignore"}
    assert alarm["DatapointsToAlarm"] <= alarm["EvaluationPeriods"]
    assert alarm["EvaluationPeriods"] * alarm["Period"] <= 600
    for actions in (alarm["AlarmActions"], alarm["OKActions"]):
        assert actions == {"Fn::If": ["HasAlarmTopic", [{"Ref": "AlarmTopicArn"}], {"Ref": "AWS::NoValue"}]}


def test_an_alarm_has_one_metric_and_no_mathematics(document: Document) -> None:
    """The emulator that the template also goes to takes no others."""
    assert all("Metrics" not in properties_of(document, name) for name in ALARMS)


@pytest.mark.parametrize("metric", OWN)
def test_an_alarm_on_an_own_metric_names_exactly_the_dimensions_it_is_sent_with(
    document: Document, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CloudWatch takes a metric with one more dimension for another metric, and powertools adds `service`."""
    environment = environment_of(document, "ReconcileFunction")
    made = {"AWS::StackName": "stack-1"}
    for variable in ("POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE", "STREAMLEASE_STACK"):
        value = environment[variable]
        monkeypatch.setenv(variable, made[value["Ref"]] if isinstance(value, dict) else value)
    printed = io.StringIO()
    with redirect_stdout(printed):
        metrics = EphemeralMetrics()  # Metrics would keep its dimensions for all tests of the process
        metrics.set_default_dimensions(stack="stack-1")
        metrics.add_metric(name=metric, unit=MetricUnit.Count, value=1)
        metrics.flush_metrics()
        metrics.clear_metrics()
    sent = json.loads(printed.getvalue())
    [alarm] = alarms_on(document, "Streamlease", metric)
    [[directive]] = [sent["_aws"]["CloudWatchMetrics"]]
    assert directive["Namespace"] == alarm["Namespace"]
    assert [sorted(names) for names in directive["Dimensions"]] == [sorted(dimensions_of(alarm))]
    for name, value in dimensions_of(alarm).items():
        assert sent[name] == (made[value["Ref"]] if isinstance(value, dict) else value)


def test_the_thresholds_of_failover_are_parameters(document: Document) -> None:
    [unowned] = alarms_on(document, "Streamlease", "OldestUnownedSeconds")
    [not_streaming] = alarms_on(document, "Streamlease", "StartedNotStreaming")
    assert unowned["Threshold"] == {"Ref": "UnownedAlarmSeconds"}
    assert not_streaming["Threshold"] == {"Ref": "NotStreamingAlarmCount"}


def test_every_queue_of_dead_letters_has_an_alarm_on_its_first(document: Document) -> None:
    queues = set(resources_of(document, "AWS::SQS::Queue")) - {"OffersQueue"}
    assert watched_by(document, "AWS/SQS", "ApproximateNumberOfMessagesVisible") == queues
    for alarm in alarms_on(document, "AWS/SQS", "ApproximateNumberOfMessagesVisible"):
        assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")
        assert alarm["EvaluationPeriods"] == 1


def test_every_function_has_alarms_on_errors_and_throttles(document: Document) -> None:
    functions = set(resources_of(document, "AWS::Serverless::Function"))
    assert watched_by(document, "AWS/Lambda", "Errors") == functions
    assert watched_by(document, "AWS/Lambda", "Throttles") == functions


def test_a_late_stream_and_a_silent_backstop_are_noticed(document: Document) -> None:
    assert watched_by(document, "AWS/Lambda", "IteratorAge") == {"StreamFunction"}
    [age] = alarms_on(document, "AWS/Lambda", "IteratorAge")
    [event] = properties_of(document, "StreamFunction")["Events"].values()
    assert age["Threshold"] < event["Properties"]["MaximumRecordAgeInSeconds"] * 1000
    [silent] = alarms_on(document, "AWS/Lambda", "Invocations")
    assert references_of(silent["Dimensions"]) == {"ReconcileFunction"}
    assert silent["TreatMissingData"] == "breaching"
    assert silent["ComparisonOperator"] == "LessThanThreshold"


def test_throttles_of_every_table_every_index_and_the_records_are_noticed(document: Document) -> None:
    wanted = set()
    for table in resources_of(document, "AWS::DynamoDB::Table"):
        indexes = properties_of(document, table).get("GlobalSecondaryIndexes", [])
        wanted |= {(table, None)} | {(table, each["IndexName"]) for each in indexes}
    for metric in ("ReadThrottleEvents", "WriteThrottleEvents"):
        watched = [dimensions_of(each) for each in alarms_on(document, "AWS/DynamoDB", metric)]
        found = {(each["TableName"]["Ref"], each.get("GlobalSecondaryIndexName")) for each in watched}
        assert found == wanted, metric
    assert watched_by(document, "AWS/Kinesis", "WriteProvisionedThroughputExceeded") == {"RecordsStream"}


def test_the_dashboard_is_json_about_what_exists_and_there_if_wanted(document: Document) -> None:
    body = properties_of(document, "OverviewDashboard")["DashboardBody"]
    known = set(document["Resources"]) | {"AWS::Region", "AWS::StackName"}
    assert references_of(body) <= known
    widgets = json.loads(re.sub(r"\$\{[^}]+\}", "x", body["Fn::Sub"]))["widgets"]
    corners = [(each["properties"]["title"], each["x"], each["y"]) for each in widgets]
    assert len({corner[1:] for corner in corners}) == len(widgets)
    assert "OverviewDashboard" not in stack(document).resources()
    assert "OverviewDashboard" in stack(document, Dashboard="enabled").resources()


def test_every_log_group_forgets(document: Document) -> None:
    groups = resources_of(document, "AWS::Logs::LogGroup")
    assert set(groups) == {"StreamLogs", "ReconcileLogs", "WorkerLogs"}
    for name, each in groups.items():
        assert each["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}, name
    assert min(document["Parameters"]["LogRetentionDays"]["AllowedValues"]) >= 1


def test_everything_that_logs_logs_to_a_group_of_its_own_that_it_may_write_to(document: Document) -> None:
    places = {"WorkerExecutionRole": {"Ref": "WorkerLogs"}}
    for each in resources_of(document, "AWS::Serverless::Function").values():
        places[each["Properties"]["Role"]["Fn::GetAtt"][0]] = each["Properties"]["LoggingConfig"]["LogGroup"]
    [container] = properties_of(document, "WorkerTask")["ContainerDefinitions"]
    assert container["LogConfiguration"]["Options"]["awslogs-group"] == places["WorkerExecutionRole"]
    groups = [references_of(group) for group in places.values()]
    assert sorted(map(sorted, groups)) == [["ReconcileLogs"], ["StreamLogs"], ["WorkerLogs"]]
    for role, group in places.items():
        statements = properties_of(document, role)["Policies"][0]["PolicyDocument"]["Statement"]
        [log] = [each for each in statements if "logs:PutLogEvents" in each["Action"]]
        assert references_of(log["Resource"]) == references_of(group), role


def test_no_level_can_be_chosen_at_which_lambda_drops_the_metrics(document: Document) -> None:
    # To Lambda's filter a line without a level is INFO, and EMF is such a line.
    assert document["Globals"]["Function"]["LoggingConfig"]["ApplicationLogLevel"] == {"Ref": "LogLevel"}
    assert set(document["Parameters"]["LogLevel"]["AllowedValues"]) == {"DEBUG", "INFO"}


def test_functions_are_traced(document: Document) -> None:
    assert document["Globals"]["Function"]["Tracing"] == "Active"
    assert not [
        each
        for function in resources_of(document, "AWS::Serverless::Function").values()
        for each in nodes(function)
        if isinstance(each, dict) and "Tracing" in each
    ]
