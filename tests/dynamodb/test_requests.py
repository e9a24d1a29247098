"""Requests as boto3 takes them: well formed for any request, and answers read strictly."""

import re
from typing import Any

import boto3
import pytest
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from streamlease import lease
from streamlease.dynamodb import requests
from streamlease.dynamodb.requests import Call, StatementError
from streamlease.errors import Malformed, Unreachable
from streamlease.model import LeaseMode
from streamlease.write import (
    Absent,
    AllOf,
    Always,
    AnyOf,
    Applied,
    Condition,
    Delete,
    Equals,
    Index,
    Item,
    Less,
    Not,
    Page,
    Present,
    Put,
    Query,
    Read,
    Refused,
    Scan,
    Table,
    Update,
)
from tests.contract.connection_cases import CHECKPOINT, SENT, TIMING, held
from tests.contract.strategies import BATCHED, DELETES, PUTS, may_be_batched, updates

NAMES = {Table.CONNECTIONS: "stack-Connections", Table.MEMBERS: "stack-Members", Table.WORKER_ITEMS: "stack-Items"}
CLIENT = boto3.client("dynamodb", region_name="eu-west-1")
MODEL: ServiceModel = CLIENT.meta.service_model
CURSORS = st.none() | st.just({"connection_id": "ü", "lease_owner": "w", "lease_expires_at_ms": 5})
READS = (
    st.builds(Read, st.just(Table.CONNECTIONS), st.just({"connection_id": "x"}))
    | st.builds(Read, st.just(Table.WORKER_ITEMS), st.just({"worker_id": "w", "item": "inbox#x"}))
    | st.builds(
        Query,
        st.just(Table.CONNECTIONS),
        st.text(min_size=1, max_size=5, alphabet="aü#"),
        st.just(Index.BY_EXPIRY),
        st.none() | st.integers(0, 10**13),
        CURSORS,
        st.integers(1, 1_000),
    )
    | st.builds(Query, st.just(Table.WORKER_ITEMS), st.just("w"), st.none(), st.none(), CURSORS)
    | st.builds(Query, st.just(Table.WORKER_ITEMS), st.just("w"), cursor=CURSORS, prefix=st.sampled_from(["", "page#"]))
    | st.builds(Scan, st.just(Table.CONNECTIONS), st.sampled_from([None, *Index]), CURSORS, st.integers(1, 1_000))
)


def call(request: Any) -> Call:
    try:
        return requests.call(request, NAMES)
    except Malformed:
        return Call("get_item", {"TableName": "x", "Key": {"a": {"S": "x"}}})


def problems(call: Call) -> str:
    """What boto3 itself has against a call."""
    shape = MODEL.operation_model("".join(word.capitalize() for word in call.operation.split("_"))).input_shape
    assert shape is not None
    return str(ParamValidator().validate(call.parameters, shape).generate_report())


def placeholders(call: Call) -> tuple[set[str], set[str]]:
    """Those that the expressions use, and those that are given."""
    text = " ".join(str(value) for name, value in call.parameters.items() if name.endswith("Expression"))
    given_ = {
        *call.parameters.get("ExpressionAttributeNames", {}),
        *call.parameters.get("ExpressionAttributeValues", {}),
    }
    return set(re.findall(r"[#:]\d+", text)), given_


@given(request=PUTS | updates() | DELETES | READS)
def test_any_request_is_one_that_boto3_takes(request: Any) -> None:
    made = call(request)
    assert problems(made) == ""


@given(request=PUTS | updates() | DELETES | READS)
def test_any_requests_placeholders_are_those_of_its_expressions(request: Any) -> None:
    used, there = placeholders(call(request))
    assert used == there


@given(request=PUTS | updates() | DELETES)
def test_no_expression_has_parentheses_around_parentheses(request: Any) -> None:
    text = call(request).parameters.get("ConditionExpression", "")
    opened: list[int] = []
    closed_by: dict[int, int] = {}
    for place, letter in enumerate(text):
        if letter == "(":
            opened.append(place)
        elif letter == ")":
            closed_by[opened.pop()] = place
    assert opened == []
    doubled = [place for place, end in closed_by.items() if closed_by.get(place + 1) == end - 1]
    assert doubled == []  # DynamoDB refuses them


