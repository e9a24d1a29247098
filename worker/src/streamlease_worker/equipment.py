"""What one worker process works with, whatever id it goes by."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamlease.dynamodb.clients import Purpose
from streamlease.dynamodb.executor import open_executor
from streamlease.flow import Request
from streamlease_worker.clock import steady
from streamlease_worker.clock_reader import WatchedClock, metadata_reader
from streamlease_worker.configuration import Configuration
from streamlease_worker.identity import Place
from streamlease_worker.offers_queue import open_queue_client
from streamlease_worker.protection import Protect, protector, unprotected
from streamlease_worker.routes import Routes
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
    """Gives no time that is not to be claimed by."""
    queue: "SQSClient"
    clock: WatchedClock
    sink: Sink
    transport: Transport
    secrets: Secrets
    threads: ThreadPoolExecutor
    protect: Protect = unprotected
    """From being ended by the platform while it drains by itself."""

    @property
    def generation(self) -> int:
        """What it was told, else the revision of its task definition, which rises with each deployment and is the same
        for all its tasks (decision 153); 0 where neither is known."""
        told = self.configuration.generation
        return self.place.revision if told is None else told


def equip(configuration: Configuration, environment: Mapping[str, str], place: Place) -> Equipment:
    """Raises Misconfigured; Denied where boto3 has no region, profile or endpoint to work with. Sends nothing."""
    settings = configuration.settings
    renewals = open_executor(settings, purpose=Purpose.RENEWALS)
    work = open_executor(settings, purpose=Purpose.WORK)
    queue = open_queue_client()
    clock = WatchedClock(settings.timing, metadata_reader(environment))
    clock.observe(renewals.clients.writes, work.clients.writes, work.clients.reads, queue)
    return Equipment(
        configuration=configuration,
        place=place,
        renewals=renewals.perform,
        work=steady(work.perform, clock.judge),
        queue=queue,
        clock=clock,
        sink=open_sink(configuration.sink, settings),
        transport=WebSockets(Routes(configuration.allowed, environment=environment)),
        secrets=Secrets(environment),
        threads=ThreadPoolExecutor(THREADS, thread_name_prefix="work"),
        protect=protector(environment),
    )
