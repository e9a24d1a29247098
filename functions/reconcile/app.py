"""Reconcile function: every minute, offers what nobody owns and buries who is gone (design §5).

What could not be done in time is where the next run begins. The log holds ids and numbers, never a spec.
"""

import dataclasses
import functools
import os
from typing import Any

from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.parser import BaseModel, parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from streamlease.dynamodb.clients import Purpose
from streamlease.dynamodb.executor import Executor, open_executor
from streamlease.flow import run
from streamlease.flows.reconcile import Report, reconcile
from streamlease.settings import Settings, log_level, settings

RESERVE_MS = 10_000
"""Kept to finish what was begun: a page of offers or of orphans, and the report."""

logger = Logger(level=log_level(os.environ))
tracer = Tracer()
metrics = Metrics(namespace="Streamlease")


class Trigger(BaseModel):
    """What the schedule sends; a person may send `{}`. Only for the log: every run does the same."""

    source: str = "invoke"
    id: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Deployment:
    settings: Settings
    executor: Executor


@logger.inject_lambda_context
@tracer.capture_lambda_handler(capture_response=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answers with the run's numbers. Raises where the event is none of ours, nothing is set up, or the tables fail."""
    trigger = parse(event, Trigger)
    here = deployment()
    left_ms = context.get_remaining_time_in_millis()
    budget_s = max(left_ms - RESERVE_MS, left_ms / 2) / 1000
    flow = reconcile(shards=here.settings.shards, timing=here.settings.timing, budget_s=budget_s)
    report = run(flow, here.executor.perform)
    for problem in report.malformed:
        logger.error("an item cannot be read and is left alone", item=problem.where, problem=problem.problem)
    summary = {**dataclasses.asdict(dataclasses.replace(report, malformed=[])), "malformed": len(report.malformed)}
    logger.info("reconciled", trigger=trigger.source, trigger_id=trigger.id, **summary)
    publish(report)
    return summary


@functools.cache
def deployment() -> Deployment:
    """Made at the first call. Raises Misconfigured, Denied."""
    metrics.set_default_dimensions(stack=os.environ.get("STREAMLEASE_STACK", "none"))
    configured = settings(os.environ)
    return Deployment(configured, open_executor(configured, purpose=Purpose.FUNCTION))


def publish(report: Report) -> None:
    counts = {
        "Unowned": report.unowned,
        "StartedNotStreaming": report.started_not_streaming,
        "Offered": report.offered,
        "Buried": report.buried,
        "Orphaned": report.orphaned,
        "Malformed": len(report.malformed),
    }
    metrics.add_metric(name="OldestUnownedSeconds", unit=MetricUnit.Seconds, value=report.oldest_unowned_ms / 1000)
    for name, value in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=value)
    metrics.flush_metrics()