@given(update=BATCHED)
def test_any_statement_of_a_batch_has_a_parameter_for_each_question_mark(update: Update) -> None:
    if not may_be_batched(update):
        return
    try:
        made = requests.statement(update, NAMES)
    except Malformed:
        return
    assert re.sub(r'"([^"]|"")*"', "name", made["Statement"]).count("?") == len(made["Parameters"])
    assert problems(requests.batch_call([made] * 25)) == ""


# --- the very words ---


def test_a_claim_in_dynamodbs_words() -> None:
    claim = lease.claim("a", worker_id="w", nonce="n", sent=SENT, timing=TIMING, mode=LeaseMode.WORKER)
    parameters = requests.call(claim, NAMES).parameters
    names = parameters["ExpressionAttributeNames"]
    values = parameters["ExpressionAttributeValues"]
    spelt = re.sub(
        r"[#:]\d+",
        lambda found: names[found[0]] if found[0] in names else next(iter(values[found[0]].values())),
        parameters["ConditionExpression"],
    )
    assert spelt.startswith("desired_state = STARTED AND (attribute_not_exists(lease_owner) OR (lease_expires_at_ms < ")
    assert parameters["ReturnValues"] == "ALL_NEW"
    assert parameters["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"
    assert " REMOVE " in parameters["UpdateExpression"]
    assert " ADD " in parameters["UpdateExpression"]


def test_a_renewal_in_partiql() -> None:
    made = requests.statement(lease.renew(held("a"), sent=SENT, timing=TIMING, checkpoint=CHECKPOINT), NAMES)
    assert made["Statement"] == (
        'UPDATE "stack-Connections" SET "lease_expires_at_ms" = ? SET "last_event" = ? SET "checkpoint_no" = ?'
        ' SET "crashes" = ? SET "position" = ? SET "last_sequence" = ? SET "status" = ? WHERE "connection_id" = ?'
        ' AND "lease_owner" = ? AND "lease_epoch" = ? AND "spec_version" = ? AND "lease_expires_at_ms" < ?'
        ' AND "checkpoint_no" < ?'
    )
    assert made["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD"


KEY = {"connection_id": "a"}


@pytest.mark.parametrize(
    "update",
    [
        Update(Table.CONNECTIONS, KEY, Present("x")),
        Update(Table.CONNECTIONS, KEY, Always(), set={"a": 1}),
        Update(Table.CONNECTIONS, KEY, Absent("x"), set={"a": 1}),
        Update(Table.CONNECTIONS, KEY, AnyOf((Present("x"), Less("y", 1))), set={"a": 1}),
        Update(Table.CONNECTIONS, KEY, AllOf((Present("x"), Not(Equals("y", 1)))), set={"a": 1}),
    ],
    ids=["it changes nothing", "it has no condition", "it may make an item", "an OR", "a NOT"],
)
def test_what_a_batch_cannot_say_is_refused_by_the_program(update: Update) -> None:
    with pytest.raises(ValueError):
        requests.statement(update, NAMES)


def test_conditions_of_no_terms_are_true_of_all_or_of_none() -> None:
    def text(condition: Condition) -> str:
        parameters = requests.call(Delete(Table.CONNECTIONS, KEY, condition), NAMES).parameters
        return str(parameters["ConditionExpression"])

    assert text(AllOf(())) == "attribute_exists(#0) OR attribute_not_exists(#0)"
    assert text(AnyOf(())) == "attribute_exists(#0) AND attribute_not_exists(#0)"


def test_a_write_without_a_condition_says_none() -> None:
    made = requests.call(Put(Table.CONNECTIONS, KEY, Always()), NAMES)
    assert made == Call("put_item", {"TableName": "stack-Connections", "Item": {"connection_id": {"S": "a"}}})


def test_an_index_has_no_consistent_reads_and_a_table_has_only_those() -> None:
    by_owner = requests.call(Query(Table.CONNECTIONS, "w", Index.BY_OWNER), NAMES)
    inbox = requests.call(Query(Table.WORKER_ITEMS, "w"), NAMES)
    assert (by_owner.parameters["ConsistentRead"], inbox.parameters["ConsistentRead"]) == (False, True)
    assert requests.call(Read(Table.CONNECTIONS, KEY), NAMES).parameters["ConsistentRead"] is True
    with pytest.raises(ValueError, match="never read consistently"):
        requests.call(Scan(Table.CONNECTIONS, Index.BY_OWNER, consistent=True), NAMES)
    with pytest.raises(ValueError, match="only by_expiry"):
        requests.call(Query(Table.CONNECTIONS, "w", Index.BY_OWNER, below=1), NAMES)


def test_a_workers_items_of_one_kind_are_asked_for_by_how_they_begin() -> None:
    parameters = requests.call(Query(Table.WORKER_ITEMS, "w", prefix="page#"), NAMES).parameters
    assert parameters["KeyConditionExpression"] == "#0 = :0 AND begins_with(#1, :1)"
    assert parameters["ExpressionAttributeNames"] == {"#0": "worker_id", "#1": "item"}
    assert parameters["ExpressionAttributeValues"] == {":0": {"S": "w"}, ":1": {"S": "page#"}}
    assert parameters["ConsistentRead"] is True


@pytest.mark.parametrize(
    "query", [Query(Table.MEMBERS, "w", prefix="p"), Query(Table.CONNECTIONS, "w", Index.BY_OWNER, prefix="p")]
)
def test_only_a_workers_items_are_asked_for_by_how_they_begin(query: Query) -> None:
    with pytest.raises(ValueError, match="begin"):
        requests.call(query, NAMES)


@pytest.mark.parametrize("count", [0, 26])
def test_a_batch_is_of_1_to_25(count: int) -> None:
    with pytest.raises(ValueError, match="1 to 25"):
        requests.batch_call([{}] * count)


# --- answers ---

UPDATE = Update(Table.CONNECTIONS, KEY, Present("x"), set={"a": 1})
ITEM = {"connection_id": {"S": "a"}, "n": {"N": "5"}}


def test_answers_of_single_requests() -> None:
    plain: Item = {"connection_id": "a", "n": 5}
    assert requests.applied(UPDATE, {"Attributes": ITEM}) == Applied(plain)
    assert requests.applied(Delete(Table.CONNECTIONS, KEY, Always()), {}) == Applied()
    assert requests.applied(Put(Table.CONNECTIONS, {"connection_id": "a", "n": 5.0}, Always()), {}) == Applied(plain)
    assert requests.refused({"Item": ITEM}) == Refused(plain)
    assert requests.refused({}) == Refused(None)
    assert requests.found({}) is None
    assert requests.found({"Item": ITEM}) == plain
    assert requests.page({"Items": [ITEM]}, 7) == Page((plain,), None, 7)
    assert requests.page({"Items": [], "LastEvaluatedKey": ITEM}, None) == Page((), plain, None)


def test_answers_within_a_batch() -> None:
    assert requests.statement_answer({"TableName": "t"}) == Applied()
    refused = {"Error": {"Code": "ConditionalCheckFailed", "Message": "m", "Item": ITEM}}
    assert requests.statement_answer(refused) == Refused({"connection_id": "a", "n": 5})
    assert requests.statement_answer({"Error": {"Code": "ConditionalCheckFailed"}}) == Refused(None)
    assert requests.statement_answer({"Error": {"Code": "X", "Message": "m"}}) == StatementError("X", "m")


def test_an_answer_without_its_body_tells_nothing_of_the_write() -> None:
    with pytest.raises(Unreachable, match="connections 'a' came without the item"):
        requests.applied(UPDATE, {})
    with pytest.raises(Unreachable, match="without items"):
        requests.page({}, None)
