"""The one place that makes boto3 clients: with our patience in them, and none of the SDK's own for writes.

The SDK repeats no write, or a write that had landed would come back as refused by itself; every repetition is the
caller's and accounted for (decision 031). Reads and offers are harmless to repeat, so the SDK may.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from streamlease.dynamodb.faults import Place, of_error
from streamlease.errors import Denied
from streamlease.timing import Timing

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_sqs import SQSClient


class Purpose(StrEnum):
    """What a set of clients is for. Each set has its own connections, so that none waits for another's."""

    RENEWALS = "renewals"
    """The keeper's: it gives up before the next heartbeat is due."""
    WORK = "work"
    """A worker's claims, checkpoints, sweeps and audits."""
    FUNCTION = "function"
    PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a service, and how often to ask. `attempts` are those of reads and offers."""

    connect_s: float
    read_s: float
    attempts: int
    connections: int

    def config(self, attempts: int) -> Config:
        return Config(
            connect_timeout=self.connect_s,
            read_timeout=self.read_s,
            retries={"total_max_attempts": attempts, "mode": "standard"},
            max_pool_connections=self.connections,
            tcp_keepalive=True,
        )


def patience(purpose: Purpose, timing: Timing) -> Patience:
    """For renewals, connecting and answering together take less than the heartbeat interval (design §4)."""
    match purpose:
        case Purpose.RENEWALS:
            heartbeat_s = timing.heartbeat_ms / 1000
            return Patience(min(2.0, heartbeat_s * 0.3), min(5.0, heartbeat_s * 0.5), attempts=1, connections=8)
        case Purpose.WORK:
            return Patience(2.0, min(5.0, timing.lease_ms / 2000), attempts=3, connections=32)
        case Purpose.FUNCTION:
            return Patience(1.0, 3.0, attempts=3, connections=10)
        case Purpose.PEOPLE:
            return Patience(3.0, 10.0, attempts=4, connections=32)


@dataclass(frozen=True, slots=True)
class Clients:
    """What an executor sends with. Safe to share between threads."""

    writes: "DynamoDBClient"
    reads: "DynamoDBClient"
    queue: "SQSClient"


def clients(
    region: str | None = None,
    endpoint: str | None = None,
    *,
    purpose: Purpose,
    timing: Timing | None = None,
    profile: str | None = None,
) -> Clients:
    """A set of its own for `purpose`. None leaves it to boto3: AWS_REGION, AWS_ENDPOINT_URL, AWS_PROFILE and the rest.

    Takes some 0.1 s. Raises Denied where boto3 finds no region, no such profile, or an endpoint that is no URL.
    """
    waits = patience(purpose, timing or Timing())
    session = open_session(region, profile)
    dynamodb: DynamoDBClient = client("dynamodb", session=session, endpoint=endpoint, config=waits.config(1))
    reads: DynamoDBClient = client("dynamodb", session=session, endpoint=endpoint, config=waits.config(waits.attempts))
    queue: SQSClient = client("sqs", session=session, endpoint=endpoint, config=waits.config(waits.attempts))
    return Clients(dynamodb, reads, queue)


def open_session(region: str | None = None, profile: str | None = None) -> boto3.Session:
    """A session of its own: sessions are not to be shared between threads. Raises Denied for an unknown profile.

    boto3 by itself reads AWS_DEFAULT_REGION only, where every other SDK and our sentences say AWS_REGION.
    """
    try:
        return boto3.Session(region_name=region or os.environ.get("AWS_REGION") or None, profile_name=profile)
    except BotoCoreError as error:
        raise of_error(error, _creating("AWS", region)) from None


def client(service: str, *, session: boto3.Session, endpoint: str | None = None, config: Config) -> Any:
    """A boto3 client. Raises Denied, with a sentence, where the region, the profile or the endpoint cannot be used."""
    try:
        made = session.client(service, endpoint_url=endpoint, config=config)
        _ = urlsplit(made.meta.endpoint_url).port  # botocore itself takes any
        return made
    except BotoCoreError as error:
        raise of_error(error, _creating(service, session.region_name)) from None
    except ValueError:  # botocore: "Invalid endpoint"; urlsplit: a port that cannot be one
        raise Denied(
            f"the endpoint set for {service} is not a URL: AWS_ENDPOINT_URL must be like http://127.0.0.1:4566"
        ) from None


def is_known_region(region: str) -> bool:
    """Whether this SDK knows such a region. A newer one than the SDK is not known, and works all the same."""
    # Blind to AWS_PROFILE: a profile that does not exist must not hide what this is asked about.
    session = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
    partitions = session.get_available_partitions()
    return any(region in session.get_available_regions("dynamodb", partition) for partition in partitions)


def _creating(service: str, region: str | None) -> Place:
    return Place(f"a client for {service}", "this machine", "", None, region or "no region", "https://.aws")
