"""What AWS and botocore raise, as faults: the right kind, one sentence that names the thing, and never a secret."""

import pytest
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from streamlease.dynamodb.faults import FAILURES, Place, of_code, of_error
from streamlease.errors import Conflict, Denied, Fault, Throttled, Unreachable

AWS = Place(
    operation="UpdateItem",
    thing="table 'connections-x'",
    permission="dynamodb:UpdateItem",
    variable="STREAMLEASE_CONNECTIONS_TABLE",
    region="eu-west-1",
    endpoint="https://dynamodb.eu-west-1.amazonaws.com",
)
LOCAL = Place(
    operation="SendMessageBatch",
    thing="queue 'offers'",
    permission="sqs:SendMessage",
    variable=None,
    region="eu-west-1",
    endpoint="http://user:hunter2@127.0.0.1:4566/path?token=hunter2",
)
SECRET = "hunter2"
CANONICAL = f"The Canonical String: x-amz-security-token:{SECRET}"
"""What AWS says of a bad signature."""


def client_error(code: str, status: int, message: str = CANONICAL) -> Exception:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return boto.ClientError(response, "UpdateItem")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("ProvisionedThroughputExceededException", 400, Throttled),
        ("ThrottlingException", 400, Throttled),
        ("com.amazonaws.dynamodb.v20120810#ThrottlingException", 400, Throttled),
        ("RequestLimitExceeded", 400, Throttled),
        ("RequestThrottled", 403, Throttled),
        ("whatever", 429, Throttled),
        ("TransactionConflictException", 400, Conflict),
        ("ReplicatedWriteConflictException", 400, Conflict),
        ("InternalServerError", 500, Unreachable),
        ("ServiceUnavailable", 503, Unreachable),
        ("whatever", 502, Unreachable),
        ("", 504, Unreachable),
        ("RequestTimeout", 400, Unreachable),
        ("AccessDeniedException", 400, Denied),
        ("UnrecognizedClientException", 400, Denied),
        ("ExpiredTokenException", 400, Denied),
        ("InvalidSignatureException", 400, Denied),
        ("ResourceNotFoundException", 400, Denied),
        ("AWS.SimpleQueueService.NonExistentQueue", 400, Denied),
        ("ValidationException", 400, Denied),
        ("ItemCollectionSizeLimitExceededException", 400, Denied),
        ("", 403, Denied),
    ],
)
def test_an_answer_is_the_fault_that_its_code_says(code: str, status: int, kind: type[Fault]) -> None:
    fault = of_error(client_error(code, status), AWS)
    assert type(fault) is kind
    assert "'connections-x'" in str(fault)
    assert SECRET not in str(fault) or code == "ValidationException"
    assert "\n" not in str(fault)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ProvisionedThroughputExceeded", Throttled),
        ("ThrottlingError", Throttled),
        ("RequestLimitExceeded", Throttled),
        ("TransactionConflict", Conflict),
        ("InternalServerError", Unreachable),
        ("ResourceNotFound", Denied),
        ("AccessDenied", Denied),
        ("ValidationError", Denied),
        ("ItemCollectionSizeLimitExceeded", Denied),
        ("DuplicateItem", Denied),
    ],
)
def test_a_statement_of_a_batch_fails_by_the_codes_that_batches_have(code: str, kind: type[Fault]) -> None:
    assert type(of_code(code, "", 400, AWS)) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (boto.ReadTimeoutError(endpoint_url=AWS.endpoint), Unreachable),
        (boto.ConnectTimeoutError(endpoint_url=AWS.endpoint), Unreachable),
        (boto.EndpointConnectionError(endpoint_url=AWS.endpoint), Unreachable),
        (boto.ConnectionClosedError(endpoint_url=AWS.endpoint), Unreachable),
        (boto.SSLError(endpoint_url=AWS.endpoint, error=OSError("x")), Unreachable),
        (boto.HTTPClientError(error=SECRET), Unreachable),
        (boto.ProxyConnectionError(proxy_url=f"http://u:{SECRET}@proxy"), Unreachable),
        (boto.ResponseStreamingError(error="x"), Unreachable),
        (ResponseParserError("x"), Unreachable),
        (boto.CredentialRetrievalError(provider="container-role", error_msg=SECRET), Unreachable),
        (boto.NoCredentialsError(), Denied),
        (boto.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"), Denied),
        (boto.NoRegionError(), Denied),
        (boto.ProfileNotFound(profile="p"), Denied),
        (boto.ParamValidationError(report=SECRET), Denied),
        (boto.InvalidRegionError(region_name="x y"), Denied),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_botocore_raises_is_a_fault(error: Exception, kind: type[Fault]) -> None:
    assert isinstance(error, FAILURES)
    fault = of_error(error, AWS)
    assert type(fault) is kind
    assert SECRET not in str(fault)
    # What no client can be made without has nothing to do with a table.
    named = {boto.NoRegionError: "AWS_REGION", boto.ProfileNotFound: "'p'"}.get(type(error), "'connections-x'")
    assert named in str(fault)


def test_a_missing_table_is_named_with_its_region_its_setting_and_what_to_do() -> None:
    assert str(of_error(client_error("ResourceNotFoundException", 400), AWS)) == (
        "there is no table 'connections-x' in eu-west-1: check STREAMLEASE_CONNECTIONS_TABLE and AWS_REGION,"
        " or deploy the stack there"
    )


def test_what_is_not_allowed_is_named_with_the_permission_that_is_missing() -> None:
    assert str(of_error(client_error("AccessDeniedException", 400), AWS)) == (
        "UpdateItem on table 'connections-x' in eu-west-1 is not allowed:"
        " the caller's role needs dynamodb:UpdateItem on it"
    )


def test_an_endpoint_of_ones_own_is_named_without_what_may_be_secret_in_it() -> None:
    text = str(of_error(client_error("", 500), LOCAL))
    assert text == "SendMessageBatch on queue 'offers' in eu-west-1 at http://127.0.0.1:4566 got no answer (500)"


@pytest.mark.parametrize(("known", "kind"), [(True, Unreachable), (False, Denied)])
def test_no_connection_to_a_region_that_nobody_knows_is_for_good(known: bool, kind: type[Fault]) -> None:
    place = Place("Query", "table 't'", "", None, "eu-wset-1", "https://dynamodb.eu-wset-1.amazonaws.com", known)
    fault = of_error(boto.EndpointConnectionError(endpoint_url="x"), place)
    assert type(fault) is kind
    assert "eu-wset-1" in str(fault)


def test_a_validations_own_words_are_kept_and_kept_short() -> None:
    text = str(of_error(client_error("ValidationException", 400, "Item size has exceeded " + "x" * 5_000), AWS))
    assert "Item size has exceeded" in text
    assert len(text) < 500
