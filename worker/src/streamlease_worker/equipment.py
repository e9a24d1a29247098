"""What one worker process works with, whatever id it goes by."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamlease.dynamodb.clients import Purpose
from streamlease.dynamodb.executor import open_executor
from streamlease.flow import Request
from streamlease_worker.configuration import Configuration
from streamlease_worker.identity import Place
from streamlease_worker.offers_queue import open_queue_client
from streamlease_worker.secrets import Secrets
from streamlease_worker.sinks.base import Sink
from streamlease_worker.sinks.choose import open_sink
from streamlease_worker.transport import Transport, WebSockets

type Perform = Callable[[Request], object]
"""Carries a request out, as `streamlease.flow` says."""

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

THREADS = 32
"""As many as the executor's clients have connections: claims, sweeps, audits, and one that waits for offers."""


@dataclass(frozen=True, slots=True)
class Equipment:
    configuration: Configuration
    place: Place
    renewals: Perform
    """The keeper's own: a saturated data path never delays a renewal."""
    work: Perform
    queue: "SQSClient"
    sink: Sink
    transport: Transport
    secrets: Secrets
    threads: ThreadPoolExecutor


def equip(configuration: Configuration, environment: Mapping[str, str], place: Place) -> Equipment:
    """Raises Misconfigured; Denied where boto3 has no region, profile or endpoint to work with. Sends nothing."""
    settings = configuration.settings
    return Equipment(
        configuration=configuration,
        place=place,
        renewals=open_executor(settings, purpose=Purpose.RENEWALS).perform,
        work=open_executor(settings, purpose=Purpose.WORK).perform,
        queue=open_queue_client(),
        sink=open_sink(configuration.sink, settings),
        transport=WebSockets(),
        secrets=Secrets(environment),
        threads=ThreadPoolExecutor(THREADS, thread_name_prefix="work"),
    )
