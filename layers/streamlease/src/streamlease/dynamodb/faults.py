"""What AWS and botocore raise, as this project's faults: one sentence each, which names the thing and what to do.

No sentence quotes AWS's own text but that of a validation: the one about a bad signature holds the session token.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    MetadataRetrievalError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError

from streamlease.errors import Conflict, Denied, Fault, Throttled, Unreachable

FAILURES = (ClientError, BotoCoreError, ResponseParserError)
"""Everything a boto3 call raises for reasons outside this program."""

THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceeded",
        "Throttling",
        "ThrottlingError",
        "ThrottledException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "KmsThrottled",
        "TooManyRequests",
        "LimitExceeded",
        "OverLimit",
        "SlowDown",
        "BandwidthLimitExceeded",
    }
)
CONFLICTS = frozenset({"TransactionConflict", "ReplicatedWriteConflict", "TransactionInProgress"})
UNREACHABLE = frozenset(
    {"InternalServerError", "InternalFailure", "InternalError", "ServiceUnavailable", "RequestTimeout"}
)
MISSING = frozenset({"ResourceNotFound", "TableNotFound", "NonExistentQueue", "QueueDoesNotExist", "InvalidAddress"})
FORBIDDEN = frozenset(
    {"AccessDenied", "UnauthorizedOperation", "AuthorizationError", "KMSAccessDenied", "KmsAccessDenied"}
)
CREDENTIALS = frozenset(
    {
        "UnrecognizedClient",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "ExpiredToken",
        "TokenRefreshRequired",
        "InvalidToken",
        "MissingAuthenticationToken",
        "IncompleteSignature",
        "OptInRequired",
    }
)
SIGNATURE = frozenset({"InvalidSignature", "SignatureDoesNotMatch", "RequestExpired", "RequestTimeTooSkewed"})
MESSAGE_LENGTH = 300


@dataclass(frozen=True, slots=True)
class Place:
    """What a call was about, for its sentence."""

    operation: str
    """As AWS names it: `UpdateItem`."""
    thing: str
    """What it is done to: `table 'x'`, `queue 'y'`."""
    permission: str
    """What a role needs for it: `dynamodb:UpdateItem`."""
    variable: str | None
    """The setting that names the thing."""
    region: str
    endpoint: str
    known_region: bool = True

    @property
    def is_aws(self) -> bool:
        """Whether the endpoint is the region's own, and not one that somebody set."""
        return (urlsplit(self.endpoint).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn", ".aws"))

    @property
    def where(self) -> str:
        if self.is_aws:
            return self.region
        url = urlsplit(self.endpoint)  # without what may stand before an @
        port = f":{url.port}" if url.port else ""
        return f"{self.region} at {url.scheme}://{url.hostname}{port}"

    def __str__(self) -> str:
        return f"{self.operation} on {self.thing} in {self.where}"


def of_error(error: Exception, place: Place) -> Fault:
    """The fault that one of `FAILURES` is."""
    kind = type(error).__name__
    match error:
        case ClientError():
            details = error.response.get("Error", {})
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
            return of_code(str(details.get("Code", "")), str(details.get("Message", "")), status, place)
        case NoCredentialsError() | PartialCredentialsError():
            return Denied(
                f"no AWS credentials were found for {place}: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and"
                " AWS_SECRET_ACCESS_KEY, or run where a role is attached"
            )
        case CredentialRetrievalError() | MetadataRetrievalError():
            return Unreachable(f"the AWS credentials for {place} could not be fetched just now ({kind})")
        case NoRegionError():
            return Denied("no AWS region is set: set AWS_REGION to the region of the stack")
        case ProfileNotFound():
            profile = str(error.kwargs.get("profile", ""))
            return Denied(f"the AWS profile {profile!r} is not configured: choose one of `aws configure list-profiles`")
        case EndpointConnectionError() if place.is_aws and not place.known_region:
            return Denied(
                f"{place} could not be sent: no AWS region is known as {place.region!r}, and nothing answers there;"
                " set AWS_REGION to the region of the stack"
            )
        case BotoConnectionError() | HTTPClientError() | ResponseParserError():
            return Unreachable(f"{place} got no answer ({kind})")
        case _:
            return Denied(f"{place} could not be sent ({kind}): check the AWS profile, region and endpoint settings")


def of_code(code: str, message: str, status: int, place: Place) -> Fault:
    """The fault that an answer with this error code and HTTP status is. Unknown codes go by the status."""
    # "com.amazonaws…#ThrottlingException", "AWS.SimpleQueueService.NonExistentQueue"; a batch leaves "Exception" out.
    short = code.rpartition("#")[2].rpartition(".")[2].removesuffix("Exception")
    if short in THROTTLED or status == 429:
        return Throttled(f"{place} was throttled ({code})")
    if short in CONFLICTS:
        return Conflict(f"{place} met another write of the same item ({code})")
    if short in UNREACHABLE or status >= 500:
        return Unreachable(f"{place} got no answer ({code or status})")
    if short in MISSING:
        setting = f"{place.variable} and AWS_REGION" if place.variable else "its name and AWS_REGION"
        return Denied(f"there is no {place.thing} in {place.where}: check {setting}, or deploy the stack there")
    if short in FORBIDDEN:
        return Denied(f"{place} is not allowed: the caller's role needs {place.permission} on it")
    if short in CREDENTIALS:
        return Denied(f"{place}: the AWS credentials were not accepted ({code}); renew them, or choose another profile")
    if short in SIGNATURE:
        return Denied(
            f"{place}: the signature was not accepted ({code});"
            " check the secret key, the region and this machine's clock"
        )
    if short.startswith("Validation"):
        return Denied(f"{place} was refused as invalid ({code}): {message[:MESSAGE_LENGTH]}")
    return Denied(f"{place} was refused ({code or status})")
