"""AWS as the command line needs it: one boto3 session for a deployment, the stack's outputs, and who the caller is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError

from streamlease.dynamodb.clients import Clients, Patience, Purpose, client, is_known_region, open_session, patience
from streamlease.dynamodb.executor import Executor
from streamlease.dynamodb.faults import FAILURES, Place, of_error
from streamlease.errors import Denied
from streamlease.settings import Settings
from streamlease.timing import Timing
from streamlease_cli.configuration import Deployment, LocalSystem, Target
from streamlease_cli.errors import BadInput

PATIENCE = patience(Purpose.PEOPLE, Timing())
IMPATIENCE = Patience(connect_s=1.0, read_s=2.0, attempts=1, connections=1)
"""For looks that are taken again and again: one that is not answered is left out."""


@dataclass(frozen=True, slots=True)
class Aws:
    """The clients of one deployment. The local system is called with dummy credentials and past any proxy, so that
    nothing meant for it can reach an account."""

    session: boto3.Session
    endpoint: str | None = None
    patience: Patience = PATIENCE

    def client(self, service: str) -> Any:
        """Raises BadInput, with a sentence, where no client can be made."""
        return self._client(service, self.patience.attempts)

    def executor(self, settings: Settings) -> Executor:
        made = Clients(
            writes=self._client("dynamodb", 1),  # the SDK repeats no write (decision 031)
            reads=self._client("dynamodb", self.patience.attempts),
            queue=self._client("sqs", self.patience.attempts),
        )
        return Executor(made, settings.tables, settings.offers_queue_url)

    def caller(self) -> str:
        """The caller's ARN. Raises Fault."""
        sts = self.client("sts")
        try:
            arn: str = sts.get_caller_identity()["Arn"]
        except FAILURES as error:
            raise of_error(error, _place(sts, "GetCallerIdentity", "the caller", error)) from None
        return arn

    def _client(self, service: str, attempts: int) -> Any:
        config = self.patience.config(attempts)
        if self.endpoint is not None:
            config = config.merge(Config(proxies={}))
        try:
            return client(service, session=self.session, endpoint=self.endpoint, config=config)
        except Denied as denied:  # nothing has been sent: a region or an endpoint that cannot be one
            raise BadInput(str(denied)) from None


def of_deployment(deployment: Deployment) -> Aws:
    """Raises BadInput."""
    if deployment.local is not None:
        return _of_local(deployment.local)
    return _of_account(Target(region=deployment.region, profile=deployment.profile))


def _of_account(target: Target) -> Aws:
    try:
        session = open_session(target.region, target.profile)
    except Denied as denied:
        named = f"--profile {target.profile}" if target.profile else "AWS_PROFILE"
        raise BadInput(f"{named}: {denied}") from None
    if session.region_name is None:
        raise BadInput("no AWS region is set: say --region, or set AWS_REGION, to where the stack is")
    return Aws(session)


def _of_local(local: LocalSystem) -> Aws:
    # Blind to the caller's profile and files: a profile that does not exist must not be in the way either.
    bare = botocore.session.Session(
        session_vars={
            "profile": (None, None, None, None),
            "config_file": (None, None, os.devnull, None),
            "credentials_file": (None, None, os.devnull, None),
        }
    )
    session = boto3.Session("local", "local", region_name=local.region, botocore_session=bare)
    return Aws(session, local.endpoint_url)


def stack_outputs(stack: str, target: Target) -> Mapping[str, str]:
    """The outputs of a deployed stack. Raises BadInput where there is no such stack, Fault where nobody can tell."""
    cloudformation = _of_account(target).client("cloudformation")
    region = cloudformation.meta.region_name
    try:
        described = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
    except FAILURES as error:
        if _says_absent(error):
            raise BadInput(
                f"there is no stack {stack!r} in {region}: check --stack, --region and --profile,"
                " or deploy it with `sam deploy`"
            ) from None
        if isinstance(error, EndpointConnectionError) and not is_known_region(region):
            raise BadInput(f"no AWS region is known as {region!r}: say --region with the one the stack is in") from None
        raise of_error(error, _place(cloudformation, "DescribeStacks", f"stack {stack!r}", error)) from None
    outputs = {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}
    if not outputs:
        raise BadInput(
            f"stack {stack!r} in {region} has no outputs (it is {described['StackStatus']}): wait until it is deployed"
        )
    return outputs


def _says_absent(error: Exception) -> bool:
    if not isinstance(error, ClientError):
        return False
    details = error.response.get("Error", {})
    return details.get("Code") == "ValidationError" and "does not exist" in details.get("Message", "")


def _place(of: Any, operation: str, thing: str, error: Exception) -> Place:
    region = of.meta.region_name
    return Place(
        operation=operation,
        thing=thing,
        permission=f"{of.meta.service_model.service_name}:{operation}",
        variable=None,
        region=region,
        endpoint=of.meta.endpoint_url,
        known_region=not isinstance(error, EndpointConnectionError) or is_known_region(region),
    )
