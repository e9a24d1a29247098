"""The backstop's schedule: one that AWS accepts, that cannot pile up, and that several stacks can have."""

import re
from typing import Any

import pytest

from tests.template.document import Document, properties_of, references_of
from tests.template.evaluation import stack

# https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html: singular for one, plural for more.
RATE = re.compile(r"rate\((1 (minute|hour|day)|([2-9]|[1-9][0-9]+) (minutes|hours|days))\)")


@pytest.fixture(scope="module")
def schedule(document: Document) -> dict[str, Any]:
    [event] = properties_of(document, "ReconcileFunction")["Events"].values()
    assert event["Type"] == "ScheduleV2"
    found = event["Properties"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("expression", "accepted"),
    [("rate(1 minute)", True), ("rate(1 minutes)", False), ("rate(5 minutes)", True), ("rate(5 minute)", False)],
)
def test_the_pattern_knows_singular_from_plural(expression: str, accepted: bool) -> None:
    assert bool(RATE.fullmatch(expression)) is accepted


def test_it_runs_every_minute_in_words_that_the_scheduler_accepts(schedule: dict[str, Any]) -> None:
    assert RATE.fullmatch(schedule["ScheduleExpression"])
    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}


def test_the_schedule_has_no_name_of_its_own_so_that_two_stacks_can_have_one(schedule: dict[str, Any]) -> None:
    # SAM takes the logical id for a name unless told otherwise.
    assert schedule["OmitName"] is True
    assert "Name" not in schedule


def test_a_run_that_fails_is_not_retried_past_the_next(document: Document, schedule: dict[str, Any]) -> None:
    invoke = properties_of(document, "ReconcileFunction")["EventInvokeConfig"]
    assert invoke["MaximumRetryAttempts"] == 0
    assert invoke["MaximumEventAgeInSeconds"] <= 60
    assert schedule["RetryPolicy"]["MaximumRetryAttempts"] <= 1
    assert schedule["RetryPolicy"]["MaximumEventAgeInSeconds"] <= 60


def test_what_fails_is_kept_by_a_queue_that_both_sides_may_write_to(
    document: Document, schedule: dict[str, Any]
) -> None:
    [queue] = references_of(schedule["DeadLetterConfig"])
    invoke = properties_of(document, "ReconcileFunction")["EventInvokeConfig"]
    assert references_of(invoke["DestinationConfig"]) == {queue}
    for role in ("ScheduleRole", "ReconcileRole"):
        statements = properties_of(document, role)["Policies"][0]["PolicyDocument"]["Statement"]
        assert any(
            each["Action"] == "sqs:SendMessage" and queue in references_of(each["Resource"]) for each in statements
        ), role
    assert references_of(schedule["RoleArn"]) == {"ScheduleRole"}


def test_concurrency_is_reserved_only_where_it_is_asked_for(document: Document) -> None:
    [name, reserved, _] = properties_of(document, "ReconcileFunction")["ReservedConcurrentExecutions"]["Fn::If"]
    assert references_of(reserved) == {"ReconcileConcurrency"}
    assert not stack(document).condition(name)
    assert stack(document, ReconcileConcurrency="1").condition(name)
